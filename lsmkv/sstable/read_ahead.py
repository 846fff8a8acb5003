"""Reads many blocks of a table at once, for scans and compactions.

A scan reads its first blocks one by one, through the cache.  After that each read is twice as long as
the one before, up to 256 KiB, and past the cache: a long scan must not evict what lookups need.  In a
remote table reads grow to 1 MiB, and the next few are under way while one is used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from mypy_extensions import i64

from lsmkv.errors import CorruptionError
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.block_checks import why_not_mergeable
from lsmkv.sstable.reader import TableReader
from lsmkv.storage.storage import ReadKind

_READ_AHEAD_BYTES: Final = 256 * 1024
_REMOTE_READ_BYTES: Final = 1024 * 1024
_READS_UNDER_WAY: Final = 4  # of a remote table; the first of them ends while the others run


def fetch_blocks(table: TableReader, first: i64, end: i64) -> None:
    """Fetch blocks ``first`` to ``end`` (not included), to be read together."""
    offset = table.index.offset(first)
    table.file.fetch(offset, table.index.offset(end) - offset)


def forget_blocks(table: TableReader, first: i64, end: i64) -> None:
    """Take back a fetch, unless it was used."""
    offset = table.index.offset(first)
    table.file.forget(offset, table.index.offset(end) - offset)


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
    groups = _groups(table, block_numbers, passed_bytes)
    for neighbours, is_cached in _fetched(table, groups) if table.file.is_remote else groups:
        if is_cached:
            yield table.block(neighbours[0], False)
            continue
        low, high = sorted((neighbours[0], neighbours[-1]))
        data = table.read_frames(low, high + 1, ReadKind.DATA)
        base = table.index.offset(low)
        for block_number in neighbours:
            offset = table.index.offset(block_number)
            stop = table.index.offset(block_number + 1) - base
            yield table.decode(data, offset - base, stop, offset, block_number)


def _groups(
    table: TableReader, block_numbers: Sequence[int], passed_bytes: int
) -> Iterator[tuple[Sequence[int], bool]]:
    """Neighbours to read at once, and whether the cache has them."""
    at = 0
    most = _REMOTE_READ_BYTES if table.file.is_remote else _READ_AHEAD_BYTES
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
    ahead: deque[tuple[Sequence[int], bool]] = deque()
    try:
        while True:
            while len(ahead) < _READS_UNDER_WAY:
                group = next(groups, None)
                if group is None:
                    break
                ahead.append(group)
                neighbours, is_cached = group
                if not is_cached:
                    low, high = sorted((neighbours[0], neighbours[-1]))
                    fetch_blocks(table, low, high + 1)
            if not ahead:
                return
            yield ahead.popleft()
    finally:  # a scan may end early
        for neighbours, is_cached in ahead:
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


def blocks_between(
    table: TableReader, after: bytes | None, through: bytes | None
) -> tuple[i64, i64]:
    """The blocks that may hold keys with after < key <= through.

    Returns the first, and the end.
    """
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
