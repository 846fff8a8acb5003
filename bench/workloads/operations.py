"""Operations on a store, one kind at a time: what tools measure.

The tools run this file as a program with the lsmkv of any build, so it imports nothing else::

    python -P bench/workloads/operations.py counted KIND DIRECTORY [--scale N] [--filter-policy NAME] \
        [--prepare-only]
    python -P bench/workloads/operations.py timed KIND DIRECTORY --entries N [--prepare-only]

``counted`` does a small, fixed number of operations, for :mod:`tools.instructions`, under valgrind, in a
store that :func:`make_counted_store` made: ``STORED`` keys in one run on level 1, ``NEWER`` in one on
level 0.
Nothing is random, nothing is compressed (sizes would depend on zstd's version), and nothing runs in the
background unless the operation asks for it.  Scale N makes store and operations N times as many, so
that costs per process or per table weigh less.

``timed`` prints as JSON what one operation took, for :mod:`tools.compare_builds`; with
``--prepare-only`` it makes the store of N entries that reading kinds need.  Keys have 16 bytes and
values 100, which do not compress; the seeds are fixed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

import lsmkv

Work = Callable[[], object]


# Operations


def put_all(
    db: lsmkv.DB, keys: Iterable[bytes], values: Iterable[bytes], sync: bool = False
) -> None:
    put = partial(db.put, sync=True) if sync else db.put
    for key, value in zip(keys, values, strict=True):
        put(key, value)


def put_batches(
    db: lsmkv.DB, keys: Sequence[bytes], values: Sequence[bytes], batch_entries: int
) -> None:
    for start in range(0, len(keys), batch_entries):
        end = start + batch_entries
        with db.write_batch() as batch:
            for key, value in zip(keys[start:end], values[start:end], strict=True):
                batch.put(key, value)


def delete_all(db: lsmkv.DB, keys: Iterable[bytes]) -> None:
    for key in keys:
        db.delete(key)


def pop_items(db: lsmkv.DB, count: int, prefix: bytes = b"") -> None:
    for _ in range(count):
        db.popitem(prefix=prefix)


def get_all(db: lsmkv.DB, keys: Iterable[bytes]) -> None:
    for key in keys:
        db.get(key)


def get_many(db: lsmkv.DB, keys: Sequence[bytes], batch_entries: int) -> None:
    for start in range(0, len(keys), batch_entries):
        db.multi_get(keys[start : start + batch_entries])


def scan(db: lsmkv.DB, reverse: bool = False) -> None:
    for _ in db.items(reverse=reverse):
        pass


def seek(db: lsmkv.DB, starts: Iterable[bytes], entries: int) -> None:
    """Read some entries from each start on."""
    for start in starts:
        for _ in islice(db.items(start=start), entries):
            pass


def warmed(operation: Callable[..., None], *arguments: Any) -> Work:
    """An operation that has warmed the cache by one run."""
    operation(*arguments)
    return partial(operation, *arguments)


# Counted


STORED: Final = 2000
NEWER: Final = 400
WRITTEN: Final = 500
LOOKED_UP: Final = 500
SEEKS: Final = 50
SEEK_ENTRIES: Final = 10
BATCH_ENTRIES: Final = 100

_COUNTED: Final = lsmkv.Options(compression="none", read_compaction_rate_bytes=0)
_POOL: Final = [random.Random(number).randbytes(100) for number in range(16)]


def _values(keys: list[bytes]) -> list[bytes]:
    return [_POOL[number & 15] for number in range(len(keys))]


def _shuffled_keys(numbers: range, seed: int) -> list[bytes]:
    keys = [b"user%012d" % number for number in numbers]
    random.Random(seed).shuffle(keys)
    return keys


class Keys:
    """The keys of the counted operations: even numbers, every fifth again; odd ones are absent."""

    def __init__(self, scale: int = 1) -> None:
        stored = STORED * scale
        self.stored = _shuffled_keys(range(0, 2 * stored, 2), 1)
        self.newer = _shuffled_keys(range(0, 2 * stored, 2 * STORED // NEWER), 2)
        self.new = _shuffled_keys(range(2 * stored, 2 * stored + WRITTEN * scale), 3)
        self.hits = random.Random(4).sample(self.stored, LOOKED_UP * scale)
        absent = _shuffled_keys(range(1, 2 * stored, 2), 6)
        self.misses = random.Random(5).sample(absent, LOOKED_UP * scale)
        self.starts = self.hits[: SEEKS * scale]


def make_counted_store(
    directory: str, keys: Keys, filter_policy: str = _COUNTED.filter_policy
) -> None:
    """Make the store that every counted kind begins with."""
    options = _COUNTED.replace(filter_policy=filter_policy)
    with lsmkv.open(directory, options, error_if_exists=True) as db:
        put_all(db, keys.stored, _values(keys.stored))
        db.compact_range()
        put_all(db, keys.newer, _values(keys.newer))
        db.flush()
        db.wait_until_settled()


def _put_new(db: lsmkv.DB, keys: Keys) -> Work:
    return partial(put_all, db, keys.new, _values(keys.new))


def _put_new_in_batches(db: lsmkv.DB, keys: Keys) -> Work:
    return partial(put_batches, db, keys.new, _values(keys.new), BATCH_ENTRIES)


def _get_new(db: lsmkv.DB, keys: Keys) -> Work:
    _put_new(db, keys)()
    return partial(get_all, db, keys.new)


def _flush_new(db: lsmkv.DB, keys: Keys) -> Work:
    _put_new(db, keys)()

    def work() -> None:
        db.flush()
        db.wait_until_settled()

    return work


def _compact_stretch(db: lsmkv.DB, keys: Keys) -> Work:
    """One run, of which a twentieth of neighbouring keys was written again."""
    db.compact_range()
    ordered = sorted(keys.stored)
    again = ordered[len(ordered) // 2 :][: len(ordered) // 20]
    put_all(db, again, _values(again))
    db.flush()
    return db.compact_range


@dataclass(frozen=True, slots=True)
class Counted:
    """A kind of operation.

    Attributes:
        begin: prepares, which does not count, and returns what does the operations.
        operations: how many these are at scale 1; entries for scans, flush and compaction.
        options: those of the store.
    """

    begin: Callable[[lsmkv.DB, Keys], Work]
    operations: int
    options: lsmkv.Options = _COUNTED


COUNTED: Final = {
    "put": Counted(_put_new, WRITTEN),
    "batch": Counted(_put_new_in_batches, WRITTEN),
    "delete": Counted(lambda db, keys: partial(delete_all, db, keys.hits), LOOKED_UP),
    "popitem": Counted(lambda db, keys: partial(pop_items, db, len(keys.hits)), LOOKED_UP),
    "popitem-prefix": Counted(
        lambda db, keys: partial(pop_items, db, len(keys.hits), b"user"), LOOKED_UP
    ),
    "get-memtable": Counted(_get_new, WRITTEN),
    "get-hit": Counted(lambda db, keys: warmed(get_all, db, keys.hits), LOOKED_UP),
    "get-miss": Counted(lambda db, keys: warmed(get_all, db, keys.misses), LOOKED_UP),
    "get-uncached": Counted(
        lambda db, keys: warmed(get_all, db, keys.hits),
        LOOKED_UP,
        _COUNTED.replace(block_cache_size_bytes=0),
    ),
    "multi-get": Counted(
        lambda db, keys: warmed(get_many, db, keys.hits, BATCH_ENTRIES), LOOKED_UP
    ),
    "scan": Counted(lambda db, _keys: warmed(scan, db), STORED),
    "scan-reverse": Counted(lambda db, _keys: warmed(scan, db, True), STORED),
    "seek-next10": Counted(lambda db, keys: warmed(seek, db, keys.starts, SEEK_ENTRIES), SEEKS),
    "flush": Counted(_flush_new, WRITTEN),
    "compact": Counted(lambda db, _keys: db.compact_range, STORED + NEWER),
    "compact-stretch": Counted(_compact_stretch, STORED),
}


def do_counted(
    kind: str, directory: str, scale: int, filter_policy: str, prepare_only: bool
) -> None:
    """Do one kind of operation under callgrind, which counts meanwhile; or only prepare it."""
    counted = COUNTED[kind]
    keys = Keys(scale)
    with lsmkv.open(directory, counted.options.replace(filter_policy=filter_policy)) as db:
        work = counted.begin(db, keys)
        gc.disable()  # a collection comes with what was allocated before, and is no cost of these
        _count("on")
        if not prepare_only:
            work()
        _count("off")


def _count(switch: str) -> None:
    """Switch callgrind's counting in this process."""
    command = ["callgrind_control", "-i", switch, str(os.getpid())]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


