"""What every part of ``policies`` does: write keys, and look absent ones up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import lsmkv

from ...harness.run_stores import entries_of, put_all

_LN2_SQUARED: Final = math.log(2.0) ** 2


def rate_of(bits_per_key: float) -> float:
    """The error rate of Bloom filters with so many bits."""
    return math.exp(-bits_per_key * _LN2_SQUARED)


def write_settled(db: lsmkv.DB, numbers: Sequence[int], flushed: int, seed: int) -> None:
    """Put entries, so many for each flush; the tree settles after each, so that counts repeat."""
    for at in range(0, len(numbers), flushed):
        put_all(db, entries_of(numbers[at : at + flushed], seed))
        db.flush()
        db.wait_until_settled()


def look_up(db: lsmkv.DB, absent: Iterable[bytes]) -> lsmkv.Stats:
    """What the store counted for lookups of keys that it does not have."""
    before, get = db.stats(), db.get
    for key in absent:
        if get(key) is not None:
            raise AssertionError(f"{key!r} is not in the store")
    return db.stats() - before
