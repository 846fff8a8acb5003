"""What a finalizer may do that the collector runs in the middle of a background job."""

from __future__ import annotations

import threading

import pytest

import lsmkv
from lsmkv.storage.storage import AppendFile, Storage
from time_limits import in_time


class CollectingStorage(Storage):
    """Runs a finalizer, which writes until it may not, in the middle of a flush."""

    def __init__(self) -> None:
        super().__init__()
        self.db: lsmkv.DB | None = None
        self.error: RuntimeError | None = None

    def _append_file(self, path: str, descriptor: int, offset: int) -> AppendFile:
        db, name = self.db, threading.current_thread().name
        if db is not None and ".sst" in path and name == "lsmkv-flush":
            self.db = None
            with pytest.raises(RuntimeError) as caught:
                for number in range(1000):
                    db.put(b"finalized%d" % number, b"x" * 100)
            self.error = caught.value
        return super()._append_file(path, descriptor, offset)


def test_a_write_that_would_wait_for_its_own_job_is_an_error(path: str) -> None:
    storage = CollectingStorage()

    def use() -> None:
        with lsmkv.open(
            path, storage=storage, write_buffer_size_bytes=4096, max_immutable_memtables=1
        ) as db:
            storage.db = db
            number = 0
            while storage.error is None:
                db.put(b"%06d" % number, b"x" * 100)
                number += 1
                assert number < 100_000
            db.put(b"after", b"")
            assert db.get(b"after") == b""
            assert db.get(b"000000") == b"x" * 100

    in_time(use)
    assert "inside a flush or compaction" in str(storage.error)
