"""Merged tables keep each key's newest version, as a dict would."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmkv.compaction.merge import merge_tables
from lsmkv.encoding.entries import MAX_KEY_BYTES, MAX_SEQUENCE
from lsmkv.encoding.entry_batch import Entry, EntryBatch, batches_of
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


@given(st.lists(contents, min_size=1, max_size=4), st.data())
def test_versions_that_a_snapshot_sees_are_kept(runs: list[Contents], data: st.DataObject) -> None:
    count_of_runs = len(runs)
    snapshots = sorted(data.draw(st.sets(st.integers(1, count_of_runs), max_size=3)))
    with tempfile.TemporaryDirectory() as directory:
        merger = Merger(directory, 256)
        tables = [
            merger.run([(key, run[key], count_of_runs - age) for key in sorted(run)])
            for age, run in enumerate(runs)
        ]
        rows = rows_of(merger.merged(tables, snapshots, drop_deletions=True))
    for snapshot in [*snapshots, count_of_runs]:
        expected: Contents = {}
        for age in reversed(range(count_of_runs)):
            if count_of_runs - age <= snapshot:
                expected |= runs[age]
        found: Contents = {}
        for key, value, seq in rows:
            if seq <= snapshot:
                found.setdefault(key, value)
        assert without_deletions(found) == without_deletions(expected)


def without_deletions(versions: Contents) -> Contents:
    return {key: value for key, value in versions.items() if value is not None}


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
