"""Counts the blocks that scans of ranges read.  ``python -m tools.range_reads``

A store of numbers is written in random order: each number is in it by a chance of one in ``gap``.  Each
30,000 entries are flushed, and the tree is left to settle; tables and level 1 have a sixteenth of their
default sizes.  Then scans are counted, without a cache: of empty ranges of 1 to 8 and of 8 numbers, and
of ten entries from a random number on ("seek + 10").  ``--scattered`` hashes the numbers to keys, which
leaves no two keys near each other.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from array import array
from collections.abc import Iterator
from itertools import islice
from typing import Final

import lsmkv
from lsmkv.filters import hash_key

_QUESTIONS: Final = 10_000
_SEEKS: Final = 5_000
_FLUSHED: Final = 30_000
_BATCH: Final = 1_000
_SHARE: Final = 16  # of the default sizes


class Numbers:
    """The numbers of a store, below ``end``, and their keys of 16 bytes."""

    def __init__(self, entries: int, gap: int, is_scattered: bool) -> None:
        self.end = entries * gap
        self._gap = gap
        self._is_scattered = is_scattered

    def has(self, number: int) -> bool:
        return hash_key(b"is %d there?" % number) % self._gap == 0

    def key(self, number: int) -> bytes:
        if self._is_scattered:
            number = hash_key(b"%d" % number)
        return b"numbers/" + number.to_bytes(8, "big")


def _fill(db: lsmkv.DB, numbers: Numbers, draw: random.Random) -> None:
    order = array("Q", filter(numbers.has, range(numbers.end)))
    draw.shuffle(order)
    for begin in range(0, len(order), _FLUSHED):
        part = order[begin : begin + _FLUSHED]
        for at in range(0, len(part), _BATCH):
            with db.write_batch() as batch:
                for number in part[at : at + _BATCH]:
                    batch.put(numbers.key(number), draw.randbytes(100))
        db.flush()
        db.wait_until_settled()


def _empty_ranges(
    numbers: Numbers, draw: random.Random, shortest: int, longest: int
) -> Iterator[tuple[bytes, bytes]]:
    while True:
        first = draw.randrange(numbers.end - longest)
        length = draw.randint(shortest, longest)
        if not any(map(numbers.has, range(first, first + length))):
            start = numbers.key(first)
            yield start, (int.from_bytes(start, "big") + length).to_bytes(len(start), "big")


def _reads(db: lsmkv.DB, ranges: Iterator[tuple[bytes, bytes]]) -> float:
    before = db.stats()
    for start, stop in ranges:
        if next(iter(db.items(start=start, stop=stop)), None) is not None:
            raise RuntimeError(f"an empty range from {start!r} has an entry")
    return (db.stats() - before).block_reads / _QUESTIONS


def _seek_reads(db: lsmkv.DB, numbers: Numbers, draw: random.Random) -> float:
    before = db.stats()
    for _ in range(_SEEKS):
        start = numbers.key(draw.randrange(numbers.end))
        for _ in islice(db.items(start=start), 10):
            pass
    return (db.stats() - before).block_reads / _SEEKS


def main() -> None:
    """Write the store, and print a line of counts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--entries", type=int, default=530_000, help="default: 530,000")
    parser.add_argument("--gap", type=int, default=4, help="default: 4")
    parser.add_argument("--scattered", action="store_true", help="hash the numbers")
    parser.add_argument("--filter-policy", default="grafite", help="default: grafite")
    parser.add_argument("--error-rate", type=float, default=0.0025, help="default: 0.0025")
    arguments = parser.parse_args()
    numbers = Numbers(arguments.entries, arguments.gap, arguments.scattered)
    default = lsmkv.Options()
    with (
        tempfile.TemporaryDirectory() as folder,
        lsmkv.open(
            folder,
            filter_policy=arguments.filter_policy,
            error_rate=arguments.error_rate,
            filter_allocation="uniform",
            table_size_bytes=default.table_size_bytes // _SHARE,
            level1_size_bytes=default.level1_size_bytes // _SHARE,
            read_compaction_rate_bytes=0,
            block_cache_size_bytes=0,
        ) as db,
    ):
        _fill(db, numbers, random.Random(1970))
        info = db.inspect()
        tables = list(info.tables())
        bits = 8 * sum(table.filter_bytes for table in tables)
        entries = sum(table.entry_count for table in tables)
        draw = random.Random(38)
        print(
            f"{arguments.filter_policy}, p = {arguments.error_rate}, gap {arguments.gap}, ", end=""
        )
        print(
            f"{'scattered' if arguments.scattered else 'numbers'}: {arguments.entries} entries, ",
            end="",
        )
        print(
            f"{sum(len(level.runs) for level in info.levels)} runs, {bits / entries:.2f} bits a key"
        )
        for shortest, longest in ((1, 8), (8, 8)):
            ranges = islice(_empty_ranges(numbers, draw, shortest, longest), _QUESTIONS)
            reads = _reads(db, ranges)
            print(f"  empty range of {shortest} to {longest}: {reads:.4f} blocks")
        print(f"  seek + 10: {_seek_reads(db, numbers, draw):.3f} blocks")


if __name__ == "__main__":
    main()
