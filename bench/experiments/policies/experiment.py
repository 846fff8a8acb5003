"""The experiment ``policies``: its options and its method."""

from __future__ import annotations

import argparse
from typing import Final

from ...harness.experiment import Experiment, Plan, at_least, flattened, names_of
from . import repeats, shift, skew, trees
from .rows import READS, Row
from .story import PARTS, story

Task = trees.Task | skew.Task | shift.Task | repeats.Task

KEYS: Final = {"trees": 100_000, "skew": 100_000, "shift": 20_000, "repeats": 100_000}
_QUICK_KEYS: Final = {"trees": 20_000, "skew": 20_000, "shift": 8_000, "repeats": 20_000}
_LEAST_KEYS: Final = 300  # of fewer, too few pass for a promise about them


def add_options(parser: argparse.ArgumentParser) -> None:
    sizes = ", ".join(f"{number:,} ({part})" for part, number in KEYS.items())
    parser.add_argument(
        "--parts",
        type=names_of(PARTS),
        default=tuple(PARTS),
        help=f"some of {','.join(PARTS)}, separated by commas; default: all",
    )
    parser.add_argument(
        "--keys",
        type=at_least(_LEAST_KEYS),
        help=f"keys of a store; default: {sizes}; fewer when quick",
    )


def tasks(plan: Plan) -> list[Task]:
    """Every configuration of the parts."""
    found: list[Task] = []
    for part in plan.options.parts:
        keys = plan.options.keys or (_QUICK_KEYS if plan.quick else KEYS)[part]
        found += PARTS[part].tasks(keys, plan.seed, plan.quick)
    return found


def measure(task: Task, directory: str) -> list[Row]:
    return task.measure(directory)


EXPERIMENT: Final[Experiment[Task, list[Row], Row]] = Experiment(
    name="policies",
    title="Filter policies at equal memory",
    question="Which filters waste the fewest reads of absent keys in the same memory, by tree, by skew, "
    "while the keys that are asked for change, and when they are asked for again?",
    method=(
        "Keys of 16 bytes and values of 100 are uncompressed, in blocks of 4 KiB; no block cache but "
        "where one is named. A wasted read is a data block read for an absent key. Counts are the same "
        "for a seed on every machine.",
        "trees: full trees as the papers draw them. Each run is one table, flushed with one Bloom filter "
        "of its own rate; every run spans all keys. uniform: p = e^(-(M/N) (ln 2)^2) for all runs, with "
        "M bits for N keys. monkey: rates in proportion to the runs' sizes, in the same memory. hits: p, "
        "and no filters in the last level. The formula is the sum of the rates of all runs. As many "
        "different absent keys are asked for as there are keys, each between two present ones. "
        "One tree is one draw: intervals are Student's, between the repetitions.",
        "skew: keys are written in random order, in 64 flushes (leveled, size ratio 4, settled after "
        "each); as many absent keys as there are keys are looked up; half of the keys are written again. "
        "Then as many others are counted, all is compacted to one run, and they are counted again. A "
        "lookup takes a key of the first tenth of the key range with a chance of 10, 50, 90 or 99 %. "
        "budget: filter_memory_bytes of as many bytes as index and Monkey's filters take in the "
        "compacted run. For the tree Monkey's store is written again, with the bytes that the budget's "
        "filters took there. Theory: the best rates for the tenth and for the rest.",
        "shift: nine tenths of the lookups lie in one tenth of the key range, another one in each of "
        "three phases. New keys: each is asked for once. Popular keys: in the hot tenth they follow a "
        "Zipf law of exponent 1. Before each group of lookups a twentieth of the keys is overwritten, "
        "flushed, and the tree settled. Monkey's rates set the memory; uniform, learning (a quarter of a "
        "bit less, for the list) and budget (by three trials) take as much on average, up to 5 % more. A "
        "second handle that explains the last lookups of each phase must search as many blocks.",
        "repeats: one run with ribbon filters of 1 % is asked for as many absent keys as it has keys, in "
        "ten times as many lookups: by exact Zipf laws; by one that drifts to another order after each "
        "tenth; of keys of one block. learning: adaptive_filters. Its list stands beside an LRU of "
        "hashes in the same memory, and stacked filters and AdaptiveQF by their papers, simulated. A "
        "second count asks each filter once for each key. caches: by Gray's method with exponent 0.99; "
        "absent keys have the block cache to themselves, or share it with as many present ones.",
    ),
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=flattened,
    story=story,
    libraries=("numpy", "matplotlib"),
    add_options=add_options,
    repetitions=(1, 5),
    pools=True,
    figures=(READS,),
)
