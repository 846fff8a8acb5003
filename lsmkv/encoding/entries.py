"""Keys, values and tags: their types, limits and argument checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lsmkv.errors import caused, not_bytes

Value = bytes | None
"""A value, or None for a deletion."""


class Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()
"""A table or memtable holds no entry of the key, not even a deletion."""

MAX_KEY_BYTES: Final = 65_535
"""Longest key, in bytes (its length is stored in 16 bits)."""

MAX_VALUE_BYTES: Final = 256 * 1024 * 1024
"""Longest value, in bytes."""

MAX_BATCH_BYTES: Final = 1024 * 1024 * 1024
"""Largest encoded write batch, in bytes."""

TAG_DELETE: Final = 0
TAG_PUT: Final = 1
TAG_RANGE_DELETE: Final = 2  # in logs alone
TAG_EXPIRING: Final = 4
# Not to be used for anything else: readers refuse them clearly where they may not be.
TAGS_RESERVED: Final = {2: "range delete", 3: "merge"}

MAX_SEQUENCE: Final = (1 << 56) - 1
"""Largest sequence number: one per operation ever written."""

Buffer = bytes | bytearray | memoryview


def key_bytes(key: object) -> bytes:
    """``key`` as ``bytes``; TypeError or ValueError if it is not bytes-like or too long."""
    data = key if type(key) is bytes else to_bytes(key, "key")
    if len(data) > MAX_KEY_BYTES:
        raise ValueError(f"key of {len(data)} bytes is over the limit of {MAX_KEY_BYTES} bytes")
    return data


def value_bytes(value: object) -> bytes:
    """``value`` as ``bytes``; TypeError or ValueError if it is not bytes-like or too long."""
    data = value if type(value) is bytes else to_bytes(value, "value")
    if len(data) > MAX_VALUE_BYTES:
        raise ValueError(f"value of {len(data)} bytes is over the limit of {MAX_VALUE_BYTES} bytes")
    return data


def keys_bytes(keys: Iterable[object]) -> list[bytes]:
    """Each of ``keys`` as :func:`key_bytes`; TypeError if ``keys`` is itself one key."""
    if isinstance(keys, (bytes, bytearray, memoryview, str)):
        raise TypeError(
            f"keys is an iterable of keys, not one key: put the {type(keys).__name__} into a list"
        )
    return list(map(key_bytes, keys))


def out_of_order(key: bytes, last: bytes) -> str:
    """The reason why ``key`` may not follow ``last`` in a table."""
    if key == last:
        return f"key {key[:100]!r} follows {last[:100]!r}: each key may come once"
    return f"key {key[:100]!r} follows {last[:100]!r}, which is above it: keys must ascend"


def to_bytes(data: object, what: str) -> bytes:
    """A copy of something bytes-like; TypeError, which calls it ``what``, for anything else."""
    try:
        return bytes(memoryview(data))  # type: ignore[arg-type]  # raises if not
    except TypeError:
        raise caused(not_bytes(data, what), None)


def prefix_successor(prefix: bytes) -> bytes | None:
    """The smallest key above every key that starts with ``prefix``; None when there is none.

    >>> prefix_successor(b"ab"), prefix_successor(b"a\\xff"), prefix_successor(b"\\xff")
    (b'ac', b'b', None)
    """
    stripped = prefix.rstrip(b"\xff")
    if not stripped:
        return None
    return stripped[:-1] + bytes([stripped[-1] + 1])
