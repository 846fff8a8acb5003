"""How long ``lsmkv.cluster.build`` takes, and a model that says how long it will.

``python -m bench cluster-build`` makes Parquet files of random pairs, builds a store of them on a
cluster of processes here, and does so for several numbers of entries.  The smallest build and one of
almost nothing give the parameters of the model; what it predicts for the larger ones stands beside what
they took, and it says what a billion keys would take on more machines.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import distributed
import numpy as np
import pyarrow as pa
import pyarrow.parquet

import lsmkv
from lsmkv.cluster import BuildReport, build

from . import COMMAND
from .harness.document import insert
from .harness.environment import build as build_of_lsmkv
from .harness.environment import processor
from .harness.tables import Table

ENTRIES: Final = (1_000_000, 5_000_000)
QUICK_ENTRIES: Final = (20_000, 60_000)
FIXED_ENTRIES: Final = 1000  # a build of these costs what every build costs
BILLION: Final = 1_000_000_000
WORKERS_OF_A_BILLION: Final = (8, 32, 128)
KEY_BYTES: Final = 16
VALUE_BYTES: Final = 100  # half of them repeat the other half
ROWS_OF_A_FILE: Final = 125_000
ORDER_BYTES: Final = 16  # of each shuffled row: its place in the source, and its partition
MOST_BYTES_OFF: Final = 0.05
MEMORY_SHARE: Final = 8  # as lsmkv.cluster has it
MIB: Final = 1 << 20
_SEED: Final = 1970


@dataclass(frozen=True, slots=True)
class Parameters:
    """The model's parameters: costs of one entry, and of a build without any.

    Attributes:
        fixed_s: seconds of a build of almost nothing.
        sampling_us, writing_us: microseconds of one worker for an entry, in the first pass, and in the
            second with shuffle and tables.
        cpu_us: processor time of both, which other programs on the machine do not lengthen.
        source_bytes, pair_bytes, table_bytes: bytes of an entry in the source's files; as key and
            value; in the tables.
    """

    fixed_s: float
    sampling_us: float
    writing_us: float
    cpu_us: float
    source_bytes: float
    pair_bytes: float
    table_bytes: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What a build takes.

    Attributes:
        seconds: from call to return.
        cpu_s: processor time of all workers.
        read_bytes: of the source, twice.
        shuffled_bytes: between workers, and to their disks and back.
        table_bytes, tables, partitions: what is written.
    """

    seconds: float
    cpu_s: float
    read_bytes: float
    shuffled_bytes: float
    table_bytes: float
    tables: int
    partitions: int


