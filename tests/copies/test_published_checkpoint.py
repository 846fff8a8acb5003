"""A checkpoint of a published store downloads it; a backup of one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import lsmkv
from bench.harness.object_server import ObjectServer
from published_stores import FORM, contents, published, reader


def test_it_has_the_generation_that_is_open(tmp_path: Path, server: ObjectServer, url: str) -> None:
    expected = published(tmp_path / "store", url)
    with reader(url) as db:
        with lsmkv.open(tmp_path / "store", FORM) as store:
            store.clear()
            store.publish(url)
        report = db.checkpoint(tmp_path / "copy")
    assert (report.linked_count, report.copied_bytes) == (0, report.table_bytes)
    assert report.table_count > 1
    with lsmkv.open(tmp_path / "copy", FORM) as copy:
        assert dict(copy) == expected == contents()
        assert copy.verify().ok
        copy[b"new"] = b"write"
        copy.compact_range(force=True)
        assert len(copy) == len(expected) + 1


def test_a_backup_is_refused(tmp_path: Path, server: ObjectServer, url: str) -> None:
    published(tmp_path / "store", url)
    with reader(url) as db, pytest.raises(ValueError, match="checkpoint"):
        lsmkv.backup(db, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
