"""Filter policies: what a table needs of a kind of filter, to embed it in its blocks.

A policy turns hashes into bits and a small parameter, and asks bits that stand anywhere in a larger
run of bytes.  Bits, scheme and parameter are what a block stores, so a table written with one policy
can be read by whoever knows the scheme.

A policy of one's own is a subclass of :class:`FilterPolicy`, made known by :func:`register`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Final

from mypy_extensions import i64, mypyc_attr

from lsmkv.filters import blocked, bloom, fuse
from lsmkv.filters.bloom import MAX_BYTES
from lsmkv.filters.hashing import DIGEST_BYTES, hashes_of
from lsmkv.filters.maths.layouts import (
    FUSE_WIDTHS,
    LINE_BYTES,
    blocked_lines_for,
    blocked_probes_for,
    blocked_rate,
    fuse_fingerprint_bits_for,
    fuse_rate,
)
from lsmkv.filters.maths.sizing import exact_rate, filter_bytes_for, probes_for

SCHEME_NONE: Final = 0
SCHEME_BLOOM: Final = 1
SCHEME_BLOCKED: Final = 2
SCHEME_FUSE: Final = 3
PRIVATE_SCHEMES: Final = (6, 7)
"""The numbers for policies that are not this package's; 4 and 5 are for those it may yet have."""

MAX_PARAMETER: Final = 31
"""A block's trailer has 5 bits for the parameter."""

NO_FILTER: Final = (b"", 0)
"""What ``build`` gives where no filter is worth its bits, or none can be built."""

