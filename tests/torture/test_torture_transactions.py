"""The scenario ``transactions``: nothing is found, planted defects are, and the replay judges rightly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lsmkv.api import reads
from lsmkv.api.snapshot import Snapshot
from lsmkv.api.transaction import TransactionState
from lsmkv.encoding.entries import Absent
from lsmkv.engine.recent_writes import RecentWrites
from torture.framework.part import Scale, UnsoundError
from torture.load import transactions
from torture.load.log_order import Call, Record, check_order
from torture.load.scenario import Job

pytestmark = pytest.mark.slow  # `make test` tests the store, not its testers

A, B = b"a", b"b"
TRIES = 20


def play(directory: Path, seed: int = 1, seconds: float = 0.2) -> Job:
    directory.mkdir()
    job = Job("thread", seed, directory, seconds, Scale.CI)
    transactions.run(job)
    return job


def test_calls_of_every_kind_are_explained_by_the_log(tmp_path: Path) -> None:
    counts = play(tmp_path / "run").counts
    kinds = {"transaction", "put", "batch", "compare_and_set", "get", "scan", "snapshot", "push"}
    assert all(counts[kind] for kind in (*kinds, "pop", "flushes"))


def nothing(*_: object) -> None:
    pass


def newest(state: TransactionState, key: bytes) -> bytes | None:
    own = state.own.get(key)
    if isinstance(own, Absent):
        state.reads.keys.add(key)
        return state.snapshot._readers.lookup(key)
    return own


DEFECTS: dict[str, tuple[Any, str, Any]] = {
    "reads are not checked": (reads.Reads, "check", nothing),
    "ranges are not checked": (reads._Ranges, "have", lambda *_: False),
    "writes are not remembered": (RecentWrites, "_add", nothing),
    "single puts are not remembered": (RecentWrites, "add", nothing),
    "the newest values are read": (TransactionState, "get", newest),
    "snapshots look up the newest values": (
        Snapshot, "multi_get", lambda held, keys: [held._readers.lookup(key) for key in keys],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFECTS)
def test_it_is_found_when(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where, what, instead = DEFECTS[name]
    monkeypatch.setattr(where, what, instead)
    with pytest.raises(UnsoundError, match=r"in the log's order|explains"):
        for seed in range(TRIES):
            play(tmp_path / str(seed), seed)


# --- the replay ---


def writer(number: int, begun: int, ended: int, key: bytes = A, **read: bytes | None) -> Call:
    """A call that puts its number at ``key``, after it has read other keys."""
    call = Call(number, "write", begun, ended, committed=True)
    for name, value in read.items():
        call.note("get", name.encode(), answer=value)
    call.note("put", key, b"%d.0" % number)
    return call


def reader(begun: int, ended: int, **read: bytes | None) -> Call:
    call = Call(99, "read", begun, ended)
    for name, value in read.items():
        call.note("get", name.encode(), answer=value)
    return call


def put(number: int, key: bytes = A) -> Record:
    return [(key, b"%d.0" % number)]


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ([put(2), put(1)], "write 2 began after write 1 had returned"),
        ([put(1)], "not in the log: write 2"),
        ([put(1), put(2), put(3)], "no call explains"),
        ([put(1), put(1), put(2)], "no call explains"),
        ([put(1), [*put(2), (B, b"2.0")]], "the log has"),
        ([put(1), put(2), [(A, None)]], "no call explains"),
    ],
)
def test_a_log_that_is_not_what_the_calls_did_is_unsound(order: list[Record], said: str) -> None:
    with pytest.raises(UnsoundError, match=said):
        check_order([writer(1, 0, 1), writer(2, 2, 3)], order)


def test_a_writer_reads_what_the_log_has_before_it() -> None:
    calls = [writer(1, 0, 9), writer(2, 0, 9, B, a=b"1.0")]
    check_order(calls, [put(1), put(2, B)])
    with pytest.raises(UnsoundError, match="in the log's order it is None"):
        check_order(calls, [put(2, B), put(1)])


@pytest.mark.parametrize(
    ("read", "is_sound"),
    [
        (reader(0, 9, a=None), True),
        (reader(0, 9, a=b"1.0", b=None), True),
        (reader(0, 9, a=b"1.0", b=b"2.0"), True),
        (reader(0, 9, a=None, b=b"2.0"), False),  # no state has only the second
        (reader(2, 9, a=None), False),  # the first had returned
        (reader(0, 2, b=b"2.0"), False),  # the second had not begun
        (reader(2, 9, a=b"1.0", b=b"2.0"), True),
    ],
)
def test_a_reader_agrees_with_one_state_of_its_time(read: Call, is_sound: bool) -> None:
    calls = [writer(1, 0, 1), writer(2, 3, 4, B), read]
    if is_sound:
        check_order(calls, [put(1), put(2, B)])
        return
    with pytest.raises(UnsoundError, match="read 99"):
        check_order(calls, [put(1), put(2, B)])
