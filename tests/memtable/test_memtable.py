from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from columns import as_rows
from lsmkv.encoding.entries import ABSENT
from lsmkv.encoding.expiry import Clock, Held, Moment
from lsmkv.memtable.memtable import Memtable
from lsmkv.read.sources import ENDED, UNREAD, MemtableSource

small_keys = st.sampled_from([b"", b"a", b"aa", b"ab", b"b", b"\xff", b"\xff\xff"])
bounds = st.none() | small_keys | st.sampled_from([b"\0", b"a\0", b"zz", b"\xff\xff\xff"])
Write = tuple[bytes, Held]
Step = Write | list[Write] | Literal["snapshot", "release"]
writes = st.tuples(small_keys, st.none() | st.binary(max_size=2))
# A write, a batch (which, repeated, is long enough to stay unindexed), a new snapshot, or the release of
# all snapshots.
_REPEATS = 16
_snapshots: st.SearchStrategy[Step] = st.sampled_from(["snapshot", "snapshot", "release"])
steps = st.lists(writes | st.lists(writes, min_size=1, max_size=5) | _snapshots, max_size=30)
Frozen = dict[bytes, Held]


def play(steps: list[Step]) -> tuple[Memtable, dict[int, Frozen]]:
    """A memtable after ``steps``, and its contents at each snapshot."""
    memtable = Memtable(1, 1)
    contents: Frozen = {}
    frozen: dict[int, Frozen] = {}
    seq = 0
    for step in steps:
        if step == "snapshot":
            frozen[seq] = dict(contents)
        elif step == "release":
            frozen.clear()
        elif isinstance(step, list):
            memtable.put_all(step * _REPEATS, seq + 1, bool(frozen))
            seq += len(step) * _REPEATS
            contents.update(step)
        else:
            seq += 1
            key, value = step
            memtable.put(key, value, seq, bool(frozen))
            contents[key] = value
    frozen[seq] = contents
    return memtable, frozen


def within(key: bytes, start: bytes | None, stop: bytes | None) -> bool:
    return (start is None or key >= start) and (stop is None or key < stop)


@given(steps)
def test_get_at_sees_what_was_there_at_each_snapshot(steps: list[Step]) -> None:
    memtable, frozen = play(steps)
    for seq, contents in frozen.items():
        for key in (b"", b"a", b"aa", b"ab", b"b", b"\xff", b"\xff\xff"):
            assert memtable.get_at(key, seq) == contents.get(key, ABSENT)


def rest_of(source: MemtableSource) -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytes]] = []
    while source.state != ENDED:
        if source.state == UNREAD:
            source.load(True)
        else:
            source.take(None, 3, found)
    return found


def scanned(
    memtable: Memtable, seq: int, start: bytes | None, stop: bytes | None, reverse: bool
) -> list[tuple[bytes, bytes]]:
    return rest_of(MemtableSource(memtable, seq, [(start, stop)], reverse, Moment(Clock())))


@given(steps, bounds, bounds, st.booleans())
def test_scan_sees_what_was_there_at_each_snapshot(
    steps: list[Step], start: bytes | None, stop: bytes | None, reverse: bool
) -> None:
    memtable, frozen = play(steps)
    for seq, contents in frozen.items():
        wanted = sorted(
            (key, value)
            for key, value in contents.items()
            if value is not None and within(key, start, stop)
        )
        found = scanned(memtable, seq, start, stop, reverse)
        assert found == (wanted[::-1] if reverse else wanted)


@given(steps)
def test_versions_hold_what_every_snapshot_sees(steps: list[Step]) -> None:
    memtable, frozen = play(steps)
    found = as_rows(memtable.entry_batches())
    places = [(key, -seq) for key, _, seq in found]
    assert places == sorted(set(places))  # newest first
    for seq, contents in frozen.items():
        seen: Frozen = {}
        for key, value, number in found:
            if number <= seq:
                seen.setdefault(key, value)
        assert seen == contents


@given(steps)
def test_versions_are_the_same_whether_or_not_a_reader_was_there_before(steps: list[Step]) -> None:
    memtable, frozen = play(steps)
    others, _ = play(steps)
    assert len(others) == len(frozen[max(frozen)])  # which looks at every key
    assert as_rows(memtable.entry_batches()) == as_rows(others.entry_batches())


@given(steps)
def test_all_versions_of_a_key_stand_in_one_stretch(steps: list[Step]) -> None:
    memtable, _ = play(steps)
    keys = [{key for key, _, _ in as_rows([batch])} for batch in memtable.entry_batches()]
    assert sum(map(len, keys)) == len(set().union(*keys))


