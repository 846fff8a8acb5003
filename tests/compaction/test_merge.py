"""Merged versions and tables keep each key's newest version, as a dict would."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from columns import as_columns, as_rows
from lsmkv.compaction.merge import flushed_batches, merge_tables, surviving
from lsmkv.encoding.entries import MAX_KEY_BYTES
from lsmkv.encoding.entry_batch import Entry, EntryBatch, EntrySlice, batches_of, joined
from lsmkv.encoding.expiry import Held
from lsmkv.options import Options
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.multi_writer import TableJob, write_tables
from lsmkv.sstable.reader import TableReader
from lsmkv.storage.file_names import table_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.version_set import table_format

KEYS = [b"", b"a", b"aa", b"ab", b"b", b"c", b"\xff", b"\xff\xff"]
few_values = st.none() | st.binary(max_size=1)


# Dropped versions, against a definition by key and snapshot.


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[Entry]], list[int]]:
    """Versions by key, newest first, and snapshots."""
    batches: list[list[Entry]] = []
    for key in sorted(draw(st.sets(st.sampled_from(KEYS), max_size=3))):
        seqs = sorted(draw(st.sets(st.integers(0, 12), min_size=1, max_size=6)), reverse=True)
        batches.append([(key, draw(few_values), seq) for seq in seqs])
    return batches, sorted(draw(st.sets(st.integers(0, 13), max_size=4)))


NOW = 99


def seen(versions: list[Entry], snapshot: int) -> dict[bytes, bytes]:
    newest: dict[bytes, Held] = {}
    for key, value, seq in versions:
        if seq <= snapshot:
            newest.setdefault(key, value)
    return {key: value for key, value in newest.items() if isinstance(value, bytes)}


def retained(batches: list[list[Entry]], snapshots: list[int], drop: bool) -> list[Entry]:
    return as_rows(merged([as_columns(batch)], snapshots, drop) for batch in batches)


def merged(parts: list[EntryBatch], snapshots: list[int], drop: bool) -> EntryBatch:
    return surviving([EntrySlice(part, 0, part.count) for part in parts], snapshots, drop, False)


@given(histories(), st.booleans())
def test_every_snapshot_and_the_present_see_the_same_afterwards(
    history: tuple[list[list[Entry]], list[int]], drop_deletions: bool
) -> None:
    batches, snapshots = history
    kept = retained(batches, snapshots, drop_deletions)
    everything = [version for batch in batches for version in batch]
    for reader in (*snapshots, NOW):
        assert seen(kept, reader) == seen(everything, reader)


@given(histories())
def test_a_flush_keeps_the_versions_of_a_compaction_with_their_sequence_numbers(
    history: tuple[list[list[Entry]], list[int]],
) -> None:
    batches, snapshots = history
    for drop in (False, True):
        flushed = as_rows(flushed_batches(map(as_columns, batches), snapshots, drop))
        compacted = retained(batches, snapshots, drop)
        assert [row[:2] for row in flushed] == [row[:2] for row in compacted]
        assert set(flushed) <= {version for batch in batches for version in batch}


@given(histories())
def test_exactly_the_visible_versions_are_kept_if_deletions_are(
    history: tuple[list[list[Entry]], list[int]],
) -> None:
    batches, snapshots = history
    expected = {
        next(version for version in batch if version[2] <= reader)
        for batch in batches
        for reader in (*snapshots, NOW)
        if batch[-1][2] <= reader
    }
    kept = retained(batches, snapshots, False)
    assert kept == [version for batch in batches for version in batch if version in expected]


@given(histories())
def test_dropping_deletions_leaves_none_that_hides_nothing(
    history: tuple[list[list[Entry]], list[int]],
) -> None:
    batches, snapshots = history
    kept = retained(batches, snapshots, True)
    oldest = min(snapshots, default=NOW)
    assert not [version for version in kept if version[1] is None and version[2] <= oldest]


@given(histories())
def test_versions_that_every_snapshot_sees_lose_their_sequence_number(
    history: tuple[list[list[Entry]], list[int]],
) -> None:
    batches, snapshots = history
    oldest = min(snapshots, default=NOW)
    assert all(seq == 0 or seq > oldest for _, _, seq in retained(batches, snapshots, True))


# Several parts, newest first.


def test_a_part_without_repeats_is_passed_on_as_it_is() -> None:
    batch = EntryBatch.of([b"a", b"b"], [b"1", None], [7, 7], may_repeat=False)
    assert merged([batch], [3], False) is batch


def test_long_stretches_of_one_part_are_moved_whole_and_repeats_are_found_at_their_ends() -> None:
    # Longer than the stretches compared key by key, with common keys in the middle and at both ends.
    older = EntryBatch.of(
        [b"%04d" % n for n in range(200)], [b"old"] * 200, [], may_repeat=False, one_seq=1
    )
    rare = [0, 1, 100, 101, 150, 199, 300]
    newer = EntryBatch.of([b"%04d" % n for n in rare], [b"new"] * 7, [2] * 7, may_repeat=False)
    assert as_rows([merged([newer, older], [], False)]) == [
        (b"%04d" % n, b"new", 2) if n in rare else (b"%04d" % n, b"old", 1)
        for n in [*range(200), 300]
    ]


# Columns with one sequence number for all entries, or with many.


def _columns(start: int, count: int, one_seq: int) -> tuple[EntryBatch, list[Entry]]:
    keys: list[bytes] = [b"%03d" % number for number in range(start, start + count)]
    seqs = [number + 50 for number in range(count)] if one_seq < 0 else [one_seq] * count
    listed = seqs if one_seq < 0 else []
    made = EntryBatch.of(list(keys), [b"v"] * count, listed, may_repeat=False, one_seq=one_seq)
    return made, [(key, b"v", seq) for key, seq in zip(keys, seqs, strict=True)]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([-1, 0, 7])), min_size=1, max_size=6))
def test_columns_taken_together_keep_their_sequence_numbers(parts: list[tuple[int, int]]) -> None:
    rows: list[Entry] = []
    taken: list[EntrySlice] = []
    for size, one_seq in parts:
        made, expected = _columns(len(rows), size, one_seq)
        taken.append(EntrySlice(made, 0, size))
        rows += expected
    together = joined(taken)
    assert as_rows([together]) == rows
    assert together.one_seq >= 0 or len({seq for _, seq in parts}) > 1 or parts[0][1] < 0


class Merger:
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


@st.composite
def split_histories(
    draw: st.DrawFn,
) -> tuple[list[list[list[Entry]]], list[list[Entry]], list[int]]:
    """Runs, newest first; the versions of each key, newest first; snapshots.

    A run has a range of each key's versions, older than those of the runs before it.  Its tables have any
    number of keys.
    """
    drawn = draw(st.dictionaries(keys, st.lists(values, min_size=1, max_size=5), max_size=12))
    history: list[list[Entry]] = [
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


def test_only_blocks_that_have_a_deletion_hold_tags() -> None:
    rows: list[Entry] = [(b"%03d" % number, b"v" * 50, 1) for number in range(60)]
    rows[0] = (b"000", None, 1)
    with tempfile.TemporaryDirectory() as directory:
        (table,) = Merger(directory, 256).run(rows)
        blocks = [table.block(number, False) for number in range(table.index.block_count)]
    assert [block.has_tags for block in blocks] == [True, *[False] * (len(blocks) - 1)]
