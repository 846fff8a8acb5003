"""The experiment ``wasted-reads``: its options, its configurations and its method."""

from __future__ import annotations

import argparse
from typing import Final

import bench.engines  # registers the built-in ones  # noqa: F401
from bench.engines.base import KIB, engine_named
from bench.experiments.wasted_reads.measure import measure
from bench.experiments.wasted_reads.rows import Row
from bench.experiments.wasted_reads.story import story
from bench.experiments.wasted_reads.tasks import NO_FILTER, Task
from bench.harness.experiment import Experiment, Plan, at_least, positive

CONTENDERS: Final = (
    ("rocksdb", "bloom"),
    ("rocksdb", "ribbon"),
    ("leveldb", "bloom"),
    ("lsmkv", "bloom"),
    ("lsmkv", "ribbon"),
)
"""Engines and kinds of filter, in the order of the tables."""

BITS: Final = (6.0, 8.0, 10.0, 12.0, 16.0)
_ENTRIES: Final = 200_000
_QUICK_ENTRIES: Final = 20_000
_PASSES: Final = 5
_LEAST_BITS: Final = 3.0
_MOST_BITS: Final = 24.0


def _bits(text: str) -> float:
    bits = float(text)
    if not _LEAST_BITS <= bits <= _MOST_BITS or bits != round(bits):
        raise argparse.ArgumentTypeError(
            f"{text}: must be a whole number from {_LEAST_BITS:g} to {_MOST_BITS:g}; LevelDB has no "
            "others"
        )
    return bits


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bits",
        type=_bits,
        action="append",
        metavar="N",
        help="a budget in filter bits per key; may be repeated; default: "
        + ", ".join(f"{bits:g}" for bits in BITS),
    )
    parser.add_argument(
        "--entries",
        type=at_least(1000),
        metavar="N",
        help=f"default: {_ENTRIES:,}; with --quick {_QUICK_ENTRIES:,}",
    )
    parser.add_argument(
        "--passes",
        type=positive,
        default=_PASSES,
        metavar="N",
        help="absent keys looked up between each two present ones; default: %(default)s",
    )
    parser.add_argument(
        "--block-size-kib", type=positive, default=4, metavar="N", help="default: %(default)s"
    )


def tasks(plan: Plan) -> list[Task]:
    """A control without filters of each engine, and each kind of filter with each budget."""
    given = plan.options
    entries = given.entries or (_QUICK_ENTRIES if plan.quick else _ENTRIES)
    here = [pair for pair in CONTENDERS if engine_named(pair[0]).is_installed()]
    wanted = [(engine, NO_FILTER, 0.0) for engine in dict.fromkeys(engine for engine, _ in here)]
    wanted += [
        (engine, filters, bits) for bits in sorted(given.bits or BITS) for engine, filters in here
    ]
    return [
        Task(
            engine, filters, bits, entries, given.passes if bits else 1, given.block_size_kib * KIB,
            plan.seed,
        )
        for engine, filters, bits in wanted
    ]  # fmt: skip


def missing() -> list[str]:
    """The engines that are not installed."""
    names = dict.fromkeys(engine for engine, _ in CONTENDERS)
    return [name for name in names if not engine_named(name).is_installed()]


EXPERIMENT: Final[Experiment[Task, Row, Row]] = Experiment(
    name="wasted-reads",
    title="Block reads wasted on absent keys, with filters of the same bytes",
    question="How many data blocks do lookups of absent keys read in RocksDB, LevelDB and lsmkv, with "
    "Bloom filters and with ribbon filters of the same bytes, and how far is that from the lower "
    "bound?",
    method=(
        "Every store has the same entries, 16-byte keys and 100-byte values, in one sorted run, "
        "and blocks of the same size. It is asked for absent keys: one between each two present "
        "neighbours, several times with other keys. A lookup asks at most one filter, so each "
        "block read is one that the filter should have spared.",
        "Equal bytes: a budget is filter bits per key as written. RocksDB's setting and lsmkv's "
        "error_rate are found to come nearest without exceeding it. LevelDB has whole numbers of "
        "bits, and exceeds it, since its filter blocks hold offsets too. lsmkv's bytes are one "
        "copy, as held in memory. RocksDB has one filter per table, LevelDB and lsmkv one per "
        "block.",
        "Counts: lsmkv's and RocksDB's are their own, with no block cache, and must agree with "
        "the false positives that they count. LevelDB counts nothing, but its block cache, new "
        "for every round, grows with each block that it reads; its blocks are compressed with "
        "Snappy, since it caches no others. A control without filters must read one block for "
        "each lookup.",
        "The outsider: a process of its own asks the same lookups again; a library between it and "
        "the C library counts its reads of the store's files (`bench count-reads`). LevelDB maps "
        "the first thousand tables of a process, whose reads nobody sees; another store takes up "
        "these maps first.",
        "The rate is false positives by filters asked (LevelDB: blocks read), with Clopper and "
        "Pearson's 95 % interval. The lower bound of any filter is 2^(-bits per key) (Carter et "
        "al., STOC 1978). RocksDB's ribbon filter is set by SetOptions, by name: rocksdict has no "
        "method for it.",
    ),
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=list,
    story=story,
    libraries=("rocksdict", "plyvel"),
    missing=missing,
    add_options=add_options,
)
