"""Filter policies: the kinds of filter that a table can embed in its blocks.

A policy turns hashes into bits and a small parameter.  A block stores bits, scheme and parameter, so
any reader that knows the scheme can ask them.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64, mypyc_attr

from lsmkv.encoding.words import COMPILED
from lsmkv.filters import bloom, grafite, hashing, ribbon
from lsmkv.filters.bloom import MAX_BYTES
from lsmkv.filters.hashing import DIGEST_BYTES, MASK_63, hashes_of
from lsmkv.filters.maths.layouts import (
    grafite_rate,
    grafite_shape,
    ribbon_columns_for,
    ribbon_rate,
    ribbon_share,
)
from lsmkv.filters.maths.sizing import exact_rate, filter_bytes_for, probes_for

SCHEME_BLOOM: Final = 1
PRIVATE_SCHEMES: Final = (6, 7)  # the schemes of registered policies
AUTO: Final = "auto"  # the name that stands for two policies: see chosen_policy
MAX_PARAMETER: Final = 31  # 5 bits of a block's trailer

NO_FILTER: Final = (b"", 0)
"""What ``build`` returns where no filter is worth its bits, or none can be built."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")


# Without this, compiled classes refuse interpreted subclasses, such as those of other programs.
@mypyc_attr(allow_interpreted_subclasses=True)
class FilterPolicy(ABC):
    """A kind of filter that a table can embed.

    A program registers a subclass of its own with :func:`register`.  No bits at all mean "no filter", for
    which ``may_contain`` must return True.  Any number of threads may ask and build at once.

    A policy may override ``hash_key``, for filters that need more than a key's usual hash.  With
    ``answers_ranges`` scans ask ``may_contain_between``.
    """

    @property
    @abstractmethod
    def scheme(self) -> int:
        """The policy's number on disk: 0 to 7, and 6 or 7 for a policy to register."""
        raise NotImplementedError

    @property
    @abstractmethod
    def name(self) -> str:
        """The policy's name in options and reports."""
        raise NotImplementedError

    @property
    def is_registered(self) -> bool:
        """Whether it is a program's, and so known in that process alone."""
        return self.scheme in PRIVATE_SCHEMES

    def hash_key(self, key: bytes) -> i64:
        """The hash that stands for ``key`` in filters: 0 <= h < 2**63."""
        return hashing.hash_key(key)

    @property
    def has_own_hash(self) -> bool:
        """Whether ``hash_key`` is overridden; else the hash that a lookup has made already will do."""
        return type(self).hash_key is not FilterPolicy.hash_key

    def digests(self, keys: list[bytes]) -> bytes:
        """The keys for ``build_from_digests``: 8 bytes of hash, then 8 (an own hash: the length)."""
        if not self.has_own_hash:
            return hashing.digests(keys)
        packed = BytesWriter()
        for key in keys:
            h = self.hash_key(key)
            if h < 0:
                raise ValueError(
                    f"filter policy {self.name!r}: hash_key({key[:40]!r}) is {h}; "
                    "a hash lies between 0 and 2**63 - 1"
                )
            write_i64_le(packed, h)
            write_i64_le(packed, len(key))
        return packed.getvalue()

    @abstractmethod
    def build(self, hashes: list[int], error_rate: float) -> tuple[bytes, int]:
        """Bits that hold every hash, and the parameter to ask them with.

        The parameter lies between 0 and 31.  ``hashes`` are those of the keys, without repeats.  From an
        ``error_rate`` of 1 on there is no filter: :data:`NO_FILTER`, ``(b"", 0)``.
        """
        raise NotImplementedError

    def build_from_digests(self, packed: bytes, error_rate: float) -> tuple[bytes, int]:
        """As :meth:`build`, of the hashes in :meth:`digests`: what writers call for blocks."""
        return self.build(hashes_of(packed), error_rate)

    @abstractmethod
    def may_contain(self, bits: bytes, start: i64, byte_count: i64, parameter: i64, h: i64) -> bool:
        """Whether the filter in ``bits[start : start + byte_count]`` may hold the hash ``h``."""
        raise NotImplementedError

    @property
    def answers_ranges(self) -> bool:
        """Whether scans ask ``may_contain_between`` about blocks."""
        return False

    def may_contain_between(self, bits: bytes, parameter: i64, least: bytes, stop: bytes) -> bool:
        """Whether ``bits`` may hold a key from ``least`` to below ``stop``."""
        return True

    @abstractmethod
    def exact_rate(self, byte_count: int, key_count: int, parameter: int) -> float:
        """The false-positive rate with ``key_count`` distinct keys; 1.0 for no filter."""
        raise NotImplementedError

    @abstractmethod
    def is_possible(self, byte_count: int, parameter: int) -> bool:
        """Whether a filter can have that size and parameter: a reader's check of a block."""
        raise NotImplementedError


