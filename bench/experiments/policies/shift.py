"""Part ``shift``: four kinds of filters in the same memory, while the hot tenth of the keys moves.

Each store is settled after every write buffer, so that compactions do not depend on timing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import mean
from typing import Any, Final

import lsmkv

from ...harness.intervals import effective_trials
from ...harness.run_stores import entries_of
from ...harness.shapes import run_count
from ...workloads.distributions import exact_ranks, generator, uniform
from ...workloads.keys import absent_key
from .rows import Row, of
from .stores import look_up, rate_of, write_settled

NEW_KEYS: Final = "new keys"
POPULAR_KEYS: Final = "popular keys"
LOADS: Final = (NEW_KEYS, POPULAR_KEYS)
"""Absent keys that are never asked for again, and ones whose popularity follows a Zipf law."""

FILTERS: Final = ("monkey", "uniform", "learning", "budget")
PHASES: Final = 3
POINTS: Final = 5  # points of the chart in each phase
HOT_RANGE: Final = 0.1
HOT_LOOKUPS: Final = 0.9
"""The part of the key range that is hot in a phase, and the part of the lookups that ask there."""

EDGE: Final = 2  # points after a shift, and points at the end of a phase
_STEPS: Final = 4  # write buffers in each point: all of a phase rewrite the last level
_BUFFERS: Final = 20  # the keys, by those of a write buffer
_BITS: Final = 8.0
_ENTRY_BYTES: Final = 128
_LIST_BITS: Final = 0.25  # the most that a list of learnt keys may take (part ``repeats``)
_EXPONENT: Final = 1.0
_TRIALS: Final = 3
_MOST_MEMORY: Final = 1.05  # of filters, by Monkey's


@dataclass(frozen=True, slots=True)
class Task:
    """One load on a store for each kind of filters, with so many points a phase and lookups a step."""

    load: str
    keys: int
    seed: int
    lookups: int = 0
    phases: int = PHASES
    points: int = POINTS

    def __str__(self) -> str:
        return f"{self.load}"

    def measure(self, directory: str) -> list[Row]:
        """The rows of all kinds of filters, in the memory of the first one, found by trials."""

        def rows_of(filters: str, memory_bytes: float, name: str) -> list[Row]:
            path = os.path.join(directory, name)
            return list(self._of_filters(filters, path, round(memory_bytes), bits))

        bits = _BITS
        rows = rows_of("monkey", 0, "monkey")
        memory_bytes = _memory_bytes(rows)
        bits = 8 * memory_bytes / mean(row.entry_count for row in rows)
        indexes = mean(row.index_bytes or 0 for row in rows)
        asked_bytes = memory_bytes
        for number in range(_TRIALS):
            trial = rows_of("budget", indexes + asked_bytes, f"trial-{number}")
            asked_bytes *= memory_bytes / _memory_bytes(trial)
        for filters in FILTERS[1:]:
            rows += rows_of(filters, indexes + asked_bytes, filters)
        return rows

    def _options(self, filters: str, memory_bytes: int, bits: float) -> lsmkv.Options:
        """A small tree of several levels, without a cache; ``bits``: for each key."""
        buffer_bytes = self.keys // _BUFFERS * _ENTRY_BYTES
        kinds: dict[str, dict[str, Any]] = {
            "monkey": {"error_rate": rate_of(bits), "filter_allocation": "monkey"},
            "uniform": {"error_rate": rate_of(bits), "filter_allocation": "uniform"},
            "learning": {
                "error_rate": rate_of(bits - _LIST_BITS),
                "filter_allocation": "uniform",
                "adaptive_filters": True,
            },
            "budget": {"filter_memory_bytes": memory_bytes},
        }
        return lsmkv.Options(
            filter_policy="bloom",
            table_size_bytes=2 * buffer_bytes,
            level1_size_bytes=2 * buffer_bytes,
            size_ratio=4,
            read_compaction_rate_bytes=0,  # only writes shape the tree
            block_cache_size_bytes=0,
            compression="none",
            fit_pages=False,  # the same blocks with any filters
            background="thread",
            **kinds[filters],
        )

    def _of_filters(self, filters: str, path: str, memory_bytes: int, bits: float) -> Iterator[Row]:
        size = self.keys // _BUFFERS
        writes = generator(self.seed, "adaptive", "writes")
        with lsmkv.open(path, self._options(filters, memory_bytes, bits)) as db:
            db.bulk_load(list(entries_of(range(self.keys), self.seed)))
            for phase in range(self.phases):
                absent = self.absent(phase)
                # Popular keys come again at every point of the phase.
                every = Counter(islice(self.absent(phase), self.points * _STEPS * self.lookups))
                for point in range(self.points):
                    steps = []
                    for _ in range(_STEPS):
                        numbers = uniform(self.keys, size, writes).tolist()
                        write_settled(db, numbers, size, self.seed)
                        keys = [next(absent) for _ in range(self.lookups)]
                        steps.append((look_up(db, keys), db.inspect()))
                    done, info = steps[-1]
                    is_recounted = point == self.points - 1 and filters != "learning"
                    yield Row(
                        part="shift",
                        load=self.load,
                        filters=filters,
                        bits_per_key=_BITS,
                        key_count=self.keys,
                        lookup_count=self.lookups * _STEPS,
                        phase=phase,
                        point=point,
                        independent_lookups=effective_trials(every.values()) / self.points,
                        run_count=run_count(info),
                        entry_count=sum(info.entry_count for _, info in steps) // _STEPS,
                        filter_bytes=sum(info.filter_memory_bytes for _, info in steps) // _STEPS,
                        index_bytes=sum(info.index_bytes for _, info in steps) // _STEPS,
                        learnt_bits_per_key=0.0,
                        wasted_reads=sum(done.block_reads for done, _ in steps),
                        passed=sum(
                            done.filter_false_positives + done.unfiltered_probes
                            for done, _ in steps
                        ),
                        filters_asked=sum(
                            done.filter_negatives + done.filter_false_positives for done, _ in steps
                        ),
                        recounted=_recount(path, keys) if is_recounted else None,
                        counted=done.block_reads if is_recounted else None,
                    )

    def absent(self, phase: int) -> Iterator[bytes]:
        """The absent keys of a phase, without an end."""
        draw = generator(self.seed, "adaptive", self.load, phase)
        hot_count = int(HOT_RANGE * self.keys)
        # The hot tenths of two phases are never the same.
        tenths = generator(self.seed, "adaptive", "hot").permutation(10)
        first = hot_count * int(tenths[phase])
        order = draw.permutation(hot_count)
        exponent = 0.0 if self.load == NEW_KEYS else _EXPONENT
        asked = 0
        while True:
            everywhere = uniform(self.keys, self.lookups, draw)
            hot = first + order[exact_ranks(hot_count, exponent, self.lookups, draw)]
            is_hot = draw.random(self.lookups) < HOT_LOOKUPS
            for number in [*map(int, hot * is_hot + everywhere * ~is_hot)]:
                key = absent_key(number)
                asked += 1
                yield key + b"-%d-%d" % (phase, asked) if self.load == NEW_KEYS else key


def _memory_bytes(rows: Sequence[Row]) -> float:
    return mean(row.filter_bytes for row in rows)


def _recount(path: str, keys: Sequence[bytes]) -> int:
    """The blocks that lookups of ``keys`` search, as another handle explains them."""
    with lsmkv.open(path, read_only=True, block_cache_size_bytes=0) as db:
        return sum(len(step.blocks) for key in keys for step in db.explain(key).runs)


def tasks(keys: int, seed: int, quick: bool) -> list[Task]:
    return [Task(load, keys, seed, keys // 25) for load in LOADS]


def memory_share(rows: Sequence[Row], load: str, filters: str) -> float:
    """Memory by that of Monkey's filters."""
    here, monkey = (of(rows, load=load, filters=each) for each in (filters, "monkey"))
    return _memory_bytes(here) / _memory_bytes(monkey)


def failures(rows: Sequence[Row]) -> list[str]:
    """Counts that contradict each other, and filters that take too much."""
    found = [
        f"{row.load}, {row.filters}, repetition {row.repetition}, phase {row.phase}: {row.wasted_reads} "
        f"wasted reads where filters let {row.passed} pass"
        for row in rows
        if row.wasted_reads != row.passed
    ]
    found += [
        f"{row.load}, {row.filters}, repetition {row.repetition}, phase {row.phase}: {row.counted} reads "
        f"wasted, by a second count {row.recounted}"
        for row in rows
        if row.recounted != row.counted
    ]
    return found + [
        f"{load}, {filters}: {share:.3f} of the memory of Monkey's"
        for load in dict.fromkeys(row.load for row in rows)
        for filters in FILTERS
        if (share := memory_share(rows, load, filters)) > _MOST_MEMORY
    ]
