"""What other filters would do: real blocks, real absent keys, filters rebuilt in memory."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from lsmkv.explore import contract
from lsmkv.explore.samples import KeySampler
from lsmkv.filters.family.cuckoo import CuckooFilter, FilterFullError
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.policy import FilterPolicy, policy_named
from lsmkv.inspection.store_info import filter_rate, filter_shape
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.reader import TableReader

RATES: Final = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0001)
POLICIES: Final = ("bloom", "ribbon", "cuckoo", "binary-fuse")
ABSENT_KEYS: Final = 2000
_MOST_BLOCKS: Final = 64
_MOST_KEYS_OF_A_BLOCK: Final = 4096
_Z_95: Final = 1.96


@dataclass(frozen=True, slots=True)
class _Sample:
    """One block: hashes of its distinct keys, and of absent keys that it spans."""

    table: TableReader
    number: int
    hashes: list[int]
    absent: list[int]
    length_bytes: int


@dataclass(frozen=True, slots=True)
class _Built:
    bit_count: int
    rate: float
    may_contain: Callable[[int], bool]


class _Kind(ABC):
    """A kind of filter to rebuild."""

    name: str

    @abstractmethod
    def build(self, hashes: list[int], error_rate: float) -> _Built: ...


class _PolicyKind(_Kind):
    """A kind that tables can embed."""

    def __init__(self, policy: FilterPolicy) -> None:
        self.name = policy.name
        self._policy = policy

    def build(self, hashes: list[int], error_rate: float) -> _Built:
        policy = self._policy
        bits, parameter = policy.build(hashes, error_rate)
        length = len(bits)
        return _Built(
            8 * length,
            policy.exact_rate(length, len(hashes), parameter),
            lambda h: policy.may_contain(bits, 0, length, parameter, h),
        )


class _CuckooKind(_Kind):
    name = "cuckoo"

    def build(self, hashes: list[int], error_rate: float) -> _Built:
        filter = CuckooFilter.for_keys(len(hashes), error_rate)
        while True:
            try:
                for h in hashes:
                    filter.add_hash(h)
                break
            except FilterFullError:  # small sets may need more room
                filter = CuckooFilter(filter.bucket_count * 17 // 16 + 1, filter.fingerprint_bits)
        return _Built(
            8 * filter.byte_count, filter.expected_rate(len(hashes)), filter.may_contain_hash
        )


def what_if(current: SuperVersion, sampler: KeySampler, seed: int) -> contract.WhatIf | None:
    """Rebuild the filters of sampled blocks; None if the store has no block to sample.

    O(sampled keys) for each policy and rate.
    """
    samples = _samples(current, sampler, random.Random(seed))
    if not samples:
        return None
    kinds: list[_Kind] = [
        _CuckooKind() if name == "cuckoo" else _PolicyKind(policy_named(name)) for name in POLICIES
    ]
    absent_count = sum(len(sample.absent) for sample in samples)
    low, high = wilson_interval(absent_count, absent_count)
    none = contract.Rebuilt(
        policy="none",
        requested_rate=1.0,
        bit_count=0,
        exact_rate=1.0,
        false_positives=absent_count,
        low=low,
        high=high,
    )
    return contract.WhatIf(
        block_count=len(samples),
        key_count=sum(len(sample.hashes) for sample in samples),
        block_bytes=sum(sample.length_bytes for sample in samples),
        filter_bits=sum(_present_bits(sample) for sample in samples),
        absent_count=absent_count,
        present=_present(samples),
        rebuilt=[none, *(_rebuilt(samples, kind, rate) for kind in kinds for rate in RATES)],
    )


def _samples(current: SuperVersion, sampler: KeySampler, draw: random.Random) -> list[_Sample]:
    tables = list(current.version.tables())
    ends = list(accumulate(int(table.index.block_count) for table in tables))
    total = ends[-1] if ends else 0
    chosen = []
    for place in draw.sample(range(total), min(_MOST_BLOCKS, total)):
        at = bisect_right(ends, place)
        chosen.append((tables[at], place - (ends[at - 1] if at else 0)))
    read = [
        (table, number, list(dict.fromkeys(table.block(number, False).keys())))
        for table, number in chosen
    ]
    # One key spans nothing, so no absent key lies in its block's range.
    usable = [one for one in read if 2 <= len(one[2]) <= _MOST_KEYS_OF_A_BLOCK]
    each = math.ceil(ABSENT_KEYS / max(1, len(usable)))
    samples = []
    for table, number, keys in usable:
        absent = sampler.absent_within(keys, each)
        part = table.filters.filter_key.part
        if absent:
            samples.append(
                _Sample(
                    table,
                    number,
                    # In the order of keys, as writers build filters: ribbon heeds the first.
                    list(dict.fromkeys(hash_key(part(key)) for key in keys)),
                    sorted(hash_key(part(key)) for key in absent),
                    table.block_length(number),
                )
            )
    return samples


def _rebuilt(samples: list[_Sample], kind: _Kind, error_rate: float) -> contract.Rebuilt:
    built = [kind.build(sample.hashes, error_rate) for sample in samples]
    bits = sum(filter.bit_count for filter in built)
    rates = [filter.rate for filter in built]
    passed = [
        sum(map(filter.may_contain, sample.absent))
        for filter, sample in zip(built, samples, strict=True)
    ]
    return _measured(kind.name, error_rate, bits, rates, passed, samples)


def _present(samples: list[_Sample]) -> contract.Rebuilt | None:
    """What the store's own filters answer."""
    rates = []
    for sample in samples:
        bits, key_count, parameter = filter_shape(sample.table, sample.number)
        if bits == 0 or not sample.table.filters.exist:
            return None
        if key_count is None:
            key_count = len(sample.hashes)
        rates.append(filter_rate(sample.table, bits, key_count, parameter))
    passed = [
        sum(sample.table.filters.may_hold(sample.number, h) for h in sample.absent)
        for sample in samples
    ]
    bits = sum(_present_bits(sample) for sample in samples)
    table = samples[0].table
    return _measured(
        table.filter_policy.name, table.properties.error_rate, bits, rates, passed, samples
    )


def _present_bits(sample: _Sample) -> int:
    """Bits of a block's filter; of a table's, the share of the block's keys."""
    bits, key_count, _ = filter_shape(sample.table, sample.number)
    if sample.table.properties.granularity == "table" and key_count:
        return round(bits * len(sample.hashes) / key_count)
    return bits


def _measured(
    policy: str,
    requested_rate: float,
    bit_count: int,
    rates: list[float],
    passed: list[int],
    samples: list[_Sample],
) -> contract.Rebuilt:
    asked = [len(sample.absent) for sample in samples]
    total = sum(asked)
    low, high = wilson_interval(sum(passed), total)
    return contract.Rebuilt(
        policy=policy,
        requested_rate=requested_rate,
        bit_count=bit_count,
        exact_rate=math.fsum(r * n for r, n in zip(rates, asked, strict=True)) / total,
        false_positives=sum(passed),
        low=low,
        high=high,
    )


def wilson_interval(hits: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a rate by ``hits`` of ``trials`` (E. B. Wilson, JASA 1927).

    >>> [round(end, 4) for end in wilson_interval(10, 1000)]
    [0.0054, 0.0183]
    """
    if not trials:
        return 0.0, 1.0
    rate = hits / trials
    centre = rate + _Z_95**2 / (2 * trials)
    reach = _Z_95 * math.sqrt(rate * (1 - rate) / trials + _Z_95**2 / (4 * trials**2))
    scale = 1 + _Z_95**2 / trials
    return max(0.0, (centre - reach) / scale), min(1.0, (centre + reach) / scale)