class _NumberedPolicy(FilterPolicy):
    """A policy of this package."""

    def __init__(self, scheme: int, name: str) -> None:
        self._scheme = scheme
        self._name = name

    @property
    def scheme(self) -> int:
        return self._scheme

    @property
    def name(self) -> str:
        return self._name

    def build(self, hashes: list[int], error_rate: float) -> tuple[bytes, int]:
        return self.build_from_digests(hashing.packed_hashes(hashes), error_rate)


class NoPolicy(_NumberedPolicy):
    """No filters: a lookup searches every block whose key range holds the key."""

    def build(self, hashes: list[int], error_rate: float) -> tuple[bytes, int]:
        return NO_FILTER

    def may_contain(self, bits: bytes, start: i64, byte_count: i64, parameter: i64, h: i64) -> bool:
        return True

    def exact_rate(self, byte_count: int, key_count: int, parameter: int) -> float:
        return 1.0

    def is_possible(self, byte_count: int, parameter: int) -> bool:
        return byte_count == 0


@lru_cache(maxsize=4096)
def _bloom_shape(key_count: int, error_rate: float) -> tuple[int, int]:
    """Bytes and k of a Bloom filter; (0, 0) where none is worth it, or it would be too large."""
    byte_count = filter_bytes_for(key_count, error_rate)
    if byte_count > MAX_BYTES:
        return 0, 0
    return byte_count, probes_for(byte_count * 8, key_count)


