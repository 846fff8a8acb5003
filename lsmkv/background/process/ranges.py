"""Cuts the keys of tables into ranges of equal size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from lsmkv.sstable.reader import TableReader

_SAMPLES: Final = 256  # of a table's blocks

KeyRange = tuple[bytes | None, bytes | None]
"""The keys with after < key <= through; None sets no bound."""


def key_ranges(tables: Iterable[TableReader], count: int) -> list[KeyRange]:
    """At most ``count`` ranges, in order, of about equal bytes.

    They end at last keys of blocks, so the index tells their sizes: each of t tables adds an error of
    a 256th of its own size.  O(t log t).
    """
    weights: list[tuple[bytes, int]] = []
    for table in tables:
        weights += _weighted_keys(table)
    return ranges_between(splitters(weights, count))


def splitters(weights: Iterable[tuple[bytes, int]], count: int) -> list[bytes]:
    """Fewer than ``count`` keys, ascending, between parts of equal weight.

    A weight counts for the part that the key ends.  A key that weighs more than a part is alone in one,
    or nearly.

    >>> splitters([(b"a", 1), (b"b", 1), (b"c", 1), (b"d", 1)], 2)
    [b'b']
    """
    total: dict[bytes, int] = {}
    for key, weight in weights:
        total[key] = total.get(key, 0) + weight
    left = sum(total.values())
    found: list[bytes] = []
    previous, size = b"", 0
    for key in sorted(total):
        parts = count - len(found)
        # The part ends before a key that would take it further beyond the goal than it is from it now.
        if parts > 1 and size and 2 * (size - left / parts) + total[key] > 0:
            found.append(previous)
            left -= size
            size = 0
        previous = key
        size += total[key]
    return found


def ranges_between(keys: Sequence[bytes]) -> list[KeyRange]:
    """The ranges that end at each key, and the last one.

    ``keys`` ascend.

    >>> ranges_between([b"f"])
    [(None, b'f'), (b'f', None)]
    """
    return list(pairwise([None, *keys, None]))


def _weighted_keys(table: TableReader) -> list[tuple[bytes, int]]:
    """Last keys of blocks, with the bytes since the one before."""
    index = table.index
    count = index.block_count
    step = max(1, -(-count // _SAMPLES))
    ends = [*range(step - 1, count - 1, step), count - 1]
    weighted = []
    before = 0
    for block in ends:
        offset = index.offset(block + 1)
        weighted.append((index.last_key(block), offset - before))
        before = offset
    return weighted
