"""The tables of ``memory``: the best split, the residencies, and the preset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from lsmkv.options import KIB, MIB

from ...harness.intervals import FEWEST_EVENTS
from ...harness.ratios import Spread, spread
from ...harness.tables import Table, percent
from . import tasks
from .measure import EQUAL
from .rows import Row

LAW_NAMES: Final = {"uniform": "uniform", "zipf": "Zipf 0.99", "hot": "hot set"}
RESIDENCIES: Final = ("off", "cached", "resident", EQUAL)
RESIDENCY_NAMES: Final = {
    "off": "off",
    "cached": "cached",
    "resident": "resident, beside the cache",
    EQUAL: "resident, out of the same memory",
}


@dataclass(frozen=True, slots=True)
class Contender:
    """A kind of filter with one rate; ``rate`` is None without filters."""

    filters: str
    rate: float | None

    @property
    def name(self) -> str:
        if self.rate is None:
            return "off"
        return (
            f"{self.rate * 100:g} %" if self.filters == "bloom" else f"ribbon={self.rate * 100:g} %"
        )


CONTENDERS: Final = (
    Contender(tasks.NO_FILTER, None),
    *(Contender(kind, rate) for rate in tasks.RATES for kind in ("bloom", "ribbon")),
)
"""By ascending size."""

NEAR: Final = 0.05
HARDLY: Final = 0.001
"""Smaller filters are as good if they read at most the part ``NEAR`` more, or, by the reads without
filters, the part ``HARDLY``."""


def of_part(rows: Iterable[Row], part: str) -> list[Row]:
    return [row for row in rows if row.part == part]


def contender(row: Row) -> Contender:
    return Contender(row.filters, None if row.filters == tasks.NO_FILTER else row.error_rate)


def split_rows(
    rows: Iterable[Row], runs: int, law: str, share: float, budget: float, which: Contender
) -> list[Row]:
    """The repetitions of one contender with one budget; empty where its filters exceed that."""
    return [
        row
        for row in of_part(rows, tasks.SPLIT)
        if (row.run_count, row.law, row.present_share, row.budget_share)
        == (runs, law, share, budget)
        and contender(row) == which
        and row.is_possible
    ]


def reads(rows: Sequence[Row]) -> Spread:
    return spread(row.reads_per_lookup for row in rows)


def page_bytes(rows: Sequence[Row]) -> Spread:
    return spread(row.page_bytes_per_lookup for row in rows)


def told(*groups: Sequence[Row]) -> bool:
    """Whether every row counted enough reads for a ratio."""
    return all(
        (row.block_reads or 0) + (row.filter_reads or 0) >= FEWEST_EVENTS
        for rows in groups
        for row in rows
    )


@dataclass(frozen=True, slots=True)
class Best:
    """The smallest filters with hardly more reads than the least, and no filters; medians."""

    which: Contender
    reads: Spread
    off: Spread


def rocksdb(rows: Sequence[Row], law: str, share: float, budget: float) -> Spread | None:
    """RocksDB's least reads, of all its filters and row caches; None where none fits."""
    found: dict[tuple[float, float | None], list[Row]] = {}
    theirs = [row for row in rows if row.filters == tasks.ROCKSDB and row.is_possible]
    for row in theirs:
        if (row.law, row.present_share, row.budget_share) == (law, share, budget):
            found.setdefault((row.error_rate, row.row_cache_share), []).append(row)
    return min(map(reads, found.values()), key=lambda each: each.median, default=None)


def best(rows: Sequence[Row], runs: int, law: str, share: float, budget: float) -> Best:
    found = {}
    for which in CONTENDERS:
        here = split_rows(rows, runs, law, share, budget, which)
        if here:
            found[which] = reads(here)
    least = min(each.median for each in found.values())
    off = found[CONTENDERS[0]]
    most = max((1.0 + NEAR) * least, least + HARDLY * off.median)
    which = next(which for which in CONTENDERS if which in found and found[which].median <= most)
    return Best(which, found[which], off)


def budgets(rows: Iterable[Row]) -> list[float]:
    return sorted({row.budget_share for row in rows if row.budget_share is not None})


def run_counts(rows: Iterable[Row]) -> list[int]:
    return sorted({row.run_count for row in of_part(rows, tasks.SPLIT)})


def number(value: float) -> str:
    """A count per lookup: three digits, no exponent.

    >>> number(0.0123456), number(0.00001234), number(2.0), number(0.0)
    ('0.0123', '0.00001', '2', '0')
    """
    return f"{value:.3g}" if value >= 0.001 or not value else f"{value:.5f}"


def size(size_bytes: float) -> str:
    """
    >>> size(0), size(16384), size(4194304)
    ('0', '16 KiB', '4 MiB')
    """
    if size_bytes >= MIB:
        return f"{size_bytes / MIB:g} MiB"
    return f"{size_bytes / KIB:g} KiB" if size_bytes else "0"


def tables(rows: Sequence[Row]) -> list[Table]:
    found = [_split(rows, runs) for runs in run_counts(rows)]
    swept = of_part(rows, tasks.RESIDENCY)
    for block_bytes in sorted({row.block_size_bytes for row in swept}):
        for share in (0.0, 1.0):
            found.append(_swept(swept, block_bytes, share, tasks.LAWS))
            if block_bytes == 4 * KIB:
                found.append(_swept(swept, block_bytes, share, tasks.LAWS[:1], brief=True))
    preset = of_part(rows, tasks.PRESET)
    return [*found, *([_preset(preset)] if preset else [])]


