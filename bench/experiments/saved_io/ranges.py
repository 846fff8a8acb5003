"""Ranges in ``saved-io``: the blocks that scans with both bounds read, counted twice."""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

import lsmkv
from lsmkv.filters import FilterKey
from lsmkv.filters.maths.layouts import GRANULE_KEYS, grafite_header_bytes
from lsmkv.filters.maths.sizing import filter_bytes_for

from ...harness.intervals import clustered_interval
from ...harness.table_readers import keys_of, open_tables
from ...harness.tables import Shown, Table, table_of
from ...workloads.keys import passes
from .datasets import RANGES
from .rows import Row
from .stores import Built, Counted, count, filter_key, rate_columns, shape_and_costs
from .tasks import StoreTask

Range = tuple[bytes, bytes]

LENGTHS: Final = (1, 8, 64, 512, 4096)  # numbers in an empty range
CORRELATIONS: Final = (0.0, 0.5, 1.0)
LONG_ENTRIES: Final = 100
_REACH_BITS: Final = 30  # of D = 0: an empty range begins at most 2^30 numbers after a key
_FEWER: Final = 10  # of each kind of ranges fewer are asked than there are lookups
_BLOCK_KEYS: Final = 34  # of blocks of 4 KiB
_SIGMAS: Final = 5.0
_MOST_ASKED: Final = 2  # of a range with more blocks, those between its ends are not without a key
_OTHER_SIZES_AT: Final = CORRELATIONS[1]  # the table shows further sizes of keys with this D


def rates_of_ranges(policy: str, rates: Sequence[float | None]) -> list[float | None]:
    """The rates to build with: Bloom's are given, and others have as many bits.

    Stores without filters are measured once, as Bloom's.
    """
    if policy == "bloom":
        return list(rates)
    asked = [rate for rate in rates if rate is not None]
    return [like_bloom(rate) if policy == "grafite" else rate for rate in asked]


def like_bloom(error_rate: float) -> float:
    """The rate of Grafite filters that take the bits of Bloom filters of ``error_rate``."""
    code_bytes = filter_bytes_for(_BLOCK_KEYS, error_rate) - grafite_header_bytes(_BLOCK_KEYS)
    return float(2.0 ** (2 - 8 * code_bytes / _BLOCK_KEYS))


def empty_ranges(
    keys: Sequence[bytes], length: int, correlation: float, count: int, seed: int
) -> list[Range]:
    """``count`` ranges of ``length`` numbers between two of the ascending ``keys``.

    Each begins 1 to 2^(30 (1 - D)) numbers after a key, evenly drawn.  The correlation D is that of
    M. Costa and others, Grafite, SIGMOD 2024 (``bench/workload_gen.cpp`` of its authors).  What has a
    key is left out.
    """
    draw = random.Random(f"{correlation}/{seed}")
    reach = 2 ** round(_REACH_BITS * (1 - correlation))
    numbers = [int.from_bytes(key, "big") for key in keys]
    found = []
    for place in passes(range(len(keys) - 1), count, draw):
        start = numbers[place] + draw.randint(1, reach)
        if start + length <= numbers[place + 1]:
            size = len(keys[place])
            found.append((start.to_bytes(size, "big"), (start + length).to_bytes(size, "big")))
    return found


def shared_prefix(asked: Range, kept: FilterKey) -> bytes | None:
    """The part of keys in filters that all numbers of a range share; None if there is none."""
    start, stop = asked
    last = (int.from_bytes(stop, "big") - 1).to_bytes(len(stop), "big")
    part = kept.part_of_prefix(start)
    return part if part == kept.part_of_prefix(last) else None


def range_answers(
    directory: str, ranges: Sequence[Range]
) -> tuple[int, Sequence[int], Sequence[int]]:
    """A second count: blocks that may have a key of a range, unless their filters deny it.

    Then by filter, how often it was asked for a range without a key, and let that pass.
    """
    with lsmkv.open(directory, read_only=True) as db:
        info = db.inspect()
    reads = 0
    trials: list[int] = []
    hits: list[int] = []
    for table in open_tables(directory, info):
        count, keys, filters = int(table.index.block_count), keys_of(table), table.filters
        froms = [table.smallest, *(table.index.separator(number) for number in range(1, count))]
        asked, passed = [0] * count, [0] * count
        for start, stop in ranges:
            if stop <= table.smallest or start > table.largest:
                continue
            numbers = range(max(1, bisect_right(froms, start)) - 1, bisect_left(froms, stop))
            is_within = table.smallest < start and stop <= table.largest
            prefix = shared_prefix((start, stop), filters.filter_key)
            if prefix is not None:
                h = table.filter_policy.hash_key(prefix)
                may_hold = [filters.may_hold(number, h) for number in numbers]
                reads += sum(may_hold)
            elif table.answers_ranges and is_within and len(numbers) <= _MOST_ASKED:
                may_hold = [
                    filters.may_hold_between(
                        number,
                        max(start, froms[number]),
                        min([stop, *froms[number + 1 : number + 2]]),
                    )
                    for number in numbers
                ]
                reads += len(numbers) * any(may_hold)
            else:
                reads += len(numbers)
                continue
            if bisect_left(keys, start) == bisect_left(keys, stop):
                for number, is_passed in zip(numbers, may_hold, strict=True):
                    asked[number] += 1
                    passed[number] += is_passed
        trials += asked
        hits += passed
    found = [number for number, trial in enumerate(trials) if trial]
    return reads, [trials[number] for number in found], [hits[number] for number in found]


