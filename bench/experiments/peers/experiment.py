"""The experiment ``peers``: its options, its configurations and its method."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from typing import Final

from ...engines.base import MIB, engine_named, engines, missing_engines
from ...harness import page_cache
from ...harness.experiment import Experiment, Plan, between, positive
from ...harness.memory_group import why_no_memory_group
from ...harness.ratios import FEWEST
from ...workloads.keys import KEY_BYTES
from .measure import Measured, measure
from .phases import IN_GROUP, LIMITED, PHASES
from .rows import Row, rows
from .story import story
from .tasks import VALUE_BYTES, Task

_QUICK_ENTRIES: Final = 50_000
_ENTRIES: Final = 500_000
_QUICK_PASSES: Final = 3
_PASSES: Final = 5
_MOST_BITS: Final = 64
_LIMIT_PART: Final = 4  # the data by the page cache of the phases that limit it
METHOD: Final = (
    "Each engine has a process of its own, new in each repetition. A phase is measured on every "
    "engine in turn before the next begins; reading phases have several passes, of which the "
    "median counts. Keys have 16 bytes, values 100, half of them random; keys, values and orders "
    "come from the seed and are the same for all engines. A timed loop contains only the "
    "operation, called from Python. What is found must be the same for all engines.",
    "A ratio is taken within each repetition. The 95 % interval of the median ratio is that of "
    "the sign test; fewer than 6 repetitions have none. The verdict is 'level' whenever it "
    "includes 1. It covers this machine, this day and this build. Of twenty equal phases one is "
    "called ahead or behind, and the best peer is chosen by the same figures, which favours it.",
    "Fills begin with an empty store, a write buffer of 64 MiB and no sync. 'sustained' has a "
    "write buffer of a sixteenth of the data, up to the moment when nothing is due. Memory is the "
    "peak of the process and its children above what it held before. Reads are of the store that "
    "'fillrandom' leaves, settled and warm.",
    "Cold lookups: the files' pages are dropped, mapped ones too, and the store is opened with a "
    "cache of a 64th of the data. '..._cold_open' contains opening and lookups; '..._cold' begins "
    "when one absent key of each 1000 neighbours was asked for, so that indexes and filters are "
    "loaded, and pages were dropped again. One more pass counts, with direct reads and the "
    "engines' own statistics. '..._8' asks from eight threads.",
    "'..._limited' drops all pages whenever lookups have read as much as the page cache may hold, "
    "outside the clock. '..._group' runs in a control group with memory for half of the data. "
    "'readdeleted' and 'scandeleted' use a store of which every other stretch of 100 keys was "
    "deleted, the others overwritten three times. Beside 'readcompacting' a thread overwrites and "
    "compacts; 'compacting' times two full compactions while a thread looks keys up.",
    "Equal settings: bits per key, cache, write buffer, blocks of 4 KiB, compression (LevelDB: "
    "Snappy for zstd; LMDB and SQLite: none). All else is each engine's default. lsmkv and "
    "RocksDB verify the checksum of every block; LevelDB's default does not, and LMDB and SQLite "
    "have none.",
    "In a power failure lsmkv, RocksDB and LevelDB lose at worst the latest unsynced puts; LMDB "
    "(MDB_NOSYNC) and SQLite (synchronous=OFF) may break. Synced puts survive it in all. A put is "
    "a transaction in LMDB and SQLite. LMDB's mapped pages count as its memory.",
    "The phases, in their order.  "
    + "  ".join(f"{name}: {phase.meaning}" for name, phase in PHASES.items()),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engines", default="all", help="names, by commas; default: %(default)s")
    parser.add_argument("--phases", default="all", help="names, by commas; default: %(default)s")
    parser.add_argument(
        "--entries", type=positive, help=f"default: {_ENTRIES:,}; with --quick {_QUICK_ENTRIES:,}"
    )
    parser.add_argument(
        "--passes",
        type=positive,
        help="of each reading phase in a repetition, by turns between the engines; "
        f"default: {_PASSES}; with --quick {_QUICK_PASSES}",
    )
    parser.add_argument(
        "--memory-mib",
        type=positive,
        metavar="N",
        help=f"page cache in the phases that limit it ({', '.join(LIMITED)}); default: a quarter of "
        "the data, or 1",
    )
    parser.add_argument(
        "--bits-per-key",
        type=between(0, _MOST_BITS),
        default=10.0,
        help="of Bloom filters; 0: none; default: %(default)s",
    )
    parser.add_argument(
        "--cache-mib", type=positive, help="for warm reads; default: what holds everything"
    )
    parser.add_argument(
        "--compression", choices=("none", "zstd"), default="none", help="default: %(default)s"
    )
    parser.add_argument(
        "--background",
        choices=("auto", "thread", "process"),
        default="auto",
        help="where lsmkv flushes and compacts; default: %(default)s",
    )


def tasks(plan: Plan) -> list[Task]:
    options = plan.options
    wanted = _chosen("engine", options.engines, [engine.name for engine in engines()])
    here = tuple(name for name in wanted if engine_named(name).is_installed())
    if not here:
        raise SystemExit("bench: no engine that was asked for is installed")
    entries = options.entries or (_QUICK_ENTRIES if plan.quick else _ENTRIES)
    data_bytes = entries * (KEY_BYTES + VALUE_BYTES)
    limit_bytes = MIB * (options.memory_mib or max(1, data_bytes // (_LIMIT_PART * MIB)))
    phases = _measurable(options, _chosen("phase", options.phases, PHASES), limit_bytes, data_bytes)
    everything = max(64 * MIB, 4 * data_bytes)
    return [
        Task(
            number=plan.repetition,
            engines=here,
            phases=phases,
            entries=entries,
            seed=plan.seed,
            bits_per_key=options.bits_per_key,
            cache_size_bytes=options.cache_mib * MIB if options.cache_mib else everything,
            compression=options.compression,
            background=options.background,
            passes=options.passes or (_QUICK_PASSES if plan.quick else _PASSES),
            page_cache_limit_bytes=limit_bytes,
            plugins=tuple(options.plugin),
        )
    ]


def _measurable(
    options: argparse.Namespace, phases: tuple[str, ...], limit_bytes: int, data_bytes: int
) -> tuple[str, ...]:
    """The phases; SystemExit where the page cache cannot be limited for those asked for."""
    asked = options.memory_mib is not None or options.phases != "all"
    limited = set(phases) & set(LIMITED)
    if options.memory_mib is not None and not limited:
        raise SystemExit(
            f"bench: --memory-mib {options.memory_mib}: limits only the phases "
            f"{', '.join(LIMITED)}; name one with --phases"
        )
    left_out: set[str] = set()
    if limited | set(phases) & set(IN_GROUP):
        why = page_cache.why_not_dropped(options.work or tempfile.gettempdir())
        why_no_group = why or why_no_memory_group()
        if limit_bytes >= data_bytes:
            why = f"{limit_bytes:,} bytes hold all of the data ({data_bytes:,} bytes)"
        for reason, names in ((why, LIMITED), (why_no_group, IN_GROUP)):
            if reason is None or not set(phases) & set(names):
                continue
            if asked:
                raise SystemExit(
                    f"bench: the page cache cannot be limited: {reason}; name less memory, or a "
                    "directory on a disk with --work, or leave out the phases "
                    f"{', '.join(names)}"
                )
            left_out |= set(names)
    return tuple(name for name in phases if name not in left_out)


def _chosen(kind: str, text: str, known: Iterable[str]) -> tuple[str, ...]:
    """The requested names, in the order of the known ones."""
    names = list(known)
    asked = names if text == "all" else text.split(",")
    for name in asked:
        if name not in names:
            raise SystemExit(f"bench: {kind} {name!r}: must be one of {', '.join(names)}")
    return tuple(name for name in names if name in asked)


EXPERIMENT: Final[Experiment[Task, list[Measured], Row]] = Experiment(
    name="peers",
    title="lsmkv beside RocksDB, LevelDB, LMDB and SQLite",
    question="How long does each store take for the same work, called from Python, and what does it "
    "read, hold in memory and leave on disk?",
    method=METHOD,
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=rows,
    story=story,
    libraries=("rocksdict", "plyvel", "lmdb", "psutil"),
    missing=missing_engines,
    alone=True,
    repetitions=(FEWEST, 9),
    pools=True,
    add_options=add_options,
)