def _split(rows: Sequence[Row], runs: int) -> Table:
    cells = []
    for share in tasks.PRESENT_SHARES:
        for law in tasks.LAWS:
            line = [f"{percent(share)} % present, {LAW_NAMES[law]}"]
            for budget in budgets(rows):
                here = best(rows, runs, law, share, budget)
                off = number(here.off.median)
                text = f"off {off}"
                if here.which.rate is not None:
                    text = f"{here.which.name}: {number(here.reads.median)} (off {off})"
                line.append(text)
            cells.append(line)
            if runs == 1 and any(row.filters == tasks.ROCKSDB for row in rows):
                found = [rocksdb(rows, law, share, budget) for budget in budgets(rows)]
                shown = ["-" if each is None else number(each.median) for each in found]
                cells.append(["… RocksDB", *shown])
    what = "run" if runs == 1 else "runs"
    return Table(
        f"The best use of a memory for filters, index and caches, {runs} {what}: reads per lookup",
        ("lookups", *(f"{percent(budget)} %" for budget in budgets(rows))),
        cells,
        "Columns: the memory, by the bytes of all entries. Cells: the smallest filters whose block reads "
        "per lookup (medians) exceed the least by at most 5 %, or by a thousandth of the reads without "
        "filters; and these reads, where the cache gets all. "
        "ribbon=1 %: ribbon filters in the bytes of Bloom filters of 1 %. RocksDB: the least of Bloom "
        "filters of 10, 1 and 0.1 % and none, with 0, 50 and 80 % of the caches as its row cache.",
        brief=runs == run_counts(rows)[0],
    )


def swept_rows(
    rows: Iterable[Row],
    block_bytes: int,
    share: float,
    law: str,
    residency: str,
    memory: int,
    granularity: str = "block",
) -> list[Row]:
    return [
        row
        for row in rows
        if (row.block_size_bytes, row.present_share, row.law, row.residency, row.memory_bytes)
        == (block_bytes, share, law, residency, memory)
        and row.granularity == granularity
        and row.is_possible
    ]


def memories(rows: Iterable[Row]) -> list[int]:
    return sorted({row.memory_bytes for row in rows})


def _swept(
    rows: Sequence[Row], block_bytes: int, share: float, laws: Sequence[str], *, brief: bool = False
) -> Table:
    cells = []
    for law in laws:
        for kind, granularity in (*((kind, "block") for kind in RESIDENCIES), ("cached", "table")):
            line = [LAW_NAMES[law], RESIDENCY_NAMES[kind]]
            if granularity == "table":
                line[1] += ", a filter per table"
            for memory in memories(rows):
                here = swept_rows(rows, block_bytes, share, law, kind, memory, granularity)
                line.append(f"{page_bytes(here).median:,.0f}" if here else "-")
            if set(line[2:]) != {"-"}:
                cells.append(line)
    what = "present" if share else "absent"
    filters = next(row.filter_bytes for row in rows if row.block_size_bytes == block_bytes)
    return Table(
        f"Bytes that a device reads for a lookup of {what} keys, blocks of {size(block_bytes)}",
        ("keys", "filters", *(size(memory) for memory in memories(rows))),
        cells,
        f"Columns: the block cache. Medians; whole 4 KiB pages. All filters take {filters:,} bytes.",
        left=2,
        brief=brief,
    )


def preset_rows(
    rows: Iterable[Row], keys: int, law: str, share: float, residency: str
) -> list[Row]:
    return [
        row
        for row in rows
        if (row.key_count, row.law, row.present_share, row.residency)
        == (keys, law, share, residency)
    ]


def key_counts(rows: Iterable[Row]) -> list[int]:
    return sorted({row.key_count for row in rows})


def _preset(rows: Sequence[Row]) -> Table:
    cells = []
    for keys in key_counts(rows):
        first = preset_rows(rows, keys, "uniform", 0.0, "cached")[0]
        line = [
            f"{keys:,}",
            f"{first.data_bytes / MIB:,.0f} MiB",
            f"{first.filter_bytes / MIB:.2f}",
            f"{(first.index_memory_bytes or 0) / MIB:.2f}",
        ]
        for share in (0.0, 1.0):
            for kind in ("off", "cached", "resident"):
                here = preset_rows(rows, keys, "uniform", share, kind)
                line.append(f"{page_bytes(here).median:,.0f}")
        cells.append(line)
    kinds = ("off", "cached", "resident")
    return Table(
        f"`Options.small_memory()`, block cache of {size(rows[0].memory_bytes)}: bytes that a device "
        "reads for a uniform lookup",
        (
            "keys", "entries", "filters,\nMiB", "indexes,\nMiB",
            *(f"{what},\n{kind}" for what in ("absent", "present") for kind in kinds),
        ),
        cells,
        "The preset has resident filters. Medians; whole 4 KiB pages. Resident filters are memory beside "
        "the cache, as indexes always are.",
        left=0,
    )  # fmt: skip
