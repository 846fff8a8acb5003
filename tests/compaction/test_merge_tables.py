"""Merged tables keep each key's newest version, as a dict would."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from columns import as_columns, as_rows
from lsmkv.compaction.merge import merge_tables, surviving
from lsmkv.encoding.entries import MAX_KEY_BYTES, MAX_SEQUENCE
from lsmkv.encoding.entry_batch import Entry, EntryBatch, EntrySlice, batches_of
from lsmkv.filters.hashing import hash_key
from lsmkv.options import Options
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.multi_writer import TableJob, write_tables
from lsmkv.sstable.reader import TableReader
from lsmkv.storage.file_names import table_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.version_set import table_format

Contents = dict[bytes, bytes | None]  # None is a deletion


class Merger:
    """Writes and merges runs of tables in a directory."""

    def __init__(self, directory: str, block_size_bytes: int) -> None:
        options = Options(block_size_bytes=block_size_bytes, compression="none")
        form = table_format(options, 0.01)
        self.storage = Storage()
        self.directory = directory
        self.job = TableJob(
            self.storage, directory, form, 1 << 14, count(1).__next__, lambda: False
        )

    def run(self, rows: list[Entry]) -> list[TableReader]:
        """Tables of these versions, one for each key."""
        return self.readers_of(batches_of(iter(rows)))

    def readers_of(self, versions: Iterator[EntryBatch]) -> list[TableReader]:
        cache = BlockCache(0, self.storage.stats)
        return [
            TableReader(
                self.storage,
                table_path(self.directory, meta.number),
                cache,
                meta=meta,
                filter_residency="resident",
            )
            for meta in write_tables(versions, self.job)
        ]

    def merged(
        self, runs: list[list[TableReader]], snapshots: list[int], drop_deletions: bool
    ) -> list[TableReader]:
        return self.readers_of(merge_tables(runs, snapshots, drop_deletions))


def rows_of(tables: list[TableReader]) -> list[Entry]:
    rows: list[Entry] = []
    for table in tables:
        for number in range(table.index.block_count):
            block = table.block(number, False)
            rows += zip(block.keys(), block.values(), block.seqs(), strict=True)
    return rows


# Some keys share any number of bytes, or differ only in zeros at their end.
parts = st.sampled_from([b"", b"a", b"b", b"\0", b"\0\0", b"\xff", b"12345678", b"p" * 20])
keys = st.lists(parts, max_size=4).map(b"".join) | st.binary(max_size=12)
values = st.none() | st.sampled_from([b"", b"v" * 40_000]) | st.binary(max_size=30)
contents = st.dictionaries(keys, values, max_size=60)


@given(st.lists(contents, min_size=1, max_size=5), st.sampled_from([256, 4096]), st.booleans())
def test_the_newest_version_of_each_key_is_kept(
    runs: list[Contents], block_size_bytes: int, drop_deletions: bool
) -> None:
    expected: Contents = {}
    for run in reversed(runs):  # the newest run comes first
        expected |= run
    with tempfile.TemporaryDirectory() as directory:
        merger = Merger(directory, block_size_bytes)
        tables = [
            merger.run([(key, run[key], len(runs) - age) for key in sorted(run)])
            for age, run in enumerate(runs)
        ]
        merged = merger.merged(tables, [], drop_deletions)
        found = {key: value for key, value, _ in rows_of(merged)}
        order = [key for key, _, _ in rows_of(merged)]
        for table in merged:
            for number in range(table.index.block_count):
                for key in table.block(number, False).keys():  # noqa: SIM118  # a block is no mapping
                    assert table.get(key, hash_key(key), MAX_SEQUENCE) == expected[key]
    assert order == sorted(found)
    if drop_deletions:
        assert found == {key: value for key, value in expected.items() if value is not None}
    else:
        assert found == expected


@st.composite
def split_histories(
    draw: st.DrawFn,
) -> tuple[list[list[list[Entry]]], list[list[Entry]], list[int]]:
    """Runs, newest first; the versions of each key, newest first; snapshots.

    A run has a range of each key's versions, older than those of the runs before it.  Its tables have any
    number of keys.
    """
    drawn = draw(st.dictionaries(keys, st.lists(values, min_size=1, max_size=5), max_size=12))
    history = [
        [(key, value, len(drawn[key]) - age) for age, value in enumerate(drawn[key])]
        for key in sorted(drawn)
    ]
    taken: list[list[list[Entry]]] = [[] for _ in range(draw(st.integers(1, 4)))]
    for versions in history:
        bounds = sorted(draw(st.integers(0, len(versions))) for _ in taken[1:])
        for run, start, end in zip(taken, [0, *bounds], [*bounds, len(versions)], strict=True):
            if start < end:
                run.append(versions[start:end])
    runs: list[list[list[Entry]]] = []
    for rows in taken:
        tables: list[list[Entry]] = []
        while rows:
            count = draw(st.integers(1, len(rows)))
            tables.append([row for versions in rows[:count] for row in versions])
            rows = rows[count:]
        runs.append(tables)
    return runs, history, sorted(draw(st.sets(st.integers(0, 6), max_size=3)))


@given(split_histories(), st.booleans())
def test_merging_several_runs_equals_merging_their_versions_key_by_key(
    split: tuple[list[list[list[Entry]]], list[list[Entry]], list[int]], drop_deletions: bool
) -> None:
    drawn, history, snapshots = split
    with tempfile.TemporaryDirectory() as directory:
        merger = Merger(directory, 256)
        runs = [
            [table for rows in tables for table in merger.readers_of(iter([as_columns(rows)]))]
            for tables in drawn
        ]
        merged = list(merge_tables(runs, snapshots, drop_deletions))
        found = as_rows(merged)
    expected: list[Entry] = []
    for versions in history:
        whole = EntrySlice(as_columns(versions), 0, len(versions))
        expected += as_rows([surviving([whole], snapshots, drop_deletions, False)])
    assert found == expected
    assert all(batch.count for batch in merged)
    ends = [(batch.key(0), batch.key(batch.count - 1)) for batch in merged]
    assert all(last < first for (_, last), (first, _) in pairwise(ends))


@pytest.mark.parametrize("lengths", [(MAX_KEY_BYTES - 1, 1), (0, 40_000), (32_767, 32_768)])
def test_keys_of_any_length_are_merged(lengths: tuple[int, int]) -> None:
    older: list[Entry] = [(b"k" * length, b"old", 1) for length in sorted({0, *lengths})]
    newer: list[Entry] = [(b"k" * length + b"b", b"new", 2) for length in sorted({3, *lengths})]
    newer = sorted([*newer, (b"k" * min(lengths), b"new", 2)])
    expected = {key: value for key, value, _ in [*older, *newer]}
    with tempfile.TemporaryDirectory() as directory:
        merger = Merger(directory, 4096)
        rows = rows_of(merger.merged([merger.run(newer), merger.run(older)], [], False))
    assert {key: value for key, value, _ in rows} == expected
    assert [key for key, _, _ in rows] == sorted(expected)


def test_a_run_of_deletions_alone_leaves_nothing() -> None:
    rows: list[Entry] = [(b"%03d" % number, None, 2) for number in range(300)]
    older: list[Entry] = [(key, b"v", 1) for key, _, _ in rows]
    with tempfile.TemporaryDirectory() as directory:
        merger = Merger(directory, 256)
        assert merger.merged([merger.run(rows), merger.run(older)], [], True) == []


def test_only_blocks_that_have_a_deletion_hold_tags() -> None:
    rows: list[Entry] = [(b"%03d" % number, b"v" * 50, 1) for number in range(60)]
    rows[0] = (b"000", None, 1)
    with tempfile.TemporaryDirectory() as directory:
        (table,) = Merger(directory, 256).run(rows)
        blocks = [table.block(number, False) for number in range(table.index.block_count)]
    assert [block.has_tags for block in blocks] == [True, *[False] * (len(blocks) - 1)]
