"""Reads many blocks of a table at once, for scans and compactions.

A scan reads its first blocks one by one, through the cache.  After that each read is twice as long as
the one before, up to 256 KiB, and past the cache: a long scan must not evict what lookups need.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mypy_extensions import i64

from lsmkv.errors import CorruptionError
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.block_checks import why_not_mergeable
from lsmkv.sstable.reader import TableReader
from lsmkv.storage.storage import ReadKind

_READ_AHEAD_BYTES: Final = 256 * 1024


def blocks_ahead(
    table: TableReader, block_numbers: Sequence[int], *, cached_first: int
) -> Iterator[Block]:
    """Blocks for a scan, the first ``cached_first`` of them through the cache.

    ``block_numbers`` ascend or descend.
    """
    first, rest = block_numbers[:cached_first], block_numbers[cached_first:]
    for block_number in first:
        yield table.block(block_number, True)
    yield from read_ahead(table, rest, sum(map(table.block_length, first)))


def read_ahead(
    table: TableReader, block_numbers: Sequence[int], passed_bytes: int
) -> Iterator[Block]:
    """Blocks for a scan that has read ``passed_bytes`` before.

    Neighbours are read at once; blocks in the cache are taken from there.
    """
    at = 0
    size_bytes = min(passed_bytes, _READ_AHEAD_BYTES)
    while at < len(block_numbers):
        if table.is_cached(block_numbers[at]):
            yield table.block(block_numbers[at], False)
            at += 1
            continue
        end = _neighbours_end(table, block_numbers, at, size_bytes)
        size_bytes = min(2 * size_bytes, _READ_AHEAD_BYTES)
        neighbours = block_numbers[at:end]
        low, high = sorted((neighbours[0], neighbours[-1]))
        data = table.read_frames(low, high + 1, ReadKind.DATA)
        base = table.index.offset(low)
        for block_number in neighbours:
            offset = table.index.offset(block_number)
            stop = table.index.offset(block_number + 1) - base
            yield table.decode(data, offset - base, stop, offset, block_number)
        at = end


def _neighbours_end(
    table: TableReader, block_numbers: Sequence[int], at: int, size_bytes: int
) -> int:
    """The end of the neighbours from ``at`` that one read takes in."""
    end = at + 1
    size = table.block_length(block_numbers[at])
    while (
        end < len(block_numbers)
        and size < size_bytes
        and abs(block_numbers[end] - block_numbers[end - 1]) == 1
        and not table.is_cached(block_numbers[end])
    ):
        size += table.block_length(block_numbers[end])
        end += 1
    return end


def blocks_between(
    table: TableReader, after: bytes | None, through: bytes | None
) -> tuple[i64, i64]:
    """The blocks, first and end, that may hold keys with after < key <= through."""
    index = table.index
    first: i64 = 0
    end: i64 = index.block_count
    # Only a key within the table shares its common prefix, as ``seek`` asks for.
    if after is not None and after >= table.smallest:
        first = end if after >= table.largest else index.seek(after + b"\0")
    if through is not None and through < table.largest:
        end = 0 if through < table.smallest else index.seek(through)
        while end < index.block_count and index.first_key(end) <= through:
            end += 1
    return first, max(first, end)


def every_block(table: TableReader, first: i64 = 0, count: i64 = -1) -> Iterator[Block]:
    """The blocks from ``first`` up to ``count`` (-1: all), for a compaction.

    They are read past the cache, by 256 KiB.  Raises CorruptionError if a block is damaged or its keys
    do not ascend.
    """
    index = table.index
    if count < 0:
        count = index.block_count
    block_number = first
    while block_number < count:
        end = block_number + 1
        base = index.offset(block_number)
        while end < count and index.offset(end) - base < _READ_AHEAD_BYTES:
            end += 1
        data = table.read_frames(block_number, end, ReadKind.COMPACTION)
        offset = base
        while block_number < end:
            following = index.offset(block_number + 1)
            block = table.decode(data, offset - base, following - base, offset, block_number)
            problem = why_not_mergeable(block, index, block_number, table.has_versions)
            if problem:
                raise CorruptionError(table.path, offset, problem)
            yield block
            offset = following
            block_number += 1
