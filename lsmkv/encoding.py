"""Bytes in, bytes out: limits, argument checks, checksums, operation tags, key arithmetic.

Every checksum on disk is XXH3-64 (https://github.com/Cyan4973/xxHash), seeded so that bytes moved
from one place or file to another do not check out there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import xxhash
from librt.strings import read_i32_be
from mypy_extensions import i32, i64

from lsmkv.errors import caused

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

COMPILED: Final = i64(0x7FFF_FFFF_FFFF_FFFF) + 1 < 0
"""Whether this runs compiled, where an ``i64`` is a machine word and wraps.

Only asked where the best way for the one build, a loop over words, is far from it for the other, one
call of a library.  Both ways give the same bytes.
"""

_digest: Final = xxhash.xxh3_64_digest


def checksum(data: bytes, seed: int) -> int:
    """XXH3-64 of ``data``, an unsigned 64-bit integer."""
    return xxhash.xxh3_64_intdigest(data, seed)


def running_checksum() -> xxhash.xxh3_64:
    """What :func:`checksum` with the seed 0 comes to, of bytes that are handed over in pieces."""
    return xxhash.xxh3_64(seed=0)


def short_checksum(data: bytes, seed: int) -> i32:
    """The low half of :func:`checksum`, as the signed integer that those 32 bits make.

    Of a larger ``seed`` the low 64 bits count.
    """
    return read_i32_be(_digest(data, seed), 4)  # digests are big-endian


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


def common_prefix_length(a: bytes, b: bytes) -> int:
    """How many leading bytes ``a`` and ``b`` share.

    >>> common_prefix_length(b"abcd", b"abX")
    2
    """
    limit = min(len(a), len(b))
    if a[:limit] == b[:limit]:
        return limit
    low, high = 0, limit  # invariant: a[:low] == b[:low] and a[:high] != b[:high]
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low
