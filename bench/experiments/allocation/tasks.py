"""The configurations of ``allocation``: trees, by how filter memory is shared among their runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from bench.experiments.allocation.trees import STYLES, Allocation, Tree
from bench.harness.experiment import Plan

SIZE_RATIO: Final = 4
LEVELS: Final = 3
BITS: Final = 8.0
"""What is kept while the others vary."""

ALL_BITS: Final = (2.0, 4.0, 6.0, 8.0, 10.0, 12.0)
ALL_LEVELS: Final = (1, 2, 3, 4, 5)
ALL_RATIOS: Final = (2, 3, 4, 6, 8)
QUICK_BITS: Final = (2.0, 8.0)
QUICK_LEVELS: Final = (2, 3)
QUICK_RATIOS: Final = (3, 4)


@dataclass(frozen=True, slots=True)
class Task:
    """One tree, and the lookups in it; ``bits_per_key`` are those of one rate for all runs."""

    tree: Tree
    allocation: Allocation
    bits_per_key: float
    lookups: int
    seed: int

    def __str__(self) -> str:
        tree = self.tree
        return (
            f"{tree.style}, T={tree.size_ratio}, {tree.level_count} levels, {self.allocation}, "
            f"{self.bits_per_key:g} bits"
        )


def tasks(plan: Plan) -> list[Task]:
    """Each tree with several memories; with one, several numbers of levels and size ratios."""
    given, quick = plan.options, plan.quick
    keys = given.keys or (20_000 if quick else 100_000)
    found: dict[Task, None] = {}
    for style in STYLES:
        usual = Tree(style, SIZE_RATIO, LEVELS, keys)
        points = [(usual, bits) for bits in (QUICK_BITS if quick else ALL_BITS)]
        for levels in QUICK_LEVELS if quick else ALL_LEVELS:
            points.append((replace(usual, level_count=levels), BITS))
        for ratio in QUICK_RATIOS if quick else ALL_RATIOS:
            points.append((replace(usual, size_ratio=ratio), BITS))
        for tree, bits in points:
            for allocation in ("uniform", "monkey"):
                found[Task(tree, allocation, bits, keys - 1, plan.seed)] = None
        found[Task(usual, "hits", BITS, keys - 1, plan.seed)] = None
    return list(found)