# Timed


TIMED_BATCH_ENTRIES: Final = 1000
THREADS: Final = 8
MAX_LOOKUPS: Final = 300_000

_TIMED: Final = lsmkv.Options(compression="none", block_cache_size_bytes=2 << 30)


def _key(number: int) -> bytes:
    return b"%016d" % number


class Entries:
    """Keys with even numbers, in order or shuffled, and values."""

    def __init__(self, count: int, shuffled: bool = False) -> None:
        numbers = list(range(count))
        if shuffled:
            random.Random(1970).shuffle(numbers)
        values = [random.Random(number).randbytes(100) for number in range(256)]
        self.keys = [_key(2 * number) for number in numbers]
        self.values = [bytes(bytearray(values[number & 255])) for number in numbers]  # copies


def _put_shuffled(db: lsmkv.DB, count: int) -> Work:
    entries = Entries(count, shuffled=True)
    return partial(put_batches, db, entries.keys, entries.values, TIMED_BATCH_ENTRIES)


def _put_single(db: lsmkv.DB, count: int, shuffled: bool = False, sync: bool = False) -> Work:
    entries = Entries(count, shuffled)
    return partial(put_all, db, entries.keys, entries.values, sync)


def _get_after_batches(db: lsmkv.DB, count: int) -> Work:
    _put_shuffled(db, count)()
    return partial(get_all, db, [_key(0)])


