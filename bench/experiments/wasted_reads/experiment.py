"""The experiment ``wasted-reads``: its options, its configurations and its method."""

from __future__ import annotations

import argparse
from itertools import chain
from typing import Final

from ...engines.base import KIB, engine_named
from ...harness.experiment import Experiment, Plan, at_least, between, names_of, positive
from ...harness.seeds import Figure
from ...workloads.key_shapes import SHAPES
from .measure import measure
from .rows import Row
from .story import story
from .tasks import NO_FILTER, PACKED, PARTITIONED, PER_TABLE, Task

CONTENDERS: Final = (
    ("leveldb", "bloom", ""),
    ("rocksdb", "bloom", ""),
    ("rocksdb", "bloom", PARTITIONED),
    ("rocksdb", "ribbon", ""),
    ("rocksdb", "ribbon", PARTITIONED),
    ("rocksdb", "ribbon", PACKED),
    ("lsmkv", "bloom", ""),
    ("lsmkv", "ribbon", ""),
    ("lsmkv", "ribbon", PER_TABLE),
)
"""Engines, kinds of filter and forms, in the order of the tables."""

BITS: Final = (8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0)
VALUE_BYTES: Final = (100, 1000)
_BYTES: Final = 5_000_000
_QUICK_BYTES: Final = 1_000_000
_LOOKUPS: Final = 3  # of an absent key, by 100 bytes of values
_LEAST_BITS: Final = 3.0
_MOST_BITS: Final = 64.0


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bits",
        type=between(_LEAST_BITS, _MOST_BITS),
        action="append",
        metavar="N",
        help="a budget of filters and index together, in bits per key; may be repeated; default: "
        + ", ".join(f"{bits:g}" for bits in BITS),
    )
    parser.add_argument(
        "--shapes",
        type=names_of(SHAPES),
        default=SHAPES,
        metavar="NAMES",
        help=f"kinds of keys, of {', '.join(SHAPES)}; default: all",
    )
    parser.add_argument(
        "--keys", metavar="FILE", help="keys of your own in place of --shapes; some are left absent"
    )
    parser.add_argument(
        "--value-bytes",
        type=at_least(1),
        action="append",
        metavar="N",
        help="may be repeated; default: " + ", ".join(map(str, VALUE_BYTES)),
    )
    parser.add_argument(
        "--entries",
        type=at_least(1000),
        metavar="N",
        help=f"default: {_BYTES:,} bytes of values, with --quick {_QUICK_BYTES:,}",
    )
    parser.add_argument(
        "--passes",
        type=positive,
        metavar="N",
        help="absent keys looked up between each two present ones; default: "
        f"{_LOOKUPS} for each 100 bytes of a value",
    )
    parser.add_argument(
        "--block-size-kib", type=positive, default=4, metavar="N", help="default: %(default)s"
    )


def tasks(plan: Plan) -> list[Task]:
    """Every contender on every set of keys, and a control without filters of each engine."""
    given = plan.options
    here = [each for each in CONTENDERS if engine_named(each[0]).is_installed()]
    budgets = tuple(sorted(set(given.bits or BITS)))

    def task(contender: tuple[str, str, str], keys: str, value_bytes: int) -> Task:
        data_bytes = _QUICK_BYTES if plan.quick else _BYTES
        is_control = contender[1] == NO_FILTER
        return Task(
            *contender,
            keys=keys,
            is_file=given.keys is not None,
            value_bytes=value_bytes,
            budgets=(0.0,) if is_control else budgets,
            entries=given.entries or max(1, data_bytes // value_bytes),
            passes=given.passes or max(1, _LOOKUPS * value_bytes // 100),
            block_size_bytes=given.block_size_kib * KIB,
            seed=plan.seed,
        )

    sets = [
        (keys, value_bytes)
        for keys in ([given.keys] if given.keys is not None else given.shapes)
        for value_bytes in given.value_bytes or VALUE_BYTES
    ]
    controls = [(engine, NO_FILTER, "") for engine in dict.fromkeys(each[0] for each in here)]
    return [
        *(task(control, *sets[0]) for control in controls),
        *(task(contender, *each) for each in sets for contender in here),
    ]


def missing() -> list[str]:
    """The engines that are not installed."""
    names = dict.fromkeys(engine for engine, _, _ in CONTENDERS)
    return [name for name in names if not engine_named(name).is_installed()]


def _rows(measured: list[list[Row]]) -> list[Row]:
    return list(chain.from_iterable(measured))


EXPERIMENT: Final[Experiment[Task, list[Row], Row]] = Experiment(
    name="wasted-reads",
    title="Block reads wasted on absent keys, with filters and index of the same bytes",
    question="How many data blocks do lookups of absent keys read in RocksDB, LevelDB and lsmkv, "
    "when the filters and the index of each take the same memory, and how far is that from the "
    "least?",
    method=(
        "Every store of a set of keys has the same entries in one sorted run, and blocks of the "
        "same size. It is asked for absent keys of the same kind: the keys are made, and sorted, "
        "and every few of them one is stored. So each pass asks for one absent key between each "
        "two present neighbours. A lookup asks at most one filter, so each block read is one that "
        "the filter should have spared.",
        "Keys: 16 digits, 200 apart; 32 random hex digits; paths of some 56 bytes, ten files in a "
        "directory; names of one to three words, made like those of packages. --keys takes your "
        "own.",
        "Equal memory: a budget is of the bytes of filters and index, as they lie in memory. "
        "lsmkv tells them (DB.memory_usage), RocksDB by its tables' properties; LevelDB tells "
        "nothing, so its files do. What the index leaves is the filters'. The settings come "
        "nearest to the budget without exceeding it; LevelDB has whole numbers of bits per key. A "
        "process of its own opens each store and loads all that it keeps: its growth is beside "
        "the bytes told, with the engine's own objects.",
        "RocksDB's index has its default form, keys shortened (whole); or restarts of 16 in place "
        "of 1 (packed index), which the benchmark adds since it takes a third; or parts of 4 KiB, "
        "with parts of the filter, all of them pinned in memory (partitioned). Its table stays on "
        "level 0, where RocksDB can pin parts. Its ribbon filter is set by SetOptions, by name: "
        "rocksdict has no method for it. RocksDB has one filter per table, LevelDB and lsmkv one "
        "per block; lsmkv can have one per table, too.",
        "Counts: lsmkv's and RocksDB's are their own, with no block cache, and must agree with "
        "the false positives that they count. LevelDB counts nothing, but its block cache, new "
        "for every round, grows with each block that it reads; its blocks are compressed with "
        "Snappy, since it caches no others. A control without filters must read one block for "
        "each lookup.",
        "The outsider: that process asks the same lookups again; a library between it and the C "
        "library counts its reads of the store's files (`bench count-reads`). LevelDB maps the "
        "first thousand tables of a process, whose reads nobody sees; another store takes up "
        "these maps first.",
        "The least: filters of n keys let pass at least a share 2^(-bits per key) (Carter et al., "
        "STOC 1978), and an index that tells B blocks of n / B random keys apart takes at least "
        "(B / 2) log2(2 pi n / B) bits or so, by the number of sets of keys that suit one index.",
    ),
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=_rows,
    story=story,
    libraries=("rocksdict", "plyvel", "psutil"),
    missing=missing,
    add_options=add_options,
    figures=(Figure("wasted reads of a lookup", "block_reads", "lookups"),),
)
