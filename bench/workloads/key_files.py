"""Keys of one's own, from a file or a pipe that ``lsmkv load`` can read too.

Only the sizes of values matter: the store's own values are made.  A row may be a key alone.  A file whose
name does not tell its format is a list of keys, any bytes but the ends of lines.
"""

from __future__ import annotations

from dataclasses import dataclass

from lsmkv.cli.fields import Fields
from lsmkv.cli.keys import Form
from lsmkv.cli.records import KEYS, format_by_suffix, read_records

Sized = tuple[bytes, int]  # a key, and the bytes of its value


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """The keys of a store, and the lookups.

    Attributes:
        value_bytes: the size of a value that is not in the file.
        key_field: the column or field of keys, in both files; None: the first column, or "key".
    """

    keys: str
    lookups: str
    value_bytes: int
    key_field: str | None = None


def read_keys(path: str, value_bytes: int, key_field: str | None = None) -> list[Sized]:
    """The keys of a file in their order, with the sizes of their values.

    Raises:
        ValueError: it has no keys, or a line is none; the message names file and line.
        OSError: it cannot be read.
    """
    file_format = format_by_suffix(path) or KEYS
    if file_format == KEYS and key_field is not None:
        raise ValueError(
            f"{path}: --key-field={key_field} is for names that end in .csv, .tsv or .jsonl"
        )
    fields = Fields(key=key_field, value_of_key_alone=bytes(value_bytes))
    hints: list[str] = []
    try:
        with open(path, "rb") as file:
            records = read_records(file, file_format, Form.RAW, fields, hints.append)
            found = [(key, len(value)) for _, key, value, _ in records]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), path) from error
    if hints:
        raise ValueError(
            f"{path}: its first row looks like a header: --key-field says which column has keys"
        )
    if not found:
        raise ValueError(f"{path}: no keys")
    return found
