"""The chain of logs: which logs count, and torn tails or damage."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from damage import flip
from lsmkv.errors import CorruptionError
from lsmkv.log.chain import ClosedLog, log_numbers, read_chain, trusted_logs
from lsmkv.log.reader import HEADER_BYTES, LogReader, read_log
from lsmkv.log.writer import LogWriter
from lsmkv.storage.storage import Storage


@dataclass
class Logs:
    """Logs that are written record by record."""

    directory: Path
    writers: dict[int, LogWriter] = field(default_factory=dict)
    storage: Storage = field(default_factory=Storage)

    def add(self, number: int, after: int = 0, *, records: int = 2, sync: bool = True) -> LogWriter:
        path = str(self.path(number))
        log = LogWriter.create(self.storage, path, number, "log", self.writers.get(after))
        self.writers[number] = log
        for _ in range(records):
            self.put(number, sync=sync)
        return log

    def put(self, number: int, *, sync: bool = False) -> None:
        log = self.writers[number]
        log.append(b"a record of some length")
        if sync:
            log.sync_through(log.end)

    def path(self, number: int) -> Path:
        return self.directory / f"{number:06}.log"

    def lose_end(self, number: int) -> None:
        """Cut the last record off."""
        self.writers[number].close()
        os.truncate(self.path(number), self.writers[number].end - 1)


def three(logs: Logs, *, sync: bool = True) -> None:
    logs.add(1, sync=sync)
    logs.add(2, 1, sync=sync)
    logs.add(3, 2, sync=sync)


def whole(logs: Logs) -> None:
    three(logs)


def torn_at_the_end(logs: Logs) -> None:
    three(logs, sync=False)
    logs.lose_end(3)


def unsynced_log_after_a_torn_tail(logs: Logs) -> None:
    three(logs, sync=False)
    logs.lose_end(2)


def synced_log_after_a_lost_end(logs: Logs) -> None:
    logs.add(1, sync=False)
    logs.add(2, 1)
    logs.lose_end(1)


def unused_log_before_a_synced_one_after_a_lost_end(logs: Logs) -> None:
    logs.add(1, sync=False)
    logs.add(2, 1, records=0)
    logs.add(3, 1)
    logs.lose_end(1)


def damage_below_a_mark(logs: Logs) -> None:
    three(logs)
    for log in logs.writers.values():
        log.close()
    flip(logs.path(2), HEADER_BYTES + 9)


def damaged_header(logs: Logs) -> None:
    three(logs)
    flip(logs.path(2), 20)


def missing_in_the_middle(logs: Logs) -> None:
    three(logs)
    logs.path(2).unlink()


def missing_first(logs: Logs) -> None:
    three(logs)
    logs.path(1).unlink()


def first_cut_short(logs: Logs) -> None:
    three(logs)
    os.truncate(logs.path(1), 20)


def last_cut_short(logs: Logs) -> None:
    three(logs)
    os.truncate(logs.path(3), 20)


def unused_before_its_successor(logs: Logs) -> None:
    logs.add(1)
    logs.add(2, 1, records=0)
    logs.add(3, 1)


def unused_at_the_end(logs: Logs) -> None:
    logs.add(1)
    logs.add(2, 1, records=0)
    logs.put(1)


# By case: the recovered logs, or a part of the error; and the logs in the chain.
CASES: list[tuple[Callable[[Logs], None], list[int] | str, list[int]]] = [
    (whole, [1, 2, 3], [1, 2, 3]),
    (torn_at_the_end, [1, 2, 3], [1, 2, 3]),
    (unsynced_log_after_a_torn_tail, [1, 2], [1, 2, 3]),
    (synced_log_after_a_lost_end, "000001.log at offset 88: records are missing", [1, 2]),
    (
        unused_log_before_a_synced_one_after_a_lost_end,
        "000001.log at offset 88: records are missing",
        [1, 3],
    ),
    (damage_below_a_mark, "000002.log at offset 56: damaged record in a log", [1, 2, 3]),
    (damaged_header, "000002.log at offset 0: not a log file", [1, 2, 3]),
    (missing_in_the_middle, "000003.log at offset 0: it follows log 2, which is", [1, 3]),
    (missing_first, "000001.log: the log that the manifest names is missing", [2, 3]),
    (first_cut_short, "000001.log at offset 0: the log is cut short inside", [1, 2, 3]),
    (last_cut_short, [1, 2], [1, 2]),
    (unused_before_its_successor, [1, 3], [1, 3]),
    (unused_at_the_end, [1], [1]),
]


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


@pytest.mark.parametrize(
    ("make", "trusted", "chained"), CASES, ids=[case[0].__name__ for case in CASES]
)
def test_a_torn_tail_is_dropped_and_damage_is_an_error(
    logs: Logs, make: Callable[[Logs], None], trusted: list[int] | str, chained: list[int]
) -> None:
    make(logs)
    directory = str(logs.directory)
    numbers = log_numbers(os.listdir(directory), 1)
    chain = read_chain(logs.storage, directory, numbers, 1, ClosedLog())
    assert [log.number for log in chain] == chained
    if isinstance(trusted, list):
        found = trusted_logs(logs.storage, directory, numbers, 1, ClosedLog())
        assert [log.number for log in found] == trusted
    else:
        with pytest.raises(CorruptionError) as caught:
            trusted_logs(logs.storage, directory, numbers, 1, ClosedLog())
        assert trusted in str(caught.value)


@pytest.mark.parametrize(
    ("closed", "reason"),
    [
        (ClosedLog(3, 120), ""),
        (ClosedLog(3, 1 << 20), "where it was closed"),
        (ClosedLog(3, 120, 5), "the log of another store"),
        (ClosedLog(4, 120), "closed with is missing"),
    ],
)
def test_the_log_that_the_store_was_closed_with_must_be_whole(
    logs: Logs, closed: ClosedLog, reason: str
) -> None:
    three(logs)
    directory = str(logs.directory)
    if not reason:
        assert len(trusted_logs(logs.storage, directory, [1, 2, 3], 1, closed)) == 3
        return
    with pytest.raises(CorruptionError, match=reason):
        trusted_logs(logs.storage, directory, [1, 2, 3], 1, closed)


def test_the_records_before_damage_are_read(logs: Logs) -> None:
    logs.add(1, records=3).close()
    whole_log = read_log(logs.storage, str(logs.path(1)), 1, "log")
    assert whole_log is not None
    offsets = [offset for offset, _ in whole_log.records()]
    flip(logs.path(1), offsets[1] + 9)
    (log,) = read_chain(logs.storage, str(logs.directory), [1], 1, ClosedLog())
    assert isinstance(log.error, CorruptionError)
    assert log.contents is not None
    assert [offset for offset, _ in log.contents.records()] == offsets[:1]


@pytest.mark.parametrize(
    "make", [damaged_header, damage_below_a_mark, missing_in_the_middle, missing_first]
)
def test_an_error_that_is_dropped_keeps_no_log_in_memory(
    logs: Logs, make: Callable[[Logs], None]
) -> None:
    make(logs)
    numbers = log_numbers(os.listdir(logs.directory), 1)
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(CorruptionError):
            trusted_logs(logs.storage, str(logs.directory), numbers, 1, ClosedLog())
        kept = [found for found in gc.get_objects() if isinstance(found, LogReader)]
        assert not [log for log in kept if log.path.startswith(str(logs.directory))]
    finally:
        gc.enable()
