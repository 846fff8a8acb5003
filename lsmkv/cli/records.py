"""Reads and writes entries in files: JSON lines, TSV and CSV; reads lists of keys.

jsonl
    ``{"key": K, "value": V}`` on each line; K and V are strings, or ``{"hex": "..."}`` for bytes that
    are not UTF-8.  The reader takes more: see :mod:`lsmkv.cli.fields`.  An entry that expires has
    ``"expires_at": N`` too, in seconds since 1970.
tsv
    Key, tab, value on each line, in a form of :mod:`lsmkv.cli.keys`; a quote is a plain character.  An
    entry that expires has the field ``expires_at=N`` behind them.
csv
    Key, comma, value (RFC 4180 quoting), in a form of :mod:`lsmkv.cli.keys`; likewise.
keys
    A key on each line, in a form of :mod:`lsmkv.cli.keys`.  It is only read.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

import msgspec

from lsmkv.cli.fields import Columns, Fields, expiry_field, json_reader, looks_like_header
from lsmkv.cli.keys import Form, json_text, parse
from lsmkv.cli.streams import Lines
from lsmkv.encoding.entries import MAX_KEY_BYTES, MAX_VALUE_BYTES, key_bytes, value_bytes
from lsmkv.encoding.expiry import Clock
from lsmkv.encoding.text_form import to_text

FORMATS: Final = ("jsonl", "tsv", "csv")
KEYS: Final = "keys"
_SUFFIXES: Final = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".csv": "csv",
}
_PACKED: Final = ".gz"
_KEY_AND_VALUE: Final = Fields()
_MOST_CHARACTERS: Final = {"jsonl": 6, "tsv": 4, "csv": 4, KEYS: 4}  # for a byte: \u00NN, \xNN
_REST_BYTES: Final = 64 * 1024  # of a record: names, quotes, spaces

Record = tuple[int, bytes, bytes, int | None]  # number of its first line, key, value, expiry
_Read = tuple[int, bytes, bytes, float | None]  # the same, unchecked


class BadRecordError(ValueError):
    """A line is not a record.  ``line`` is its number, from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line


def format_by_suffix(path: str) -> str | None:
    """The format that a file's name tells, or None; ``.gz`` is ignored.

    >>> format_by_suffix("a/b.CSV.gz"), format_by_suffix("-")
    ('csv', None)
    """
    name = path[: -len(_PACKED)] if is_packed(path) else path
    return _SUFFIXES.get(os.path.splitext(name)[1].lower())


def is_packed(path: str) -> bool:
    return path.lower().endswith(_PACKED)


def read_records(
    stream: BinaryIO,
    file_format: str,
    form: Form,
    fields: Fields = _KEY_AND_VALUE,
    hint: Callable[[str], None] = lambda _text: None,
    *,
    is_text: bool = True,
) -> Iterator[Record]:
    """The records of ``stream`` until BadRecordError or ValueError; ``hint`` takes likely mistakes.

    ``is_text`` refuses UTF-16.
    """
    longest = _MOST_CHARACTERS[file_format] * (MAX_KEY_BYTES + MAX_VALUE_BYTES) + _REST_BYTES
    lines = Lines(stream, longest=longest, is_text=is_text)
    if file_format == "jsonl":
        records = _read_json_lines(lines, fields)
    elif file_format == KEYS:
        records = _read_key_lines(lines, form, fields.value_of_key_alone or b"")
    else:
        records = _read_delimited(lines, file_format, form, fields, hint)
    clock = Clock()
    for number, key, value, expires_at in records:
        try:
            key_bytes(key)
            value_bytes(value)
            due_s = clock.expiry_s(None, expires_at)
        except ValueError as error:  # too long, or not a time
            raise BadRecordError(number, str(error)) from None
        yield number, key, value, due_s


def _read_json_lines(lines: Lines, fields: Fields) -> Iterator[_Read]:
    entry_of = json_reader(fields)
    for number, line in enumerate(lines, 1):
        lines.begin_record()
        if line.isspace():
            continue
        try:
            entry = entry_of(line)
        except msgspec.DecodeError as error:
            raise BadRecordError(number, f"not JSON: {error}") from None
        except UnicodeDecodeError as error:
            raise BadRecordError(number, f"not UTF-8: {error}") from None
        except RecursionError:
            raise BadRecordError(number, "it is nested too deep") from None
        except ValueError as error:
            raise BadRecordError(number, str(error)) from None
        yield number, *entry


