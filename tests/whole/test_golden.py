"""Whole stores of earlier releases: every later release of their format must open them.

``pytest --rewrite-golden`` rewrites those of the present format; only a new format version
should need that.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lsmkv
from damage import files, open_table
from lsmkv.errors import UnsupportedFormatError
from lsmkv.salvage.repair import repair
from lsmkv.sstable.format import CODEC_NONE, CODEC_ZSTD

if TYPE_CHECKING:
    from golden_support import Files, Golden


def model() -> dict[bytes, bytes]:
    """The contents of the golden stores."""
    held = {b"key%04d" % number: b"value of %d" % number for number in range(120)}
    for number in range(0, 120, 10):
        held[b"key%04d" % number] = b"newer value of %d" % number
    for number in range(5, 120, 10):
        del held[b"key%04d" % number]
    return {b"": b"of the empty key", **held, b"empty": b"", b"log": b"in the log alone"}


def write_store(path: Path) -> lsmkv.DB:
    """Write tables on two levels, deletions, a logged batch and a put."""
    db = lsmkv.open(
        path,
        block_size_bytes=512,
        compression_dictionary_size_bytes=256,
        filter_granularity="block",
        filter_key=lsmkv.WholeKey(),
    )
    for number in range(120):
        db.put(b"key%04d" % number, b"value of %d" % number)
    db.compact_range()
    with db.write_batch() as batch:
        for number in range(0, 120, 10):
            batch.put(b"key%04d" % number, b"newer value of %d" % number)
        for number in range(5, 60, 10):
            batch.delete(b"key%04d" % number)
    db.flush()
    with db.write_batch(sync=True) as batch:
        for number in range(65, 120, 10):
            batch.delete(b"key%04d" % number)
        batch.put(b"empty", b"")
    db.put(b"", b"of the empty key", sync=True)
    db.put(b"log", b"in the log alone")
    return db


def files_of(path: Path) -> Files:
    return {file.name: file.read_bytes() for file in sorted(path.iterdir()) if file.name != "LOCK"}


def codecs_of(path: Path) -> set[int]:
    """The codecs of all blocks of a store."""
    tables = [open_table(file) for file in files(path, ".sst")]
    return {
        table.read_past_cache(number)[1].codec
        for table in tables
        for number in range(table.index.block_count)
    }


@pytest.fixture(params=["closed_store_v2", "crashed_store_v2"])
def store(request: pytest.FixtureRequest, tmp_path: Path, golden: Golden) -> Path:
    """A golden store: closed, or left by a process that died."""

    def make() -> Files:
        path = tmp_path / "made"
        with write_store(path):
            crashed = files_of(path)
        return files_of(path) if request.param.startswith("closed") else crashed

    path = tmp_path / "store"
    path.mkdir()
    write(path, golden.load(request.param, make))
    return path


def write(path: Path, held: Files) -> None:
    for name, data in held.items():
        (path / name).write_bytes(data)


def test_golden_store_is_read(store: Path) -> None:
    before = files_of(store)
    with lsmkv.open(store, read_only=True) as db:
        assert dict(db) == model()
        assert [db.get(key) for key in model()] == list(model().values())
        report = db.verify()
        assert report.ok, str(report)
    assert files_of(store) == before
    assert codecs_of(store) - {CODEC_NONE} == {CODEC_ZSTD}


def test_golden_store_is_opened_and_written_to(store: Path) -> None:
    with lsmkv.open(store) as db:
        assert dict(db) == model()
        db.put(b"today", b"written")
        db.compact_range()
        assert dict(db) == {**model(), b"today": b"written"}
    with lsmkv.open(store) as db:
        assert dict(db) == {**model(), b"today": b"written"}


def test_golden_store_is_repaired(store: Path) -> None:
    files(store, "CURRENT")[0].unlink()
    repair(store, in_place=True)
    with lsmkv.open(store, read_only=True) as db:
        assert dict(db) == model()


FORMAT_1 = "(table|manifest) format 1.*; this release reads format 2"


@pytest.fixture
def store_of_format_1(tmp_path: Path, golden: Golden) -> Path:
    path = tmp_path / "old"
    path.mkdir()
    write(path, golden.load("closed_store_v1"))
    return path


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_of_format_1_is_refused_by_its_format(
    store_of_format_1: Path, read_only: bool
) -> None:
    before = files_of(store_of_format_1)
    with pytest.raises(UnsupportedFormatError, match=FORMAT_1) as caught:
        lsmkv.open(store_of_format_1, read_only=read_only)
    assert Path(caught.value.path).name == "MANIFEST-000002"
    assert files_of(store_of_format_1) == before


@pytest.mark.parametrize("in_place", [False, True])
def test_a_repair_keeps_tables_of_format_1(
    store_of_format_1: Path, tmp_path: Path, in_place: bool
) -> None:
    before = {path.read_bytes() for path in files(store_of_format_1, ".sst")}
    with contextlib.suppress(UnsupportedFormatError):
        repair(store_of_format_1, None if in_place else tmp_path / "output", in_place=in_place)
    assert before <= {path.read_bytes() for path in store_of_format_1.rglob("*.sst")}


def test_a_backup_of_a_store_of_format_1_is_refused(
    store_of_format_1: Path, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedFormatError, match=FORMAT_1):
        lsmkv.backup(store_of_format_1, tmp_path / "backup")
    assert files(tmp_path / "backup", ".sst") == []
