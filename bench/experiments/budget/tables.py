"""The table of ``budget``, and what is computed of its rows."""

from __future__ import annotations

from collections.abc import Sequence

from bench.experiments.budget.rows import Row
from bench.experiments.budget.tasks import best_reads, monkey_rate
from bench.harness.intervals import FEWEST_EVENTS, ratio_interval
from bench.harness.tables import Table

Pair = tuple[Row, Row]


def pairs(rows: Sequence[Row]) -> list[Pair]:
    """Monkey and budget for the same lookups and memory."""
    return list(zip(rows[::2], rows[1::2], strict=True))


def formula_reads(row: Row) -> float:
    """What a lookup reads in one run of filters with as many bits, by theory."""
    if row.allocation == "monkey":
        return monkey_rate(row.built_bits_per_key)
    return best_reads(row.hot_share, row.built_bits_per_key)


def ratio_text(budget_reads: int, monkey_reads: int) -> str:
    """Reads with a budget by Monkey's, with the 95 % interval; "-" where too few were counted."""
    if min(budget_reads, monkey_reads) < FEWEST_EVENTS:
        return "-"
    low, high = ratio_interval(budget_reads, monkey_reads)
    return f"{budget_reads / monkey_reads:.2f} ({low:.2f}-{high:.2f})"


def comparison(found: Sequence[Pair]) -> Table:
    cells = [
        [
            f"{monkey.hot_share:.0%}",
            f"{monkey.built_bits_per_key:.2f}",
            f"{budget.built_bits_per_key:.2f}",
            f"{monkey.reads:.5f}",
            f"{budget.reads:.5f}",
            ratio_text(budget.wasted_reads, monkey.wasted_reads),
            f"{formula_reads(budget) / formula_reads(monkey):.2f}",
            f"{monkey.tree_bits_per_key:.2f}",
            f"{budget.tree_bits_per_key:.2f}",
            ratio_text(budget.tree_wasted_reads, monkey.tree_wasted_reads),
        ]
        for monkey, budget in found
    ]
    return Table(
        "Reads of an absent key, with Monkey's rates and with a budget of the same size",
        (
            "lookups in\na tenth", "monkey\nbits/key", "budget\nbits/key", "monkey\nreads",
            "budget\nreads", "budget / monkey\n(95 % interval)", "by theory", "tree, monkey\nbits/key",
            "tree, budget\nbits/key", "tree, budget / monkey\n(95 % interval)",
        ),
        cells,
        "Left: the store compacted to one run. Tree: as its levels were before, half of the keys being "
        "there twice or about to be merged; Monkey's rates take the same memory there, too.",
    )  # fmt: skip
