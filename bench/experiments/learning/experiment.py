"""The experiment ``learning``: its options and its method."""

from __future__ import annotations

import argparse
from typing import Final

from bench.experiments.learning.measure import measure
from bench.experiments.learning.rows import Row, join
from bench.experiments.learning.story import story
from bench.experiments.learning.tasks import REPETITIONS, Task, tasks
from bench.harness.experiment import Experiment, at_least, positive

_LEAST_KEYS: Final = 300
"""Of fewer, too few pass for a promise about them."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keys",
        type=at_least(_LEAST_KEYS),
        help="present keys, and as many absent ones; default: 20,000 or 100,000",
    )
    parser.add_argument(
        "--repetitions",
        type=positive,
        help=f"with a seed of its own each; default: {REPETITIONS}",
    )


EXPERIMENT: Final[Experiment[Task, tuple[Row, ...], Row]] = Experiment(
    name="learning",
    title="Filters that learn",
    question="How many wasted reads do filters save that learn from their false positives, how much "
    "memory does it take, and from which block cache on is it pointless?",
    method=(
        "A store of 100,000 entries (quick: 20,000; 16-byte keys, 100-byte values, blocks of 4 KiB, "
        "uncompressed, one run, ribbon filters of 1 %) is asked for as many absent keys, each just after "
        "a present one, in ten times as many lookups. The popularity of an absent key is zipfian, with "
        "the exponent 0.99, by Gray's method; which keys are popular is decided by the seed.",
        "A wasted read is a data block that was read for an absent key. The same lookups ask the same "
        "store without learning and with it. They are skewed, so the count without learning depends "
        "on whether a filter happens to let one of the most popular keys pass: repetitions differ "
        "much. Tables have medians of the repetitions, and ratios within each.",
        "Block caches are tried twice: absent keys have the cache to themselves, or share it with "
        "present keys, one of which is looked up after each absent one, drawn by the same law.",
        "The list is set beside what else denies keys that passed: an LRU of their hashes in the same "
        "memory, and stacked filters and AdaptiveQF by their papers, simulated over the same lookups. "
        "Keys follow exact Zipf laws; one that drifts, to another order of all keys after each tenth; "
        "or lie in one block. A second count asks each filter once for each key: without a list, as many "
        "reads must have been wasted as there were lookups of keys that pass; with it, no more "
        "than there are such keys: an entry may deny another absent key of its block too.",
        "Bits per key are the memory of the filters and of the list. Times are of the whole loop, with "
        "files in the page cache of the operating system, where a read costs little; they are medians.",
    ),
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=join,
    story=story,
    libraries=("numpy", "matplotlib"),
    add_options=add_options,
)
