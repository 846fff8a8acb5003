"""Other filters for real blocks and real absent keys, rebuilt in memory."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from lsmkv import CorruptionError, Explanation, Table
from lsmkv.explore import contract
from lsmkv.explore.intervals import clustered_interval
from lsmkv.explore.samples import KeySampler
from lsmkv.filters import FilterPolicy, hash_key, policies, policy_named

RATES: Final = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0001)
ABSENT_KEYS: Final = 2000
_MOST_BLOCKS: Final = 64
_MOST_KEYS_OF_A_BLOCK: Final = 4096
_MOST_KEPT: Final = 4096  # blocks whose rebuilt filters are kept


@dataclass(frozen=True, slots=True)
class _Sample:
    """One block: hashes of its distinct keys, and absent keys that it spans with theirs."""

    table: Table
    number: int
    hashes: list[int]
    absent_keys: list[bytes]
    absent: list[int]
    length_bytes: int


@dataclass(frozen=True, slots=True)
class _Built:
    bit_count: int
    rate: float
    may_contain: Callable[[int], bool]


def what_if(tables: Sequence[Table], sampler: KeySampler, seed: int) -> contract.WhatIf | None:
    """Rebuild the filters of sampled blocks; None without blocks.  O(keys) for each policy and rate."""
    samples = _samples(tables, sampler, random.Random(seed))
    if not samples:
        return None
    absent_count = sum(len(sample.absent) for sample in samples)
    none = contract.Rebuilt(
        policy="none",
        requested_rate=1.0,
        bit_count=0,
        exact_rate=1.0,
        false_positives=absent_count,
        low=1.0,
        high=1.0,
    )
    choices = [policy for policy in policies() if policy.name != "none"]
    return contract.WhatIf(
        block_count=len(samples),
        key_count=sum(len(sample.hashes) for sample in samples),
        block_bytes=sum(sample.length_bytes for sample in samples),
        filter_bits=sum(_present_bits(sample) for sample in samples),
        absent_count=absent_count,
        present=_present(samples),
        rebuilt=[none, *(_rebuilt(samples, policy, rate) for policy in choices for rate in RATES)],
    )


def _samples(tables: Sequence[Table], sampler: KeySampler, draw: random.Random) -> list[_Sample]:
    ends = list(accumulate(table.block_count for table in tables))
    total = ends[-1] if ends else 0
    chosen = []
    for place in draw.sample(range(total), min(_MOST_BLOCKS, total)):
        at = bisect_right(ends, place)
        chosen.append((tables[at], place - (ends[at - 1] if at else 0)))
    read = [(table, number, _keys_of(table, number)) for table, number in chosen]
    # One key spans nothing, so no absent key lies in its block's range.
    usable = [one for one in read if 2 <= len(one[2]) <= _MOST_KEYS_OF_A_BLOCK]
    each = math.ceil(ABSENT_KEYS / max(1, len(usable)))
    samples = []
    for table, number, keys in usable:
        absent = sampler.absent_within(keys, each, table.filter_key)
        part = table.filter_key.part
        if absent:
            samples.append(
                _Sample(
                    table,
                    number,
                    # In the order of keys, as writers build filters: ribbon heeds the first.
                    list(dict.fromkeys(hash_key(part(key)) for key in keys)),
                    absent,
                    sorted(hash_key(part(key)) for key in absent),
                    table.length_bytes(number),
                )
            )
    return samples


def _keys_of(table: Table, number: int) -> list[bytes]:
    """The distinct keys of a block, in order; none if it is damaged."""
    try:
        return list(dict.fromkeys(table.keys(number)))
    except CorruptionError:
        return []


def _built(policy: FilterPolicy, hashes: list[int], error_rate: float) -> _Built:
    bits, parameter = policy.build(hashes, error_rate)
    length = len(bits)
    return _Built(
        8 * length,
        policy.exact_rate(length, len(hashes), parameter),
        lambda h: policy.may_contain(bits, 0, length, parameter, h),
    )


def _rebuilt(samples: list[_Sample], policy: FilterPolicy, error_rate: float) -> contract.Rebuilt:
    built = [_built(policy, sample.hashes, error_rate) for sample in samples]
    bits = sum(filter.bit_count for filter in built)
    rates = [filter.rate for filter in built]
    passed = [
        sum(map(filter.may_contain, sample.absent))
        for filter, sample in zip(built, samples, strict=True)
    ]
    return _measured(policy.name, error_rate, bits, rates, passed, samples)


def _present(samples: list[_Sample]) -> contract.Rebuilt | None:
    """Answers of the store's own filters."""
    rates = []
    for sample in samples:
        filter = sample.table.filter(sample.number)
        if filter.bit_count == 0 or not sample.table.asks_filters:
            return None
        rate = filter.expected_rate
        if rate is None:
            shape = filter.bit_count // 8, len(sample.hashes), filter.probe_count
            rate = policy_named(filter.policy).exact_rate(*shape)
        rates.append(rate)
    passed = [sum(map(sample.table.may_contain, sample.absent_keys)) for sample in samples]
    bits = sum(_present_bits(sample) for sample in samples)
    info = samples[0].table.info()
    return _measured(info.filter_kind, info.requested_rate, bits, rates, passed, samples)


def _present_bits(sample: _Sample) -> int:
    """Bits of a block's filter; of a table's, the share of the block's keys."""
    filter = sample.table.filter(sample.number)
    if filter.scope == "table" and filter.key_count:
        return round(filter.bit_count * len(sample.hashes) / filter.key_count)
    return filter.bit_count


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
    low, high = clustered_interval(passed, asked)
    return contract.Rebuilt(
        policy=policy,
        requested_rate=requested_rate,
        bit_count=bit_count,
        exact_rate=math.fsum(r * n for r, n in zip(rates, asked, strict=True)) / total,
        false_positives=sum(passed),
        low=low,
        high=high,
    )


class Rebuilder:
    """Bloom filters of single blocks, built anew for each of :data:`RATES`; one thread uses it."""

    def __init__(self) -> None:
        self._bloom = policy_named("bloom")
        self._kept: dict[tuple[int, int], list[_Built]] = {}

    def passing(self, explained: Explanation, tables: Mapping[int, Table]) -> list[list[int]]:
        """For each rate the items of ``explained.runs`` that let the key pass; empty if unknown."""
        passing: list[list[int]] = [[] for _ in RATES]
        for at, step in enumerate(explained.runs):
            if step.table is None or step.spanning is None:
                continue
            table = tables.get(step.table)
            built = [] if table is None else self._of(table, step.spanning.number)
            if table is None or not built:
                return []
            h = hash_key(table.filter_key.part(explained.key))
            for rate, filter in enumerate(built):
                if filter.may_contain(h):
                    passing[rate].append(at)
        return passing

    def _of(self, table: Table, block: int) -> list[_Built]:
        place = table.number, block
        if place not in self._kept:
            part = table.filter_key.part
            hashes = list(dict.fromkeys(hash_key(part(key)) for key in _keys_of(table, block)))
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[place] = [_built(self._bloom, hashes, rate) for rate in RATES if hashes]
        return self._kept[place]
