"""Refreshed handles equal fresh ones, and follow by themselves."""

from __future__ import annotations

import gc
import os
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import SMALL, open_small
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import lsmkv
from forked_children import in_child
from gates import WAIT_S
from other_processes import line_of, process, run
from threaded_stores import wait_until


def state_of(db: lsmkv.DB) -> tuple[int, dict[bytes, bytes]]:
    with db.snapshot() as snapshot:
        return snapshot.sequence_number, dict(snapshot.items())


class RefreshMachine(RuleBasedStateMachine):
    """After each step of a writer, a refreshed handle shows what a fresh one does."""

    numbers = st.integers(0, 40)

    def __init__(self, directory: Path) -> None:
        super().__init__()
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        self.directory = directory
        self.path = directory / "store"
        self.options: dict[str, Any] = {"level0_compaction_trigger": 2}

    @initialize(size=st.sampled_from([4096, 20_000, 1_000_000]))
    def begin(self, size: int) -> None:
        self.options["write_buffer_size_bytes"] = size
        self.writer = open_small(self.path, **self.options)
        self.reader = open_small(self.path, read_only=True)
        self.rare = open_small(self.path, read_only=True)
        self.shown = state_of(self.reader)

    @rule(number=numbers, value=st.binary(max_size=200), sync=st.booleans())
    def put(self, number: int, value: bytes, sync: bool) -> None:
        self.writer.put(b"%04d" % number, value, sync=sync)

    @rule(number=numbers)
    def delete(self, number: int) -> None:
        self.writer.delete(b"%04d" % number)

    @rule(numbers=st.lists(numbers, min_size=1, max_size=40), value=st.binary(max_size=30))
    def batch(self, numbers: list[int], value: bytes) -> None:
        with self.writer.write_batch() as batch:
            for number in numbers:
                batch.put(b"%04d" % number, value)

    @rule()
    def flush(self) -> None:
        self.writer.flush()

    @rule()
    def compact(self) -> None:
        self.writer.compact_range(force=True)

    @rule()
    def ingest(self) -> None:
        table = self.directory / "outside.sst"
        table.unlink(missing_ok=True)
        with lsmkv.TableWriter(table) as writer:
            writer.add(b"%04d" % 7, b"ingested")
        self.writer.ingest([table])

    @rule()
    def rewrite_manifest(self) -> None:
        tables = self.writer._engine.tables
        with tables.lock:
            tables.manifest.rewrite()

    @rule()
    def reopen(self) -> None:
        self.writer.close()
        self.writer = open_small(self.path, **self.options)

    @rule()
    def crash(self) -> None:
        """The store as it was at a kill, in its place; its writer ends."""
        self.writer.wait_until_settled()
        copy = self.directory / "copy"
        shutil.copytree(self.path, copy)
        self.writer.close()
        shutil.rmtree(self.path)
        copy.rename(self.path)
        self.writer = open_small(self.path, **self.options)

    @rule()
    def refresh_rarely(self) -> None:
        self.rare.refresh()
        assert state_of(self.rare) == state_of(self.writer)

    @invariant()
    def a_refreshed_handle_shows_what_a_fresh_one_does(self) -> None:
        found_more = self.reader.refresh()
        state = state_of(self.reader)
        with open_small(self.path, read_only=True) as fresh:
            assert state == state_of(fresh) == state_of(self.writer)
        assert found_more or state == self.shown
        self.shown = state
        for number in range(0, 41, 8):
            key = b"%04d" % number
            assert self.reader.get(key) == state[1].get(key)

    def teardown(self) -> None:
        for db in (self.reader, self.rare, self.writer):
            db.close()


def run_machine(tmp_path: Path, count: int, steps: int) -> None:
    class Machine(RefreshMachine):
        def __init__(self) -> None:
            super().__init__(tmp_path / "machine")

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=count,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_a_refreshed_handle_equals_a_fresh_one(tmp_path: Path) -> None:
    run_machine(tmp_path, 6, 15)


@pytest.mark.slow
def test_a_refreshed_handle_equals_a_fresh_one_in_long_programs(tmp_path: Path) -> None:
    run_machine(tmp_path, 150, 60)


COUNTING_WRITER = """
import random
number = int(sys.argv[2])
with lsmkv.open(sys.argv[1], write_buffer_size_bytes=60_000, table_size_bytes=20_000,
                level0_compaction_trigger=2) as db:
    print("open", flush=True)
    while True:
        number += 1
        db.put(b"first", b"%09d" % number)
        with db.write_batch(sync=number % 50 == 0) as batch:
            for key in random.sample(range(300), random.randrange(1, 30)):
                batch.put(b"filler%06d" % key, b"%09d" % number)
        db.put(b"second", b"%09d" % number)
"""


pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@pytest.fixture
def followed(path: str) -> Iterator[tuple[lsmkv.DB, lsmkv.DB]]:
    """A writer, and a read-only handle that refreshes itself."""
    with (
        open_small(path) as writer,
        lsmkv.open(path, SMALL, read_only=True, refresh_every_s=0.005) as reader,
    ):
        yield writer, reader


def follower_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "lsmkv-refresh"]


def shows(reader: lsmkv.DB, value: bytes) -> bool:
    return reader.get(b"key") == value


def test_a_handle_may_follow_by_itself(followed: tuple[lsmkv.DB, lsmkv.DB]) -> None:
    writer, reader = followed
    for number in range(3):
        writer[b"key"] = b"%d" % number
        wait_until(partial(shows, reader, b"%d" % number))
        assert reader.refresh() is True  # since the last call
        assert reader.refresh() is False


def test_close_ends_the_thread_that_follows(path: str, store: dict[bytes, bytes]) -> None:
    with lsmkv.open(path, read_only=True, refresh_every_s=1000):
        wait_until(lambda: len(follower_threads()) == 1)
    assert follower_threads() == []


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_dropped_handle_follows_no_more(path: str, store: dict[bytes, bytes]) -> None:
    db = lsmkv.open(path, read_only=True, refresh_every_s=0.001)
    assert len(db) == 250
    del db
    gc.collect()
    wait_until(lambda: follower_threads() == [])


def test_an_error_of_following_is_logged_once_and_shown_by_refresh(
    path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_small(path) as writer:
        writer[b"key"] = b"value"
    with lsmkv.open(path, read_only=True, refresh_every_s=0.002) as reader:
        os.rename(path, tmp_path / "aside")
        refresher = reader._engine._refresher
        assert refresher is not None
        for _ in range(3):
            refresher._error = None
            wait_until(lambda: refresher._error is not None)
        os.rename(tmp_path / "aside", path)
        wait_until(lambda: refresher._logged == "")
        with pytest.raises((lsmkv.Error, OSError)):
            reader.refresh()
        assert reader.refresh() is False
        assert reader[b"key"] == b"value"
    messages = [record.getMessage() for record in caplog.records if record.name == "lsmkv"]
    assert 1 <= len(messages) <= 2  # the directory may be missed at one of two moments
    assert all(path in message for message in messages)


def test_a_handle_follows_in_the_child_of_a_fork_too(followed: tuple[lsmkv.DB, lsmkv.DB]) -> None:
    writer, reader = followed

    def child() -> bytes | None:
        assert len(follower_threads()) == 0
        assert b"late" not in reader
        os.write(asking, b"?")
        wait_until(lambda: b"late" in reader)
        return reader.get(b"late")

    asked, asking = os.pipe()
    answers: list[Any] = []
    forking = threading.Thread(target=lambda: answers.append(in_child(child)))
    forking.start()
    assert os.read(asked, 1) == b"?"
    writer[b"late"] = b"value"
    forking.join(WAIT_S)
    assert answers == [b"value"]
    os.close(asked)
    os.close(asking)


def test_a_program_may_end_while_a_handle_follows(path: str, store: dict[bytes, bytes]) -> None:
    script = "db = lsmkv.open(sys.argv[1], read_only=True, refresh_every_s=0.001); print(len(db))"
    assert run(script, path) == "250\n"


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), True, "1"])
def test_a_wrong_interval_is_refused(path: str, seconds: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="refresh_every_s"):
        lsmkv.open(path, read_only=True, refresh_every_s=seconds)


def test_a_writer_has_nothing_to_follow(path: str) -> None:
    with pytest.raises(ValueError, match="read_only=True"):
        lsmkv.open(path, refresh_every_s=1.0)
    assert not Path(path).exists()


def test_readers_open_beside_a_busy_writer_again_and_again(path: str) -> None:
    with process(COUNTING_WRITER, path, 0) as writer:
        assert line_of(writer) == "open"
        for _ in range(40):
            with open_small(path, read_only=True) as reader:
                state = dict(reader)
            first, second = (int(state.get(name, b"0")) for name in (b"first", b"second"))
            assert second <= first <= second + 1
        assert writer.poll() is None, "the writer died"
