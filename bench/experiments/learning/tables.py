"""The table of ``learning``: each block cache, without and with learning."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

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


def reads(rows: Sequence[Row]) -> int:
    return sum(row.reads_in_vain for row in rows)


def ratio(ordinary: Sequence[Row], learning: Sequence[Row]) -> float | None:
    """How many times fewer reads in vain there are with learning; None where there are none."""
    return reads(ordinary) / reads(learning) if reads(learning) else None


def summary(rows: Sequence[Row]) -> Table:
    first = rows[0]
    cells = []
    for ordinary, learning in pairs(rows):
        times = ratio(ordinary, learning)
        cells.append(
            [
                "absent and present" if ordinary[0].is_shared else "absent",
                percent(ordinary[0].cache_share),
                f"{reads(ordinary) / len(ordinary):,.0f}",
                f"{reads(learning) / len(learning):,.0f}",
                "" if times is None else f"{times:.1f}",
                f"{fmean(row.false_positives for row in ordinary):,.0f}",
                f"{fmean(row.lessons for row in learning):,.0f}",
                f"{fmean(row.filter_bits_per_key for row in ordinary):.2f}",
                f"{fmean(row.filter_bits_per_key for row in learning):.2f}",
                f"{median(row.lookup_us for row in ordinary):.2f}",
                f"{median(row.lookup_us for row in learning):.2f}",
            ]
        )
    return Table(
        f"{first.lookup_count:,} lookups of {first.key_count:,} absent keys, reads in vain",
        (
            "keys looked up", "cache, %\nof blocks", "without", "with\nlearning", "times\nfewer",
            "false\npositives", "lessons",
            "bits/key\nwithout", "bits/key\nwith", "µs\nwithout", "µs\nwith",
        ),
        cells,
        "Means of the repetitions (times: medians). False positives: without learning, also those in "
        "cached blocks.",
    )  # fmt: skip
