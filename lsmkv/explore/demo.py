"""A store that is ready to be shown: four sorted runs on two levels, and some keys in memory."""

from __future__ import annotations

import random
from typing import Final

import lsmkv

OPTIONS: Final = lsmkv.Options(
    compression="none",  # so that a read is one of 4 KiB
    level0_compaction_trigger=8,
    background="thread",
)
_SEED: Final = 1970
_USERS: Final = 4000
_FIRST: Final = 1500  # users of the oldest run, which two flushes and a compaction make
_OTHERS: Final = 500  # of each later one
_IN_MEMORY: Final = 12


def make_store(path: str) -> None:
    """Write the store in ``path``, the same each time."""
    draw = random.Random(_SEED)

    def put(db: lsmkv.DB, count: int) -> None:
        for number in sorted(draw.sample(range(_USERS), count)):
            db.put(b"user%04d" % number, (b"name and address of user %d; " % number) * 4)

    with lsmkv.open(path, OPTIONS, error_if_exists=True) as db:
        for _ in range(2):
            put(db, _FIRST)
            db.flush()
        db.compact_range()
        for _ in range(3):
            put(db, _OTHERS)
            db.flush()
        put(db, _IN_MEMORY)
