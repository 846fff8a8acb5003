"""Stores of fixed keys for measuring filters, and lookups in them.

The keys' hashes are fixed too, so all counts repeat; the bounds state how far a count may be from
theory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from scipy.stats import binom

import lsmkv
from lsmkv import DB, Options, Stats
from lsmkv.inspection.store_info import filter_rate
from lsmkv.sstable.reader import TableReader
from storages import CountingStorage

RATES: Final = [0.5, 0.1, 0.01, 0.001]
KEY_COUNT: Final = 3000
CONFIDENCE: Final = 0.999
OPTIONS: Final = Options(
    block_size_bytes=2048,  # about 30 entries
    block_cache_size_bytes=0,
    compression="none",
    table_size_bytes=128 * 1024,
)


def present(number: int) -> bytes:
    return b"%07d" % number


def absent(number: int, variant: int) -> bytes:
    """A key between ``present(number)`` and the next, different for each variant."""
    return b"%07d-%d" % (number, variant)


def load(db: DB, numbers: range = range(KEY_COUNT)) -> None:
    """Load one run on the deepest level, with its filters in memory.

    The lookup before makes the store read filters at once.
    """
    assert present(0) not in db
    with db.write_batch() as batch:
        for number in numbers:
            batch.put(present(number), b"v" * 50)
    db.compact_range()


@contextmanager
def counted(path: str, **options: Any) -> Iterator[tuple[DB, CountingStorage]]:
    """A store on a storage with its own read counts."""
    storage = CountingStorage()
    with lsmkv.open(path, OPTIONS, storage=storage, **options) as db:
        yield db, storage


@contextmanager
def loaded(path: str, **options: Any) -> Iterator[tuple[DB, CountingStorage]]:
    with counted(path, **options) as (db, storage):
        load(db)
        yield db, storage


def tables_of(db: DB) -> list[TableReader]:
    return list(db._state.require_open().version.tables())


def block_of(tables: list[TableReader], key: bytes) -> tuple[TableReader, int] | None:
    """The one block that may hold ``key``, in tables that do not overlap."""
    for table in tables:
        if table.meta.smallest <= key <= table.meta.largest:
            return table, int(table.index.find(key))
    return None


def absent_in_blocks(db: DB, per_key: int) -> tuple[list[bytes], list[float]]:
    """Absent keys inside blocks, and the exact rate of each one's filter."""
    tables = tables_of(db)
    rates: dict[tuple[int, int], float] = {}
    for table in tables:
        for number in range(table.index.block_count):
            info = table.read_past_cache(number)[1]
            shape = info.filter_length * 8, info.filter_key_count, info.probe_count
            rates[table.meta.number, number] = filter_rate(table, *shape)
    keys: list[bytes] = []
    expected: list[float] = []
    for number in range(KEY_COUNT):
        for variant in range(per_key):
            key = absent(number, variant)
            place = block_of(tables, key)
            if place is not None:
                keys.append(key)
                expected.append(rates[place[0].meta.number, place[1]])
    return keys, expected


def assert_likely(successes: int, rates: list[float]) -> None:
    """Check that the number of successes is plausible, given each trial's rate.

    The binomial distribution of their mean rate is at least as wide as that of their sum
    (Hoeffding 1956).
    """
    low, high = binom.interval(CONFIDENCE, len(rates), math.fsum(rates) / len(rates))
    assert int(low) <= successes <= int(high), f"{successes} is not from {low} to {high}"


def look_up(db: DB, keys: list[bytes]) -> Stats:
    """The counters of looking up these absent keys."""
    before = db.stats()
    assert not any(db.get(key) for key in keys)
    return db.stats() - before


def answers(db: DB) -> tuple[list[bytes | None], list[tuple[bytes, bytes]], list[bytes]]:
    """Lookups of present and absent keys, a range and a prefix."""
    keys = [
        key for number in range(0, KEY_COUNT, 7) for key in (present(number), absent(number, 1))
    ]
    return db.multi_get(keys), list(db.items(stop=present(100))), list(db.keys(prefix=b"00012"))
