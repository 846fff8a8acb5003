"""Every kind of filter, built the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from scipy.stats import beta

from lsmkv import filters
from lsmkv.filters import Membership, Save, policy
from lsmkv.filters.family.base import GrowingFilter
from lsmkv.filters.family.strategies import STRATEGIES
from lsmkv.filters.policy import BLOOM, PRIVATE_SCHEMES, FilterPolicy


class Asked(Membership, Save, Protocol):
    """The methods that all kinds have."""


Build = Callable[[Sequence[bytes], float], Asked]


def _grown(empty: Callable[[int, float], GrowingFilter]) -> Build:
    def build(keys: Sequence[bytes], error_rate: float) -> GrowingFilter:
        built = empty(len(keys), error_rate)
        built.update(keys)
        return built

    return build


def _cuckoo(keys: Sequence[bytes], error_rate: float) -> filters.CuckooFilter:
    """A cuckoo filter, with more room if the keys do not fit.

    That happens once in a few hundred small sets.
    """
    room = len(keys)
    while True:
        built = filters.CuckooFilter.for_keys(room, error_rate)
        try:
            built.update(keys)
        except filters.FilterFullError:
            room = 2 * room + 1
        else:
            return built


def _of_strategy(strategy: filters.HashStrategy) -> Build:
    def build(keys: Sequence[bytes], error_rate: float) -> filters.StrategyBloomFilter:
        built = filters.StrategyBloomFilter.for_keys(len(keys), error_rate, strategy)
        for key in keys:
            built.add(key)
        return built

    return build


def _endless(key_count: int) -> filters.Window:
    return filters.Window(inserts=key_count + 1)


KINDS: Final[dict[str, Build]] = {
    "bloom": _grown(filters.BloomFilter.for_keys),
    "single-hash": _grown(filters.SingleHashFilter.for_keys),
    "foldable": _grown(lambda n, p: filters.FoldableBloomFilter.for_keys(n, p, folds=3)),
    "partitioned": _grown(filters.PartitionedBloomFilter.for_keys),
    "blocked": _grown(filters.BlockedBloomFilter.for_keys),
    "counting-4": _grown(lambda n, p: filters.CountingBloomFilter.for_keys(n, p, 4)),
    "counting-8": _grown(lambda n, p: filters.CountingBloomFilter.for_keys(n, p, 8)),
    "rolling": _grown(lambda n, p: filters.RollingBloomFilter.for_window(_endless(n), n, p)),
    "rolling-counting": _grown(
        lambda n, p: filters.RollingCountingFilter.for_window(_endless(n), n, p)
    ),
    "fingerprints": filters.FingerprintFilter.from_keys,
    "cuckoo": _cuckoo,
    "binary-fuse": filters.BinaryFuseFilter.from_keys,
    "ribbon": filters.RibbonFilter.from_keys,
    **{f"strategy-{strategy.name}": _of_strategy(strategy) for strategy in STRATEGIES},
}
"""From name to the function that builds such a filter of distinct keys at an error rate."""


@contextmanager
def own_registry() -> Iterator[None]:
    """Within the block only built-in policies are registered; undo registrations after it."""
    known = policy._known
    before = list(known)
    known[:] = [policy.NONE, *policy.POLICIES]
    try:
        yield
    finally:
        known[:] = before


def assert_is_the_rate(passed: int, asked: int, rate: float) -> None:
    """``rate`` lies in the Clopper-Pearson interval of ``passed`` out of ``asked``.

    The interval is so wide that a right filter misses it once in a billion seeds.
    """
    tail = 0.5e-9
    low = beta.ppf(tail, passed, asked - passed + 1) if passed else 0.0
    high = beta.ppf(1.0 - tail, passed + 1, asked - passed) if passed < asked else 1.0
    assert low <= rate <= high, f"{passed}/{asked} = {passed / asked:.3g}, theory {rate:.3g}"


class OwnPolicy(FilterPolicy):
    """Bloom filters under a name that only this process has registered."""

    @property
    def scheme(self) -> int:
        return PRIVATE_SCHEMES[0]

    @property
    def name(self) -> str:
        return "own-bloom"

    def build(self, hashes: list[int], error_rate: float) -> tuple[bytes, int]:
        return BLOOM.build(hashes, error_rate)

    def may_contain(self, bits: bytes, start: int, byte_count: int, parameter: int, h: int) -> bool:
        return BLOOM.may_contain(bits, start, byte_count, parameter, h)

    def exact_rate(self, byte_count: int, key_count: int, parameter: int) -> float:
        return BLOOM.exact_rate(byte_count, key_count, parameter)

    def is_possible(self, byte_count: int, parameter: int) -> bool:
        return BLOOM.is_possible(byte_count, parameter)
