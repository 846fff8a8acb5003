"""Jobs that stage their tables: they write them to a folder of their own, and the store moves them.

Each attempt at a job makes a new folder in a staging directory, so attempts never meet.  Nothing in there
counts before the store has moved it.  A worker that was given up, or outlives the store, finds no folder
and ends; an opening removes staging directories that are left.
"""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from typing import Final, Self

import msgspec

from lsmkv.background.process.exceptions import Failure, failure_of
from lsmkv.background.process.jobs import Job, run_job
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.multi_writer import remove_tables
from lsmkv.stats import Stats
from lsmkv.storage.file_names import new_staging_name, table_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.version_set import VersionSet

_CHECK_S: Final = 1.0  # how soon a worker notices that its folder is gone


class Written(msgspec.Struct, frozen=True, tag=True):
    """A job has written these tables to ``folder``."""

    folder: bytes
    tables: list[TableMeta]
    stats: Stats


class Failed(msgspec.Struct, frozen=True, tag=True):
    """A job failed, and removed its folder."""

    failure: Failure
    stats: Stats


def run_staged(job: Job, storage: Storage, staging: str) -> Written | Failed:
    """Run ``job`` in a new folder of ``staging``."""
    folder = os.path.join(staging, os.urandom(16).hex())
    checked_s = time.monotonic()

    def is_unwanted() -> bool:
        nonlocal checked_s
        now_s = time.monotonic()
        if now_s - checked_s < _CHECK_S:
            return False
        checked_s = now_s
        return not storage.exists(folder)

    try:
        storage.create_directory(folder)
        tables = run_job(job, storage, folder, is_unwanted)
        return Written(os.fsencode(folder), tables, storage.stats)
    except Exception as error:
        with contextlib.suppress(OSError):
            storage.remove_tree(folder)
        return Failed(failure_of(error, traceback.format_exc()), storage.stats)


class StagingDirectory:
    """A new staging directory of a store; leaving the ``with`` block removes it."""

    def __init__(self, tables: VersionSet) -> None:
        self._storage = tables.storage
        self._directory = tables.directory
        self.path = os.path.join(tables.directory, new_staging_name())

    def __enter__(self) -> Self:
        self._storage.create_directory(self.path)
        return self

    def __exit__(self, *_error: object) -> None:
        with contextlib.suppress(OSError):  # the next open removes what stays
            self._storage.remove_tree(self.path)

    def adopt(self, reply: Written) -> list[TableMeta]:
        """Move all tables to the store's directory, durably; in key order."""
        moved: list[TableMeta] = []
        try:
            for meta in reply.tables:
                source = table_path(os.fsdecode(reply.folder), meta.number)
                self._storage.replace(source, table_path(self._directory, meta.number))
                moved.append(meta)
            if moved:
                self._storage.sync_directory(self._directory)
        except BaseException:
            with contextlib.suppress(OSError):  # the next open removes what is left over
                remove_tables(self._storage, self._directory, moved)
            raise
        return moved
