"""Checks the settings, keys, tags and expiries that callers give."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, Literal, get_args

from lsmkv.cache.entries import LONGEST_KEY_BYTES, NEVER
from lsmkv.typed import Codec, DecodeError, Tuple, pack, unpack

EvictionPolicy = Literal["least-recently-stored", "none"]

_KEYS: Final = Tuple()

# Settings of diskcache that are not there, and what to do instead.
_OF_DISKCACHE: Final = {
    "disk": "a codec says how values are kept: value=lsmkv.typed.Json()",
    "size_limit": "did you mean 'size_limit_bytes'?",
    "tag_index": "tags always have an index: leave it out",
    "timeout": "nothing times out here: leave it out",
}


def check_settings(eviction_policy: str, codec: object, options: Iterable[str]) -> None:
    """TypeError or ValueError for a setting that is wrong, or diskcache's alone."""
    if eviction_policy not in get_args(EvictionPolicy):
        raise ValueError(
            f"eviction_policy={eviction_policy!r}: choose 'least-recently-stored' or 'none'; "
            "policies that write at every read are not there"
        )
    for name in options:
        if name in _OF_DISKCACHE:
            raise TypeError(f"no such option: {name} ({_OF_DISKCACHE[name]})")
    if not isinstance(codec, Codec):
        raise TypeError(f"value={codec!r}: give a codec, such as lsmkv.typed.Json()")


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
    """Decode a key, or a tag.  DecodeError: the bytes are of none."""
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
