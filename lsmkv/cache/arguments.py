"""What callers give a cache, checked: keys, tags and expiries."""

from __future__ import annotations

import math
from typing import Any, Final

from lsmkv.cache.entries import LONGEST_KEY_BYTES, NEVER
from lsmkv.typed import DecodeError, Tuple, pack, unpack

_KEYS: Final = Tuple()


def packed_key(key: Any) -> bytes:
    """The bytes of a key.  TypeError, ValueError: it is none."""
    packed = pack((key,))
    if len(packed) > LONGEST_KEY_BYTES:
        raise ValueError(
            f"a key of {len(packed)} bytes is over the limit of {LONGEST_KEY_BYTES} bytes: "
            "use a hash of it"
        )
    return packed


def decoded_key(packed: bytes) -> Any:
    """The key, or tag, whose bytes these are.  DecodeError: they are of none."""
    try:
        (key,) = unpack(packed)
    except ValueError as error:
        raise DecodeError("stored key", packed, _KEYS, error, packed) from error
    return key


def packed_tag(tag: Any, key_bytes: int = 0) -> bytes:
    """The bytes of a tag, empty for None.  ValueError: too many beside the key."""
    if tag is None:
        return b""
    packed = pack((tag,))
    most = LONGEST_KEY_BYTES - key_bytes
    if len(packed) > most:
        with_key = f" with a key of {key_bytes} bytes" if key_bytes else ""
        raise ValueError(
            f"a tag of {len(packed)} bytes{with_key} is over the limit of {most} bytes: "
            "use a hash of it"
        )
    return packed


def expiry_time(expire: float | None, now: float) -> float:
    """``expire`` seconds from ``now``, since the epoch."""
    if expire is None:
        return NEVER
    checked_number("expire", expire, "seconds from now, or None for never")
    return max(0.0, now + expire)


def checked_number(name: str, number: float, what: str) -> float:
    """``number``, if a float can hold it and it is not NaN."""
    if not isinstance(number, (int, float)) or isinstance(number, bool):
        raise TypeError(f"{name}={number!r}: give {what}")
    try:
        is_nan = math.isnan(number)
    except OverflowError:
        shown = f"an int of {number.bit_length()} bits" if isinstance(number, int) else number
        raise ValueError(f"{name} is {shown}, more than a float can hold: give {what}") from None
    if is_nan:
        raise ValueError(f"{name}=nan: give {what}")
    return number


def added(number: float, delta: float) -> float:
    """Their sum.  ValueError: an int is more than the float beside it can hold."""
    try:
        return number + delta
    except OverflowError:
        raise ValueError(
            "incr adds an int to a float that cannot hold it: keep the value and delta both int"
        ) from None
