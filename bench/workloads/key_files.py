"""Keys of one's own, from files: lines, JSON lines or Parquet, as they are or packed by gzip.

lines
    A key on each line, any bytes but the line's end.
JSON lines (``.jsonl``, ``.ndjson``, ``.json``)
    A string or an object on each line.  An object has the key as ``"key"``, and may have a ``"value"``
    (its size counts) or a number ``"value_bytes"``.
Parquet (``.parquet``, ``.pq``)
    A column ``key`` of strings, bytes or integers, or the only one; it may have ``value`` or
    ``value_bytes`` beside it.

Only the sizes of values matter: the store's own values are made.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Final, cast

from lsmkv.encoding.entries import MAX_VALUE_BYTES, key_bytes
from lsmkv.errors import MissingExtraError

_GZIP: Final = b"\x1f\x8b"
_JSON: Final = (".jsonl", ".ndjson", ".json")
_PARQUET: Final = (".parquet", ".pq")

Sized = tuple[bytes, int]  # a key, and the bytes of its value


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """The keys of a store, and the lookups; ``value_bytes`` where a file has no sizes."""

    keys: str
    lookups: str
    value_bytes: int


def read_keys(path: str, value_bytes: int) -> list[Sized]:
    """The keys of a file in their order.

    Raises:
        ValueError: it has no keys, or a line is none; the message names file and line.
        MissingExtraError: Parquet, and pyarrow is not installed.
        OSError: it cannot be read.
    """
    name = path.lower()
    name = os.path.splitext(name[:-3] if name.endswith(".gz") else name)[1]
    found = list(
        _of_parquet(path, value_bytes)
        if name in _PARQUET
        else _of_lines(path, value_bytes, is_json=name in _JSON)
    )
    if not found:
        raise ValueError(f"{path}: no keys")
    return found


def _of_lines(path: str, value_bytes: int, *, is_json: bool) -> Iterator[Sized]:
    with _opened(path) as file:
        try:
            for number, line in enumerate(file, 1):
                text = line.rstrip(b"\r\n")
                if not text:
                    continue
                try:
                    yield _of_json(text, value_bytes) if is_json else (key_bytes(text), value_bytes)
                except (ValueError, TypeError) as error:
                    raise ValueError(f"{path}, line {number}: {error}") from error
        except EOFError as error:
            raise ValueError(f"{path}: the gzip data are cut short") from error


def _opened(path: str) -> IO[bytes]:
    with open(path, "rb") as file:
        is_packed = file.read(len(_GZIP)) == _GZIP
    return cast(IO[bytes], gzip.open(path, "rb")) if is_packed else open(path, "rb")


def _of_json(line: bytes, value_bytes: int) -> Sized:
    record = json.loads(line)
    if not isinstance(record, dict):
        return _key(record), value_bytes
    if "key" not in record:
        raise ValueError('the object has no "key"')
    return _key(record["key"]), _size(record.get("value"), record.get("value_bytes"), value_bytes)


def _of_parquet(path: str, value_bytes: int) -> Iterator[Sized]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as missing:
        raise MissingExtraError(
            f'{path}: Parquet needs pyarrow: pip install "lsmkv[dask]" ({missing})'
        ) from missing
    try:
        with _opened(path) as file:
            yield from _of_table(pyarrow.parquet.ParquetFile(file), path, value_bytes)
    except pyarrow.ArrowException as error:
        raise ValueError(f"{path}: {error}") from error


def _of_table(table: Any, path: str, value_bytes: int) -> Iterator[Sized]:
    names = table.schema_arrow.names
    key = "key" if "key" in names else names[0]
    if key != "key" and len(names) > 1:
        raise ValueError(f"{path}: no column 'key'; the columns are {', '.join(names)}")
    wanted = [key, *(name for name in ("value", "value_bytes") if name in names)]
    row = 0
    for batch in table.iter_batches(columns=wanted):
        for record in batch.to_pylist():
            row += 1
            try:
                yield (
                    _key(record[key]),
                    _size(record.get("value"), record.get("value_bytes"), value_bytes),
                )
            except (ValueError, TypeError) as error:
                raise ValueError(f"{path}, row {row}: {error}") from error


def _key(key: Any) -> bytes:
    if isinstance(key, int) and not isinstance(key, bool):
        key = str(key)
    found = key.encode() if isinstance(key, str) else key
    if not isinstance(found, bytes) or not found:
        raise ValueError(f"{key!r} is no key: must be a string, bytes or an integer, not empty")
    return key_bytes(found)


def _size(value: Any, size: Any, otherwise: int) -> int:
    if value is not None:
        return len(value if isinstance(value, bytes) else _text(value).encode())
    if size is None:
        return otherwise
    if not isinstance(size, int) or not 0 <= size <= MAX_VALUE_BYTES:
        raise ValueError(f"value_bytes={size!r}: must be from 0 to {MAX_VALUE_BYTES}")
    return size


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
