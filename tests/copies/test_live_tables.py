"""No table changes once the manifest names it."""

from __future__ import annotations

import lsmkv
from lsmkv.encoding.entry_batch import batches_of
from lsmkv.sstable.writer import NO_LIMIT, TableWriter
from lsmkv.storage.file_names import table_path
from lsmkv.tree.manifest import read_current, read_state
from lsmkv.tree.version_set import table_format
from torture.crash.disk import STORE, Disk
from torture.crash.disk_storage import MemoryStorage
from torture.crash.workloads import SMALL, names, record

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
