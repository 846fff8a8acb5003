"""Scenario ``limits`` of the part ``load``: the longest keys and values, too few descriptors, no memory.

The store refuses what is over a limit, and nothing changes.  A process that can open no more files
gets an error; acknowledged writes stay, and the store works again once there is room.  The same holds
for memory (:mod:`torture.load.out_of_memory`).
"""

from __future__ import annotations

import contextlib
import errno
import gc
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import lsmkv
from torture.crash import full_disk
from torture.crash.fault_session import cause_of
from torture.framework.changes import check_contents
from torture.framework.part import Scale, UnsoundError
from torture.framework.store_checks import Traces, check_files, open_descriptors
from torture.load import out_of_memory
from torture.load.scenario import SMALL, Job, check_tidy

MIB: Final = 1 << 20
_VALUE_BYTES: Final = {Scale.CI: 4 * MIB, Scale.SHORT: 16 * MIB, Scale.LONG: lsmkv.MAX_VALUE_BYTES}


# --- the longest keys and values -----------------------------------------------------------------


def _longest(job: Job) -> None:
    """Keys and values at their limits are stored, longer ones refused."""
    filler = b"k" * (lsmkv.MAX_KEY_BYTES - 1)
    entries = {
        b"": b"of the empty key",
        b"empty": b"",
        b"large": job.dice("large").randbytes(MIB) * (_VALUE_BYTES[job.scale] // MIB),
        filler: b"a byte shorter",
        **{filler + bytes([last]): b"%d" % last for last in (0, 1, 127, 255)},
        b"\xff" * lsmkv.MAX_KEY_BYTES: b"last",
    }
    with lsmkv.open(job.path) as db:
        for key, value in entries.items():
            db.put(key, value, sync=True)
        _compare(db, entries, job)
        _refuse_what_is_over(db, job)
        _compare(db, entries, job)
        db.compact_range()
        _compare(db, entries, job)
        deleted = filler + b"\x01"
        db.delete(deleted)
        del entries[deleted]
        _compare(db, entries, job)
        check_files(db)
    with lsmkv.open(job.path, create_if_missing=False) as db:
        _compare(db, entries, job)
        check_tidy(db)


def _refuse_what_is_over(db: lsmkv.DB, job: Job) -> None:
    """Nothing over a limit may reach the store."""
    long_key = bytes(lsmkv.MAX_KEY_BYTES + 1)
    long_value = bytes(lsmkv.MAX_VALUE_BYTES + 1)
    long_batch = bytes(lsmkv.MAX_VALUE_BYTES)

    def put_batch(key: bytes, value: bytes, times: int) -> None:
        with db.write_batch() as batch:
            batch.put(b"first", b"1")
            for _ in range(times):
                batch.put(key, value)

    attempts: dict[str, Callable[[], object]] = {
        "put of a long key": lambda: db.put(long_key, b""),
        "put of a long value": lambda: db.put(b"k", long_value),
        "deletion of a long key": lambda: db.delete(long_key),
        "lookup of a long key": lambda: db.get(long_key),
        "batch with a long key": lambda: put_batch(long_key, b"", 1),
        "batch with a long value": lambda: put_batch(b"k", long_value, 1),
        "batch that is too long": lambda: put_batch(b"k", long_batch, 5),
    }
    before = db.stats()
    for name, attempt in attempts.items():
        try:
            attempt()
        except ValueError:
            job.counts["refused because it is over a limit"] += 1
            continue
        raise UnsoundError(f"the store did not refuse a {name}")
    changes = db.stats() - before
    if changes.writes or changes.log_bytes:
        raise UnsoundError(f"refused writes added {changes.log_bytes} bytes to the log")


def _compare(db: lsmkv.DB, entries: dict[bytes, bytes], job: Job) -> None:
    """Compare with scans both ways, lookups and a cursor."""
    expected = sorted(entries.items())
    if list(iter(db.items())) != expected or list(reversed(db.items())) != expected[::-1]:
        raise UnsoundError("a scan does not give what was written")
    if any(db.get(key) != value for key, value in expected):
        raise UnsoundError("a lookup does not give what was written")
    with db.cursor() as cursor:
        if not all(cursor.seek(key) and cursor.item == (key, entries[key]) for key in entries):
            raise UnsoundError("a cursor does not find what was written")
    job.counts["entries at the limits read"] += 4 * len(expected)


# --- too few descriptors -------------------------------------------------------------------------


@contextlib.contextmanager
def few_descriptors(directory: Path, more: int) -> Iterator[full_disk.Place]:
    """A directory where this process can open only ``more`` further files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def lift() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    directory.mkdir()
    gc.collect()  # or garbage would close its files later and make room
    taken = {int(descriptor.split()[0]) for descriptor in open_descriptors()}
    limit = free = 0
    while free < more or limit in taken:
        free += limit not in taken
        limit += 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield full_disk.Place(directory, errno.EMFILE, lift)
    finally:
        lift()


def _descriptors(job: Job) -> None:
    """Use up the descriptors by writes, and open a store without enough."""
    for name, upkeep in full_disk.UPKEEP.items():
        with few_descriptors(job.directory / name, _ENOUGH_TO_OPEN) as place:
            written = full_disk.fill(place, upkeep, job.seed)
        job.counts["descriptors used up"] += 1
        job.counts["writes before they were"] += written
    _open_with_too_few(job)


_ENOUGH_TO_OPEN: Final = 5  # descriptors that suffice to make a store, but hardly another table


def _open_with_too_few(job: Job) -> None:
    traces = Traces()
    expected = {b"key-%04d" % number: b"v" * 100 for number in range(1000)}
    with lsmkv.open(job.path, SMALL) as db:
        for key, value in expected.items():
            db.put(key, value)
    refused = 0
    for more in range(12):
        with few_descriptors(job.directory / f"few-{more}", more):
            try:
                with lsmkv.open(job.path, SMALL) as db:
                    check_contents(dict(db.items()), expected)
            except (OSError, lsmkv.BackgroundError) as error:
                if cause_of(error).errno != errno.EMFILE:
                    raise UnsoundError(f"with too few descriptors: {error!r}") from error
                refused += 1
        with lsmkv.open(job.path, SMALL, create_if_missing=False) as db:
            check_contents(dict(db.items()), expected)
            check_files(db)
            check_tidy(db)
    if not refused:
        raise UnsoundError("a store opened without descriptors")
    job.counts["openings with too few descriptors refused"] += refused
    traces.check()


VARIANTS: Final[dict[str, Callable[[Job], None]]] = {
    "longest": _longest,
    "descriptors": _descriptors,
    "memory": out_of_memory.run,
}


def run(job: Job) -> None:
    VARIANTS[job.variant](job)
