"""Takes key, value and expiry out of a row of a file.

Without field names a row has two fields, key and value, and one more if the entry expires.  With
``--key-field`` or ``--value-field`` it may have any.  Without ``--value-field``, the value is a JSON
object of all fields but the key.  Where both are numbers, they are those of columns, and no row of a
table is a header.

In JSON, a string means its text, ``{"hex": "..."}`` bytes, and anything else its own JSON without
spaces.  A key is a string, a number or bytes.  A value is not null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from lsmkv.cli.keys import Form, json_text, parse
from lsmkv.encoding.entries import MAX_VALUE_BYTES
from lsmkv.encoding.text_form import shortened
from lsmkv.inspection.report import count

NAMES: Final = ("key", "value")
Entry = tuple[bytes, bytes, float | None]  # key, value, when it is due
_ADVICE: Final = "--key-field and --value-field say which fields to load"
_MOST_NAMED: Final = 12  # columns in a message


@dataclass(frozen=True, slots=True)
class Fields:
    """The options that say which fields to load; None where not given.

    Attributes:
        header: whether the first row names the columns.
        delimiter: the character between the fields of a row.
        value_of_key_alone: the value of a row that is nothing but a key; None: such a row is refused.
    """

    key: str | None = None
    value: str | None = None
    header: bool | None = None
    delimiter: str | None = None
    value_of_key_alone: bytes | None = None

    @property
    def are_named(self) -> bool:
        return self.key is not None or self.value is not None

    @property
    def are_numbers(self) -> bool:
        """Whether they can be numbers of columns."""
        given = [name for name in (self.key, self.value) if name is not None]
        return self.are_named and all(name.isdecimal() for name in given)

    @property
    def key_name(self) -> str:
        return NAMES[0] if self.key is None else self.key

    @property
    def have_header(self) -> bool:
        """Whether the first row of a table names its columns."""
        return self.are_named and not self.are_numbers if self.header is None else self.header


# JSON


class _Hex(msgspec.Struct, forbid_unknown_fields=True):
    hex: str


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    key: str | _Hex
    value: str | _Hex
    expires_at: float | None = None


class _RawEntry(msgspec.Struct, forbid_unknown_fields=True):
    key: msgspec.Raw
    value: msgspec.Raw
    expires_at: float | None = None


_entry = msgspec.json.Decoder(_Entry).decode
_raw_entry = msgspec.json.Decoder(_RawEntry).decode
_row = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_text = msgspec.json.Decoder(str).decode
_hex = msgspec.json.Decoder(_Hex).decode


def json_reader(fields: Fields) -> Callable[[bytes], Entry]:
    """A function from a line of JSON to its entry.

    ``msgspec.DecodeError`` or UnicodeDecodeError for what is not JSON; ValueError without key or value.
    """
    if fields.are_named:
        return partial(_named_entry, fields)
    if fields.value_of_key_alone is not None:
        return partial(_entry_or_key, fields.value_of_key_alone)
    return _plain_entry


def _plain_entry(line: bytes) -> Entry:
    try:
        entry = _entry(line)  # five times as fast as _raw_entry, for what dump writes
    except msgspec.ValidationError:
        try:
            raw = _raw_entry(line)
        except msgspec.ValidationError as error:
            raise ValueError(
                f'not {{"key": ..., "value": ...}}: {error}; {_advice(line)}'
            ) from None
        return _key(raw.key, "key"), _value(raw.value, "value"), raw.expires_at
    key, value = entry.key, entry.value
    return (
        key.encode() if isinstance(key, str) else _from_hex(key, "key"),
        value.encode() if isinstance(value, str) else _from_hex(value, "value"),
        entry.expires_at,
    )


def _entry_or_key(value_of_key_alone: bytes, line: bytes) -> Entry:
    """The entry of an object or of a key alone.

    An object may have no value, or its size.
    """
    row = _row(line) if line.lstrip().startswith(b"{") else {}
    if not row or row.keys() == {"hex"}:
        msgspec.json.decode(line)  # what a number is, for example
        return _key(msgspec.Raw(line), "key"), value_of_key_alone, None
    if "key" not in row:
        raise ValueError(f"there is no field 'key': the fields are {_listed(list(row))}")
    value = value_of_key_alone
    if "value" in row:
        value = _value(row["value"], "value")
    elif "value_bytes" in row:
        value = bytes(_size(row["value_bytes"]))
    return _key(row["key"], "key"), value, None


def _size(raw: msgspec.Raw) -> int:
    text = bytes(raw).decode()
    if not text.isdecimal() or int(text) > MAX_VALUE_BYTES:
        raise ValueError(f"value_bytes={text}: must be from 0 to {MAX_VALUE_BYTES}")
    return int(text)


def _advice(line: bytes) -> str:
    if line.lstrip().startswith(b"["):
        return "write one object on each line, as \"jq -c '.[]'\" does with an array"
    return _ADVICE


def _named_entry(fields: Fields, line: bytes) -> Entry:
    try:
        row = _row(line)
    except msgspec.ValidationError as error:
        raise ValueError(f"not an object: {error}; {_advice(line)}") from None
    for name in (fields.key_name, fields.value):
        if name is not None and name not in row:
            raise ValueError(f"there is no field {name!r}: the fields are {_listed(list(row))}")
    if fields.value is not None:
        value = _value(row[fields.value], fields.value)
    key = _key(row.pop(fields.key_name), fields.key_name)
    if fields.value is None:
        value = _compact(msgspec.json.encode(row))
    return key, value, None


def _key(raw: msgspec.Raw, name: str) -> bytes:
    text = bytes(raw).strip()
    if text[:1] in b"-0123456789":
        return text
    if text[:1] in b'"{':
        found = _text_or_bytes(text, name)
        if found is not None:
            return found
    shown = shortened(text.decode("utf-8", "replace"))
    raise ValueError(f'{name}: a key is a string, a number or {{"hex": "..."}}, not {shown}')


def _value(raw: msgspec.Raw, name: str) -> bytes:
    text = bytes(raw).strip()
    if text == b"null":
        raise ValueError(f"{name}: null is no value; leave the line out")
    found = _text_or_bytes(text, name)
    return _compact(text) if found is None else found


def _text_or_bytes(text: bytes, name: str) -> bytes | None:
    """The bytes of a string, or of ``{"hex": "..."}``; None for any other JSON."""
    if text.startswith(b'"'):
        return _text(text).encode("utf-8")
    if text.startswith(b"{") and b'"hex"' in text:
        try:
            return _from_hex(_hex(text), name)
        except msgspec.ValidationError:
            return None
    return None


def _from_hex(field: _Hex, name: str) -> bytes:
    try:
        return bytes.fromhex(field.hex)
    except ValueError:
        raise ValueError(f"{name}: {field.hex[:60]!r} is not hex") from None


def _compact(text: bytes) -> bytes:
    """The same JSON without spaces; numbers and escapes keep their spelling."""
    text.decode("utf-8")
    return msgspec.json.format(text, indent=-1)


# Tables: TSV and CSV

_EXPIRES: Final = "expires_at="
_OTHER_FORMS: Final = (
    "--format keys is for a key on each line, --delimiter for the character between fields"
)


class Columns:
    """Turns rows of a table into entries; a ``header`` of None means key and value."""

    def __init__(self, fields: Fields, form: Form, header: list[str] | None) -> None:
        self._form = form
        self._names = list(NAMES) if header is None else header
        self._key, self._value = 0, 1
        self._has_rest = False
        self._has_names = fields.are_named
        self._value_of_key_alone = fields.value_of_key_alone
        self._advice = ""
        self._has_entries = False
        if not fields.are_named:
            if header is None:
                self._advice = " (of wider rows with a header, --key-field says which is the key)"
            elif len(header) != 2:
                advice = "say which is the key, with --key-field; the columns are"
                if len(header) < 2:
                    advice = f"{_OTHER_FORMS}; it is"
                raise ValueError(
                    f"{count(len(header), 'column')} instead of 2: {advice} {_listed(header)}"
                )
            return
        try:
            "".join(self._names).encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("column names are not UTF-8") from None
        for name, times in Counter(self._names).items():
            if times > 1:
                raise ValueError(f"{name!r} names more than one column")
        self._key = self._column(fields.key_name)
        self._has_rest = fields.value is None
        if fields.value is not None:
            self._value = self._column(fields.value)

    def entry(self, row: list[str]) -> Entry:
        """The entry of a row; ValueError for a wrong number or form of fields."""
        expires_at = None
        if not self._has_names and len(row) == len(NAMES) + 1 and row[-1].startswith(_EXPIRES):
            expires_at = _time(row.pop())
        if len(row) != len(self._names):
            if len(row) == 1 and not self._has_names and self._value_of_key_alone is not None:
                return self._bytes(row, self._key), self._value_of_key_alone, None
            advice = self._advice if len(row) > 2 else ""
            if len(row) == 1 and not self._has_names and not self._has_entries:
                advice = f" ({_OTHER_FORMS})"
            raise ValueError(f"{count(len(row), 'field')} instead of {len(self._names)}{advice}")
        self._has_entries = True
        key = self._bytes(row, self._key)
        if not self._has_rest:
            return key, self._bytes(row, self._value), expires_at
        rest = {
            name: json_text(self._bytes(row, column))
            for column, name in enumerate(self._names)
            if column != self._key
        }
        return key, msgspec.json.encode(rest), None

    def _column(self, name: str) -> int:
        if name not in self._names:
            advice = ""
            if self._names[0] == "1":
                advice = "; of a file with a header, --header says that it is a name"
            raise ValueError(
                f"there is no column {name!r}: the columns are {_listed(self._names)}{advice}"
            )
        return self._names.index(name)

    def _bytes(self, row: list[str], column: int) -> bytes:
        try:
            return parse(row[column], self._form)
        except ValueError as error:
            advice = ", or load with --raw" if self._form is Form.TEXT else ""
            raise ValueError(f"{self._names[column]}: {error}{advice}") from None


def expiry_field(expires_at: int) -> str:
    """The third field of a row.  It says what it is: another number must not make entries expire.

    >>> expiry_field(1795838400)
    'expires_at=1795838400'
    """
    return f"{_EXPIRES}{expires_at}"


def _time(field: str) -> float:
    try:
        return float(field.removeprefix(_EXPIRES))
    except ValueError:
        raise ValueError(f"{shortened(field)!r} is no number of seconds since 1970") from None


def looks_like_header(row: list[str]) -> bool:
    """Whether the first row seems to name the columns: of keys, or of values too.

    >>> looks_like_header(["Key", "Value"]), looks_like_header(["alice", "34"])
    (True, False)
    """
    first, *rest = (field.strip().lower() for field in row)
    return first in ("key", "id", "name") or rest == ["value"]


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(shortened(name)) for name in names[:_MOST_NAMED])
    return shown + (", ..." if len(names) > _MOST_NAMED else "")
