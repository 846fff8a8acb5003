"""Checkpoints and backups equal a model; no table changes once the manifest names it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import lsmkv
from lsmkv.encoding.entry_batch import batches_of
from lsmkv.sstable.writer import NO_LIMIT, TableWriter
from lsmkv.storage.file_names import table_path
from lsmkv.tree.manifest import read_current, read_state
from lsmkv.tree.version_set import table_format
from outside_tables import write_table
from torture.crash.disk import STORE, Disk
from torture.crash.disk_storage import MemoryStorage
from torture.crash.workloads import SMALL, names, record

KEYS = st.sampled_from([b"%d" % number for number in range(12)])
VALUES = st.binary(max_size=300)
OPTIONS: dict[str, Any] = {
    "write_buffer_size_bytes": 4096,
    "block_size_bytes": 256,
    "table_size_bytes": 4096,
    "level1_size_bytes": 8192,
    "level0_compaction_trigger": 2,
    "size_ratio": 2,
}


class Copies(RuleBasedStateMachine):
    """A store, one backup that is renewed, and checkpoints that must never change."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="lsmkv-copies-"))
        self.source = self.folder / "store"
        self.target = self.folder / "backup"
        self.db = lsmkv.open(self.source, **OPTIONS)
        self.model: dict[bytes, bytes] = {}
        self.backed_up: dict[bytes, bytes] | None = None
        self.checkpoints: list[dict[bytes, bytes]] = []
        self.moves = 0

    def teardown(self) -> None:
        self.db.close()
        for number, expected in enumerate(self.checkpoints):
            path = self.folder / f"checkpoint{number}"
            assert contents(path, verified=True) == expected
        shutil.rmtree(self.folder)

    @rule(key=KEYS, value=VALUES, sync=st.booleans())
    def put(self, key: bytes, value: bytes, sync: bool) -> None:
        self.db.put(key, value, sync=sync)
        self.model[key] = value

    @rule(key=KEYS)
    def delete(self, key: bytes) -> None:
        self.db.delete(key)
        self.model.pop(key, None)

    @rule(entries=st.dictionaries(KEYS, VALUES, min_size=1))
    def ingest(self, entries: dict[bytes, bytes]) -> None:
        path = write_table(self.folder / "outside.sst", entries)
        self.db.ingest([path], move=True)
        self.model.update(entries)

    @rule()
    def flush(self) -> None:
        self.db.flush()

    @rule(force=st.booleans())
    def compact(self, force: bool) -> None:
        self.db.compact_range(force=force)

    @rule()
    def reopen(self) -> None:
        self.db.close()
        self.db = lsmkv.open(self.source, **OPTIONS)

    @rule(beside=st.booleans())
    def checkpoint(self, beside: bool) -> None:
        path = self.folder / f"checkpoint{len(self.checkpoints)}"
        if beside:
            with lsmkv.open(self.source, read_only=True, **OPTIONS) as reader:
                reader.checkpoint(path)
        else:
            self.db.checkpoint(path)
        self.checkpoints.append(dict(self.model))

    @rule(by_path=st.booleans())
    def backup(self, by_path: bool) -> None:
        lsmkv.backup(self.source if by_path else self.db, self.target)
        self.backed_up = dict(self.model)
        assert contents(self.target, verified=True) == self.backed_up

    @rule()
    def lose_and_restore(self) -> None:
        """Lose the store, and go on with a copy of its backup."""
        if self.backed_up is None:
            return
        self.db.close()
        shutil.rmtree(self.source)
        self.moves += 1
        self.source = self.folder / f"store{self.moves}"
        shutil.copytree(self.target, self.source)
        self.db = lsmkv.open(self.source, **OPTIONS)
        self.model = dict(self.backed_up)

    @rule()
    def write_to_a_checkpoint(self) -> None:
        if self.checkpoints:
            number = len(self.checkpoints) - 1
            with lsmkv.open(self.folder / f"checkpoint{number}", **OPTIONS) as copy:
                copy[b"0"] = self.checkpoints[number][b"0"] = b"own"
                copy.compact_range(force=True)

    @invariant()
    def the_store_is_as_it_should_be(self) -> None:
        assert dict(self.db) == self.model

    @invariant()
    def the_backup_is_as_it_was_made(self) -> None:
        if self.backed_up is not None:
            assert contents(self.target) == self.backed_up


def contents(path: Path, *, verified: bool = False) -> dict[bytes, bytes]:
    with lsmkv.open(path, read_only=True, **OPTIONS) as db:
        assert not verified or db.verify().ok
        return dict(db)


Copies.TestCase.settings = settings(max_examples=10, stateful_step_count=20, deadline=None)
TestCopies = Copies.TestCase


CHANGES = {"write", "truncate", "write_again"}


def live_files(disk: Disk) -> set[int]:
    """Numbers of the files of tables that the manifest names."""
    storage = MemoryStorage(disk.everything())
    try:
        state = read_state(storage, STORE, read_current(storage, STORE))
    except lsmkv.Error:  # the store is being created
        return set()
    paths = [table_path(STORE, table.number) for table in state.levels.tables()]
    return {disk.names[path] for path in paths if path in disk.names}


def check(storage: MemoryStorage) -> int:
    """How many tables were live at some time; none may change from then on."""
    disk, live = Disk(), set[int]()
    for operation in storage.operations:
        assert operation.kind not in CHANGES or operation.file not in live, operation
        disk.apply(operation)
        if operation.kind in ("sync", "rename"):
            live |= live_files(disk)
    return len(live)


def test_flushes_compactions_failures_and_recoveries_change_no_live_table() -> None:
    name = names(1)[1]  # one session, and so one disk
    storage = MemoryStorage()
    record(name, 1, 60, storage)
    assert check(storage) > 10


def test_ingested_tables_change_only_before_they_are_live() -> None:
    storage = MemoryStorage()
    with lsmkv.open(STORE, SMALL, storage=storage) as db:
        db[b"a"] = b"1"
        for number in range(3):
            path = f"/outside{number}.sst"
            writer = TableWriter(storage, path, 1 + number, table_format(SMALL, 0.01))
            entries = [(b"%03d" % at, b"v%d" % number, 0) for at in range(50)]
            for batch in batches_of(iter(entries)):
                assert writer.add_from(batch, 0, NO_LIMIT) == batch.count
            writer.finish([], for_adoption=True)
            db.ingest([path], move=True)
        db.compact_range()
    written = {operation.file for operation in storage.operations if operation.kind == "write"}
    linked = [operation for operation in storage.operations if operation.kind == "link"]
    assert len(linked) == 3  # they were adopted in place, so their files did change
    assert written
    assert check(storage) >= 4