@given(steps)
def test_a_batch_tells_that_a_key_may_repeat(steps: list[Step]) -> None:
    memtable, _ = play(steps)
    for batch in memtable.entry_batches():
        keys = [key for key, _, _ in as_rows([batch])]
        assert batch.may_repeat or len(set(keys)) == len(keys)


def test_large_values_are_handed_over_a_few_at_a_time() -> None:
    memtable = Memtable(1, 1)
    for number in range(64):
        memtable.put(b"%02d" % number, b"v" * 100_000, 1, keep_old=False)
    batches = list(memtable.entry_batches())
    assert max(batch.size_bytes for batch in batches) < 400_000
    assert [key for key, _, _ in as_rows(batches)] == [b"%02d" % number for number in range(64)]


def test_a_scan_goes_on_while_keys_are_written() -> None:
    memtable = Memtable(1, 1)
    for number in range(600):
        memtable.put(b"%04d" % number, b"old", number + 1, False)
    scan = MemtableSource(memtable, 600, [(None, None)], False, Moment(Clock()))
    found: list[tuple[bytes, bytes]] = []
    scan.take(None, 5, found)
    for number in range(600):
        memtable.put(b"%04d" % number, b"new", 601 + 2 * number, True)
        memtable.put(b"%04d+" % number, b"new", 602 + 2 * number, True)
    assert found + rest_of(scan) == [(b"%04d" % number, b"old") for number in range(600)]


class _Interrupted(dict[bytes, Held]):
    """A dict that another thread writes to when it is walked backwards."""

    def __init__(self, arrivals: list[bytes]) -> None:
        super().__init__()
        self._arrivals = arrivals

    def __reversed__(self) -> Iterator[bytes]:
        walk = super().__reversed__()
        if self._arrivals:
            self[self._arrivals.pop()] = b"late"
        return walk


def test_a_write_while_a_scan_sorts_the_keys_loses_none_and_repeats_none() -> None:
    memtable = Memtable(1, 1)
    memtable._live = _Interrupted([b"y", b"x"])
    memtable.put(b"k", b"early", 1, False)
    assert scanned(memtable, 99, None, None, reverse=False) == [
        (b"k", b"early"),
        (b"x", b"late"),
        (b"y", b"late"),
    ]
    memtable.put(b"a", b"last", 4, False)
    found = scanned(memtable, 99, None, None, reverse=True)
    assert [key for key, _ in found] == [b"y", b"x", b"k", b"a"]


def test_keys_with_a_value_and_deleted_ones_are_counted_apart() -> None:
    memtable = Memtable(1, 1)
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"c", None), (b"a", b"3")):
        memtable.put(key, value, 1, False)
    assert (memtable.key_counts(), len(memtable)) == ((2, 1), 3)


@pytest.mark.parametrize(("keep_old", "kept"), [(False, 0), (True, 3)])
def test_old_versions_are_kept_only_on_demand(keep_old: bool, kept: int) -> None:
    memtable = Memtable(1, 1)
    for seq in (1, 2, 3):
        memtable.put(b"k", b"v", seq, keep_old)
    assert memtable.history_count == kept


def _batch(count: int, value: Held) -> list[Write]:
    return [(b"%04d" % number, value) for number in range(count)]


def test_an_unread_batch_is_flushed_as_it_came() -> None:
    memtable = Memtable(1, 1)
    memtable.put_all(_batch(500, b"old"), 1, False)
    memtable.put_all(_batch(400, b"new"), 501, False)
    assert [(key, value) for key, value, _ in as_rows(memtable.entry_batches())] == sorted(
        {**dict(_batch(500, b"old")), **dict(_batch(400, b"new"))}.items()
    )
    assert len(memtable.batches) == 2


def test_a_batch_after_the_last_snapshot_was_released_is_flushed() -> None:
    memtable = Memtable(1, 1)
    memtable.put(b"0042", b"old", 1, False)
    memtable.put(b"0042", b"newer", 2, True)
    memtable.put_all(_batch(100, b"newest"), 3, False)
    rows = as_rows(memtable.entry_batches())
    assert len({key for key, _, _ in rows}) == 100
    assert [value for key, value, _ in rows if key == b"0042"] == [b"newest", b"old"]


def test_a_memtable_is_not_empty_once_a_batch_came() -> None:
    memtable = Memtable(1, 1)
    assert memtable.is_empty
    memtable.put_all(_batch(100, b""), 1, False)
    assert not memtable.is_empty
    assert (len(memtable), memtable.is_empty) == (100, False)


def test_repeated_keys_of_batches_are_counted_once_after_indexing() -> None:
    memtable = Memtable(1, 1)
    memtable.put(b"0007", b"", 1, False)
    memtable.put_all(_batch(100, None), 2, False)
    assert memtable.key_count_bound == 101
    assert memtable.key_counts() == (0, 100)
    assert memtable.key_count_bound == 100
