"""Interrupts in the middle of a write."""

from __future__ import annotations

import time

import pytest
from conftest import contents, open_small

from lsmkv.storage.storage import AppendFile, Storage


class InterruptedStorage(Storage):
    """Raises KeyboardInterrupt once, ``before`` or ``after`` an append to a log."""

    armed = ""

    def _append_file(self, path: str, descriptor: int, offset: int) -> AppendFile:
        return _InterruptedFile(self, path, descriptor, offset)


class _InterruptedFile(AppendFile):
    def __init__(
        self, storage: InterruptedStorage, path: str, descriptor: int, offset: int
    ) -> None:
        super().__init__(path, descriptor, offset)
        self._storage = storage

    def append(self, data: bytes, more: bytes = b"") -> None:
        super().append(data, more)
        self._interrupt("after")

    def _write(self, data: bytes | memoryview, offset: int) -> int:
        self._interrupt("before")
        return super()._write(data, offset)

    def _interrupt(self, when: str) -> None:
        if self._storage.armed == when and self.path.endswith(".log"):
            self._storage.armed = ""
            raise KeyboardInterrupt


def test_an_interrupt_before_anything_was_written_changes_nothing(path: str) -> None:
    storage = InterruptedStorage()
    with open_small(path, storage=storage) as db:
        storage.armed = "before"
        with pytest.raises(KeyboardInterrupt):
            db[b"a"] = b"1"
        db[b"b"] = b"2"
    assert contents(path) == {b"b": b"2"}


def _interrupt(seconds: float) -> None:
    raise KeyboardInterrupt


def test_an_interrupt_while_a_write_finds_batches_their_places_changes_nothing(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = range(100)
    with open_small(path, write_buffer_size_bytes=1 << 20) as db:
        for value in (b"old", b"new"):
            with db.write_batch() as batch:
                for number in numbers:
                    batch.put(b"%03d" % number, value)
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(time, "sleep", _interrupt)
            db[b"042"] = b"interrupted"
        assert db[b"042"] == b"new"
        db[b"a"] = b"1"
    assert contents(path) == {b"a": b"1", **{b"%03d" % number: b"new" for number in numbers}}


@pytest.mark.parametrize("batch", [False, True])
def test_an_interrupt_between_log_and_memtable_comes_when_both_have_the_write(
    path: str, batch: bool
) -> None:
    storage = InterruptedStorage()
    with open_small(path, storage=storage) as db:
        storage.armed = "after"
        with pytest.raises(KeyboardInterrupt):
            if batch:
                with db.write_batch() as pending:
                    pending.put(b"a", b"1")
            else:
                db[b"a"] = b"1"
        assert db[b"a"] == b"1"
        db[b"b"] = b"2"
    assert contents(path) == {b"a": b"1", b"b": b"2"}


def test_a_write_interrupted_after_its_append_keeps_what_a_snapshot_sees(path: str) -> None:
    storage = InterruptedStorage()
    with open_small(path, storage=storage) as db:
        db[b"a"] = b"0"
        with db.snapshot() as snapshot:
            storage.armed = "after"
            with pytest.raises(KeyboardInterrupt), db.write_batch() as pending:
                pending.put(b"a", b"1")
                pending.put(b"b", b"1")
            assert dict(snapshot.items()) == {b"a": b"0"}
            db.flush()
            assert dict(snapshot.items()) == {b"a": b"0"}
        assert dict(db.items()) == {b"a": b"1", b"b": b"1"}
