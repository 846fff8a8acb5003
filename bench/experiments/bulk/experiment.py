"""The experiment ``bulk``: its options and its method."""

from __future__ import annotations

import argparse
from typing import Final

from bench.engines.base import missing_engines
from bench.experiments.bulk.measure import measure
from bench.experiments.bulk.rows import Row
from bench.experiments.bulk.story import story
from bench.experiments.bulk.tasks import WAYS, Task, tasks
from bench.harness.experiment import Experiment, positive


def _ways(text: str) -> list[str]:
    chosen = [way.strip() for way in text.split(";")]
    if unknown := set(chosen) - set(WAYS):
        raise argparse.ArgumentTypeError(f"{sorted(unknown)}: choose from {'; '.join(WAYS)}")
    return chosen


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--entries", type=positive, help="default: 200,000 or 20,000,000")
    parser.add_argument("--repetitions", type=positive, help="of every way; default: 2 or 3")
    parser.add_argument("--ways", type=_ways, metavar="WAY;..", help=f"some of: {'; '.join(WAYS)}")


def missing() -> list[str]:
    return [name for name in missing_engines() if name == "rocksdb"]


EXPERIMENT: Final[Experiment[Task, list[Row], Row]] = Experiment(
    name="bulk",
    title="Loading many entries at once",
    question="How long do finished tables take, beside puts, and what is written?",
    method=(
        "Keys of 16 bytes and values of 100, half of them random, into an empty store with default "
        "options (zstd). Puts are batches of 1,000, then a flush, and a wait until no compaction is "
        "due. RocksDB has the same sizes of memtable, block and cache, zstd, and Bloom filters of 10 "
        "bits per key.",
        "The pairs are made while they are loaded, because 20 million of them would fill the memory. "
        "Making them alone is timed in the same process, and subtracted.",
        "Each way runs in a process of its own; a repetition runs all ways one after the other, and "
        "the next one begins with another. What is left to be written to the disk is written in between. "
        "Ratios are taken within repetitions.",
        "Written bytes are those that the process hands to the operating system (wchar in "
        "/proc/self/io), and, for lsmkv, those that its counters tell: logs, flushes, compactions, "
        "loaded tables and the runs of sorting.",
    ),
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=lambda measured: [row for rows in measured for row in rows],
    story=story,
    libraries=("rocksdict", "matplotlib"),
    missing=missing,
    alone=True,
    add_options=add_options,
)
