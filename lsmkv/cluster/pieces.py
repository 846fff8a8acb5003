"""Parts of the source as Arrow tables, sorted without repeated keys.

The columns are ``key``, ``value`` and ``order``.  The last is the place of a pair in the whole source:
the number of its part in the high bits, its number within the part in the low ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from lsmkv import MAX_KEY_BYTES, MAX_VALUE_BYTES, Buffer
from lsmkv.errors import not_bytes

BINARY: Final = pa.large_binary()
COLUMN: Final = pd.ArrowDtype(BINARY)
_PART_SHIFT: Final = 40  # a part of the source has fewer than 2^40 pairs
_SHOWN_BYTES: Final = 100


class RepeatedKeyError(ValueError):
    """A key comes more than once, and must not."""

    def __init__(self, key: bytes) -> None:
        super().__init__(
            f"key {key[:_SHOWN_BYTES]!r} comes more than once; "
            'repeated_keys="last" keeps the last pair of each key'
        )
        self.key = key

    def __reduce__(self) -> tuple[Any, ...]:
        return RepeatedKeyError, (self.key,)


def from_pairs(pairs: Iterable[tuple[object, object]], part: int) -> pa.Table:
    """The pairs of a bag's partition; TypeError or ValueError if one is no entry."""
    keys: list[bytes] = []
    values: list[bytes] = []
    for number, pair in enumerate(pairs):
        try:
            key, value = pair
            keys.append(_whole(key, "key", MAX_KEY_BYTES))
            values.append(_whole(value, "value", MAX_VALUE_BYTES))
        except (TypeError, ValueError) as error:
            shown = repr(pair)[:_SHOWN_BYTES]
            raise type(error)(f"pair {number} of partition {part}, {shown}: {error}") from None
    return _table(pa.array(keys, BINARY), pa.array(values, BINARY), part)


def _whole(data: object, what: str, most: int) -> bytes:
    if not isinstance(data, Buffer):
        raise not_bytes(data, what)
    if len(found := bytes(data)) > most:
        raise ValueError(f"{what} of {len(found)} bytes is over the limit of {most} bytes")
    return found


def from_frame(frame: pd.DataFrame, key: str, value: str, part: int) -> pa.Table:
    """Two columns of a data frame's partition; text is encoded in UTF-8."""
    keys = _column(frame, key, part)
    values = _column(frame, value, part)
    for name, column, most in ((key, keys, MAX_KEY_BYTES), (value, values, MAX_VALUE_BYTES)):
        longest = pc.max(pc.binary_length(column)).as_py() or 0
        if longest > most:
            raise ValueError(
                f"partition {part}: column {name!r} has {longest} bytes in a row: {most} are the most"
            )
    return _table(keys, values, part)


def _column(frame: pd.DataFrame, name: str, part: int) -> pa.Array:
    column = pa.Array.from_pandas(frame[name])
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    known = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_null)
    if not any(is_known(column.type) for is_known in (*known, *texts)):
        raise TypeError(
            f"partition {part}: column {name!r} is of type {column.type}; give bytes or text"
        )
    if column.null_count:
        raise ValueError(f"partition {part}: column {name!r} has {column.null_count} nulls")
    if any(is_known(column.type) for is_known in texts):
        column = column.cast(pa.large_string())
    return column.cast(BINARY)


def _table(keys: pa.Array, values: pa.Array, part: int) -> pa.Table:
    order = pa.array(np.arange(len(keys), dtype=np.int64) + (part << _PART_SHIFT))
    return pa.table({"key": keys, "value": values, "order": order})


def row_bytes(table: pa.Table) -> pa.Array:
    """The bytes of key and value of each row."""
    sizes = pc.add(pc.binary_length(table["key"]), pc.binary_length(table["value"]))
    return sizes.combine_chunks() if isinstance(sizes, pa.ChunkedArray) else sizes


def sorted_rows(table: pa.Table, *, may_repeat: bool) -> pa.Array:
    """The numbers of the rows in key order; of equal keys only that of the last in the source.

    RepeatedKeyError if keys are equal, unless ``may_repeat``.
    """
    rows = pc.sort_indices(table["key"])
    is_last = _is_last(table, rows)
    if is_last is None:
        return rows
    if not may_repeat:
        place = pc.index(is_last, False).as_py()
        raise RepeatedKeyError(table["key"][rows[place].as_py()].as_py())
    rows = pc.sort_indices(table, sort_keys=[("key", "ascending"), ("order", "ascending")])
    return rows.filter(is_last)


def _is_last(table: pa.Table, rows: pa.Array) -> pa.Array | None:
    """Whether each row in order is the last of its key; None if all are."""
    if len(rows) < 2:
        return None
    keys = table["key"].take(rows).combine_chunks()
    differs = pc.not_equal(keys[:-1], keys[1:])
    if pc.all(differs).as_py():
        return None
    return pa.concat_arrays([differs, pa.array([True])])
