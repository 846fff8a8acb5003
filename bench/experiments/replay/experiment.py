"""The experiment ``replay``: its options, its configurations and its method."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import Final

from lsmkv.options import Options

from ...engines.base import KIB, MIB, engine_named
from ...harness.experiment import Experiment, Plan, at_least, between, flattened, positive
from ...traces.base import AUTO, format_named
from ...traces.sample import write_sample
from .measure import measure
from .rows import Row
from .steps import Survey, Trace, survey
from .story import story
from .tasks import Task

ENGINES: Final = ("lsmkv", "rocksdb", "leveldb", "lmdb")
_FLUSHES: Final = 24
_BUFFER_BYTES: Final = (64 * KIB, 64 * MIB)
_LEAST_MEMORY_BYTES: Final = 64 * KIB
_SAMPLE: Final = (20_000, 100_000)  # keys, requests
_QUICK_SAMPLE: Final = (4_000, 20_000)


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.split(",")))


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="a trace, also packed by gzip or zstd; default: one is made in the form of Twitter's, in "
        "--out",
    )
    parser.add_argument(
        "--format", default=AUTO, metavar="NAME", help="its form; default: told by its first lines"
    )
    parser.add_argument(
        "--engine",
        type=_names,
        default=ENGINES,
        metavar="NAMES",
        help=f"default: those installed of {','.join(ENGINES)}",
    )
    parser.add_argument(
        "--policies",
        type=_names,
        default=("auto",),
        metavar="NAMES",
        help="lsmkv's filter policies; default: auto, which it has by default",
    )
    parser.add_argument(
        "--memory-share",
        type=between(0.001, 10.0),
        default=0.1,
        metavar="X",
        help="memory of filters, indexes and cache, by the bytes of all entries; default: %(default)s",
    )
    parser.add_argument(
        "--bits-per-key",
        type=between(0, 64),
        default=10.0,
        metavar="N",
        help="of the other engines' Bloom filters; default: %(default)s",
    )
    parser.add_argument(
        "--buffer-kib",
        type=at_least(64),
        metavar="N",
        help=f"a store flushes and settles after so many KiB of puts; default: {_FLUSHES} times in "
        "the trace, from 64 to 65,536",
    )
    parser.add_argument(
        "--blocks",
        default="",
        metavar="FILE",
        help="also write the block accesses of lsmkv's first policy, without a cache, in libCacheSim's "
        "form oracleGeneral",
    )
    parser.add_argument("--windows", type=positive, default=10, metavar="N", help="default: 10")


def tasks(plan: Plan) -> list[Task]:
    given = plan.options
    try:
        for engine in given.engine:
            engine_named(engine)
        for policy in given.policies:
            Options(filter_policy=policy)
        trace, found = _surveyed(plan)
    except OSError as error:
        raise SystemExit(f"bench: {error.filename}: {error.strerror}") from error
    except ValueError as error:
        raise SystemExit(f"bench: {error}") from error
    least, most = _BUFFER_BYTES
    buffer_bytes = (given.buffer_kib or 0) * KIB
    trace = replace(
        trace, buffer_bytes=buffer_bytes or min(most, max(least, found.put_bytes // _FLUSHES))
    )
    memory_bytes = max(_LEAST_MEMORY_BYTES, int(found.entry_bytes * given.memory_share))
    return [
        Task(
            engine=engine,
            policy=policy,
            trace=trace,
            windows=given.windows,
            memory_bytes=memory_bytes,
            bits_per_key=given.bits_per_key,
            seed=plan.seed,
            blocks=os.path.abspath(given.blocks)
            if given.blocks and policy == given.policies[0]
            else "",
            plugin_files=tuple(given.plugin),
        )
        for engine in given.engine
        if engine_named(engine).is_installed()
        for policy in (given.policies if engine == "lsmkv" else ("",))
    ]


def _surveyed(plan: Plan) -> tuple[Trace, Survey]:
    """The trace with its form, read once: what is wrong with it is told before any work."""
    given = plan.options
    path, name = given.file, given.format
    if path is None:
        sample = f"sample-{plan.repetition}.csv" if plan.repetition else "sample.csv"
        path, name = os.path.join(given.out, sample), "twitter"
        os.makedirs(given.out, exist_ok=True)
        write_sample(path, *(_QUICK_SAMPLE if plan.quick else _SAMPLE), plan.seed)
    trace = Trace(path, format_named(name, path).name)
    return trace, survey(trace)


def missing() -> list[str]:
    """The engines that are not installed."""
    return [name for name in ENGINES if not engine_named(name).is_installed()]


EXPERIMENT: Final[Experiment[Task, list[Row], Row]] = Experiment(
    name="replay",
    title="A trace in its own order, in the same memory",
    question="How many reads does a trace take in lsmkv, RocksDB, LevelDB and LMDB, and who asks for "
    "them?",
    method=(
        "Each engine replays the trace from an empty store, operation by operation, with values of "
        "the trace's sizes, uncompressed. lsmkv has its default options, but for sizes: its tree is "
        "leveled. The others have their own, and Bloom filters. lsmkv and RocksDB have tables of the "
        "size of the buffer; level 1 has 8 of them in lsmkv and 4 in RocksDB, as by default. "
        "LevelDB's levels have fixed sizes, and it compacts because of reads, in a thread: these reads "
        "count where they fall.",
        "Every time that so many bytes were put (buffer_bytes, with 64 for each entry), the store "
        "flushes and settles, so that no compaction depends on time; lsmkv compacts nothing because "
        "of reads. What is read meanwhile is asked for by compactions.",
        "Memory: all engines have the same for filters, indexes and block cache together. A first "
        "replay of the writes alone tells how large filters and indexes become; the cache has the "
        "rest. Memtables come on top. LMDB has no cache of its own: it maps its file, so its memory "
        "is not limited, and its reads are no calls.",
        "A lookup is of a present or an absent key by what the trace has put, deleted and let expire "
        "before. All answers are checked. Engines without expiry get a delete when an entry is due, "
        "before the next operation. A range up to an end reads as many entries as it holds by then, "
        "and a deleted range is a delete for each.",
        "Reads are read calls of the process, counted by the kernel around the operations of each "
        "kind (/proc/self/io). An outsider counts them again, by file: a library between the process "
        "and its C library. And lsmkv and RocksDB count the blocks of lookups themselves. All three "
        "must agree to the last read. Reads of compactions are the outsider's, where there is one: the C "
        "library reads files of its own when threads begin.",
    ),
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=flattened,
    story=story,
    libraries=("rocksdict", "plyvel", "lmdb"),
    missing=missing,
    add_options=add_options,
)
