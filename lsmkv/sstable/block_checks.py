"""Checks of a block that lookups skip, for merging and verifying."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from mypy_extensions import i64

from lsmkv.encoding.entries import MAX_VALUE_BYTES
from lsmkv.encoding.expiry import value_length
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.policy import NONE, FilterPolicy
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.block.trailer import BlockTrailer
from lsmkv.sstable.index import TableIndex
from lsmkv.sstable.table_filters import TableFilters


def why_not_mergeable(block: Block, index: TableIndex, block_number: i64, may_repeat: bool) -> str:
    """The reason why a block cannot be merged, or an empty string."""
    if not block.ascends(may_repeat):
        return "keys of a block do not ascend"
    if reason := _misplaced(block, index, block_number, may_repeat):
        return reason
    if len(block.raw) > MAX_VALUE_BYTES:
        longest = max(map(value_length, block.values()))
        if longest > MAX_VALUE_BYTES:
            return f"value of {longest} bytes is over the limit"
    return ""


def _misplaced(block: Block, index: TableIndex, block_number: i64, may_repeat: bool) -> str:
    """Why a block does not lie between its separators, or ""."""
    if block_number > 0 and block.key(0) < index.separator(block_number):
        return "first key of a block is below its separator"
    if block_number + 1 < index.block_count:
        last, above = block.key(block.count - 1), index.separator(block_number + 1)
        if last > above or (last == above and not may_repeat):
            return "last key of a block is not below the next separator"
    return ""


def check_block(
    block: Block,
    frame: bytes,
    trailer: BlockTrailer,
    block_number: int,
    filters: TableFilters,
    compare_filters: bool,
    fail: Callable[[str], NoReturn],
) -> None:
    """Check every byte of a block decoded from ``frame``; ``fail`` raises."""
    block.check_order(fail)
    if reason := _misplaced(block, filters.index, block_number, True):
        fail(reason)
    policy = filters.policy
    check_trailer(trailer, block_number, filters.index, policy, fail)
    length = trailer.filter_length
    if not length:
        return
    embedded = frame[trailer.payload_length : trailer.payload_length + length]
    if compare_filters and filters.section.read_block_bits(block_number, length) != embedded:
        fail("filter of a block differs from its copy in the filter section")
    for key in block.keys():  # noqa: SIM118  # a block is no mapping
        filter_hash = filters.hash_of(key, hash_key(key))
        if not policy.may_contain(embedded, 0, length, trailer.probe_count, filter_hash):
            fail(f"filter of a block denies its key {key[:40]!r}")


def check_trailer(
    trailer: BlockTrailer,
    block_number: int,
    index: TableIndex,
    policy: FilterPolicy,
    fail: Callable[[str], NoReturn],
) -> None:
    """Check a trailer against index and policy; ``fail`` raises."""
    if trailer.filter_scheme not in (NONE.scheme, policy.scheme):
        fail(f"filter scheme {trailer.filter_scheme} is not the table's, {policy.scheme}")
    if trailer.entry_count != index.entry_count(block_number):
        fail(f"trailer of a block states {trailer.entry_count} entries, unlike the index")
    if trailer.filter_key_count > trailer.entry_count:
        fail(f"filter of {trailer.filter_key_count} keys in a block of fewer entries")
    place = index.filter_place(block_number)
    length, parameter = place[1], place[2]
    if trailer.filter_length != length or (length and trailer.probe_count != parameter):
        fail("filter of a block is not the one that the index describes")
