"""The scenario ``transactions``: nothing is found, planted defects are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lsmkv.api import reads
from lsmkv.api.snapshot import Snapshot
from lsmkv.api.transaction import TransactionState
from lsmkv.encoding.entries import Absent
from lsmkv.encoding.expiry import Held
from lsmkv.engine.recent_writes import RecentWrites
from torture.framework.part import Scale, UnsoundError
from torture.load import transactions
from torture.load.scenario import Job

TRIES = 20


def play(directory: Path, seed: int = 1, seconds: float = 1.0) -> Job:
    directory.mkdir()
    job = Job("thread", seed, directory, seconds, Scale.CI)
    transactions.run(job)
    return job


def test_calls_of_every_kind_in_many_threads_are_explained_by_the_log(tmp_path: Path) -> None:
    counts = play(tmp_path / "run").counts
    kinds = {"transaction", "put", "batch", "compare_and_set", "get", "scan", "snapshot", "push"}
    assert all(counts[kind] for kind in (*kinds, "pop", "flushes"))


def nothing(*_: object) -> None:
    pass


def newest(state: TransactionState, key: bytes) -> Held:
    own = state.own.get(key)
    if isinstance(own, Absent):
        state.reads.keys.add(key)
        return state.snapshot._readers.lookup(key)
    return own


DEFECTS: dict[str, tuple[Any, str, Any]] = {
    "reads are not checked": (reads.Reads, "check", nothing),
    "ranges are not checked": (reads.ReadRange, "seen", nothing),
    "writes are not remembered": (RecentWrites, "_add", nothing),
    "single puts are not remembered": (RecentWrites, "add", nothing),
    "the newest values are read": (TransactionState, "get", newest),
    "snapshots look up the newest values": (
        Snapshot, "multi_get", lambda held, keys: [held._readers.lookup(key) for key in keys],
    ),
}  # fmt: skip


@pytest.mark.slow  # `make test` tests the store, not its testers
@pytest.mark.parametrize("name", DEFECTS)
def test_it_is_found_when(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where, what, instead = DEFECTS[name]
    monkeypatch.setattr(where, what, instead)
    with pytest.raises(UnsoundError, match=r"by the log it is|in the log's order|explains"):
        for seed in range(TRIES):
            play(tmp_path / str(seed), seed, 0.2)
