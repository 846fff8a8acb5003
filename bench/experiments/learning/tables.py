"""The table of ``learning``: each block cache, without and with learning."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from bench.experiments.learning.rivals import RIVALS
from bench.experiments.learning.rows import Row
from bench.experiments.learning.tasks import CACHES, LOADS
from bench.harness.intervals import FEWEST_EVENTS
from bench.harness.tables import Table, percent

HOWS: Final = ("nothing", "list", *RIVALS)


def by_load(rows: Sequence[Row], load: str, how: str) -> list[Row]:
    """The repetitions of a load with one way to deny."""
    return [row for row in rows if (row.load, row.how) == (load, how)]


def pairs(rows: Sequence[Row]) -> list[tuple[list[Row], list[Row]]]:
    """The rows without and with learning of each cache, those of absent keys alone first."""
    rows = [row for row in rows if row.load == CACHES]
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


def ratio_text(ordinary: Sequence[Row], learning: Sequence[Row]) -> str:
    """The median of these ratios; "-" where a repetition counted too few reads to tell it."""
    if min(row.wasted_reads for row in (*ordinary, *learning)) < FEWEST_EVENTS:
        return "-"
    return f"{median(ratios(ordinary, learning)):.1f}"


def contenders(rows: Sequence[Row]) -> Table:
    cells = []
    for load in LOADS:
        first, asked = by_load(rows, load, "nothing"), [load]
        passing = median(row.counted_again for row in by_load(rows, load, "list"))
        asked += [f"{median(row.asked_keys for row in first):,.0f}", f"{passing:,.0f}"]
        for how in HOWS:
            found = by_load(rows, load, how)
            asked.append(f"{reads(found):,.0f}")
            if how != "nothing":
                asked.append(f"{median(row.learnt_bits_per_key for row in found):.2f}")
        cells.append(asked)
    headings = ["load", "keys\nasked", "of them\npassing", "nothing"]
    for how in HOWS[1:]:
        headings += [how, "bits\nper key"]
    return Table(
        f"{rows[0].lookup_count:,} lookups without a block cache, wasted reads",
        headings,
        cells,
        "Medians of the repetitions; bits per key: the memory of what denies keys that passed. The list "
        "is counted in the store; LRU, stacked filters and AdaptiveQF are simulated. AdaptiveQF has a "
        "filter of its own, of 9.1 bits for each of a power of two of slots, which lets fewer keys pass, "
        "and its map of stored keys is not counted.",
    )


def summary(rows: Sequence[Row]) -> Table:
    first = rows[0]
    cells: list[list[str]] = []
    for ordinary, learning in pairs(rows):
        cells.append(
            [
                "absent and present" if ordinary[0].is_shared else "absent",
                percent(ordinary[0].cache_share),
                f"{reads(ordinary):,.0f}",
                f"{reads(learning):,.0f}",
                ratio_text(ordinary, learning),
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
