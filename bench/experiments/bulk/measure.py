"""Loads the same entries in every way, each in a process of its own."""

from __future__ import annotations

import os
import shutil
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

import lsmkv
from bench.engines.base import Settings, engine_named
from bench.engines.rocksdb_engine import RocksDBStore
from bench.experiments.bulk.rows import Row
from bench.experiments.bulk.tasks import VALUE_BYTES, Task
from bench.harness.process_meter import Meter, files_below, peak_memory_bytes, restart_peak_memory
from bench.harness.workers import alone
from bench.workloads.keys import Values, present_key, shuffled
from lsmkv.options import MIB

BATCH: Final = 1000
"""Entries of a batch of puts."""

Pairs = Iterator[tuple[bytes, bytes]]


def measure(task: Task, directory: str) -> list[Row]:
    """A row of each way; each repetition begins with another."""
    turn = task.number % len(task.ways)
    rows = {}
    for way in (*task.ways[turn:], *task.ways[:turn]):
        path = os.path.join(directory, "load")
        os.mkdir(path)
        os.sync()  # what the ways before have left to be written is not this one's
        rows[way] = alone(load, task, way, path)
        shutil.rmtree(path)
    return [rows[way] for way in task.ways]


def pairs(task: Task, order: array[int] | range) -> Pairs:
    values = Values(VALUE_BYTES, task.seed)
    return ((present_key(number), values.of(number)) for number in order)


def load(task: Task, way: str, directory: str) -> Row:
    """Load all entries into an empty store below ``directory``."""
    order: array[int] | range = range(task.entries)
    if way.endswith("any order"):
        order = array("q", shuffled(task.entries, task.seed + task.number))
    with Meter() as making:
        deque(pairs(task, order), maxlen=0)
    loads: dict[str, Callable[[Pairs, str, bool], int | None]] = {
        "puts": _puts,
        "bulk_load": _bulk_load,
        "rocksdb puts": _rocksdb_puts,
        "rocksdb SstFileWriter": _rocksdb_tables,
    }
    restart_peak_memory()
    before = os_written_bytes()
    with Meter() as meter:
        what, _, in_order = way.partition(", ")
        counted = loads[what](pairs(task, order), directory, in_order == "in order")
    after = os_written_bytes()
    return Row(
        way=way,
        repetition=task.number,
        entries=task.entries,
        value_bytes=VALUE_BYTES,
        seed=task.seed,
        seconds=meter.seconds - making.seconds,
        pairs_s=making.seconds,
        cpu_s=meter.cpu_s,
        peak_memory_bytes=peak_memory_bytes(),
        table_bytes=sum(
            map(os.path.getsize, filter(_is_table, files_below(os.path.join(directory, "store"))))
        ),
        written_bytes=None if before is None or after is None else after - before,
        counted_bytes=counted,
    )


def _is_table(path: str) -> bool:
    return path.endswith(".sst")


def os_written_bytes() -> int | None:
    """Bytes that this process has written so far; None where the system does not count."""
    try:
        with open("/proc/self/io", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("wchar:"))
    except (OSError, StopIteration):
        return None


def _batches(made: Pairs) -> Iterator[list[tuple[bytes, bytes]]]:
    while batch := list(islice(made, BATCH)):
        yield batch


def _written(db: lsmkv.DB) -> int:
    stats = db.stats()
    flushed = stats.flush_bytes + stats.compaction_write_bytes
    return stats.log_bytes + flushed + stats.ingested_bytes + stats.spill_bytes


def _puts(made: Pairs, directory: str, _in_order: bool) -> int:
    with lsmkv.open(os.path.join(directory, "store")) as db:
        for batch in _batches(made):
            with db.write_batch() as writes:
                for key, value in batch:
                    writes.put(key, value)
        db.flush()
        db.wait_until_settled()
        return _written(db)


def _bulk_load(made: Pairs, directory: str, in_order: bool) -> int:
    with lsmkv.open(os.path.join(directory, "store")) as db:
        db.bulk_load(made, sorted=in_order)
        db.wait_until_settled()
        return _written(db)


def _settings() -> Settings:
    return Settings(compression="zstd")


def _rocksdb_puts(made: Pairs, directory: str, _in_order: bool) -> None:
    store = engine_named("rocksdb").open(os.path.join(directory, "store"), _settings())
    for batch in _batches(made):
        store.put_batch(batch)
    store.settle()
    store.close()


def _rocksdb_tables(made: Pairs, directory: str, _in_order: bool) -> None:
    """Tables of 64 MiB outside the store, which takes them over."""
    import rocksdict

    store = RocksDBStore(os.path.join(directory, "store"), _settings())
    paths: list[str] = []
    first = next(made, None)
    while first is not None:
        paths.append(os.path.join(directory, f"{len(paths)}.outside"))
        writer: Any = rocksdict.SstFileWriter(store.options)
        writer.open(paths[-1])
        writer[first[0]] = first[1]
        for number, (key, value) in enumerate(made, 1):
            writer[key] = value
            if number % BATCH == 0 and writer.file_size() >= 64 * MIB:
                break
        writer.finish()
        first = next(made, None)
    store.ingest(paths)
    store.settle()
    store.close()
