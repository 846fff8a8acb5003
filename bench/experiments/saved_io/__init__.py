"""Disk reads saved as the false-positive rate p varies: ``python -m bench saved-io --out DIR``.

The main experiment.  ``tasks`` says what is built and asked, ``measure`` how, ``rows`` what comes
out, ``theory`` what should, ``story`` and ``charts`` how it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.experiments.saved_io.measure import measure
from bench.experiments.saved_io.rows import Row, join
from bench.experiments.saved_io.story import story
from bench.experiments.saved_io.tasks import Task, add_options, tasks
from bench.harness import experiment
from bench.harness.experiment import Experiment

EXPERIMENT: Final[Experiment[Task, list[Row], Row]] = Experiment(
    name="saved-io",
    title="Disk reads saved by block filters",
    question="How many disk reads does a Bloom filter in every block save, as its false-positive rate "
    "p varies, and what does it cost?",
    method=(
        "Each store is written for the purpose: its entries, in a seeded random order, go to a number "
        "of sorted runs that all span the whole range of keys. Tables are not compressed. The rows "
        "without filters are of tables that were written without any; all others have the same "
        "blocks, which is checked.",
        "Absent keys lie just after present ones, so that no range of a table answers for the filter; "
        "the few that fall between two blocks cost nothing with or without filters, and are no "
        "saving: the baseline is what the same look-ups read without filters. Look-ups are drawn "
        "with repetition, uniformly.",
        "Counts come from look-ups with lsmkv's block cache off: each search of a block is a read. "
        "Net means: less the reads that load the filters when the store is opened, once for these "
        "look-ups. Bytes of blocks include the filters inside them.",
        "Cold look-ups read with O_DIRECT, past the page cache, block cache off; the bytes that "
        "lsmkv counted, opening included, are held against the operating system's count for the "
        "thread (read_bytes of /proc/thread-self/io). A row where they differ by more than 1 % is "
        "marked as failed, and the command fails. Warm look-ups have every block in the block cache. "
        "Each look-up is timed alone, garbage collector off; reading the clock is included.",
        "Exact rates are E[(X/m)^k] with X the number of distinct bits set (Bose et al. 2008), for "
        "the m, n and k of each block, weighted by its keys. Measured rates are false positives over "
        "all times a filter was asked for a key that it does not hold; intervals are Clopper and "
        "Pearson's, 95 %. Nobody corrects for many comparisons.",
    ),
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=join,
    story=story,
    libraries=("numpy", "scipy", "matplotlib"),
    add_options=add_options,
)


def main(arguments: Sequence[str]) -> None:
    """Run the experiment with these arguments."""
    experiment.main(EXPERIMENT, arguments)