def _read_key_lines(lines: Lines, form: Form, value: bytes) -> Iterator[_Read]:
    for number, line in enumerate(lines, 1):
        lines.begin_record()
        text = line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
        if not text:
            continue
        try:
            key = parse(text, form)
        except ValueError as error:
            advice = ", or load with --raw" if form is Form.TEXT else ""
            raise BadRecordError(number, f"key: {error}{advice}") from None
        yield number, key, value, None


class _Tsv(csv.Dialect):
    """Without quoting, as cut, sort and awk read it; fields in text or hex form hold no tab."""

    delimiter = "\t"
    quoting = csv.QUOTE_NONE
    lineterminator = "\n"
    strict = True


class _Csv(csv.excel):
    lineterminator = "\n"
    strict = True


_DIALECTS: Final[dict[str, type[csv.Dialect]]] = {"tsv": _Tsv, "csv": _Csv}


def _read_delimited(
    lines: Lines, file_format: str, form: Form, fields: Fields, hint: Callable[[str], None]
) -> Iterator[_Read]:
    columns = None if fields.have_header or fields.are_named else Columns(fields, form, None)
    may_hint = fields.header is None and columns is not None
    for number, row in _rows(lines, file_format, fields.delimiter):
        try:
            if columns is None and fields.have_header:
                columns = Columns(fields, form, row)
                continue
            if columns is None:
                columns = Columns(fields, form, [str(place) for place in range(1, len(row) + 1)])
            entry = columns.entry(row)
        except ValueError as error:
            raise BadRecordError(number, str(error)) from None
        if may_hint:
            may_hint = False
            if looks_like_header(row):
                hint(
                    f"line {number}, {', '.join(map(repr, row))}, is loaded as an entry; with "
                    "--header it names the columns, --no-header silences this hint"
                )
        yield number, *entry


def _rows(lines: Lines, file_format: str, delimiter: str | None) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, with the numbers of their first lines."""
    csv.field_size_limit(sys.maxsize)  # the lines have a limit
    # Bytes that are not UTF-8 become surrogates, which only the raw form takes.
    texts = (line.decode("utf-8", "surrogateescape") for line in lines)
    dialect = _DIALECTS[file_format]
    rows = csv.reader(texts, dialect, delimiter=delimiter or dialect.delimiter)
    number = 1
    while True:
        lines.begin_record()
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            reason = "bare carriage return" if "new-line" in str(error) else str(error)
            raise BadRecordError(number, f"not {file_format.upper()}: {reason}") from None
        if row:
            yield number, row
        number = rows.line_num + 1


class RecordWriter:
    """Writes entries to ``stream``, in text or hex form."""

    def __init__(self, stream: BinaryIO, file_format: str, form: Form) -> None:
        self._stream = stream
        self._show = bytes.hex if form is Form.HEX else to_text
        self._rows = None
        if file_format != "jsonl":
            self._rows = csv.writer(self, _DIALECTS[file_format])

    def add(self, key: bytes, value: bytes, expires_at: int | None = None) -> None:
        if self._rows is None:
            self._stream.write(json_line(key, value, expires_at))
            return
        row = [self._show(key), self._show(value)]
        if expires_at is not None:
            row.append(expiry_field(expires_at))
        self._rows.writerow(row)

    def write(self, text: str) -> None:
        """Write one line; ``csv.writer`` calls this."""
        self._stream.write(text.encode("utf-8"))


def json_line(key: bytes, value: bytes | None, expires_at: int | None = None) -> bytes:
    """A line of the jsonl format; None means no value, or that it does not expire."""
    record: dict[str, object] = {"key": json_text(key)}
    if value is not None:
        record["value"] = json_text(value)
    if expires_at is not None:
        record["expires_at"] = expires_at
    return msgspec.json.encode(record) + b"\n"
