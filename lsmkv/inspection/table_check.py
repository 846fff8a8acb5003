"""Checks one table against its index, filters and properties."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from lsmkv.encoding.checksums import running_checksum
from lsmkv.errors import CorruptionError, UnsupportedFormatError
from lsmkv.filters.hashing import hash_key
from lsmkv.inspection.report import Problem
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.format import TableMeta, blocks_checksum, expiry_of
from lsmkv.sstable.reader import TableReader
from lsmkv.storage.storage import Storage

UNREADABLE: Final = (CorruptionError, UnsupportedFormatError, OSError)


def open_uncached(
    storage: Storage, path: str, meta: TableMeta | None = None, *, shared: bool = False
) -> TableReader:
    """A reader that keeps no block and asks no filter; ``meta`` is what the table must be."""
    cache = BlockCache(0, storage.stats)
    return TableReader(storage, path, cache, meta=meta, filter_residency="off", shared=shared)


@dataclass(frozen=True, slots=True)
class TableCheck:
    """Findings of a check of a table; ``damaged`` are numbers of blocks."""

    entry_count: int
    damaged: tuple[int, ...]
    problems: tuple[Problem, ...]


def check_table(table: TableReader, step: Callable[[], object] | None = None) -> TableCheck:
    """Check a table's blocks, sections and properties; calls ``step`` after each block."""
    problems: list[Problem] = []
    damaged: list[int] = []
    unreachable: list[int] = []
    sums = _Sums(table.largest_seq if table.one_seq else None)
    try:
        table.load()
    except UNREADABLE as error:
        return TableCheck(0, (), (Problem.of(error, table.path),))
    try:
        table.verify_sections()
    except UNREADABLE as error:
        problems.append(Problem.of(error, table.path))
    filters_are_sound = not problems  # else those of blocks, which have checksums, are better
    for number in range(table.index.block_count):
        offset = table.index.offset(number)
        try:
            block, trailer = table.verify_block(number, compare_filters=filters_are_sound)
            sums.add(block)
            sums.trailers.update(trailer)
            if not _check_keys(table, block, number, offset):
                unreachable.append(number)
        except UNREADABLE as error:
            problems.append(Problem.of(error, table.path, offset))
            damaged.append(number)
        else:
            if sums.out_of_order:
                reason = "block does not follow the one before it"
                problems.append(Problem(table.path, offset, reason))
                damaged.append(number)
        if step is not None:
            step()
    if not damaged:  # damaged blocks make others unreachable
        reason = "the index leads lookups of this block's keys elsewhere"
        offsets = map(table.index.offset, unreachable)
        problems += [Problem(table.path, offset, reason) for offset in offsets]
        damaged = unreachable
    if not damaged:
        offset = table.footer.properties_offset
        problems += [Problem(table.path, offset, text) for text in _wrong_properties(table, sums)]
    return TableCheck(sums.entries, tuple(damaged), tuple(problems))


class _Sums:
    """A table's properties, as its blocks add up to them; all of one number if ``one_seq`` is given."""

    def __init__(self, one_seq: int | None) -> None:
        self._one_seq = one_seq
        self.trailers = running_checksum()
        self.entries = self.tombstones = self.raw_bytes = 0
        self.smallest_seq: int | None = None
        self.largest_seq = 0
        self.expiries: list[int] = []
        self.has_versions = False
        self.out_of_order = False
        self._last: tuple[bytes, int] | None = None

    def add(self, block: Block) -> None:
        """Add the next block, and set ``out_of_order`` for it."""
        keys, seqs = block.keys(), block.seqs()
        self.out_of_order = False
        if self._last is not None:
            key, seq = self._last
            self.out_of_order = (keys[0], -seqs[0]) <= (key, -seq)
            self.has_versions |= keys[0] == key
        self._last = keys[-1], seqs[-1]
        self.entries += len(keys)
        self.tombstones += block.values().count(None)
        self.expiries += block.expiries()
        self.raw_bytes += len(block.raw)
        counted = seqs if self._one_seq is None else [self._one_seq]
        low = min(counted)
        self.smallest_seq = low if self.smallest_seq is None else min(self.smallest_seq, low)
        self.largest_seq = max(self.largest_seq, max(counted))
        self.has_versions |= any(left == right for left, right in pairwise(keys))


def _wrong_properties(table: TableReader, sums: _Sums) -> Iterator[str]:
    stored = table.properties
    for name, expected, got in (
        ("entry_count", sums.entries, stored.entry_count),
        ("tombstone_count", sums.tombstones, stored.tombstone_count),
        ("expiry", expiry_of(sums.expiries, sums.entries), stored.expiry),
        ("raw_bytes", sums.raw_bytes, stored.raw_bytes),
        ("smallest_seq", sums.smallest_seq, stored.smallest_seq),
        ("largest_seq", sums.largest_seq, stored.largest_seq),
        ("has_versions", sums.has_versions, stored.has_versions),
        ("blocks_checksum", blocks_checksum(sums.trailers), stored.blocks_checksum),
        ("block_count", int(table.index.block_count), stored.block_count),
        ("filter_bytes", table.footer.filters_length, stored.filter_bytes),
    ):
        if expected != got:
            yield f"property {name} of a table is wrong (expected {expected}, got {got})"


def _check_keys(table: TableReader, block: Block, number: int, offset: int) -> bool:
    """Check the filter of the table, and fingerprints; returns whether lookups reach the block."""
    index, filters = table.index, table.filters
    is_reachable = True
    for key in block.keys():  # noqa: SIM118  # a block is no mapping
        h, reason = hash_key(key), ""
        if filters.per_table and not filters.may_hold(0, filters.hash_of(key, h)):
            reason = f"filter of the table denies the key {key[:40]!r} of a block"
        elif block.find(key, h) < 0:
            reason = f"fingerprint of the key {key[:40]!r} is another's"
        if reason:
            raise CorruptionError(table.path, offset, reason)
        last = index.find(key)
        first = index.find_first(key) if table.has_versions else last  # of its versions
        is_reachable = is_reachable and first <= number <= last
    return is_reachable
