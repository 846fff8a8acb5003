"""Refreshed handles equal fresh ones: random programs, and writers that are killed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import open_small
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
from gates import WAIT_S
from other_processes import line_of, process


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


@pytest.mark.parametrize("kills", [2, pytest.param(15, marks=pytest.mark.slow)])
def test_a_refreshed_handle_follows_writers_that_are_killed(path: str, kills: int) -> None:
    open_small(path).close()
    begun = last = 0
    with open_small(path, read_only=True) as reader:
        for _ in range(kills):
            with process(COUNTING_WRITER, path, begun) as writer:
                assert line_of(writer) == "open"
                goal = last + 200
                while last < goal:
                    reader.refresh()
                    state = dict(reader.items())
                    first = int(state.get(b"first", b"0"))
                    second = int(state.get(b"second", b"0"))
                    assert last <= second <= first <= second + 1
                    assert all(int(value) <= first + 1 for value in state.values())
                    last = second
                writer.kill()
                writer.wait(WAIT_S)
            reader.refresh()
            with open_small(path, read_only=True) as fresh:
                assert state_of(reader) == state_of(fresh)
            # A writer killed between its two puts left "first" one ahead: the next one does both again.
            begun = last = int(reader[b"second"])
