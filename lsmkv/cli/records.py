"""Entries in files: JSON lines, TSV and CSV, read and written record by record.

jsonl
    ``{"key": K, "value": V}`` on each line; K and V are strings, or ``{"hex": "..."}`` for bytes
    that are not UTF-8.
tsv
    Key, tab, value on each line, in a form of :mod:`lsmkv.cli.keys`; a quote is a plain character.
csv
    Key, comma, value (RFC 4180 quoting), in a form of :mod:`lsmkv.cli.keys`.

Whatever the writer writes, the reader reads back byte for byte.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO, Final

import msgspec

from lsmkv.cli.keys import Form, json_text, parse, to_text
from lsmkv.cli.output import count
from lsmkv.encoding import MAX_KEY_BYTES, MAX_VALUE_BYTES, key_bytes, value_bytes

FORMATS: Final = ("jsonl", "tsv", "csv")
_SUFFIXES: Final = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
}
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_NAMES: Final = ("key", "value")
_LONGEST_FIELD: Final = 4 * max(MAX_KEY_BYTES, MAX_VALUE_BYTES)  # every byte escaped as \xNN

Record = tuple[int, bytes, bytes]  # the number of its (first) line, key, value


class BadRecordError(ValueError):
    """A line is not a record.  ``line`` is its number, from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line


def format_of(path: str, asked: str) -> str:
    """The format ``asked`` for; with ``"auto"`` by the suffix of ``path``, else jsonl.

    >>> format_of("a/b.CSV", "auto"), format_of("-", "auto"), format_of("b.csv", "tsv")
    ('csv', 'jsonl', 'tsv')
    """
    if asked != "auto":
        return asked
    return _SUFFIXES.get(os.path.splitext(path)[1].lower(), "jsonl")


# Reading


def read_records(stream: BinaryIO, file_format: str, form: Form) -> Iterator[Record]:
    """The records of ``stream``.  Blank lines are passed over, a byte order mark too.

    Raises:
        BadRecordError: at the first line that is not a record.
    """
    records = (
        _read_json_lines(stream)
        if file_format == "jsonl"
        else _read_delimited(stream, file_format, form)
    )
    for record in records:
        number, key, value = record
        try:
            key_bytes(key)
            value_bytes(value)
        except ValueError as error:  # too long
            raise BadRecordError(number, str(error)) from None
        yield record


class _Hex(msgspec.Struct, forbid_unknown_fields=True):
    hex: str


class _JsonRecord(msgspec.Struct, forbid_unknown_fields=True):
    key: str | _Hex
    value: str | _Hex


def _read_json_lines(stream: BinaryIO) -> Iterator[Record]:
    decoder = msgspec.json.Decoder(_JsonRecord)
    for number, line in enumerate(stream, 1):
        if number == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line.strip():
            continue
        try:
            record = decoder.decode(line)
            key, value = _json_bytes(record.key, "key"), _json_bytes(record.value, "value")
        except msgspec.ValidationError as error:
            reason = str(error).replace("`str | object`", 'a string or {"hex": "..."}')
            raise BadRecordError(number, f'not {{"key": ..., "value": ...}}: {reason}') from None
        except msgspec.DecodeError as error:
            raise BadRecordError(number, f"not JSON: {error}") from None
        except UnicodeDecodeError as error:
            raise BadRecordError(number, f"not UTF-8: {error}") from None
        except ValueError as error:
            raise BadRecordError(number, str(error)) from None
        yield number, key, value


def _json_bytes(field: str | _Hex, what: str) -> bytes:
    if isinstance(field, str):
        return field.encode("utf-8")
    try:
        return bytes.fromhex(field.hex)
    except ValueError:
        raise ValueError(f"{what}: {field.hex[:60]!r} is not hex") from None


class _Tsv(csv.Dialect):
    """Taken literally, as cut, sort and awk do: fields in text or hex form hold no tab."""

    delimiter = "\t"
    quoting = csv.QUOTE_NONE
    lineterminator = "\n"
    strict = True


class _Csv(csv.excel):
    lineterminator = "\n"
    strict = True


_DIALECTS: Final[dict[str, type[csv.Dialect]]] = {"tsv": _Tsv, "csv": _Csv}


def _read_delimited(stream: BinaryIO, file_format: str, form: Form) -> Iterator[Record]:
    csv.field_size_limit(_LONGEST_FIELD)  # the module's own limit, 128 KiB, is below a value's
    rows = csv.reader(_lines(stream), _DIALECTS[file_format])
    number = 1
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            reason = "bare carriage return" if "new-line" in str(error) else str(error)
            raise BadRecordError(number, f"not {file_format.upper()}: {reason}") from None
        if row:
            if len(row) != 2:
                raise BadRecordError(number, f"{count(len(row), 'field')} instead of 2")
            key, value = (_field(*named, form, number) for named in zip(row, _NAMES, strict=True))
            yield number, key, value
        number = rows.line_num + 1


def _lines(stream: BinaryIO) -> Iterator[str]:
    """Lines as text.  Bytes that are not UTF-8 become surrogates, which only the raw form takes."""
    first = stream.readline().removeprefix(_BYTE_ORDER_MARK)
    for line in chain((first,), stream):
        yield line.decode("utf-8", "surrogateescape")


def _field(text: str, name: str, form: Form, line: int) -> bytes:
    try:
        return parse(text, form)
    except ValueError as error:
        advice = ", or load with --raw" if form is Form.TEXT else ""
        raise BadRecordError(line, f"{name}: {error}{advice}") from None


# Writing


class RecordWriter:
    """Writes entries to ``stream``, each as one record; keys and values in text or hex form."""

    def __init__(self, stream: BinaryIO, file_format: str, form: Form) -> None:
        self._stream = stream
        self._show = bytes.hex if form is Form.HEX else to_text
        self._rows = None
        if file_format != "jsonl":
            self._rows = csv.writer(self, _DIALECTS[file_format])

    def add(self, key: bytes, value: bytes) -> None:
        """Write one entry."""
        if self._rows is None:
            self._stream.write(json_line(key, value))
        else:
            self._rows.writerow((self._show(key), self._show(value)))

    def write(self, text: str) -> None:
        """For the ``csv`` module: one line."""
        self._stream.write(text.encode("utf-8"))


def json_line(key: bytes, value: bytes | None) -> bytes:
    """One line of the jsonl format; without a value, of the key alone."""
    record: dict[str, object] = {"key": json_text(key)}
    if value is not None:
        record["value"] = json_text(value)
    return msgspec.json.encode(record) + b"\n"
