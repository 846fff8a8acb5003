"""A small, fixed workload, one kind of operation at a time: what the cost of operations is counted on.

Every kind begins with the same store, of :func:`make_store`: one run of ``STORED`` keys on level 1,
one of ``NEWER`` on level 0.  Nothing in it is random, nothing is compressed (sizes would depend on
zstd's version), and no work is done in the background unless the operation asks for it.  A *scale* of
ten makes store and operations ten times as many, so that what happens once a process or a table
counts for less.

As a program it runs one kind in a process of its own, for :mod:`tools.instructions`::

    python -P tools/workload.py KIND DIRECTORY [--prepare-only] [--scale N]
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

import lsmkv

STORED: Final = 2000
NEWER: Final = 400
WRITTEN: Final = 500
LOOKED_UP: Final = 500
SCANS: Final = 50
SCAN_ENTRIES: Final = 10
BATCH_ENTRIES: Final = 100
VALUE_BYTES: Final = 100

_OPTIONS: Final = lsmkv.Options(compression="none", read_compaction_rate_bytes=0)
_NO_CACHE: Final = _OPTIONS.replace(block_cache_size_bytes=0)


def _shuffled(numbers: range, seed: int) -> list[bytes]:
    keys = [b"user%012d" % number for number in numbers]
    random.Random(seed).shuffle(keys)
    return keys


class Keys:
    """The keys of store and operations.

    Even numbers are stored; of these every fifth is written again; odd ones are absent.
    """

    def __init__(self, scale: int = 1) -> None:
        stored = STORED * scale
        self.stored = _shuffled(range(0, 2 * stored, 2), 1)
        self.newer = _shuffled(range(0, 2 * stored, 2 * STORED // NEWER), 2)
        self.new = _shuffled(range(2 * stored, 2 * stored + WRITTEN * scale), 3)
        self.hits = random.Random(4).sample(self.stored, LOOKED_UP * scale)
        absent = _shuffled(range(1, 2 * stored, 2), 6)
        self.misses = random.Random(5).sample(absent, LOOKED_UP * scale)
        self.starts = self.hits[: SCANS * scale]


_VALUES: Final = [random.Random(number).randbytes(VALUE_BYTES) for number in range(16)]


def make_store(directory: str, keys: Keys) -> None:
    """Make the store that every kind of operation begins with."""
    with lsmkv.open(directory, _OPTIONS, error_if_exists=True) as db:
        _put(db, keys.stored)
        db.compact_range()
        _put(db, keys.newer)
        db.flush()
        db.wait_until_settled()


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of operation.

    Attributes:
        act: does all of the operations.
        operations: how many they are at scale 1; of scans, flush and compaction, how many entries
            they pass.
        prepare: done first, and not counted; for reads the operations themselves, so that what is
            counted finds its blocks in the cache.
        options: those of the store.
    """

    act: Callable[[lsmkv.DB, Keys], None]
    operations: int
    prepare: Callable[[lsmkv.DB, Keys], None]
    options: lsmkv.Options = _OPTIONS


def _nothing(_db: lsmkv.DB, _keys: Keys) -> None:
    pass


def _put(db: lsmkv.DB, keys: list[bytes]) -> None:
    for number, key in enumerate(keys):
        db.put(key, _VALUES[number & 15])


def _put_new(db: lsmkv.DB, keys: Keys) -> None:
    _put(db, keys.new)


def _write_batches(db: lsmkv.DB, keys: Keys) -> None:
    for start in range(0, len(keys.new), BATCH_ENTRIES):
        with db.write_batch() as batch:
            for number, key in enumerate(keys.new[start : start + BATCH_ENTRIES]):
                batch.put(key, _VALUES[number & 15])


def _delete(db: lsmkv.DB, keys: Keys) -> None:
    for key in keys.hits:
        db.delete(key)


def _get_memtable(db: lsmkv.DB, keys: Keys) -> None:
    for key in keys.new:
        db.get(key)


def _get_hits(db: lsmkv.DB, keys: Keys) -> None:
    for key in keys.hits:
        db.get(key)


def _get_misses(db: lsmkv.DB, keys: Keys) -> None:
    for key in keys.misses:
        db.get(key)


def _multi_get(db: lsmkv.DB, keys: Keys) -> None:
    for start in range(0, len(keys.hits), BATCH_ENTRIES):
        db.multi_get(keys.hits[start : start + BATCH_ENTRIES])


def _scan(db: lsmkv.DB, _keys: Keys) -> None:
    for _ in db.items():
        pass


def _scan_reverse(db: lsmkv.DB, _keys: Keys) -> None:
    for _ in db.items(reverse=True):
        pass


def _seek(db: lsmkv.DB, keys: Keys) -> None:
    for start in keys.starts:
        for _ in islice(db.items(start=start), SCAN_ENTRIES):
            pass


def _flush(db: lsmkv.DB, _keys: Keys) -> None:
    db.flush()
    db.wait_until_settled()


def _compact(db: lsmkv.DB, _keys: Keys) -> None:
    db.compact_range()


KINDS: Final = {
    "put": Kind(_put_new, WRITTEN, _nothing),
    "batch": Kind(_write_batches, WRITTEN, _nothing),
    "delete": Kind(_delete, LOOKED_UP, _nothing),
    "get-memtable": Kind(_get_memtable, WRITTEN, _put_new),
    "get-hit": Kind(_get_hits, LOOKED_UP, _get_hits),
    "get-miss": Kind(_get_misses, LOOKED_UP, _get_misses),
    "get-uncached": Kind(_get_hits, LOOKED_UP, _get_hits, _NO_CACHE),
    "multi-get": Kind(_multi_get, LOOKED_UP, _multi_get),
    "scan": Kind(_scan, STORED, _scan),
    "scan-reverse": Kind(_scan_reverse, STORED, _scan_reverse),
    "seek-next10": Kind(_seek, SCANS, _seek),
    "flush": Kind(_flush, WRITTEN, _put_new),
    "compact": Kind(_compact, STORED + NEWER, _nothing),
}


def main() -> None:
    """Do one kind of operation in the store in a directory; with ``--prepare-only`` stop before it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("directory")
    parser.add_argument("--prepare-only", action="store_true")
    parser.add_argument("--scale", type=int, default=1)
    arguments = parser.parse_args()
    keys = Keys(arguments.scale)
    kind = KINDS[arguments.kind]
    with lsmkv.open(arguments.directory, kind.options) as db:
        kind.prepare(db, keys)
        if not arguments.prepare_only:
            kind.act(db, keys)


if __name__ == "__main__":
    main()
