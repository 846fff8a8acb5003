"""The experiment ``ycsb``: its options, its configurations and its method."""

from __future__ import annotations

import argparse
from itertools import chain
from typing import Final

from ...engines.base import MIB, Settings, engines, missing_engines
from ...harness.experiment import Experiment, Plan, positive
from ...harness.ratios import FEWEST
from .measure import measure
from .rows import Row
from .story import story
from .tasks import Task
from .workloads import WORKLOADS

FRESH: Final = "E"  # E has a store of its own, as in YCSB: D's inserts would change it


def tasks(plan: Plan) -> list[Task]:
    """Every group of workloads and engine, in the first repetition also to count; others begin."""
    given = plan.options
    names = _engine_names(given.engines)
    groups = _groups(given.workloads)
    small, large = (2, 20_000) if plan.quick else (64, 1_000_000)
    found = []
    for is_counted in (False,) if plan.repetition else (True, False):
        turn = (plan.repetition + (not is_counted)) % len(names)
        for group in groups:
            found += [
                Task(
                    engine=name,
                    workloads=group,
                    records=_default(given.records, large),
                    operations=_default(given.operations, large),
                    seed=plan.seed,
                    settings=Settings(
                        cache_size_bytes=_default(given.cache_size_mib, small) * MIB,
                        write_buffer_size_bytes=_default(given.write_buffer_size_mib, small) * MIB,
                        count=is_counted,
                    ),
                    plugin_files=tuple(given.plugin),
                )
                for name in names[turn:] + names[:turn]
            ]
    return found


def _default(given: int | None, otherwise: int) -> int:
    return otherwise if given is None else given


def _engine_names(given: str | None) -> list[str]:
    known = {engine.name: engine for engine in engines()}
    names = list(dict.fromkeys(given.split(","))) if given else list(known)
    for name in names:
        if name not in known:
            raise SystemExit(f"bench: engine {name!r}: must be one of {', '.join(known)}")
    names = [name for name in names if known[name].is_installed()]
    if not names:
        raise SystemExit("bench: none of these engines is installed")
    return names


def _groups(given: str) -> list[tuple[str, ...]]:
    """The workloads of each store, in their order."""
    unknown = sorted(set(given) - set(WORKLOADS))
    if unknown or not given:
        raise SystemExit(f"bench: workloads {given!r}: must be letters of {''.join(WORKLOADS)}")
    together = tuple(name for name in WORKLOADS if name in given and name != FRESH)
    alone = (FRESH,) if FRESH in given else ()
    return [group for group in (together, alone) if group]


def rows(measured: list[list[Row]]) -> list[Row]:
    """Every row, in the order of the tasks."""
    return list(chain.from_iterable(measured))


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--records", type=positive, help="default: 1,000,000; quick 20,000")
    parser.add_argument(
        "--operations", type=positive, help="of each workload; default: 1,000,000; quick 20,000"
    )
    parser.add_argument("--engines", metavar="NAMES", help="by commas; default: all there are")
    parser.add_argument(
        "--workloads",
        default="".join(WORKLOADS),
        metavar="LETTERS",
        help="run in this order whatever the order given, E on a store of its own; "
        "default: %(default)s",
    )
    for option in ("cache", "write-buffer"):
        parser.add_argument(
            f"--{option}-size-mib", type=positive, help="of every engine; default: 64; quick 2"
        )


EXPERIMENT: Final = Experiment(
    name="ycsb",
    title="YCSB's workloads",
    question=(
        "How many operations a second does lsmkv do beside other embedded stores, all called from "
        "Python, in the workloads of the Yahoo! Cloud Serving Benchmark?"
    ),
    method=(
        "Records and workloads are those of YCSB (Cooper et al., SoCC 2010): keys of 23 bytes, "
        "values of 1000, half of it random; an update writes the whole value. A: 50 % reads, 50 % "
        "updates; B: 95 % reads, 5 % updates; C: reads; F: 50 % reads, 50 % read-modify-writes, "
        "all zipfian (0.99, scrambled); D: 95 % reads of the latest records, 5 % inserts; E: 95 % "
        "scans of 1 to 100 entries, 5 % inserts. N is ours: reads of absent keys beside zipfian "
        "present ones.",
        "On one store: load, A, B, C, N, F, D. On another: load, E. Before each the store is "
        "opened anew; the operating system's cache is warm. After each the store settles, and "
        "that time is told apart. No write is synced. One client thread.",
        "Each engine and repetition runs in a process of its own; engines take turns. Operations "
        "are made before the clock starts, and are the same for all engines. Counts must agree, "
        "and 1000 records read back after each workload must hold what was written last.",
        "The clock is read around each operation; what loop and clock take is measured on a "
        "Python dict, and not subtracted. Engines that count blocks do so in a pass of their own, "
        "which is not timed.",
    ),
    row_type=Row,
    tasks=tasks,
    measure=measure,
    rows=rows,
    story=story,
    libraries=("numpy", "rocksdict", "plyvel", "lmdb"),
    missing=missing_engines,
    alone=True,
    repetitions=(FEWEST, FEWEST),
    pools=True,
    add_options=add_options,
)
