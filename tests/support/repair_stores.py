"""Stores to repair, and their contents."""

from __future__ import annotations

from pathlib import Path

import pytest

import lsmkv
from lsmkv.options import Options

KEYS = [b"key%05d" % number for number in range(600)]
Content = dict[bytes, bytes]


def build_store(path: Path, **options: object) -> Content:
    """Build a closed store: two runs of several blocks, deletions, and logged writes."""
    chosen = Options(block_size_bytes=512, **options)  # type: ignore[arg-type]
    with lsmkv.open(path, chosen) as db:
        for key in KEYS[::2]:
            db.put(key, b"old " + key * 3)
        db.flush()
        for key in KEYS[::3]:
            db.put(key, b"new " + key * 3)
        for key in KEYS[::10]:
            db.delete(key)
        db.flush()
        for key in KEYS[5:20]:
            db.put(key, b"newest", sync=True)
        return dict(db.items())


def content_of(path: Path) -> Content:
    """All entries of a store, which must be whole."""
    with lsmkv.open(path, create_if_missing=False) as db:
        verified = db.verify()
        assert verified.ok, verified.problems
        return dict(db.items())


def manifest_files(path: Path) -> list[Path]:
    return sorted(file for file in path.iterdir() if file.name.startswith("MANIFEST"))


def lose_manifest(path: Path) -> None:
    for manifest in manifest_files(path):
        manifest.unlink()
    (path / "CURRENT").unlink()


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Where a repair puts the store that it makes."""
    return tmp_path / "output"