def predict(
    parameters: Parameters, entries: int, workers: int, memory_bytes: int, table_size_bytes: int
) -> Cost:
    """What a build of ``entries`` takes on ``workers`` as fast as those measured."""
    pairs = entries * parameters.pair_bytes
    partitions = max(1, math.ceil(pairs / (memory_bytes // MEMORY_SHARE)))
    of_partition = entries * parameters.table_bytes / partitions
    tables = partitions * math.ceil(of_partition / table_size_bytes)
    # A pass ends with its slowest worker; the last tasks of it leave some idle.
    rounds = math.ceil(partitions / workers) * workers / partitions
    worker_s = entries * (parameters.sampling_us + parameters.writing_us * rounds) / 1e6
    return Cost(
        seconds=parameters.fixed_s + worker_s / workers,
        cpu_s=entries * parameters.cpu_us / 1e6,
        read_bytes=2 * entries * parameters.source_bytes,
        shuffled_bytes=pairs + entries * ORDER_BYTES,
        table_bytes=entries * parameters.table_bytes,
        tables=tables,
        partitions=partitions,
    )


@dataclass(frozen=True, slots=True)
class Run:
    """One measured build; ``cpu_s`` is the processor time of all workers."""

    entries: int
    source_bytes: int
    cpu_s: float
    report: BuildReport

    @property
    def seconds(self) -> float:
        return self.report.sampling_s + self.report.writing_s + self.report.adopting_s


def fitted(fixed: Run, smallest: Run, workers: int) -> Parameters:
    """The parameters, from a build of almost nothing and one of some size."""
    report, count = smallest.report, smallest.entries
    partitions = report.partitions
    rounds = math.ceil(partitions / workers) * workers / partitions
    sampling_s = max(0.0, report.sampling_s - fixed.report.sampling_s)
    writing_s = report.writing_s + report.adopting_s
    writing_s = max(0.0, writing_s - fixed.report.writing_s - fixed.report.adopting_s)
    return Parameters(
        fixed_s=fixed.seconds,
        sampling_us=1e6 * workers * sampling_s / count,
        writing_us=1e6 * workers * writing_s / count / rounds,
        cpu_us=1e6 * max(0.0, smallest.cpu_s - fixed.cpu_s) / count,
        source_bytes=smallest.source_bytes / count,
        pair_bytes=report.source_bytes / count,
        table_bytes=report.size_bytes / count,
    )


# Measuring


def write_source(folder: Path, entries: int) -> int:
    """Write Parquet files of random pairs; returns their bytes."""
    folder.mkdir()
    draw = np.random.default_rng(_SEED)
    for number, start in enumerate(range(0, entries, ROWS_OF_A_FILE)):
        count = min(ROWS_OF_A_FILE, entries - start)
        half = draw.integers(0, 256, (count, VALUE_BYTES // 2), dtype=np.uint8)
        columns = {
            "key": draw.integers(0, 256, (count, KEY_BYTES), dtype=np.uint8),
            "value": np.concatenate([half, half], axis=1),
        }
        table = pa.table({name: _binary(rows) for name, rows in columns.items()})
        pa.parquet.write_table(table, folder / f"{number:06}.parquet", compression="zstd")
    return sum(file.stat().st_size for file in folder.iterdir())


def _binary(rows: np.ndarray) -> pa.Array:
    count, width = rows.shape
    fixed = pa.Array.from_buffers(pa.binary(width), count, [None, pa.py_buffer(rows.tobytes())])
    return fixed.cast(pa.binary())


@contextmanager
def cluster(workers: int, work: str) -> Iterator[distributed.Client]:
    """A cluster of processes, which have imported what builds need."""
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", local_directory=work
        ) as made,
        distributed.Client(made, set_as_default=False) as client,
    ):
        client.run(_warm_up)
        yield client


def _warm_up() -> None:
    import lsmkv.cluster  # noqa: F401


def measure(entries: int, client: distributed.Client, memory_bytes: int, work: Path) -> Run:
    """Build a store of so many entries, check and remove it."""
    source, target = work / f"source-{entries}", work / f"store-{entries}"
    source_bytes = write_source(source, entries)
    before_s = sum(client.run(time.process_time).values())
    report = build(str(source), target, memory_bytes=memory_bytes, client=client)
    cpu_s = sum(client.run(time.process_time).values()) - before_s
    if report.entries != entries:
        raise SystemExit(f"cluster-build: {report.entries} entries instead of {entries}")
    table = pa.parquet.read_table(source / "000000.parquet").slice(0, 1000)
    with lsmkv.open(target) as db:
        found = db.multi_get(table["key"].to_pylist())
        if list(found) != table["value"].to_pylist():
            raise SystemExit("cluster-build: the store lacks entries of the source")
    lsmkv.destroy(target)
    for file in source.iterdir():
        file.unlink()
    return Run(entries, source_bytes, cpu_s, report)


def run(
    sizes: Sequence[int], workers: int, memory_bytes: int, work: str | None, command: str
) -> tuple[str, bool]:
    """The section as Markdown, and whether the bytes were as predicted."""
    with (
        tempfile.TemporaryDirectory(prefix="lsmkv-cluster-", dir=work) as folder,
        cluster(workers, folder) as client,
    ):
        runs = [
            measure(entries, client, memory_bytes, Path(folder))
            for entries in (FIXED_ENTRIES, *sorted(sizes))
        ]
    fixed, *measured = runs
    table_size_bytes = lsmkv.Options().table_size_bytes
    parameters = fitted(fixed, measured[0], workers)
    costs = [
        predict(parameters, one.entries, workers, memory_bytes, table_size_bytes)
        for one in measured
    ]
    billion = [
        (count, predict(parameters, BILLION, count, memory_bytes, table_size_bytes))
        for count in WORKERS_OF_A_BILLION
    ]
    text = "\n".join(
        [
            *_method(parameters, workers, memory_bytes, command),
            "",
            _checked(measured, costs),
            "",
            _extrapolated(billion),
        ]
    )
    off = [
        abs(cost.table_bytes / one.report.size_bytes - 1)
        for one, cost in zip(measured, costs, strict=True)
    ]
    return text, max(off) <= MOST_BYTES_OFF


def _method(parameters: Parameters, workers: int, memory_bytes: int, command: str) -> list[str]:
    return [
        f"{workers} worker processes of one thread, `memory_bytes` of {memory_bytes // MIB} MiB; keys of "
        f"{KEY_BYTES} bytes, values of {VALUE_BYTES}; lsmkv {lsmkv.__version__} "
        f"({build_of_lsmkv()}), {processor()}. Parameters, from {FIXED_ENTRIES:,} entries and from the "
        f"smallest build below. Command: `{command}`",
        "",
        Table(
            "Parameters",
            ("parameter", "value"),
            [
                ["a build of almost nothing, s", f"{parameters.fixed_s:.2f}"],
                ["reading and sampling an entry, us of a worker", f"{parameters.sampling_us:.2f}"],
                [
                    "reading, shuffling and writing it, us of a worker",
                    f"{parameters.writing_us:.2f}",
                ],
                ["processor time of both, us", f"{parameters.cpu_us:.2f}"],
                ["an entry in the Parquet files, bytes", f"{parameters.source_bytes:.1f}"],
                ["an entry as key and value, bytes", f"{parameters.pair_bytes:.1f}"],
                ["an entry in the tables, bytes", f"{parameters.table_bytes:.1f}"],
            ],
        ).to_markdown(),
    ]


def _checked(measured: Sequence[Run], costs: Sequence[Cost]) -> str:
    headings = ["entries", "s, predicted", "measured", "CPU s of workers, predicted", "measured"]
    headings += [
        "MB of tables, predicted",
        "measured",
        "tables",
        "measured",
        "partitions",
        "measured",
    ]
    cells = [
        [
            f"{one.entries:,}",
            f"{cost.seconds:.1f}",
            f"{one.seconds:.1f}",
            f"{cost.cpu_s:.1f}",
            f"{one.cpu_s:.1f}",
            f"{cost.table_bytes / 1e6:.1f}",
            f"{one.report.size_bytes / 1e6:.1f}",
            *(str(cost.tables), str(one.report.tables)),
            *(str(cost.partitions), str(one.report.partitions)),
            f"{one.report.imbalance:.2f}",
            str(one.report.peak_memory_bytes // MIB),
        ]
        for one, cost in zip(measured, costs, strict=True)
    ]
    headings += ["largest partition, by the mean", "peak of a worker, MiB"]
    return Table("Predicted and measured", headings, cells).to_markdown()


def _extrapolated(billion: Sequence[tuple[int, Cost]]) -> str:
    headings = ("workers", "hours", "GB read", "GB shuffled", "MB/s shuffled by a worker")
    cells = [
        [
            str(workers),
            f"{cost.seconds / 3600:.2f}",
            f"{cost.read_bytes / 1e9:,.0f}",
            f"{cost.shuffled_bytes / 1e9:,.0f}",
            f"{cost.shuffled_bytes / workers / cost.seconds / 1e6:.1f}",
            f"{cost.table_bytes / 1e9:,.0f}",
            f"{cost.tables:,}",
        ]
        for workers, cost in billion
    ]
    return Table(
        f"{BILLION:,} such entries", (*headings, "GB of tables", "tables"), cells
    ).to_markdown()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog=f"{COMMAND} cluster-build", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--entries", help="numbers with commas between (default: 1 and 5 million)")
    parser.add_argument("--quick", action="store_true", help="20,000 and 60,000 entries")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument("--memory-mib", type=int, default=512, help="default: %(default)s")
    parser.add_argument("--work", help="directory for source and stores (default: temporary)")
    parser.add_argument("--into", help="a document with a section for the result")
    given = parser.parse_args(arguments)
    sizes: Sequence[int] = QUICK_ENTRIES if given.quick else ENTRIES
    if given.entries:
        sizes = tuple(int(part.replace("_", "")) for part in given.entries.split(","))
    words = sys.argv[2:] if arguments is None else arguments
    command = f"{COMMAND} {shlex.join(['cluster-build', *words])}"
    section, is_as_predicted = run(
        sizes, given.workers, given.memory_mib * MIB, given.work, command
    )
    print(section)
    if given.into:
        insert(given.into, "cluster-build", section)
    if not is_as_predicted:
        raise SystemExit(f"cluster-build: bytes differ by more than {MOST_BYTES_OFF:.0%}")


if __name__ == "__main__":
    main()
