"""The contenders of ``filters``: how to fill and ask each, and its rate in theory.

All get the same keys and the same requested error rate, and size themselves by their own constructors.
Peers come from PyPI (``pip install 'lsmkv[bench-peers]'``); the tables name those that are not installed.

``store/...`` are the store's own: the policies that tables embed, through the functions that a table
calls.  The other filters of this package are objects for programs.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from lsmkv import filters
from lsmkv.filters import FilterFullError, blocked, bloom, fuse, grafite, hash_key, ribbon
from lsmkv.filters.hashing import digests, murmur3_128
from lsmkv.filters.policy import FilterPolicy, policy_named

Basis = Literal["exact", "expected", "ideal"]
"""The rate in theory is exact; a good approximation; or that of independent probes, which the contender
may miss."""

Group = Literal["store", "package", "strategy", "peer"]

Code = Literal["compiled", "partly", "interpreted"]
"""What probes a filter: machine code, called from machine code or from an interpreted object, or not."""

Ask = Callable[[Any, Sequence[bytes]], list[bool]]


def _by_method(filled: Any, keys: Sequence[bytes]) -> list[bool]:
    may_contain = filled.may_contain
    return [may_contain(key) for key in keys]


def _by_operator(filled: Any, keys: Sequence[bytes]) -> list[bool]:
    return [key in filled for key in keys]


@dataclass(frozen=True, slots=True)
class Embedded:
    """A filter as in a table: bits at an offset of a section, asked by hash."""

    policy: FilterPolicy
    section: bytes
    start: int
    byte_count: int
    parameter: int


def _by_hash(filled: Embedded, keys: Sequence[bytes]) -> list[bool]:
    may_contain = filled.policy.may_contain
    section, start = filled.section, filled.start
    byte_count, parameter = filled.byte_count, filled.parameter
    return [may_contain(section, start, byte_count, parameter, hash_key(key)) for key in keys]


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to build a filter.

    Attributes:
        fill: makes a filter of keys for a requested error rate.
        probes: returns the functions that a lookup runs, outermost first, without that of the hash.
        facts: returns the size in bits and the rate in theory of a filter of so many keys.
        start: makes an empty filter to ``add`` to, for the times; None if all keys must be known.
        ask: asks a filter for keys, in one loop for counts and times.
        least_rate, most_rate: the error rates at which it takes part.
        library: the distribution that a peer needs.
    """

    name: str
    group: Group
    fill: Callable[[Sequence[bytes], float], Any]
    facts: Callable[[Any, int], tuple[int, float]]
    basis: Basis
    probes: Callable[[], tuple[Callable[..., Any], ...]]
    start: Callable[[int, float], Any] | None = None
    ask: Ask = _by_method
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

    @property
    def code(self) -> Code:
        """What probes it in this build of lsmkv."""
        *callers, probing = [isinstance(each, types.FunctionType) for each in self.probes()]
        if probing:
            return "interpreted"
        return "partly" if any(callers) else "compiled"


OFFSET: Final = 36  # where the filters of store/... begin in their sections


def _embedded(name: str, basis: Basis, module: types.ModuleType) -> Contender:
    policy = policy_named(name)

    def fill(keys: Sequence[bytes], error_rate: float) -> Embedded:
        bits, parameter = policy.build_from_digests(digests(list(keys)), error_rate)
        return Embedded(policy, bytes(OFFSET) + bits, OFFSET, len(bits), parameter)

    def facts(filled: Embedded, key_count: int) -> tuple[int, float]:
        rate = policy.exact_rate(filled.byte_count, key_count, filled.parameter)
        return 8 * filled.byte_count, rate

    return Contender(
        f"store/{name}",
        "store",
        fill,
        facts,
        basis,
        lambda: (type(policy).may_contain, module.may_contain),
        ask=_by_hash,
    )


