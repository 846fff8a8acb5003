"""Part ``skew``: a budget beside Monkey's rates in the same memory, where a tenth of the keys is hot."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any, Final

import lsmkv
from lsmkv.filters.maths.allocation import budget_error_rates
from lsmkv.options import KIB

from ...harness.intervals import ratio_interval
from ...harness.seeds import Estimate, configurations, estimate
from ...harness.shapes import run_count
from ...workloads.keys import absent_key, shuffled
from .rows import Row, of
from .stores import look_up, rate_of, write_settled

HOT: Final = 0.1  # the part of the key range that is popular
SHARES: Final = (0.1, 0.5, 0.9, 0.99)
"""Of the lookups, those in the popular tenth; 0.1 is the same everywhere."""

BITS: Final = 10.0
_BITS: Final = (4.0, 7.0, BITS)
_ENTRY_BYTES: Final = 125
_FLUSHES: Final = 64
_TABLES: Final = 16  # of the run: few, as an index has a least size
_WITHIN: Final = 0.02
_WITHIN_KEYS: Final = 200
"""A budget is kept within a share of its bytes, and so many keys' bytes: few blocks have few sizes."""
_MOST_READS: Final = {0.1: 1.02, 0.9: 0.7}
"""Reads with a budget by Monkey's, by the share of lookups in the tenth."""

FORM: Final = lsmkv.Options(
    filter_policy="bloom",
    compression="none",
    fit_pages=False,  # the same blocks, and so indexes, with any filters
    block_cache_size_bytes=0,
    read_compaction_rate_bytes=0,
    level0_compaction_trigger=4,
    size_ratio=4,
    background="thread",
)


@dataclass(frozen=True, slots=True)
class Task:
    """One share of lookups in the popular tenth, with filters of ``bits_per_key``."""

    hot_share: float
    bits_per_key: float
    keys: int
    seed: int

    def __str__(self) -> str:
        return f"{self.hot_share:.0%} of the lookups in a tenth, {self.bits_per_key:g} bits"

    def measure(self, directory: str) -> list[Row]:
        """Tree and run with Monkey's rates, of the budget's bytes, and with a budget of the run's."""
        tree, run = self._rows("monkey", directory, _monkey(self.bits_per_key))
        budget = self._rows("budget", directory, {"filter_memory_bytes": memory_bytes(run)})
        bits = self.bits_per_key * budget[0].filter_bytes / tree.filter_bytes
        again, _ = self._rows("monkey", directory, _monkey(bits))
        return [again, run, *budget]

    def _rows(self, filters: str, directory: str, options: dict[str, Any]) -> list[Row]:
        """Write all keys, look up, write half of them again, count; compact all, and count again."""
        flushed = self.keys // _FLUSHES
        size_bytes = max(16 * KIB, self.keys // _TABLES * _ENTRY_BYTES)
        form = FORM.replace(table_size_bytes=size_bytes, level1_size_bytes=4 * size_bytes)
        order, again = (shuffled(self.keys, self.seed + number) for number in (0, 1))
        with (
            TemporaryDirectory(dir=directory) as path,
            lsmkv.open(os.path.join(path, "store"), form.replace(**options)) as db,
        ):
            write_settled(db, order, flushed, self.seed)
            look_up(db, self._absent("before"))
            write_settled(db, again[: self.keys // 2], flushed, self.seed)
            tree = self._counted(db, filters, is_compacted=False)
            db.compact_range(force=True)
            return [tree, self._counted(db, filters, is_compacted=True)]

    def _counted(self, db: lsmkv.DB, filters: str, *, is_compacted: bool) -> Row:
        info = db.inspect()
        found = look_up(db, self._absent("counted"))
        bits = 8 * info.filter_bytes / self.keys
        return Row(
            part="skew",
            load=f"{self.hot_share:.0%}",
            filters=filters,
            bits_per_key=self.bits_per_key,
            key_count=self.keys,
            lookup_count=self.keys,
            hot_share=self.hot_share,
            is_compacted=is_compacted,
            independent_lookups=self.keys,
            run_count=run_count(info),
            entry_count=info.entry_count,
            filter_bytes=info.filter_bytes,
            index_bytes=info.index_bytes,
            learnt_bits_per_key=0.0,
            wasted_reads=found.block_reads,
            passed=found.filter_false_positives + found.unfiltered_probes,
            filters_asked=found.filter_negatives + found.filter_false_positives,
            expected_reads=expected(filters, self.hot_share, bits) if is_compacted else None,
        )

    def _absent(self, when: str) -> Iterator[bytes]:
        """As many different absent keys as there are keys."""
        dice = random.Random(f"budget/{self.seed}/{when}")
        hot_keys = round(self.keys * HOT)
        for at in range(self.keys):
            is_hot = dice.random() < self.hot_share
            number = dice.randrange(hot_keys) if is_hot else dice.randrange(hot_keys, self.keys - 1)
            yield absent_key(number) + b"%d" % at


def _monkey(bits_per_key: float) -> dict[str, Any]:
    return {"filter_allocation": "monkey", "error_rate": rate_of(bits_per_key)}


def expected(filters: str, hot_share: float, bits_per_key: float) -> float:
    """Reads of an absent key in one run: with one rate, or the best ones for the tenth and the rest.

    >>> round(expected("budget", 0.9, 10) / expected("monkey", 0.9, 10), 3)
    0.172
    >>> round(expected("budget", 0.1, 10), 4)
    0.0082
    """
    if filters == "monkey":
        return rate_of(bits_per_key)
    asks = [hot_share, 1 - hot_share]
    rates = budget_error_rates([HOT, 1 - HOT], asks, bits_per_key)
    return math.fsum(f * p for f, p in zip(asks, rates, strict=True))


def tasks(keys: int, seed: int, quick: bool) -> list[Task]:
    bits = (_BITS[0], BITS) if quick else _BITS
    return [Task(share, each, keys, seed) for share in SHARES for each in bits]


def pairs(rows: Sequence[Row], *, is_compacted: bool) -> list[tuple[list[Row], list[Row]]]:
    """The repetitions of Monkey and budget for the same lookups and memory."""
    found = configurations(of(rows, is_compacted=is_compacted))
    return list(zip(found[::2], found[1::2], strict=True))


def ratio(monkey: Sequence[Row], budget: Sequence[Row]) -> Estimate:
    """Reads with a budget by Monkey's, as the repetitions tell."""
    ours, theirs = ([row.wasted_reads for row in rows] for rows in (budget, monkey))
    return estimate(ours, theirs, min(sum(ours), sum(theirs)))


def memory_bytes(row: Row) -> int:
    """What a budget counts: filters and index."""
    return row.filter_bytes + (row.index_bytes or 0)


def failures(rows: Sequence[Row]) -> list[str]:
    """The stores that keep no budget, or read more than is promised beyond what chance explains."""
    found = []
    for monkey, budget in pairs(rows, is_compacted=True):
        first = monkey[0]
        name = f"{first.load} of the lookups in a tenth, {first.bits_per_key:g} bits"
        for asked, kept in zip(monkey, budget, strict=True):
            size = memory_bytes(kept) / memory_bytes(asked)
            if abs(size - 1) > _WITHIN + _WITHIN_KEYS / kept.key_count:
                found.append(f"{name}: filters and index take {size:.3f} of the budget")
        low, _ = ratio_interval(
            *(sum(row.wasted_reads for row in some) for some in (budget, monkey))
        )
        most = _MOST_READS.get(first.hot_share or 0.0)
        if most is not None and low > most:
            found.append(f"{name}: at least {low:.2f} of Monkey's reads, not {most}")
    return found