def range_rows(
    task: StoreTask, built: Built, directory: str, keys: Sequence[bytes]
) -> Iterator[Row]:
    """The rows of one store, whose ascending ``keys`` are numbers."""
    asked, kept = max(1, task.lookups // _FEWER), filter_key(task)
    draw = random.Random(f"present/{task.seed}")
    present = count(directory, passes(keys, asked, draw))
    absent = {
        each: count(
            directory, [start for start, _ in empty_ranges(keys, 1, each, asked, task.seed)]
        )
        for each in CORRELATIONS
    }
    axes = [*product(LENGTHS, CORRELATIONS), (None, None)]
    for length, correlation in axes:
        if length and correlation is not None:
            ranges = empty_ranges(keys, length, correlation, asked, task.seed)
            lookups = absent[correlation]
        else:
            places = passes(range(len(keys) - LONG_ENTRIES), max(1, asked // _FEWER), draw)
            ranges = [(keys[place], keys[place + LONG_ENTRIES]) for place in places]
            lookups = present
        with lsmkv.open(directory, read_only=True, block_cache_size_bytes=0) as db:
            entries = 0
            for start, stop in ranges:
                prefix = shared_prefix((start, stop), kept)
                entries += sum(1 for _ in db.keys(start=start, stop=stop, prefix=prefix))
            stats = db.stats()
        reads, trials, hits = range_answers(directory, ranges)
        most = None
        if task.policy == "grafite" and length and length <= GRANULE_KEYS:
            most = min(1.0, (built.error_rate_exact or 0.0) * length)
        yield Row(
            dataset=task.dataset,
            filter_policy=task.policy,
            block_size_bytes=task.block_size_bytes,
            run_count=task.runs,
            lookups_of="empty ranges" if length else "long ranges",
            range_numbers=length,
            correlation=correlation,
            hit_ratio=float(not length),
            error_rate_requested=task.error_rate,
            lookup_count=len(ranges),
            found_count=entries,
            **rate_columns(clustered_interval(hits, trials) if trials else None),
            range_rate_most=most,
            absent_reads_wasted_mean=_wasted(lookups) if length else None,
            present_reads_wasted_mean=_wasted(present),
            filter_trials=sum(trials),
            filter_negatives=stats.range_filter_negatives + stats.prefix_filter_skips,
            filter_false_positives=sum(hits),
            miscounted=abs(stats.block_reads - reads) + lookups.miscounted + present.miscounted,
            data_block_reads=stats.block_reads,
            data_block_read_bytes=stats.block_read_bytes,
            os_check="not told: counted only",
            **shape_and_costs(built),
        )


def _wasted(counted: Counted) -> float:
    """Blocks that a lookup reads, but for the one with its key."""
    stats = counted.stats
    return (stats.block_reads - stats.get_hits) / stats.gets


def range_story(rows: Sequence[Row]) -> tuple[list[Table], list[str]]:
    """Table and failures; none of a run without ranges."""
    here = [row for row in rows if row.dataset in RANGES]
    if not here:
        return [], []
    cells = {(*_filters(row), row.correlation, row.range_numbers): row for row in here}

    def reads(length: int) -> Shown:
        return Shown(
            f"range\nof {length:,}",
            lambda row: _reads(cells[*_filters(row), row.correlation, length]),
        )

    shown = [
        row
        for row in here
        if row.range_numbers == LENGTHS[0]
        and (row.filter_policy != "bloom" or row.correlation == CORRELATIONS[0])
        and (row.dataset == here[0].dataset or row.correlation == _OTHER_SIZES_AT)
    ]
    table = table_of(
        "Ranges of numbers: blocks read by scans with both bounds",
        sorted(shown, key=lambda row: (RANGES[row.dataset], row.correlation)),
        (
            Shown("bytes\na key", lambda row: str(RANGES[row.dataset])),
            Shown("D", "correlation", "g"),
            Shown("filters", lambda row: row.filter_policy if row.error_rate_requested else "none"),
            Shown("bits\n/key", "filter_bits_per_key", ".2f"),
            *map(reads, LENGTHS),
            Shown("of 100\nkeys", lambda row: _reads(cells[*_filters(row), None, None])),
            Shown("wasted by\nabsent keys", "absent_reads_wasted_mean", ".4f"),
            Shown("by present\nkeys", "present_reads_wasted_mean", ".4f"),
        ),
        f"Keys are numbers drawn evenly; {here[0].run_count} runs. Ranges of 1 to {LENGTHS[-1]:,} "
        "numbers hold no key. D: such a range begins 1 to 2^(30 (1 - D)) numbers after a key, with "
        "D = 1 just after it. prefix-N: Bloom filters of the prefix that N numbers share; a range of "
        "several prefixes is read. Filters none and bloom read the same at any D. Wasted: reads of "
        "blocks without the key; absent keys are the first numbers of the ranges.",
        left=3,
        empty="-",
    )
    failures = [
        f"{row.dataset}, {row.filter_policy}, p {row.error_rate_requested}, D {row.correlation}, "
        f"{row.range_numbers} numbers: {row.error_rate_measured:.3%} pass, and "
        f"{row.range_rate_most:.3%} may"
        for row in here
        if row.range_rate_most is not None and _too_many(row, row.range_rate_most)
    ]
    return [table], failures


def _filters(row: Row) -> tuple[object, ...]:
    return row.dataset, row.filter_policy, row.error_rate_requested


def _too_many(row: Row, most: float) -> bool:
    """Whether more reads are wasted than theory and chance allow."""
    expected = most * (row.filter_trials or 0)
    chance = _SIGMAS * math.sqrt((row.design_effect or 1.0) * expected) + _SIGMAS
    return row.filter_false_positives > expected + chance


def _reads(row: Row) -> str:
    return f"{(row.data_block_reads or 0) / row.lookup_count:.4f}"