def _growing(
    name: str,
    kind: type,
    start: Callable[[int, float], Any],
    facts: Callable[[Any, int], tuple[int, float]],
    basis: Basis,
    group: Group = "package",
    calls: tuple[Callable[..., Any], ...] = (),
) -> Contender:
    """A filter of a class of this package, and the functions that its own one calls."""
    asked: Any = kind
    own = asked.may_contain if group == "strategy" else asked.may_contain_hash
    return Contender(name, group, _filler(start), facts, basis, lambda: (own, *calls), start)


def _static(
    name: str,
    kind: Any,
    basis: Basis,
    *calls: Callable[..., Any],
    facts: Callable[[Any, int], tuple[int, float]] | None = None,
    least_rate: float = 0.0,
    most_rate: float = 1.0,
) -> Contender:
    return Contender(
        name,
        "package",
        kind.from_keys,
        facts or _static_facts,
        basis,
        lambda: (kind.may_contain_hash, *calls),
        least_rate=least_rate,
        most_rate=most_rate,
    )


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
        filters.StrategyBloomFilter,
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
    lambda: (_library("rbloom").Bloom.__contains__,),
    start=lambda n, p: _library("rbloom").Bloom(n, p),  # timed with the default ``hash``
    ask=_by_operator,
    library="rbloom",
)
PYBLOOM: Final = Contender(
    "pybloom-live",
    "peer",
    _filler(lambda n, p: _library("pybloom_live").BloomFilter(n, p)),
    _pybloom_facts,
    "ideal",
    lambda: (_library("pybloom_live").BloomFilter.__contains__, _library("bitarray").bitarray),
    start=lambda n, p: _library("pybloom_live").BloomFilter(n, p),
    ask=_by_operator,
    library="pybloom-live",
)


def _counting(counter_bits: int) -> Contender:
    kind = filters.CountingBloomFilter
    return _growing(
        f"counting-{counter_bits}",
        kind,
        lambda n, p: kind.for_keys(n, p, counter_bits),
        _by_bytes,
        "exact",
    )


def _plain(
    name: str, kind: Any, calls: tuple[Callable[..., Any], ...] = (), basis: Basis = "exact"
) -> Contender:
    return _growing(name, kind, kind.for_keys, _by_bytes, basis, calls=calls)


CONTENDERS: Final = (
    _embedded("bloom", "exact", bloom),
    _embedded("ribbon", "exact", ribbon),
    _embedded("grafite", "exact", grafite),
    _plain("bloom", filters.BloomFilter, (bloom.has_bits,)),
    _plain("partitioned", filters.PartitionedBloomFilter),
    _plain("single-hash", filters.SingleHashFilter, (bloom.has_bits,)),
    _static(
        "fingerprints",
        filters.FingerprintFilter,
        "exact",
        facts=lambda f, n: (8 * f.byte_count, filters.fingerprint_rate(f.fingerprint_bits, n)),
    ),
    _counting(4),
    _counting(8),
    _plain("cuckoo", filters.CuckooFilter, basis="expected"),
    _plain("blocked", filters.BlockedBloomFilter, (blocked.has_in_line,)),
    _static(
        "binary-fuse-8",
        filters.BinaryFuseFilter,
        "expected",
        fuse.may_contain,
        least_rate=filters.fuse_rate(8),
    ),
    _static(
        "binary-fuse-16",
        filters.BinaryFuseFilter,
        "expected",
        fuse.may_contain,
        most_rate=filters.fuse_rate(8) * 0.999,
    ),
    _static("ribbon", filters.RibbonFilter, "exact", ribbon.may_contain),
    _strategy("double-hashing"),
    _strategy("enhanced-double-hashing"),
    _strategy("leveldb"),
    _strategy("hbase"),
    _strategy("hbase-murmur2"),
    _strategy("guava-64"),
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
    """The contender of that name; ValueError if there is none."""
    for contender in CONTENDERS:
        if contender.name == name:
            return contender
    names = ", ".join([contender.name for contender in CONTENDERS])
    raise ValueError(f"contender {name!r}: must be one of {names}")
