"""Intervals between seeds: what they are made of, and how often they hold what other seeds give."""

from __future__ import annotations

import importlib
import random
from typing import Any

import pytest

from bench.harness import experiment
from bench.harness.intervals import at_most, effective_trials
from bench.harness.seeds import Figure, configurations, estimate

SEEDS = 20
GROUP = 5  # the seeds of an interval, which is held against the others
SHARE = 0.926
"""How often Student's interval of 5 holds the mean of 15 others: P(|t| <= 2.776 / sqrt(4/3))."""

CASES = {
    "policies-trees": "--parts trees --keys 2000",
    "policies-skew": "--parts skew --keys 2000",
    "policies-shift": "--parts shift --keys 2000",
    "policies-repeats": "--parts repeats --keys 2000",
    "saved-io": "--datasets digits --counts-only --entries 3000 --lookups 3000",
    "wasted-reads": "--bits 10 --bits 16 --entries 3000 --shapes hex --value-bytes 100",
    "memory": "--parts split --keys 2000 --lookups 500",
    "compaction": "--write-buffers 16 --size-ratios 4",
}


def count(rows: list[Any], figure: Figure) -> tuple[int, int, int]:
    """The intervals that hold the figure of the other seeds, all intervals, and those too few to tell."""
    holding = told = few = 0
    for here in configurations(rows):
        values = {getattr(row, figure.top) for row in here}
        if len(here) % SEEDS or len(values) == 1:
            continue
        for first in range(0, SEEDS, GROUP):
            mine = [row for row in here if first <= row.repetition < first + GROUP]
            others = figure.of(row for row in here if row not in mine)
            found = figure.of(mine)
            few += found.ends is None
            told += found.ends is not None
            holding += found.ends is not None and found.ends[0] <= others.value <= found.ends[1]
    return holding, told, few


@pytest.mark.slow
@pytest.mark.longest
@pytest.mark.parametrize("case", CASES)
def test_intervals_of_five_seeds_hold_what_fifteen_others_give(case: str) -> None:
    """Configurations of a seed share lookups, so are not independent: another tenth may miss."""
    name = case if case in ("saved-io", "wasted-reads") else case.partition("-")[0]
    module = importlib.import_module(f"bench.experiments.{name.replace('-', '_')}.experiment")
    options = f"--quick --out unused --repetitions {SEEDS} {CASES[case]}".split()
    rows = experiment.run(module.EXPERIMENT, options).rows
    for figure in module.EXPERIMENT.figures:
        holding, told, few = count(rows, figure)
        print(f"{case}, {figure.name}: {holding} of {told} hold, {few} too few to tell")
        assert at_most(holding, told, SHARE - 0.1) > 0.001


def test_an_interval_holds_the_mean_in_19_of_20_cases() -> None:
    draw = random.Random(5)
    held = 0
    for _ in range(400):
        ends = estimate([draw.gauss(10, 2) for _ in range(4)]).ends
        held += ends is not None and ends[0] <= 10 <= ends[1]
    assert 0.92 * 400 <= held <= 0.98 * 400


def test_a_ratio_of_counts_varies_less_than_its_parts_where_they_go_together() -> None:
    reads, lookups = [10, 20, 30], [1000, 2000, 3000]
    assert estimate(reads, lookups).ends == (0.01, 0.01)
    alone = estimate(reads).ends
    assert alone is None  # three so different repetitions tell nothing of a fourth


def test_one_popular_key_among_the_lookups_is_too_few() -> None:
    """Half of the lookups ask for one key: the next seed's may pass, whatever these did."""
    independent = effective_trials([500, *[1] * 500])
    assert estimate([31, 30, 29], [1000] * 3, 90 * independent / 1000).ends is None
    assert estimate([31, 30, 29], [1000] * 3, 90).ends is not None


def test_one_repetition_has_no_interval() -> None:
    assert estimate([30], [1000], 30).text(".2f") == "0.03"