_FEW_KEYS: Final = 1024
"""What is worth remembering for each number of keys: a block has not many more."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")


# Compiled classes take subclasses from interpreted code, as third parties' are, only when told to.
@mypyc_attr(allow_interpreted_subclasses=True)
class FilterPolicy(ABC):
    """A kind of filter that a table can embed.

    No bits at all mean "no filter", and may hold anything, whatever the policy; ``may_contain`` is
    asked about them too.  Any number of threads may ask and build at once.
    """

    @property
    @abstractmethod
    def scheme(self) -> int:
        """The number that stands for the policy on disk, 0 to 7; 6 or 7 for one to be registered."""
        raise NotImplementedError

    @property
    @abstractmethod
    def name(self) -> str:
        """What options and reports call it."""
        raise NotImplementedError

    @abstractmethod
    def build(self, hashes: list[int], error_rate: float) -> tuple[bytes, int]:
        """Bits that hold every hash, and the parameter to ask them with, 0 to 31.

        Args:
            hashes: the 63-bit hashes of the keys, without repeats.
            error_rate: the false-positive rate to build for, above 0; from 1 on there is no filter.

        Returns:
            Bits and parameter; ``(b"", 0)`` for no filter.
        """
        raise NotImplementedError

    def build_from_digests(self, packed: bytes, error_rate: float) -> tuple[bytes, int]:
        """As :meth:`build`, of the hashes in :func:`~lsmkv.filters.hashing.digests`.

        What tables are written with: a policy that overrides it need not make an integer of each
        hash.
        """
        return self.build(hashes_of(packed), error_rate)

    @abstractmethod
    def may_contain(self, bits: bytes, start: i64, byte_count: i64, parameter: i64, h: i64) -> bool:
        """Whether the filter in ``bits[start : start + byte_count]`` may hold the hash ``h``.

        False is certain.  O(1) or O(parameter).
        """
        raise NotImplementedError

    @abstractmethod
    def exact_rate(self, byte_count: int, key_count: int, parameter: int) -> float:
        """The false-positive rate of a filter of that size, with that many distinct keys in it.

        1.0 for no filter.
        """
        raise NotImplementedError

    @abstractmethod
    def is_possible(self, byte_count: int, parameter: int) -> bool:
        """Whether a filter of this policy can have that size and parameter: to check what is read."""
        raise NotImplementedError


class NoPolicy(FilterPolicy):
    """No filters: every block whose keys span the one looked for is searched."""

    @property
    def scheme(self) -> int:
        """0."""
        return SCHEME_NONE

    @property
    def name(self) -> str:
        """``"none"``."""
        return "none"

    def build(self, hashes: list[int], error_rate: float) -> tuple[bytes, int]:
        """No bits."""
        return NO_FILTER

    def may_contain(self, bits: bytes, start: i64, byte_count: i64, parameter: i64, h: i64) -> bool:
        """True."""
        return True

    def exact_rate(self, byte_count: int, key_count: int, parameter: int) -> float:
        """1.0."""
        return 1.0

    def is_possible(self, byte_count: int, parameter: int) -> bool:
        """Only without bits."""
        return byte_count == 0


@lru_cache(maxsize=4096)
@lru_cache(maxsize=4096)
def _bloom_form(key_count: int, error_rate: float) -> tuple[int, int]:
    """Bytes and k of a Bloom filter; no bytes where it is not worth them or would be too large."""
    byte_count = filter_bytes_for(key_count, error_rate)
    if byte_count > MAX_BYTES:
        return 0, 0
    return byte_count, probes_for(byte_count * 8, key_count)


class _BloomForms:
    """Forms of the Bloom filters of one error rate: most blocks of a table have one of few."""

    __slots__ = ("_by_count", "error_rate")

    def __init__(self, error_rate: float) -> None:
        self.error_rate = error_rate
        self._by_count: dict[int, tuple[int, int]] = {}

    def of(self, key_count: int) -> tuple[int, int]:
        """Bytes and k."""
        form = self._by_count.get(key_count)
        if form is None:
            form = _bloom_form(key_count, self.error_rate)
            if key_count <= _FEW_KEYS:
                self._by_count[key_count] = form
        return form


class BloomPolicy(FilterPolicy):
    """Bloom filters with the product's probes (:mod:`lsmkv.filters.bloom`); the parameter is k."""

    def __init__(self) -> None:
        self._forms = _BloomForms(1.0)

    def _form(self, key_count: int, error_rate: float) -> tuple[int, int]:
        forms = self._forms
        if forms.error_rate != error_rate:
            forms = self._forms = _BloomForms(error_rate)
        return forms.of(key_count)

    @property
    def scheme(self) -> int:
        """1."""
        return SCHEME_BLOOM

    @property
    def name(self) -> str:
        """``"bloom"``."""
        return "bloom"

    def build(self, hashes: list[int], error_rate: float) -> tuple[bytes, int]:
        """Bits and k: m from the number of hashes and the rate, then the k with the lowest rate."""
        byte_count, probe_count = self._form(len(hashes), error_rate)
        if byte_count == 0:
            return NO_FILTER
        return bloom.build(hashes, byte_count, probe_count), probe_count

    def build_from_digests(self, packed: bytes, error_rate: float) -> tuple[bytes, int]:
        """The same."""
        byte_count, probe_count = self._form(len(packed) // DIGEST_BYTES, error_rate)
        if byte_count == 0:
            return NO_FILTER
        return bloom.build_from_digests(packed, byte_count, probe_count), probe_count

    def may_contain(self, bits: bytes, start: i64, byte_count: i64, parameter: i64, h: i64) -> bool:
        """See :func:`lsmkv.filters.bloom.may_contain`."""
        return bloom.may_contain(bits, start, byte_count, parameter, h)

    def exact_rate(self, byte_count: int, key_count: int, parameter: int) -> float:
        """See :func:`lsmkv.filters.maths.sizing.exact_rate`."""
        return exact_rate(byte_count * 8, key_count, parameter)

    def is_possible(self, byte_count: int, parameter: int) -> bool:
        """Any size, with at least one probe."""
        return 0 <= byte_count <= MAX_BYTES and (byte_count == 0 or 1 <= parameter <= MAX_PARAMETER)


class BlockedPolicy(FilterPolicy):
    """Cache-line blocked Bloom filters (:mod:`lsmkv.filters.blocked`); the parameter is k.

    The smallest has one line of 64 bytes, so few keys get a better rate than they need.
    """

    @property
    def scheme(self) -> int:
        """2."""
        return SCHEME_BLOCKED

    @property
    def name(self) -> str:
        """``"blocked-bloom"``."""
        return "blocked-bloom"

    def build(self, hashes: list[int], error_rate: float) -> tuple[bytes, int]:
        """Bits and k: the fewest lines with the rate, and the k with the lowest rate for them."""
        if not hashes or error_rate >= 1.0:
            return NO_FILTER
        line_count = blocked_lines_for(len(hashes), error_rate)
        if line_count * LINE_BYTES > MAX_BYTES:
            return NO_FILTER
        probe_count = blocked_probes_for(line_count, len(hashes))
        return blocked.build(hashes, line_count, probe_count), probe_count

    def may_contain(self, bits: bytes, start: i64, byte_count: i64, parameter: i64, h: i64) -> bool:
        """See :func:`lsmkv.filters.blocked.may_contain`."""
        return blocked.may_contain(bits, start, byte_count, parameter, h)

    def exact_rate(self, byte_count: int, key_count: int, parameter: int) -> float:
        """See :func:`lsmkv.filters.maths.layouts.blocked_rate`."""
        return blocked_rate(byte_count // LINE_BYTES, key_count, parameter)

    def is_possible(self, byte_count: int, parameter: int) -> bool:
        """Whole lines, with at least one probe."""
        return (
            0 <= byte_count <= MAX_BYTES
            and byte_count % LINE_BYTES == 0
            and (byte_count == 0 or 1 <= parameter <= MAX_PARAMETER)
        )


class FusePolicy(FilterPolicy):
    """Binary fuse filters (:mod:`lsmkv.filters.fuse`); the parameter is the fingerprints' length.

    They get rates of 2**-8 and 2**-16, whichever is the first to do; below 2**-16 they miss what
    was asked for.
    """

    @property
    def scheme(self) -> int:
        """3."""
        return SCHEME_FUSE

    @property
    def name(self) -> str:
        """``"binary-fuse"``."""
        return "binary-fuse"

    def build(self, hashes: list[int], error_rate: float) -> tuple[bytes, int]:
        """Bits, with their header, and 8 or 16; no filter where none can be built."""
        if not hashes or error_rate >= 1.0:
            return NO_FILTER
        width = fuse_fingerprint_bits_for(error_rate)
        try:
            return fuse.build(hashes, width), width
        except (ValueError, fuse.FilterBuildError):  # too many keys; or repeats, against the rules
            return NO_FILTER

    def may_contain(self, bits: bytes, start: i64, byte_count: i64, parameter: i64, h: i64) -> bool:
        """See :func:`lsmkv.filters.fuse.may_contain`."""
        return fuse.may_contain(bits, start, byte_count, parameter, h)

    def exact_rate(self, byte_count: int, key_count: int, parameter: int) -> float:
        """2**-parameter."""
        return fuse_rate(parameter) if byte_count else 1.0

    def is_possible(self, byte_count: int, parameter: int) -> bool:
        """Fingerprints of 8 or 16 bits, and room for a header and three segments."""
        if byte_count == 0:
            return True
        if parameter not in FUSE_WIDTHS:
            return False
        cells, rest = divmod(byte_count - fuse.HEADER_BYTES, parameter // 8)
        return cells >= 3 and byte_count <= MAX_BYTES and rest == 0


NONE: Final = NoPolicy()
BLOOM: Final = BloomPolicy()
BLOCKED: Final = BlockedPolicy()
FUSE: Final = FusePolicy()

POLICIES: Final[tuple[FilterPolicy, ...]] = (BLOOM, BLOCKED, FUSE)
"""Every kind of filter of this package."""

_known: Final[list[FilterPolicy]] = [NONE, *POLICIES]


def policies() -> list[FilterPolicy]:
    """Every policy that options can name: none, this package's, those registered.

    >>> [policy.name for policy in policies()][:4]
    ['none', 'bloom', 'blocked-bloom', 'binary-fuse']
    """
    return list(_known)


def register(policy: FilterPolicy) -> None:
    """Make a policy of somebody else's known in this process, for tables to be written and read with.

    A table says the scheme and the name of the policy that it was written with, and can only be read
    where the same is registered.

    Raises:
        ValueError: its scheme is neither 6 nor 7, its name is not made of 1 to 40 lower-case letters,
            digits, dots, dashes and underscores, or a known policy has the one or the other.
    """
    name, scheme = policy.name, policy.scheme
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"filter policy {name!r}: a name is 1 to 40 of a-z, 0-9, '.', '-' and '_', "
            "a letter or digit first"
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
    """The policy whose number on disk is ``scheme``.

    Args:
        name: what it must be called, since schemes 6 and 7 are whoever's they are; "": anything.

    Raises:
        ValueError: none is known in this process.

    >>> policy_for(1).name
    'bloom'
    """
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


def policy_named(name: str) -> FilterPolicy:
    """The policy of that name.

    Raises:
        ValueError: there is none.

    >>> policy_named("binary-fuse").scheme
    3
    """
    for policy in _known:
        if policy.name == name:
            return policy
    names = ", ".join([policy.name for policy in _known])
    raise ValueError(f"filter policy {name!r}: must be one of {names}, or be registered")
