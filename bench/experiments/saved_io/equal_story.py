"""The comparison of ribbon filters with Bloom filters of 1 %: its table and failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lsmkv.options import KIB

from ...harness.intervals import FEWEST_EVENTS, ratio_interval
from ...harness.tables import Shown, Table, table_of
from .rows import EQUAL_BYTES, EQUAL_RATE, REFERENCE, Row
from .tables import measured_rate

FEWER_READS: Final = 4.0
"""In equal bytes ribbon filters must cause at least so many times fewer wasted reads."""

MOST_BYTES: Final = 0.80  # at equal rate ribbon filters may have at most that share of the bytes


@dataclass(frozen=True, slots=True)
class Comparison:
    """Three stores of the same blocks: Bloom, ribbon at its rate, ribbon in its bytes."""

    bloom: Row
    equal_rate: Row
    equal_bytes: Row

    def __str__(self) -> str:
        return f"{_blocks(self.bloom)} a block"

    @property
    def fewer_reads(self) -> float:
        """How many times fewer blocks are read, by the counts; infinite for none."""
        reads = _reads(self.equal_bytes)
        return _reads(self.bloom) / reads if reads else float("inf")

    @property
    def fewer_reads_interval(self) -> tuple[float, float]:
        """The 95 % interval of the ratio, whose counts are a sample."""
        return _ratio_interval(self.bloom, self.equal_bytes)

    @property
    def fewer_reads_exact(self) -> float:
        """The same by the exact rates."""
        return (self.bloom.error_rate_exact or 0.0) / (self.equal_bytes.error_rate_exact or 1.0)

    @property
    def byte_share(self) -> float:
        """Bytes of ribbon by those of Bloom, at equal rate."""
        return (self.equal_rate.filter_bytes or 0) / (self.bloom.filter_bytes or 1)


def equal_story(rows: Sequence[Row]) -> tuple[list[Table], list[str]]:
    """Tables and failures; none of a run without the comparison."""
    found = comparisons(rows)
    if not found:
        return [], []
    failures = [failure for each in found for failure in _failures(each)]
    return [_table(found)], failures


def comparisons(rows: Sequence[Row]) -> list[Comparison]:
    """The comparisons, in the order of their rows."""
    here = [row for row in rows if row.comparison is not None]
    sizes = dict.fromkeys(row.block_size_bytes for row in here)
    by_role = {(row.block_size_bytes, row.comparison): row for row in here}
    return [
        Comparison(*(by_role[size, role] for role in (REFERENCE, EQUAL_RATE, EQUAL_BYTES)))
        for size in sizes
    ]


def _reads(row: Row) -> int:
    return row.data_block_reads or 0


def _ratio_interval(row: Row, other: Row) -> tuple[float, float]:
    effects = row.design_effect or 1.0, other.design_effect or 1.0
    return ratio_interval(_reads(row), _reads(other), *effects)


def _blocks(row: Row) -> str:
    keys = row.entry_count / (row.block_count or 1)
    return f"{(row.block_size_bytes or 0) // KIB} KiB, {keys:.0f} keys"


def _table(found: Sequence[Comparison]) -> Table:
    bloom_of = {id(row): each.bloom for each in found for row in _rows_of(each)}

    def by_bloom(row: Row) -> str:
        bloom = bloom_of[id(row)]
        if row is bloom:
            return "-"
        return f"{(row.filter_bytes or 0) / (bloom.filter_bytes or 1):.3f}"

    def fewer(row: Row) -> str:
        bloom = bloom_of[id(row)]
        if row is bloom or min(_reads(row), _reads(bloom)) < FEWEST_EVENTS:
            return "-"
        low, high = _ratio_interval(bloom, row)
        return f"{_reads(bloom) / _reads(row):.2f} ({low:.2f}-{high:.2f})"

    return table_of(
        f"Ribbon beside Bloom at 1 %: {found[0].bloom.lookup_count:,} absent keys",
        [row for each in found for row in _rows_of(each)],
        (
            Shown("blocks", _blocks),
            Shown("filters", _name),
            "filter_bytes",
            Shown("by\nBloom", by_bloom),
            "error_rate_exact",
            Shown("measured, %\n(95 % interval)", measured_rate),
            Shown("wasted\nreads", "data_block_reads", ","),
            "data_block_reads_unfiltered",
            Shown("times fewer\n(95 % interval)", fewer),
        ),
        "bloom: error_rate 0.01. equal rate: ribbon, 0.01 too. equal bytes: ribbon of the lowest rate "
        "whose filters have no more bytes than the Bloom filters in all. Bytes are one copy, as held in "
        "memory. Reads are of data blocks, by the same lookups in the same blocks, block cache off.",
        left=2,
        brief=False,
    )


def _name(row: Row) -> str:
    return "bloom" if row.comparison == REFERENCE else f"ribbon, {row.comparison}"


def _rows_of(each: Comparison) -> tuple[Row, Row, Row]:
    return each.bloom, each.equal_rate, each.equal_bytes


def _failures(each: Comparison) -> list[str]:
    found = []
    searches = {row.data_block_reads_unfiltered for row in _rows_of(each)}
    if len(searches) > 1:
        found.append(f"{each}: filters were asked {searches} times: not the same blocks")
    if (each.equal_bytes.filter_bytes or 0) > (each.bloom.filter_bytes or 0):
        found.append(f"{each}: ribbon has more bytes than Bloom in the comparison of equal bytes")
    # A sample may fall short; it fails when chance does not explain it.
    if each.fewer_reads_interval[1] < FEWER_READS:
        found.append(
            f"{each}: ribbon wastes only {each.fewer_reads:.2f} times fewer reads in equal bytes"
        )
    if each.byte_share > MOST_BYTES:
        found.append(f"{each}: ribbon has {each.byte_share:.3f} of the bytes at equal rate")
    return found
