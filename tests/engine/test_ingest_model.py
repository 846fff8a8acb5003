"""Puts, deletions, ingests, loads, flushes, compactions and snapshots against a sorted dict."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest
from conftest import BACKGROUNDS
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sortedcontainers import SortedDict

import lsmkv
from lsmkv.options import CompactionStyle
from outside_tables import staged, write_table

Contents = SortedDict[bytes, bytes]

TINY: Final = lsmkv.Options(
    write_buffer_size_bytes=4096,
    block_size_bytes=256,
    level1_size_bytes=4096,
    table_size_bytes=4096,
    level0_compaction_trigger=3,
    size_ratio=3,
)
KEYS: Final = [b"%02d" % number for number in range(60)]
keys = st.sampled_from(KEYS)
values = st.sampled_from([b"", b"v", b"w" * 40, b"long" * 100]) | st.binary(max_size=4)
tables = st.dictionaries(keys, st.none() | values, min_size=1, max_size=30)


class IngestMachine(RuleBasedStateMachine):
    background: ClassVar[dict[str, Any]] = BACKGROUNDS[0]

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        self.model: Contents = SortedDict()
        self.held: list[tuple[lsmkv.Snapshot, Contents]] = []
        self.count = 0

    @initialize(compaction=st.sampled_from(["leveled", "tiered", "lazy-leveled"]))
    def open(self, compaction: CompactionStyle) -> None:
        self.options = TINY.replace(compaction=compaction, **self.background)
        self.db = lsmkv.open(self.path / "store", self.options)

    def teardown(self) -> None:
        if hasattr(self, "db"):
            self.check_all()
            self.db.close()
        self.folder.cleanup()

    @rule(key=keys, value=values)
    def put(self, key: bytes, value: bytes) -> None:
        self.db.put(key, value)
        self.model[key] = value

    @rule(key=keys)
    def delete(self, key: bytes) -> None:
        self.db.delete(key)
        self.model.pop(key, None)

    @rule(operations=st.lists(st.tuples(keys, st.none() | values), min_size=16, max_size=30))
    def write_batch(self, operations: list[tuple[bytes, bytes | None]]) -> None:
        with self.db.write_batch() as batch:
            for key, value in operations:
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
        for key, value in operations:
            self.change({key: value})

    @rule(entries=tables, parts=st.integers(1, 3), move=st.booleans())
    def ingest(self, entries: dict[bytes, bytes | None], parts: int, move: bool) -> None:
        paths = []
        ordered = sorted(entries)
        size = -(-len(ordered) // parts)
        for start in range(0, len(ordered), size):
            self.count += 1
            part = {key: entries[key] for key in ordered[start : start + size]}
            paths.append(write_table(self.path / f"t{self.count}", part, block_size_bytes=256))
        report = self.db.ingest(paths, move=move)
        assert report.entries == len(entries)
        self.change(entries)

    @rule(pairs=st.lists(st.tuples(keys, values), max_size=60), is_sorted=st.booleans())
    def bulk_load(self, pairs: list[tuple[bytes, bytes]], is_sorted: bool) -> None:
        last = dict(pairs)
        self.db.bulk_load(sorted(last.items()) if is_sorted else pairs, sorted=is_sorted)
        self.change(last)

    def change(self, changes: Any) -> None:
        for key, value in changes.items():
            if value is None:
                self.model.pop(key, None)
            else:
                self.model[key] = value

    @rule()
    def flush(self) -> None:
        self.db.flush()

    @rule(start=st.none() | keys, stop=st.none() | keys, force=st.booleans())
    def compact(self, start: bytes | None, stop: bytes | None, force: bool) -> None:
        self.db.compact_range(start, stop, force=force)

    @rule()
    def settle(self) -> None:
        self.db.wait_until_settled()

    @rule()
    def take_snapshot(self) -> None:
        self.held.append((self.db.snapshot(), SortedDict(self.model)))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release_snapshot(self, data: st.DataObject) -> None:
        snapshot, _ = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        snapshot.close()

    @rule()
    def reopen(self) -> None:
        self.held = []
        self.db.close()
        self.db = lsmkv.open(self.path / "store", self.options)

    @rule()
    def pop(self) -> None:
        if self.model:
            assert self.db.popitem() == self.model.popitem(0)

    @rule(start=keys, reverse=st.booleans())
    def scan(self, start: bytes, reverse: bool) -> None:
        for reader, model in self.readers():
            expected = [(key, model[key]) for key in model.irange(start, reverse=reverse)]
            assert list(reader.items(start=start, reverse=reverse)) == expected

    @rule(wanted=st.lists(keys, max_size=6))
    def look_up(self, wanted: list[bytes]) -> None:
        for reader, model in self.readers():
            assert [reader.get(key) for key in wanted] == list(map(model.get, wanted))
            assert reader.multi_get(wanted) == list(map(model.get, wanted))

    def readers(self) -> Iterator[tuple[lsmkv.DB | lsmkv.Snapshot, Contents]]:
        yield self.db, self.model
        yield from self.held

    def check_all(self) -> None:
        for reader, model in self.readers():
            assert dict(reader.items()) == model
        assert self.db.verify().ok

    @invariant()
    def no_staged_file_is_left(self) -> None:
        if hasattr(self, "db"):
            assert staged(self.path / "store") == []


@pytest.mark.parametrize(
    ("examples", "steps"),
    [(15, 25), pytest.param(300, 60, marks=[pytest.mark.slow, pytest.mark.longest])],
    ids=["few", "many"],
)
def test_a_store_with_ingests_is_a_sorted_dict(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        IngestMachine, settings=settings(max_examples=examples, stateful_step_count=steps)
    )


class InProcesses(IngestMachine):
    background = BACKGROUNDS[1]


@pytest.mark.slow
def test_a_store_with_helper_processes_is_one_too() -> None:
    run_state_machine_as_test(
        InProcesses, settings=settings(max_examples=15, stateful_step_count=25)
    )
