"""Bytes in, bytes out: limits, argument checks, checksums, operation tags, key arithmetic.

Every checksum on disk is XXH3-64 (https://github.com/Cyan4973/xxHash), seeded so that bytes moved
from one place or file to another do not check out there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lsmkv.errors import caused

Value = bytes | None  # None is a deletion

MAX_KEY_BYTES: Final = 65_535
"""Longest key, in bytes (its length is stored in 16 bits)."""

MAX_VALUE_BYTES: Final = 256 * 1024 * 1024
"""Longest value, in bytes."""

MAX_BATCH_BYTES: Final = 1024 * 1024 * 1024
"""Largest encoded write batch, in bytes."""

TAG_DELETE: Final = 0
TAG_PUT: Final = 1
# Kept free for what may come, so that today's readers refuse it clearly instead of misreading it.
TAGS_RESERVED: Final = {2: "range delete", 3: "merge", 4: "put with expiry"}

MAX_SEQUENCE: Final = (1 << 56) - 1
"""Largest sequence number: one per operation ever written."""

Buffer = bytes | bytearray | memoryview


def key_bytes(key: object) -> bytes:
    """``key`` as ``bytes``, checked.

    Raises:
        TypeError: not a bytes-like object.
        ValueError: longer than :data:`MAX_KEY_BYTES`.
    """
    data = key if type(key) is bytes else _to_bytes(key, "key")
    if len(data) > MAX_KEY_BYTES:
        raise ValueError(f"key of {len(data)} bytes is over the limit of {MAX_KEY_BYTES} bytes")
    return data


def value_bytes(value: object) -> bytes:
    """``value`` as ``bytes``, checked.

    Raises:
        TypeError: not a bytes-like object.
        ValueError: longer than :data:`MAX_VALUE_BYTES`.
    """
    data = value if type(value) is bytes else _to_bytes(value, "value")
    if len(data) > MAX_VALUE_BYTES:
        raise ValueError(f"value of {len(data)} bytes is over the limit of {MAX_VALUE_BYTES} bytes")
    return data


def keys_bytes(keys: Iterable[object]) -> list[bytes]:
    """Each of ``keys`` as ``bytes``, checked.

    Raises:
        TypeError: it is one key, or one of them is not a bytes-like object.
        ValueError: one is longer than :data:`MAX_KEY_BYTES`.
    """
    if isinstance(keys, (bytes, bytearray, memoryview, str)):
        raise TypeError(
            f"keys is an iterable of keys, not one key: put the {type(keys).__name__} into a list"
        )
    return list(map(key_bytes, keys))


def _to_bytes(data: object, what: str) -> bytes:
    if isinstance(data, str):
        raise TypeError(
            f"a {what} is bytes, not str: encode it, for example {data[:40]!r}.encode()"
        )
    if isinstance(data, int):
        raise TypeError(
            f"a {what} is bytes, not int: encode it, for example ({data}).to_bytes(8, 'big')"
        )
    try:
        return bytes(memoryview(data))  # type: ignore[arg-type]  # the call is the check
    except TypeError:
        reason = f"a {what} is bytes or another bytes-like object, not {type(data).__name__}"
        raise caused(TypeError(reason), None)


def prefix_successor(prefix: bytes) -> bytes | None:
    """The smallest key above every key that starts with ``prefix``; None when there is none.

    >>> prefix_successor(b"ab"), prefix_successor(b"a\\xff"), prefix_successor(b"\\xff")
    (b'ac', b'b', None)
    """
    stripped = prefix.rstrip(b"\xff")
    if not stripped:
        return None
    return stripped[:-1] + bytes([stripped[-1] + 1])
