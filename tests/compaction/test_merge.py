from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from columns import as_columns, as_rows
from lsmkv.compaction.merge import flushed_batches, surviving
from lsmkv.encoding.entry_batch import Entry, EntryBatch, EntrySlice, joined

KEYS = [b"", b"a", b"aa", b"ab", b"b", b"c", b"\xff", b"\xff\xff"]
values = st.none() | st.binary(max_size=1)


# Dropped versions, against a definition by key and snapshot.


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[Entry]], list[int]]:
    """Versions by key, newest first, and snapshots."""
    batches: list[list[Entry]] = []
    for key in sorted(draw(st.sets(st.sampled_from(KEYS), max_size=3))):
        seqs = sorted(draw(st.sets(st.integers(0, 12), min_size=1, max_size=6)), reverse=True)
        batches.append([(key, draw(values), seq) for seq in seqs])
    return batches, sorted(draw(st.sets(st.integers(0, 13), max_size=4)))


NOW = 99


def seen(versions: list[Entry], snapshot: int) -> dict[bytes, bytes]:
    """The value of each key that a reader as of ``snapshot`` sees."""
    newest: dict[bytes, bytes | None] = {}
    for key, value, seq in versions:
        if seq <= snapshot:
            newest.setdefault(key, value)
    return {key: value for key, value in newest.items() if value is not None}


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


@given(histories())
def test_order_is_kept_and_no_version_stands_twice(
    history: tuple[list[list[Entry]], list[int]],
) -> None:
    batches, snapshots = history
    for drop_deletions in (False, True):
        places = [(key, -seq) for key, _, seq in retained(batches, snapshots, drop_deletions)]
        assert places == sorted(set(places))


@pytest.mark.parametrize("drop_deletions", [False, True])
def test_without_snapshots_one_version_of_each_key_is_left(drop_deletions: bool) -> None:
    batches: list[list[Entry]] = [[(b"a", b"3", 3), (b"a", b"2", 2), (b"a", None, 1)]]
    kept = retained(batches, [], drop_deletions)
    assert kept == [(b"a", b"3", 0 if drop_deletions else 3)]


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


@given(st.integers(2, 9))
def test_the_newest_of_any_number_of_parts_wins(count: int) -> None:
    parts = [
        EntryBatch.of([b"k", b"k%d" % n], [b"%d" % n, b""], [], may_repeat=False, one_seq=count - n)
        for n in range(count)
    ]
    rows = as_rows([merged(parts, [], False)])
    assert rows == [(b"k", b"0", count), *((b"k%d" % n, b"", count - n) for n in range(count))]


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
    for count, one_seq in parts:
        made, expected = _columns(len(rows), count, one_seq)
        taken.append(EntrySlice(made, 0, count))
        rows += expected
    together = joined(taken)
    assert as_rows([together]) == rows
    assert together.one_seq >= 0 or len({seq for _, seq in parts}) > 1 or parts[0][1] < 0
