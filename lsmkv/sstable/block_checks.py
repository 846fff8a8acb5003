"""Checks of a block that lookups skip, for merging and verifying."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from mypy_extensions import i64

from lsmkv.encoding.entries import MAX_VALUE_BYTES
from lsmkv.encoding.words import compare
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.policy import NONE, FilterPolicy
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.block.trailer import BlockTrailer
from lsmkv.sstable.index import TableIndex
from lsmkv.sstable.table_filters import TableFilters


def why_not_mergeable(block: Block, index: TableIndex, block_number: i64, may_repeat: bool) -> str:
    """The reason why a block cannot be merged, or an empty string.

    Its keys must ascend, and follow those of the block before; with ``may_repeat`` a key may occur more
    than once.  No key is made an object.
    """
    keys, first = index.section, index.key_start(2 * block_number)
    last, end = index.key_start(2 * block_number + 1), index.key_start(2 * block_number + 2)
    if not block.is_key(block.count - 1, keys, last, end):
        return "last key of a block is not the index's"
    if not block.ascends(may_repeat):
        return "keys of a block do not ascend"
    if block_number > 0:
        order = compare(keys, index.key_start(2 * block_number - 1), first, keys, first, last)
        if order > 0 or (order == 0 and not may_repeat):
            return "block does not follow the one before it"
    if len(block.raw) > MAX_VALUE_BYTES:
        longest = max([len(value) for value in block.values() if value is not None], default=0)
        if longest > MAX_VALUE_BYTES:
            return f"value of {longest} bytes is over the limit"
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
    if block.key(block.count - 1) != filters.index.last_key(block_number):
        fail("last key of a block is not the index's")
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
    length = trailer.filter_length
    if length != index.filter_start(block_number + 1) - index.filter_start(block_number) or (
        length and trailer.probe_count != index.probe_count(block_number)
    ):
        fail("filter of a block is not the one that the index describes")
