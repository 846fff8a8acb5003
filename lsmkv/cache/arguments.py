"""Checks the settings, keys, tags and expiries that callers give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, get_args

from lsmkv import Options
from lsmkv.cache.entries import LONGEST_KEY_BYTES, NEVER
from lsmkv.typed import Codec, DecodeError, Tuple, pack, unpack

EvictionPolicy = Literal["least-recently-stored", "none"]

_KEYS: Final = Tuple()

# Settings that are not there, most of them diskcache's, and what to do instead.
_REMEDIES: Final = {
    "default_ttl_s": "set and add take expire=",
    "disk": "a codec says how values are kept: value=lsmkv.typed.Json()",
    "size_limit": "did you mean 'size_limit_bytes'?",
    "tag_index": "tags always have an index: leave it out",
    "timeout": "nothing times out here: leave it out",
}


def check_settings(
    eviction_policy: str, codec: object, options: Options | None, overrides: Iterable[str]
) -> None:
    """TypeError or ValueError for a setting that is wrong, or diskcache's alone."""
    if eviction_policy not in get_args(EvictionPolicy):
        raise ValueError(
            f"eviction_policy={eviction_policy!r}: choose 'least-recently-stored' or 'none'; "
            "policies that write at every read are not there"
        )
    names = list(overrides)
    if options is not None and options.default_ttl_s is not None:
        names.append("default_ttl_s")
    for name in names:
        if name in _REMEDIES:
            raise TypeError(f"no such option: {name} ({_REMEDIES[name]})")
    if not isinstance(codec, Codec):
        raise TypeError(f"value={codec!r}: give a codec, such as lsmkv.typed.Json()")


class Limit:
    """An attribute that is an int from 0 on."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, cache: Any, owner: type) -> int:
        limit: int = cache.__dict__[self._name]
        return limit

    def __set__(self, cache: Any, given: int) -> None:
        if type(given) is not int:
            raise TypeError(f"{self._name}={given!r}: must be an int")
        if given < 0:
            raise ValueError(f"{self._name}={given}: must be 0 or more")
        cache.__dict__[self._name] = given


def packed_key(key: Any, what: str = "a key", most_bytes: int = LONGEST_KEY_BYTES) -> bytes:
    """The bytes of a key.  TypeError, ValueError: it is none."""
    packed = pack((key,))
    if len(packed) > most_bytes:
        raise ValueError(
            f"{what} of {len(packed)} bytes is over the limit of {most_bytes} bytes: "
            "use a hash of it"
        )
    return packed


def packed_prefix(prefix: Any) -> bytes:
    """The start of the bytes of keys with ``prefix``.  TypeError: none can have it."""
    if not isinstance(prefix, (str, bytes, tuple)):
        raise TypeError(f"prefix={prefix!r}: give what keys start with, as str, bytes or tuple")
    return packed_key(prefix)[:-1]  # without the byte that ends it


def packed_tag(tag: Any, key_bytes: int = 0) -> bytes:
    """The bytes of a tag, empty for None.  ValueError: too many beside the key."""
    most_bytes = LONGEST_KEY_BYTES - key_bytes
    return b"" if tag is None else packed_key(tag, "a tag beside a key", most_bytes)


def decoded_key(packed: bytes) -> Any:
    """Decode a key, or a tag.  DecodeError: the bytes are of none."""
    try:
        (key,) = unpack(packed)
    except ValueError as error:
        raise DecodeError("stored key", packed, _KEYS, error, packed) from error
    return key


def expiry_time(expire: float | None, now: float) -> float:
    """``expire`` seconds from ``now``, since the epoch."""
    if expire is None:
        return NEVER
    return max(0.0, now + checked_number("expire", expire, "seconds from now, or None for never"))


def checked_number(name: str, number: float, what: str) -> float:
    """``number``, as a float.  TypeError, ValueError: it is no number, or none can hold it."""
    if not isinstance(number, (int, float)) or isinstance(number, bool):
        raise TypeError(f"{name}={number!r}: give {what}")
    try:
        found = float(number)
    except OverflowError:
        raise ValueError(f"{name} is more than a float can hold: give {what}") from None
    if found != found:
        raise ValueError(f"{name}=nan: give {what}")
    return found


def added(number: Any, delta: float, key: object) -> float:
    """Their sum.  TypeError: one is no number.  ValueError: it is more than a float can hold."""
    if not isinstance(number, (int, float)) or isinstance(number, bool):
        raise TypeError(f"the value of {key!r} is {type(number).__name__}, not a number")
    try:
        return number + delta
    except OverflowError:
        raise ValueError(
            "incr adds an int to a float that cannot hold it: keep the value and delta both int"
        ) from None