def _put_in_threads(db: lsmkv.DB, count: int) -> Work:
    entries = Entries(count)
    parts = [
        (db, entries.keys[part::THREADS], entries.values[part::THREADS], True)
        for part in range(THREADS)
    ]

    def work() -> None:
        threads = [threading.Thread(target=put_all, args=part) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return work


def _fill_cache(db: lsmkv.DB, count: int) -> None:
    """Get a key of each block: scans do not keep the blocks that they read."""
    get_all(db, [_key(2 * number) for number in range(0, count, 8)])


def _get_at_random(db: lsmkv.DB, count: int, absent: bool) -> Work:
    _fill_cache(db, count)
    dice = random.Random(7)
    return warmed(
        get_all,
        db,
        [_key(2 * dice.randrange(count) + absent) for _ in range(min(count, MAX_LOOKUPS))],
    )


def _scan_cached(db: lsmkv.DB, count: int) -> Work:
    _fill_cache(db, count)
    return partial(scan, db)


@dataclass(frozen=True, slots=True)
class Timed:
    """A kind of work.

    Attributes:
        begin: prepares with so many entries, and returns what does the operations.
        entries: how many there are by default.
        max_operations: there is one operation for each entry, but no more than this.
        reads: whether the store must have the entries before.
    """

    begin: Callable[[lsmkv.DB, int], Work]
    entries: int
    max_operations: int = sys.maxsize
    reads: bool = False


TIMED: Final = {
    "put": Timed(_put_single, 400_000),
    "put-random": Timed(partial(_put_single, shuffled=True), 400_000),
    "batch": Timed(_put_shuffled, 400_000),
    "get-after-batches": Timed(_get_after_batches, 400_000, max_operations=1),
    "put-sync": Timed(partial(_put_single, sync=True), 2_000),
    "put-sync-8": Timed(_put_in_threads, 2_000),
    "get-hit": Timed(partial(_get_at_random, absent=False), 500_000, MAX_LOOKUPS, reads=True),
    "get-miss": Timed(partial(_get_at_random, absent=True), 500_000, MAX_LOOKUPS, reads=True),
    "scan": Timed(_scan_cached, 500_000, reads=True),
}


def make_timed_store(directory: str, count: int) -> None:
    """Make the store that reading kinds need: one run."""
    with lsmkv.open(directory, _TIMED, error_if_exists=True) as db:
        _put_shuffled(db, count)()
        db.compact_range()


def measure(kind: str, directory: str, count: int) -> dict[str, float]:
    """Do the work once, and return what each operation took."""
    operations = min(count, TIMED[kind].max_operations)
    with lsmkv.open(directory, _TIMED) as db:
        work = TIMED[kind].begin(db, count)
        syncs = db.stats().log_syncs
        before = resource.getrusage(resource.RUSAGE_SELF)
        begun_s = time.perf_counter()
        work()
        taken_s = time.perf_counter() - begun_s
        after = resource.getrusage(resource.RUSAGE_SELF)
        syncs = db.stats().log_syncs - syncs
    return {
        "time, us": taken_s / operations * 1e6,
        "user CPU, us": (after.ru_utime - before.ru_utime) / operations * 1e6,
        "system CPU, us": (after.ru_stime - before.ru_stime) / operations * 1e6,
        "page faults": (after.ru_minflt - before.ru_minflt) / operations,
        "waits (context switches)": (after.ru_nvcsw - before.ru_nvcsw) / operations,
        "syncs of logs": syncs / operations,
    }


def main() -> None:
    """Do one kind of operation on the store in a directory."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    ways = parser.add_subparsers(dest="way", required=True)
    for way, kinds in (("counted", list(COUNTED)), ("timed", list(TIMED))):
        arguments = ways.add_parser(way)
        arguments.add_argument("kind", choices=kinds)
        arguments.add_argument("directory")
        arguments.add_argument("--prepare-only", action="store_true")
        arguments.add_argument("--scale", type=int, default=1)
        arguments.add_argument("--entries", type=int, default=1)
        if way == "counted":
            arguments.add_argument("--filter-policy", default=_COUNTED.filter_policy)
    chosen = parser.parse_args()
    if chosen.way == "counted":
        do_counted(
            chosen.kind, chosen.directory, chosen.scale, chosen.filter_policy, chosen.prepare_only
        )
    elif chosen.prepare_only:
        make_timed_store(chosen.directory, chosen.entries)
    else:
        print(json.dumps(measure(chosen.kind, chosen.directory, chosen.entries)))


if __name__ == "__main__":
    main()
