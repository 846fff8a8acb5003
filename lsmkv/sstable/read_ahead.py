"""Reads many blocks of a table at once, for scans and compactions.

A scan reads its first blocks one by one, through the cache.  After that each read is twice as long as
the one before, up to the file's ``read_ahead_bytes``, and past the cache: a long scan must not evict
what lookups need.  The next read is under way while one of full length is used, in a remote table the
next few.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from mypy_extensions import i64

from lsmkv.errors import CorruptionError
from lsmkv.runtime import Finalizer
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.block_checks import why_not_mergeable
from lsmkv.sstable.reader import TableReader
from lsmkv.storage.storage import ReadKind

CACHED_BLOCKS: Final = 4  # of each table, a scan's first blocks go through the cache


def fetch_blocks(table: TableReader, first: i64, end: i64) -> None:
    """Fetch blocks ``first`` to ``end`` (not included), to be read together."""
    offset = table.index.offset(first)
    table.file.fetch(offset, table.index.offset(end) - offset)


def forget_blocks(table: TableReader, first: i64, end: i64) -> None:
    """Take back a fetch, unless it was used."""
    offset = table.index.offset(first)
    table.file.forget(offset, table.index.offset(end) - offset)


def blocks_ahead(table: TableReader, block_numbers: Sequence[int]) -> Iterator[Block]:
    """Blocks for a scan, the first :data:`CACHED_BLOCKS` of them through the cache."""
    first, rest = block_numbers[:CACHED_BLOCKS], block_numbers[CACHED_BLOCKS:]
    for block_number in first:
        yield table.block(block_number, True)
    yield from read_ahead(table, rest, sum(map(table.block_length, first)))


def read_ahead(
    table: TableReader, block_numbers: Sequence[int], passed_bytes: int
) -> Iterator[Block]:
    """Blocks for a scan that has read ``passed_bytes`` before."""
    groups = _groups(table, block_numbers, passed_bytes)
    most = table.file.read_ahead_bytes
    is_descending = len(block_numbers) > 1 and block_numbers[0] > block_numbers[1]
    if table.file.reads_under_way > 1:
        groups = _fetched(table, groups)
    for neighbours, is_cached in groups:
        if is_cached:
            yield table.block(neighbours[0], False)
            continue
        low, high = sorted((neighbours[0], neighbours[-1]))
        data = table.read_frames(low, high + 1, ReadKind.DATA)
        base = table.index.offset(low)
        if len(data) >= most and table.file.can_fetch:  # while these blocks are used
            table.file.fetch(max(0, base - most) if is_descending else base + len(data), most)
        for block_number in neighbours:
            offset = table.index.offset(block_number)
            stop = table.index.offset(block_number + 1) - base
            yield table.decode(data, offset - base, stop, offset, block_number)


def _groups(
    table: TableReader, block_numbers: Sequence[int], passed_bytes: int
) -> Iterator[tuple[Sequence[int], bool]]:
    """Neighbours to read at once, and whether the cache has them."""
    at = 0
    most = table.file.read_ahead_bytes
    size_bytes = min(passed_bytes, most)
    while at < len(block_numbers):
        if table.is_cached(block_numbers[at]):
            yield block_numbers[at : at + 1], True
            at += 1
            continue
        end = _neighbours_end(table, block_numbers, at, size_bytes)
        size_bytes = min(2 * size_bytes, most)
        yield block_numbers[at:end], False
        at = end


def _fetched(
    table: TableReader, groups: Iterator[tuple[Sequence[int], bool]]
) -> Iterator[tuple[Sequence[int], bool]]:
    """The same groups, each fetched some places before it is due."""
    under_way = table.file.reads_under_way
    ahead: deque[tuple[Sequence[int], bool]] = deque()
    # A scan may end early: then this generator is dropped, and compiled it would pass over a ``finally``.
    forgetting = Finalizer(partial(_forget_groups, table, ahead))
    while True:
        while len(ahead) < under_way:
            group = next(groups, None)
            if group is None:
                break
            ahead.append(group)
            neighbours, is_cached = group
            if not is_cached:
                low, high = sorted((neighbours[0], neighbours[-1]))
                fetch_blocks(table, low, high + 1)
        if not ahead:
            forgetting.cancel()
            return
        yield ahead.popleft()


def _forget_groups(table: TableReader, groups: Iterable[tuple[Sequence[int], bool]]) -> None:
    for neighbours, is_cached in groups:
        if not is_cached:
            low, high = sorted((neighbours[0], neighbours[-1]))
            forget_blocks(table, low, high + 1)


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


def every_block(table: TableReader, first: i64 = 0, count: i64 = -1) -> Iterator[Block]:
    """The blocks from ``first`` up to ``count`` (-1: all), for a compaction.

    They are read past the cache, many at once.  Raises CorruptionError if a block is damaged or its keys
    do not ascend.
    """
    index, most = table.index, table.file.read_ahead_bytes
    if count < 0:
        count = index.block_count
    block_number = first
    while block_number < count:
        end = block_number + 1
        base = index.offset(block_number)
        while end < count and index.offset(end) - base < most:
            end += 1
        data = table.read_frames(block_number, end, ReadKind.COMPACTION)
        if end < count and table.file.can_fetch:
            table.file.fetch(base + len(data), most)
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
