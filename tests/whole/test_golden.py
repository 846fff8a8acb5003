"""Whole stores of earlier releases: every later release must open them.

``pytest --rewrite-golden`` rewrites those that the present code can write; only a new format version
should need that.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lsmkv
from damage import files, open_table
from lsmkv.salvage.repair import repair
from lsmkv.sstable.format import CODEC_NONE, CODEC_ZSTD, CODEC_ZSTD_TRANSPOSED

if TYPE_CHECKING:
    from golden_support import Files, Golden

# Codecs of each golden file's blocks.  Writers no longer compress whole payloads.
WHOLE = {"closed_store_v1": CODEC_ZSTD, "crashed_store_v1": CODEC_ZSTD}
REDUCED = {
    "closed_reduced_store_v1": CODEC_ZSTD_TRANSPOSED,
    "crashed_reduced_store_v1": CODEC_ZSTD_TRANSPOSED,
}


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
        table.block_trailer(number).codec
        for table in tables
        for number in range(table.index.block_count)
    }


@pytest.fixture(params=[*WHOLE, *REDUCED])
def store(request: pytest.FixtureRequest, tmp_path: Path, golden: Golden) -> Path:
    """A golden store: closed, or left by a process that died."""

    def make() -> Files:
        path = tmp_path / "made"
        with write_store(path):
            crashed = files_of(path)
        return files_of(path) if request.param.startswith("closed") else crashed

    path = tmp_path / "store"
    path.mkdir()
    for name, data in golden.load(
        request.param, make if request.param in REDUCED else None
    ).items():
        (path / name).write_bytes(data)
    return path


def test_golden_store_is_read(store: Path) -> None:
    before = files_of(store)
    with lsmkv.open(store, read_only=True) as db:
        assert dict(db) == model()
        assert [db.get(key) for key in model()] == list(model().values())
    assert files_of(store) == before


def test_golden_store_is_opened_and_written_to(store: Path) -> None:
    with lsmkv.open(store) as db:
        assert dict(db) == model()
        db.put(b"today", b"written")
        db.compact_range()
        assert dict(db) == {**model(), b"today": b"written"}
    with lsmkv.open(store) as db:
        assert dict(db) == {**model(), b"today": b"written"}


def test_golden_store_verifies(store: Path) -> None:
    with lsmkv.open(store, read_only=True) as db:
        report = db.verify()
        assert report.ok, str(report)


def test_golden_store_is_of_its_codec(store: Path, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["store"]
    assert codecs_of(store) - {CODEC_NONE} == {(WHOLE | REDUCED)[name]}


def test_compaction_of_a_golden_store_reduces_its_blocks(store: Path) -> None:
    with lsmkv.open(store, compression_dictionary_size_bytes=256) as db:
        db.compact_range()
    assert CODEC_ZSTD_TRANSPOSED in codecs_of(store) <= {CODEC_NONE, CODEC_ZSTD_TRANSPOSED}


def test_golden_store_is_repaired(store: Path) -> None:
    files(store, "CURRENT")[0].unlink()
    repair(store, in_place=True)
    with lsmkv.open(store, read_only=True) as db:
        assert dict(db) == model()
