"""The order of tables that repair derives from sequence numbers."""

from __future__ import annotations

from lsmkv.salvage.order import stack, tangled_groups
from lsmkv.sstable.format import TableMeta


def _meta(number: int, keys: bytes, low: int, high: int) -> TableMeta:
    return TableMeta(
        number=number,
        size_bytes=1000,
        smallest=keys[:1],
        largest=keys[1:],
        smallest_seq=low,
        largest_seq=high,
        entry_count=2,
        tombstone_count=0,
    )


def test_tables_with_sequence_numbers_apart_need_no_merging() -> None:
    tables = [_meta(1, b"az", 1, 5), _meta(2, b"az", 6, 9), _meta(3, b"bc", 10, 10)]
    assert sorted(map(len, tangled_groups(tables))) == [1, 1, 1]


def test_tables_with_keys_apart_need_no_merging() -> None:
    tables = [_meta(1, b"ac", 1, 9), _meta(2, b"df", 1, 9)]
    assert sorted(map(len, tangled_groups(tables))) == [1, 1]


def test_tables_that_overlap_in_both_are_merged() -> None:
    tables = [_meta(1, b"ae", 1, 6), _meta(2, b"df", 5, 9), _meta(3, b"gh", 5, 9)]
    assert sorted(map(len, tangled_groups(tables))) == [1, 2]


def test_tables_that_overlap_a_merged_group_join_it() -> None:
    # 3 and 4 stand between 1 and 2 in sequence numbers, and overlap one of them in keys.
    tables = [_meta(1, b"ae", 1, 3), _meta(2, b"df", 3, 9), _meta(3, b"ab", 5, 6)]
    assert [len(group) for group in tangled_groups(tables)] == [3]


def test_newer_tables_are_stacked_above_older_ones() -> None:
    tables = [_meta(1, b"ac", 1, 1), _meta(2, b"bd", 2, 2), _meta(3, b"ef", 1, 1)]
    runs = [[table.number for table in run] for run in stack(tables)]
    assert runs == [[2, 3], [1]]
