"""Readers beside a writer: which writes they see, and for how long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import lsmkv
from other_processes import HOLDER, SMALL, compact, line_of, open_store, overwrite, process

PATIENCE_S = 120.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@contextmanager
def writer_and_reader(path: Path) -> Iterator[tuple[lsmkv.DB, lsmkv.DB]]:
    with open_store(path) as writer, open_store(path, read_only=True) as reader:
        yield writer, reader


def test_a_reader_opens_beside_a_writer_in_another_process(path: Path) -> None:
    with process(HOLDER, path) as holder:
        assert line_of(holder) == "open"
        with lsmkv.open(path, read_only=True) as reader:
            assert reader[b"key"] == b"value"


def test_a_reader_sees_new_writes_after_refresh_and_not_before(path: Path) -> None:
    with writer_and_reader(path) as (writer, reader):
        writer[b"key"] = b"value"
        assert b"key" not in reader
        reader.refresh()
        assert reader[b"key"] == b"value"


def test_a_reader_sees_deletions_after_refresh(path: Path) -> None:
    with writer_and_reader(path) as (writer, reader):
        writer[b"key"] = b"value"
        reader.refresh()
        del writer[b"key"]
        assert b"key" in reader
        reader.refresh()
        assert b"key" not in reader


def flush(db: lsmkv.DB) -> None:
    overwrite(db, b"flushed ", 50)
    db.flush()


def rotate(db: lsmkv.DB) -> None:
    overwrite(db, b"rotated ", 1000)


def sync(db: lsmkv.DB) -> None:
    db.put(b"synced", b"value", sync=True)


@pytest.mark.parametrize("change", [flush, rotate, compact, sync])
def test_a_reader_follows_its_writer(path: Path, change: Callable[[lsmkv.DB], None]) -> None:
    with writer_and_reader(path) as (writer, reader):
        for round_number in range(4):
            change(writer)
            writer.put(b"round", b"%d" % round_number)
            before = dict(reader)
            reader.refresh()
            assert dict(reader) == dict(writer) != before


def test_a_reader_follows_over_a_new_manifest(path: Path) -> None:
    with open_store(path) as writer:
        overwrite(writer, b"first ")
    with open_store(path, read_only=True) as reader:
        for round_number in range(3):
            before = {file.name for file in path.glob("MANIFEST-*")}
            with open_store(path) as writer:
                with writer._engine.tables.lock:
                    writer._engine.tables.manifest.rewrite()
                writer[b"round"] = b"%d" % round_number
                expected = dict(writer)
            assert {file.name for file in path.glob("MANIFEST-*")} != before
            reader.refresh()
            assert dict(reader) == expected


def test_a_begun_iteration_survives_refresh(path: Path) -> None:
    with writer_and_reader(path) as (writer, reader):
        overwrite(writer, b"first ")
        writer.flush()
        reader.refresh()
        expected = list(reader.items())
        items, snapshot = iter(reader.items()), reader.snapshot()
        found = [next(items) for _ in range(10)]
        compact(writer)
        reader.refresh()
        assert found + list(items) == expected
        assert list(snapshot.items()) == expected
        assert list(reader.items()) == list(writer.items()) != expected


def test_a_reader_reads_on_when_its_writer_has_removed_the_files(path: Path) -> None:
    with writer_and_reader(path) as (writer, reader):
        overwrite(writer, b"first ")
        writer.compact_range()
        reader.refresh()
        expected = dict(writer)
        compact(writer)
        assert dict(reader) == expected


def test_a_reader_goes_on_after_its_writer_has_closed(path: Path) -> None:
    with open_store(path) as writer:
        writer[b"key"] = b"value"
        reader = open_store(path, read_only=True)
    with reader:
        assert reader[b"key"] == b"value"
        reader.refresh()
        assert reader[b"key"] == b"value"


BUSY_WRITER = """
import random
options = eval(sys.argv[2])
with lsmkv.open(sys.argv[1], **options) as db:
    db.put(b"first", b"%09d" % 0)
    db.put(b"second", b"%09d" % 0)
    print("open", flush=True)
    number = 0
    while True:
        number += 1
        db.put(b"first", b"%09d" % number)
        db.put(b"filler%06d" % random.randrange(3000), b"v" * 100)
        db.put(b"second", b"%09d" % number)
"""


@pytest.mark.slow
def test_a_reader_beside_a_busy_writer_always_sees_a_prefix_of_its_writes(path: Path) -> None:
    with process(BUSY_WRITER, path, SMALL) as writer:
        assert line_of(writer) == "open"
        last = 0
        give_up = time.monotonic() + PATIENCE_S
        with open_store(path, read_only=True) as reader:
            while last < 200 and time.monotonic() < give_up:
                reader.refresh()
                first, second = int(reader[b"first"]), int(reader[b"second"])
                assert last <= second <= first <= second + 1
                assert all(key.startswith((b"f", b"s")) for key in reader)
                last = second
        assert writer.poll() is None, "the writer died"
        assert last >= 200


def test_readers_open_beside_a_busy_writer_again_and_again(path: Path) -> None:
    with process(BUSY_WRITER, path, SMALL) as writer:
        assert line_of(writer) == "open"
        for _ in range(40):
            with open_store(path, read_only=True) as reader:
                first, second = int(reader[b"first"]), int(reader[b"second"])
                assert second <= first <= second + 1
        assert writer.poll() is None, "the writer died"
