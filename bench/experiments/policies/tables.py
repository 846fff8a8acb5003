"""The tables of ``policies``: one for each part, and two where absent keys are asked for again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Final

from ...harness.intervals import FEWEST_EVENTS
from ...harness.seeds import configurations
from ...harness.tables import Table, percent
from . import repeats, shift, skew, trees
from .repeats import LOADS, reads
from .rivals import RIVALS
from .rows import READS, Row, mean, of

_DENYING: Final = ("uniform", "learning", *RIVALS)


def tables(rows: Sequence[Row]) -> list[Table]:
    """Those of the parts that were measured."""
    parts = {"trees": _trees, "skew": _skew, "shift": _shift, "repeats": _contenders}
    found = [table(here) for part, table in parts.items() if (here := of(rows, part=part))]
    repeated = of(rows, part="repeats")
    return [*found, _caches(repeated)] if repeated else found


def _trees(rows: Sequence[Row]) -> Table:
    """The kinds of filters beside each other, in the usual trees with the usual memory."""
    usual = of(rows, size_ratio=trees.SIZE_RATIO, level_count=trees.LEVELS, bits_per_key=trees.BITS)
    cells = []
    for here in configurations(usual):
        reads, formula = READS.of(here), mean(here, "expected_reads")
        is_told = sum(row.wasted_reads for row in here) >= FEWEST_EVENTS
        cells.append(
            [
                here[0].load,
                here[0].filters,
                f"{here[0].run_count}",
                f"{mean(here, 'built_bits_per_key'):.2f}",
                f"{formula:.4f}",
                reads.text(".4f"),
                f"{reads.value / formula:.2f}" if is_told else "-",
                f"{mean(here, 'present_reads'):.3f}",
            ]
        )
    return Table(
        f"{trees.SIZE_RATIO} times the keys in each of {trees.LEVELS} levels, {trees.BITS:g} bits per "
        "key of one rate for all",
        (
            "tree", "filters", "runs", "bits\n/key", "formula",
            "reads of an absent key (95 % interval)", "measured\n/ formula", "reads of a\npresent key",
        ),
        cells,
        "uniform: one rate for all runs; monkey: rates as the runs' sizes, in the same memory; hits: the "
        "uniform rate, and no filters in the last level (RocksDB's optimize_filters_for_hits).",
        left=2,
    )  # fmt: skip


def _skew(rows: Sequence[Row]) -> Table:
    both = zip(
        skew.pairs(rows, is_compacted=True), skew.pairs(rows, is_compacted=False), strict=True
    )
    cells = [
        [
            run[0][0].load,
            *(f"{mean(some, 'built_bits_per_key'):.2f}" for some in run),
            *(f"{READS.of(some).value:.5f}" for some in run),
            skew.ratio(*run).text(".2f"),
            f"{mean(run[1], 'expected_reads') / mean(run[0], 'expected_reads'):.2f}",
            *(f"{mean(some, 'built_bits_per_key'):.2f}" for some in tree),
            skew.ratio(*tree).text(".2f"),
        ]
        for run, tree in both
    ]
    return Table(
        "Reads of an absent key, with Monkey's rates and with a budget of the same size",
        (
            "lookups in\na tenth", "monkey\nbits/key", "budget\nbits/key", "monkey\nreads",
            "budget\nreads", "budget / monkey\n(95 % interval)", "by theory", "tree, monkey\nbits/key",
            "tree, budget\nbits/key", "tree, budget / monkey\n(95 % interval)",
        ),
        cells,
        "Left: the store compacted to one run, filters and index together in the same bytes: a budget "
        "counts both. Bits/key are of filters alone. Tree: as its levels were before, half of the keys "
        "being there twice or about to be merged; Monkey's filters take the same memory there, too.",
    )  # fmt: skip


def after_shift(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.phase and (row.point or 0) < shift.EDGE]


def at_end(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if (row.point or 0) >= shift.POINTS - shift.EDGE]


def _shift(rows: Sequence[Row]) -> Table:
    cells = []
    for load in shift.LOADS:
        for filters in shift.FILTERS:
            here = of(rows, load=load, filters=filters)
            entries = sum(row.entry_count for row in here)
            cells.append(
                [
                    load,
                    filters,
                    f"{8 * sum(row.filter_bytes for row in here) / entries:.2f}",
                    f"{shift.memory_share(rows, load, filters):.3f}",
                    *(_per_10000(some) for some in (here, after_shift(here), at_end(here))),
                ]
            )
    return Table(
        "Wasted reads per 10,000 lookups of absent keys, of which 9,000 are in a tenth of the key range",
        (
            "lookups", "filters", "bits/key", "memory,\nby Monkey", "all (95 % interval)",
            "after a shift", "end of a phase",
        ),
        cells,
        f"Filters of the same memory. After a shift: the first {shift.EDGE} of {shift.POINTS} points of "
        f"a phase, without the first phase; end: the last {shift.EDGE}.",
        left=2,
    )  # fmt: skip


def _per_10000(rows: Sequence[Row]) -> str:
    found = READS.of(rows)
    ends = found.ends and (10_000 * found.ends[0], 10_000 * found.ends[1])
    return replace(found, value=10_000 * found.value, ends=ends).text(",.0f")


def _contenders(rows: Sequence[Row]) -> Table:
    cells = []
    for load in LOADS:
        first, *others = (of(rows, load=load, filters=name) for name in _DENYING)
        counts = (row.asked_keys or 0 for row in first), (row.recounted or 0 for row in others[0])
        line = [load, *(f"{median(some):,.0f}" for some in counts), f"{reads(first):,.0f}"]
        for found in others:
            bits = median(row.learnt_bits_per_key for row in found)
            line += [f"{reads(found):,.0f}", f"{bits:.2f}"]
        cells.append(line)
    headings = ["load", "keys\nasked", "of them\npassing", "nothing"]
    for name in ("list", *RIVALS):
        headings += [name, "bits\nper key"]
    return Table(
        f"{rows[0].lookup_count:,} lookups without a block cache, wasted reads",
        headings,
        cells,
        "Medians of the repetitions; bits per key: the memory of what denies keys that passed. The list "
        "is counted in the store; LRU, stacked filters and AdaptiveQF are simulated. AdaptiveQF has a "
        "filter of its own, of 9.1 bits for each of a power of two of slots, which lets fewer keys pass, "
        "and its map of stored keys is not counted.",
    )


def _caches(rows: Sequence[Row]) -> Table:
    cells = [
        [
            "absent and present" if ordinary[0].is_shared else "absent",
            percent(ordinary[0].cache_share or 0.0),
            f"{reads(ordinary):,.0f}",
            f"{reads(learning):,.0f}",
            "-" if times is None else f"{times:.1f}",
            *(
                f"{median(row.built_bits_per_key for row in some):.2f}"
                for some in (ordinary, learning)
            ),
        ]
        for ordinary, learning in repeats.pairs(rows)
        for times in [repeats.ratio(ordinary, learning)]
    ]
    return Table(
        f"{rows[0].lookup_count:,} lookups of {rows[0].key_count:,} absent keys, wasted reads",
        (
            "keys looked up", "cache, %\nof blocks", "without", "with\nlearning", "times\nfewer",
            "bits/key\nwithout", "bits/key\nwith",
        ),
        cells,
        "Medians of the repetitions.",
    )  # fmt: skip