class BloomPolicy(_NumberedPolicy):
    """Bloom filters (:mod:`lsmkv.filters.bloom`); the parameter is k."""

    def build_from_digests(self, packed: bytes, error_rate: float) -> tuple[bytes, int]:
        byte_count, probe_count = _bloom_shape(len(packed) // DIGEST_BYTES, error_rate)
        if byte_count == 0:
            return NO_FILTER
        return bloom.build_from_digests(packed, byte_count, probe_count), probe_count

    def may_contain(self, bits: bytes, start: i64, byte_count: i64, parameter: i64, h: i64) -> bool:
        return bloom.may_contain(bits, start, byte_count, parameter, h)

    def exact_rate(self, byte_count: int, key_count: int, parameter: int) -> float:
        return exact_rate(byte_count * 8, key_count, parameter)

    def is_possible(self, byte_count: int, parameter: int) -> bool:
        return byte_count == 0 or (0 < byte_count <= MAX_BYTES and 1 <= parameter <= MAX_PARAMETER)


_MIXED_KEYS: Final = 4096  # larger filters are one of few, so each gets the rate that was asked for


@lru_cache(maxsize=4096)
def _ribbon_mix(error_rate: float) -> tuple[int, int]:
    """Columns for a mean rate; below the second number, a mixed hash gets one fewer.  Memoised."""
    if error_rate >= 1.0:
        return 0, 0
    return ribbon_columns_for(error_rate), int(ribbon_share(error_rate) * 2.0**63)


class RibbonPolicy(_NumberedPolicy):
    """Ribbon filters (:mod:`lsmkv.filters.ribbon`); the parameter is the number of columns, r.

    The rate of one filter is 2**-r.  Filters of up to 4,096 keys have one of two r, so that the mean
    of many is the rate asked for; larger ones have at most that rate.
    """

    def build_from_digests(self, packed: bytes, error_rate: float) -> tuple[bytes, int]:
        if not packed:
            return NO_FILTER
        columns, limit = _ribbon_mix(error_rate)
        mixed = ((read_i64_le(packed, 0) & MASK_63) * bloom.MULTIPLIER) & MASK_63
        if len(packed) <= _MIXED_KEYS * DIGEST_BYTES and mixed < limit:
            columns -= 1
        bits = ribbon.build_from_digests(packed, columns) if columns else b""
        return (bits, columns) if bits else NO_FILTER

    def may_contain(self, bits: bytes, start: i64, byte_count: i64, parameter: i64, h: i64) -> bool:
        return ribbon.may_contain(bits, start, byte_count, parameter, h)

    def exact_rate(self, byte_count: int, key_count: int, parameter: int) -> float:
        return ribbon_rate(parameter) if byte_count else 1.0

    def is_possible(self, byte_count: int, parameter: int) -> bool:
        return byte_count == 0 or ribbon.is_shape(byte_count, parameter)


class GrafitePolicy(_NumberedPolicy):
    """Grafite filters (:mod:`lsmkv.filters.grafite`); the parameter is the low bits of a code."""

    def hash_key(self, key: bytes) -> i64:
        return grafite.hash_key(key)

    def build_from_digests(self, packed: bytes, error_rate: float) -> tuple[bytes, int]:
        if not packed or error_rate >= 1.0:
            return NO_FILTER
        low_bits, byte_count = grafite_shape(len(packed) // DIGEST_BYTES, error_rate)
        if byte_count > MAX_BYTES:
            return NO_FILTER
        return grafite.build_from_digests(packed, low_bits, byte_count), low_bits

    def may_contain(self, bits: bytes, start: i64, byte_count: i64, parameter: i64, h: i64) -> bool:
        return grafite.may_contain(bits, start, byte_count, parameter, h)

    @property
    def answers_ranges(self) -> bool:
        return True

    def may_contain_between(self, bits: bytes, parameter: i64, least: bytes, stop: bytes) -> bool:
        return grafite.may_contain_between(bits, parameter, least, stop)

    def exact_rate(self, byte_count: int, key_count: int, parameter: int) -> float:
        return grafite_rate(byte_count, key_count, parameter)

    def is_possible(self, byte_count: int, parameter: int) -> bool:
        return byte_count == 0 or grafite.is_shape(byte_count, parameter)


NONE: Final = NoPolicy(0, "none")
BLOOM: Final = BloomPolicy(SCHEME_BLOOM, "bloom")
RIBBON: Final = RibbonPolicy(4, "ribbon")
GRAFITE: Final = GrafitePolicy(5, "grafite")

POLICIES: Final[tuple[FilterPolicy, ...]] = (BLOOM, RIBBON, GRAFITE)
"""The policies of this package that build filters."""

_known: Final[list[FilterPolicy]] = [NONE, *POLICIES]


def policies() -> list[FilterPolicy]:
    """Every policy that options can name: none, this package's and the registered ones.

    >>> [policy.name for policy in policies()][:4]
    ['none', 'bloom', 'ribbon', 'grafite']
    """
    return list(_known)


def register(policy: FilterPolicy) -> None:
    """Register a policy in this process, to write and read tables.

    A table names the scheme and the policy of its filters, and opens only where that policy is
    registered.

    Raises:
        ValueError: the scheme is neither 6 nor 7, the name is not made of 1 to 40 lower-case letters,
            digits, dots, dashes and underscores, or a known policy has the same scheme or name.
    """
    name, scheme = policy.name, policy.scheme
    if not _NAME.fullmatch(name) or name == AUTO:
        raise ValueError(
            f"filter policy {name!r}: a name is 1 to 40 of a-z, 0-9, '.', '-' and '_', "
            f"a letter or digit first, and not {AUTO!r}"
        )
    if scheme not in PRIVATE_SCHEMES:
        raise ValueError(
            f"filter policy {name!r}: scheme {scheme} is not for registered policies; 6 and 7 are"
        )
    for known in _known:
        if name == known.name or scheme == known.scheme:
            raise ValueError(
                f"filter policy {name!r}, scheme {scheme}: "
                f"{known.name!r} is registered with scheme {known.scheme}"
            )
    _known.append(policy)


def policy_for(scheme: int, name: str = "") -> FilterPolicy:
    """The policy with this scheme; also with this name, unless "".  ValueError: none is known."""
    for policy in _known:
        if policy.scheme == scheme and name in ("", policy.name):
            return policy
    if scheme in PRIVATE_SCHEMES:
        whose = f" of policy {name!r}" if name else ""
        raise ValueError(
            f"filter scheme {scheme}{whose} is not registered in this process; call "
            "lsmkv.filters.policy.register with the policy first"
        )
    raise ValueError(f"filter scheme {scheme}: this release knows no such policy")


def chosen_policy(name: str, *, is_flush: bool) -> FilterPolicy:
    """The policy of a new table of a store with that option.

    ``"auto"`` is Bloom for what a flush writes, which is soon merged, and ribbon for other tables; Bloom
    for all where this package is not compiled, since building ribbon filters takes too long there.
    """
    if name != AUTO:
        return policy_named(name)
    return BLOOM if is_flush or not COMPILED else RIBBON


def policy_named(name: str) -> FilterPolicy:
    """The policy with this name; ValueError if this process knows none."""
    for policy in _known:
        if policy.name == name:
            return policy
    names = ", ".join([policy.name for policy in _known])
    raise ValueError(f"filter policy {name!r}: must be one of {names}, or be registered")
