"""The contenders of ``filters``: how to fill and ask each, and its rate in theory.

All get the same keys and the same requested error rate, and size themselves by their own constructors.
Peers come from PyPI (``pip install 'lsmkv[bench]'``); the tables name those that are not installed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from lsmkv import filters
from lsmkv.filters import FilterFullError
from lsmkv.filters.hashing import murmur3_128

Basis = Literal["exact", "expected", "ideal"]
"""The rate in theory is exact; a good approximation; or that of independent probes, which the contender
may miss."""

Group = Literal["package", "strategy", "peer"]


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to build a filter.

    Attributes:
        fill: makes a filter of keys for a requested error rate.
        facts: returns the size in bits and the rate in theory of a filter of so many keys.
        start: makes an empty filter to ``add`` to, for the times; None if all keys must be known.
        by_operator: asked with ``in``, not with ``may_contain``.
        least_rate, most_rate: the error rates at which it takes part.
        library: the distribution that a peer needs.
    """

    name: str
    group: Group
    fill: Callable[[Sequence[bytes], float], Any]
    facts: Callable[[Any, int], tuple[int, float]]
    basis: Basis
    start: Callable[[int, float], Any] | None = None
    by_operator: bool = False
    least_rate: float = 0.0
    most_rate: float = 1.0
    library: str = ""

    def is_installed(self) -> bool:
        """Whether its library is installed."""
        if not self.library:
            return True
        try:
            importlib.import_module(self.library.replace("-", "_"))
        except ImportError:
            return False
        return True

    def offers(self, error_rate: float) -> bool:
        """Whether it takes part at this error rate."""
        return self.least_rate <= error_rate <= self.most_rate


def _growing(
    name: str,
    start: Callable[[int, float], Any],
    facts: Callable[[Any, int], tuple[int, float]],
    basis: Basis,
    group: Group = "package",
) -> Contender:
    return Contender(name, group, _filler(start), facts, basis, start)


def _filler(start: Callable[[int, float], Any]) -> Callable[[Sequence[bytes], float], Any]:
    def fill(keys: Sequence[bytes], error_rate: float) -> Any:
        filled = start(len(keys), error_rate)
        for key in keys:
            filled.add(key)
        return filled

    return fill


def _strategy(name: str) -> Contender:
    strategy = filters.strategy_named(name)
    return _growing(
        f"bloom/{name}",
        lambda n, p: filters.StrategyBloomFilter.for_keys(n, p, strategy),
        lambda f, n: (f.bit_count, f.ideal_rate(n)),
        "ideal",
        "strategy",
    )


def _by_bytes(f: Any, key_count: int) -> tuple[int, float]:
    return 8 * f.byte_count, f.expected_rate(key_count)


def _static_facts(f: Any, key_count: int) -> tuple[int, float]:
    return 8 * f.byte_count, f.expected_rate()


@cache
def _library(name: str) -> Any:
    return importlib.import_module(name)


def _rbloom_hash(key: bytes) -> int:
    """128 signed bits, as rbloom asks for; ``hash``, its default, differs in every process."""
    low, high = murmur3_128(key)
    number = high << 64 | low
    return number - (1 << 128) if number >> 127 else number


def _rbloom_facts(f: Any, key_count: int) -> tuple[int, float]:
    probe_count = int.from_bytes(f.save_bytes()[:8], "little")  # the header that it documents
    return f.size_in_bits, filters.exact_rate(f.size_in_bits, key_count, probe_count)


def _pybloom_facts(f: Any, key_count: int) -> tuple[int, float]:
    return f.num_bits, filters.partitioned_rate(f.num_bits, key_count, f.num_slices)


RBLOOM: Final = Contender(
    "rbloom",
    "peer",
    _filler(lambda n, p: _library("rbloom").Bloom(n, p, _rbloom_hash)),
    _rbloom_facts,
    "ideal",
    start=lambda n, p: _library("rbloom").Bloom(n, p),  # timed with the default ``hash``
    by_operator=True,
    library="rbloom",
)
PYBLOOM: Final = Contender(
    "pybloom-live",
    "peer",
    _filler(lambda n, p: _library("pybloom_live").BloomFilter(n, p)),
    _pybloom_facts,
    "ideal",
    start=lambda n, p: _library("pybloom_live").BloomFilter(n, p),
    by_operator=True,
    library="pybloom-live",
)

CONTENDERS: Final = (
    _growing("bloom", filters.BloomFilter.for_keys, _by_bytes, "exact"),
    _growing("partitioned", filters.PartitionedBloomFilter.for_keys, _by_bytes, "exact"),
    _growing("single-hash", filters.SingleHashFilter.for_keys, _by_bytes, "exact"),
    Contender(
        "fingerprints",
        "package",
        filters.FingerprintFilter.from_keys,
        lambda f, n: (8 * f.byte_count, filters.fingerprint_rate(f.fingerprint_bits, n)),
        "exact",
    ),
    _growing(
        "counting-4", lambda n, p: filters.CountingBloomFilter.for_keys(n, p, 4), _by_bytes, "exact"
    ),
    _growing(
        "counting-8", lambda n, p: filters.CountingBloomFilter.for_keys(n, p, 8), _by_bytes, "exact"
    ),
    _growing("cuckoo", filters.CuckooFilter.for_keys, _by_bytes, "expected"),
    _growing("blocked", filters.BlockedBloomFilter.for_keys, _by_bytes, "exact"),
    Contender(
        "binary-fuse-8",
        "package",
        filters.BinaryFuseFilter.from_keys,
        _static_facts,
        "expected",
        least_rate=filters.fuse_rate(8),
    ),
    Contender(
        "binary-fuse-16",
        "package",
        filters.BinaryFuseFilter.from_keys,
        _static_facts,
        "expected",
        most_rate=filters.fuse_rate(8) * 0.999,
    ),
    Contender("ribbon", "package", filters.RibbonFilter.from_keys, _static_facts, "exact"),
    _strategy("double-hashing"),
    _strategy("enhanced-double-hashing"),
    _strategy("leveldb"),
    _strategy("hbase"),
    RBLOOM,
    PYBLOOM,
)
"""In the order of the tables."""

REFUSALS: Final = (FilterFullError,)
"""The error of a filter without room for a set of keys that it was sized for."""


def missing() -> list[str]:
    """The names of contenders that are not installed."""
    return [contender.name for contender in CONTENDERS if not contender.is_installed()]


def contender_named(name: str) -> Contender:
    """The contender of that name.

    Raises:
        ValueError: there is none.
    """
    for contender in CONTENDERS:
        if contender.name == name:
            return contender
    names = ", ".join([contender.name for contender in CONTENDERS])
    raise ValueError(f"contender {name!r}: must be one of {names}")
