"""One kind of work with a store, measured once: what :mod:`tools.compare_builds` runs by turns.

::

    python -P tools/timed_work.py KIND DIRECTORY --entries N [--prepare]

``--prepare`` makes the store of ``N`` entries that reading kinds need; without it the work is done,
and what it took is printed as JSON, for each operation.  Keys have 16 bytes and values 100, which
nothing compresses; everything drawn at random is the same in each run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import lsmkv

BATCH_ENTRIES: Final = 1000
THREADS: Final = 8
MOST_LOOKED_UP: Final = 300_000
_OPTIONS: Final = lsmkv.Options(compression="none", block_cache_size_bytes=2 << 30)
Pair = tuple[bytes, bytes]


def _key(number: int) -> bytes:
    return b"%016d" % number


def _pairs(numbers: list[int]) -> list[Pair]:
    values = [random.Random(number).randbytes(100) for number in range(256)]
    return [(_key(2 * number), bytes(bytearray(values[number & 255]))) for number in numbers]


def _in_order(entries: int) -> list[int]:
    return list(range(entries))


def _shuffled(entries: int) -> list[int]:
    numbers = _in_order(entries)
    random.Random(1970).shuffle(numbers)
    return numbers


def _looked_up(entries: int, odd: int) -> list[bytes]:
    """Keys at random: of entries, or (``odd`` is 1) of none."""
    dice = random.Random(7)
    count = min(entries, MOST_LOOKED_UP)
    return [_key(2 * dice.randrange(entries) + odd) for _ in range(count)]


# What is timed: prepared with the store open, it returns what does the work, and how many operations.
Work = tuple[Callable[[], None], int]


def _put_all(db: lsmkv.DB, pairs: list[Pair], sync: bool = False) -> None:
    put = partial(db.put, sync=True) if sync else db.put
    for key, value in pairs:
        put(key, value)


def _put_batches(db: lsmkv.DB, pairs: list[Pair]) -> None:
    for start in range(0, len(pairs), BATCH_ENTRIES):
        with db.write_batch() as batch:
            put = batch.put
            for key, value in pairs[start : start + BATCH_ENTRIES]:
                put(key, value)


def _get_all(db: lsmkv.DB, keys: list[bytes]) -> None:
    get = db.get
    for key in keys:
        get(key)


def put(db: lsmkv.DB, entries: int) -> Work:
    """Single puts in key order."""
    return partial(_put_all, db, _pairs(_in_order(entries))), entries


def put_random(db: lsmkv.DB, entries: int) -> Work:
    """Single puts at random."""
    return partial(_put_all, db, _pairs(_shuffled(entries))), entries


def put_batches(db: lsmkv.DB, entries: int) -> Work:
    """Batches of 1000 puts at random."""
    return partial(_put_batches, db, _pairs(_shuffled(entries))), entries


def get_after_batches(db: lsmkv.DB, entries: int) -> Work:
    """One get, the first after batches of 1000 puts at random, which the memtable holds."""
    _put_batches(db, _pairs(_shuffled(entries)))
    return partial(_get_all, db, [_key(0)]), 1


def put_sync(db: lsmkv.DB, entries: int) -> Work:
    """Single synced puts."""
    return partial(_put_all, db, _pairs(_in_order(entries)), True), entries


def put_sync_8(db: lsmkv.DB, entries: int) -> Work:
    """Single synced puts of eight threads."""
    pairs = _pairs(_in_order(entries))
    parts = [pairs[part::THREADS] for part in range(THREADS)]

    def work() -> None:
        threads = [threading.Thread(target=_put_all, args=(db, part, True)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return work, entries


def _fill_cache(db: lsmkv.DB, entries: int) -> None:
    """Look up a key of each block, for scans do not keep what they read."""
    _get_all(db, [_key(2 * number) for number in range(0, entries, 8)])


def get_hit(db: lsmkv.DB, entries: int) -> Work:
    """Gets of present keys at random, every block in the cache."""
    _fill_cache(db, entries)
    keys = _looked_up(entries, 0)
    _get_all(db, keys)
    return partial(_get_all, db, keys), len(keys)


def get_miss(db: lsmkv.DB, entries: int) -> Work:
    """Gets of absent keys at random, every block in the cache."""
    _fill_cache(db, entries)
    keys = _looked_up(entries, 1)
    _get_all(db, keys)
    return partial(_get_all, db, keys), len(keys)


def scan(db: lsmkv.DB, entries: int) -> Work:
    """A scan of everything, every block in the cache."""
    _fill_cache(db, entries)

    def work() -> None:
        for _ in db.items():
            pass

    return work, entries


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of work; ``entries`` is how many there are unless that is said, and ``reads`` whether it
    needs a store that has them."""

    begin: Callable[[lsmkv.DB, int], Work]
    entries: int
    reads: bool = False


KINDS: Final = {
    "put": Kind(put, 400_000),
    "put-random": Kind(put_random, 400_000),
    "batch": Kind(put_batches, 400_000),
    "get-after-batches": Kind(get_after_batches, 400_000),
    "put-sync": Kind(put_sync, 2_000),
    "put-sync-8": Kind(put_sync_8, 2_000),
    "get-hit": Kind(get_hit, 500_000, reads=True),
    "get-miss": Kind(get_miss, 500_000, reads=True),
    "scan": Kind(scan, 500_000, reads=True),
}


def prepare(directory: str, entries: int) -> None:
    """Make the store that reading kinds look into: one run."""
    with lsmkv.open(directory, _OPTIONS, error_if_exists=True) as db:
        _put_batches(db, _pairs(_shuffled(entries)))
        db.compact_range()


def measure(kind: str, directory: str, entries: int) -> dict[str, float]:
    """Do the work once; what it took, for each operation."""
    with lsmkv.open(directory, _OPTIONS) as db:
        work, operations = KINDS[kind].begin(db, entries)
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
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("directory")
    parser.add_argument("--entries", type=int, required=True)
    parser.add_argument("--prepare", action="store_true")
    chosen = parser.parse_args()
    if chosen.prepare:
        prepare(os.path.join(chosen.directory, "store"), chosen.entries)
    else:
        print(
            json.dumps(
                measure(chosen.kind, os.path.join(chosen.directory, "store"), chosen.entries)
            )
        )


if __name__ == "__main__":
    main()
