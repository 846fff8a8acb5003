"""The table of ``learning``: each block cache, without and with learning."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from bench.experiments.learning.rows import Row
from bench.harness.tables import Table, percent


def pairs(rows: Sequence[Row]) -> list[tuple[list[Row], list[Row]]]:
    """The rows without and with learning of each cache, those of absent keys alone first."""
    caches = sorted({(row.is_shared, row.cache_share) for row in rows})
    return [(_of(rows, cache, False), _of(rows, cache, True)) for cache in caches]


def _of(rows: Sequence[Row], cache: tuple[bool, float], learns: bool) -> list[Row]:
    return [
        row for row in rows if (row.is_shared, row.cache_share) == cache and row.learns == learns
    ]


def reads(rows: Sequence[Row]) -> float:
    """The median of the wasted reads."""
    return median(row.wasted_reads for row in rows)


def ratios(ordinary: Sequence[Row], learning: Sequence[Row]) -> list[float]:
    """How many times fewer wasted reads there are with learning, for each repetition, ascending.

    1 where there are none with or without learning.
    """
    return sorted(
        max(one.wasted_reads, 1) / max(other.wasted_reads, 1)
        for one, other in zip(ordinary, learning, strict=True)
    )


def summary(rows: Sequence[Row]) -> Table:
    first = rows[0]
    cells = []
    for ordinary, learning in pairs(rows):
        cells.append(
            [
                "absent and present" if ordinary[0].is_shared else "absent",
                percent(ordinary[0].cache_share),
                f"{reads(ordinary):,.0f}",
                f"{reads(learning):,.0f}",
                f"{median(ratios(ordinary, learning)):.1f}",
                f"{median(row.false_positives for row in ordinary):,.0f}",
                f"{median(row.lessons for row in learning):,.0f}",
                f"{median(row.filter_bits_per_key for row in ordinary):.2f}",
                f"{median(row.filter_bits_per_key for row in learning):.2f}",
                f"{median(row.lookup_us for row in ordinary):.2f}",
                f"{median(row.lookup_us for row in learning):.2f}",
            ]
        )
    return Table(
        f"{first.lookup_count:,} lookups of {first.key_count:,} absent keys, wasted reads",
        (
            "keys looked up", "cache, %\nof blocks", "without", "with\nlearning", "times\nfewer",
            "false\npositives", "lessons",
            "bits/key\nwithout", "bits/key\nwith", "µs\nwithout", "µs\nwith",
        ),
        cells,
        "Medians of the repetitions. False positives: without learning, also those in "
        "cached blocks.",
    )  # fmt: skip
