"""Ranges in ``saved-io``: the blocks that scans with both bounds read, counted twice."""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import lsmkv

from ...harness.intervals import clustered_interval
from ...harness.table_readers import keys_of, open_tables
from ...harness.tables import Shown, Table, percent, table_of
from .datasets import NUMBER_GAP, RANGES, number_key
from .rows import REFERENCE_RATE, Row
from .stores import Built, costs
from .tables import measured_rate, requested_rate
from .tasks import StoreTask

Range = tuple[bytes, bytes]

EMPTY: Final = "empty ranges"
TINY: Final = "tiny ranges"
LONG: Final = "long ranges"
KINDS: Final = (EMPTY, TINY, LONG)
TINY_NUMBERS: Final = 8
LONG_ENTRIES: Final = 100
_FEWER: Final = 10  # of long ranges fewer are asked: their counts vary little
_SIGMAS: Final = 5.0
_MOST_ASKED: Final = 2  # of a range with more blocks, those between its ends are not without a key
TITLE: Final = "Ranges of numbers"


def ranges_of(kind: str, first: int, entries: int, count: int, seed: int) -> list[Range]:
    """``count`` ranges of a kind: empty of 1 to 8 numbers, tiny with one that is there, long with 100."""
    draw = random.Random(f"{kind}/{seed}")
    found = []
    for _ in range(count if kind != LONG else count // _FEWER):
        entry = first + draw.randrange(entries - LONG_ENTRIES)
        length, start = draw.randint(1, TINY_NUMBERS), NUMBER_GAP * entry
        if kind == EMPTY:
            start += draw.randint(1, NUMBER_GAP - length)
        elif kind == TINY:
            start -= draw.randrange(min(length, start + 1))
        else:
            length = NUMBER_GAP * LONG_ENTRIES
        found.append((number_key(start), number_key(start + length)))
    return found


@dataclass(frozen=True, slots=True)
class RangeAnswers:
    """What filters answer to ranges, by filter ``trials`` and ``hits``; and how many blocks are read."""

    block_reads: int
    trials: tuple[int, ...]
    hits: tuple[int, ...]


def range_answers(directory: str, ranges: Sequence[Range]) -> RangeAnswers:
    """A second count: blocks that may have a key of a range, unless their filters deny it."""
    with lsmkv.open(directory, read_only=True) as db:
        info = db.inspect()
    reads = 0
    trials: list[int] = []
    hits: list[int] = []
    for table in open_tables(directory, info):
        count, keys = int(table.index.block_count), keys_of(table)
        froms = [table.smallest, *(table.index.separator(number) for number in range(1, count))]
        asked, passed = [0] * count, [0] * count
        for start, stop in ranges:
            if stop <= table.smallest or start > table.largest:
                continue
            numbers = range(max(1, bisect_right(froms, start)) - 1, bisect_left(froms, stop))
            is_within = table.smallest < start and stop <= table.largest
            if not (table.answers_ranges and is_within and len(numbers) <= _MOST_ASKED):
                reads += len(numbers)
                continue
            may_hold = [
                table.filters.may_hold_between(
                    number, max(start, froms[number]), min([stop, *froms[number + 1 : number + 2]])
                )
                for number in numbers
            ]
            reads += len(numbers) * any(may_hold)
            if bisect_left(keys, start) == bisect_left(keys, stop):
                for number, passes in zip(numbers, may_hold, strict=True):
                    asked[number] += 1
                    passed[number] += passes
        trials += asked
        hits += passed
    pairs = [(trial, hit) for trial, hit in zip(trials, hits, strict=True) if trial]
    return RangeAnswers(reads, tuple(t for t, _ in pairs), tuple(h for _, h in pairs))


def range_rows(task: StoreTask, built: Built, directory: str, first: int) -> Iterator[Row]:
    """The rows of one store, whose keys are the numbers from ``first`` on."""
    for kind in KINDS:
        asked = ranges_of(kind, first, task.entries, task.lookups, task.seed)
        with lsmkv.open(directory, read_only=True, block_cache_size_bytes=0) as db:
            entries = sum(sum(1 for _ in db.items(start=start, stop=stop)) for start, stop in asked)
            stats = db.stats()
        found = range_answers(directory, asked)
        rate = clustered_interval(found.hits, found.trials) if found.trials else None
        exact = built.error_rate_exact
        lengths = [_length(each) for each in asked]
        yield Row(
            dataset=task.dataset,
            filter_policy=task.policy,
            block_size_bytes=task.block_size_bytes,
            run_count=task.runs,
            lookups_of=kind,
            hit_ratio=float(kind != EMPTY),
            error_rate_requested=task.error_rate,
            lookup_count=len(asked),
            entry_count=built.entry_count,
            table_count=built.table_count,
            block_count=built.block_count,
            data_bytes=built.data_bytes,
            found_count=entries,
            error_rate_exact=exact,
            error_rate_measured=rate.rate if rate else None,
            error_rate_low=rate.low if rate else None,
            error_rate_high=rate.high if rate else None,
            design_effect=rate.design_effect if rate else None,
            range_rate_most=sum(min(1.0, exact * length) for length in lengths) / len(lengths)
            if exact and rate
            else None,
            filter_trials=sum(found.trials),
            filter_negatives=stats.range_filter_negatives,
            filter_false_positives=sum(found.hits),
            miscounted=abs(stats.block_reads - found.block_reads),
            data_block_reads=stats.block_reads,
            data_block_read_bytes=stats.block_read_bytes,
            os_check="not told: counted only",
            **costs(built),
        )


def _length(asked: Range) -> int:
    start, stop = asked
    return int.from_bytes(stop, "big") - int.from_bytes(start, "big")


def range_story(rows: Sequence[Row]) -> tuple[list[Table], list[str]]:
    """Table and failures; none of a run without ranges."""
    here = [row for row in rows if row.dataset == RANGES and row.error_rate_requested]
    if not here:
        return [], []
    # Filters that no range is asked of read the same at any rate.
    shown = [
        row
        for kind in KINDS
        for row in here
        if row.lookups_of == kind
        and (row.error_rate_measured is not None or row.error_rate_requested == REFERENCE_RATE)
    ]
    table = table_of(
        f"{TITLE}: blocks read by scans with both bounds",
        shown,
        (
            Shown("ranges", lambda row: row.lookups_of.removesuffix(" ranges")),
            Shown("filters", "filter_policy"),
            Shown("asked\np, %", requested_rate),
            Shown("bits\n/key", "filter_bits_per_key", ".2f"),
            Shown("entries\na range", lambda row: f"{(row.found_count or 0) / row.lookup_count:g}"),
            Shown("without\nfilters", lambda row: _reads(row, row.data_block_reads_unfiltered)),
            Shown("blocks\na range", lambda row: _reads(row, row.data_block_reads)),
            Shown("passed, %\n(95 % interval)", measured_rate),
            Shown("at most,\n%", "range_rate_most", percent),
        ),
        f"Keys are numbers in 8 bytes, {NUMBER_GAP} apart; {here[0].run_count} runs. Empty: 1 to "
        f"{TINY_NUMBERS} numbers, none of which is there; tiny: as many, with one that is; long: with "
        f"{LONG_ENTRIES}. Passed: of the filters that were asked for a range of which their table has no "
        "key, those that let it pass. At most: the rate of keys, as built, for each number of the range.",
        left=2,
        empty="-",
    )
    failures = [
        f"{row.filter_policy}, p {row.error_rate_requested}, {row.lookups_of}: "
        f"{row.error_rate_measured:.3%} pass, and {row.range_rate_most:.3%} may"
        for row in here
        if row.range_rate_most is not None and _too_many(row, row.range_rate_most)
    ]
    return [table], failures


def _too_many(row: Row, most: float) -> bool:
    """Whether more reads are wasted than theory and chance allow."""
    expected = most * (row.filter_trials or 0)
    chance = _SIGMAS * math.sqrt((row.design_effect or 1.0) * expected) + _SIGMAS
    return row.filter_false_positives > expected + chance


def _reads(row: Row, count: int | None) -> str:
    return f"{(count or 0) / row.lookup_count:.4f}"
