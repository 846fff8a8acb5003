"""Read-only handles read everything and change nothing."""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

import lsmkv
from gates import WAIT_S
from other_processes import commit_batch, open_store, overwrite, put


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


WRITES: Final[list[Callable[[lsmkv.DB], object]]] = [
    put,
    commit_batch,
    lambda db: db.clear(),
    lambda db: db.compare_and_set(b"key00001", None, None),
    lambda db: db.flush(),
    lambda db: db.compact_range(),
    lambda db: db.sync(),
    lambda db: db.resume(),
    lambda db: db.ingest([]),
    lambda db: db.bulk_load([]),
    lambda db: db.staging().__enter__(),
    lambda db: db.wait_until_settled(),
]


def mixed_store(path: Path) -> dict[bytes, bytes]:
    """A closed store with tables on two levels and a full log."""
    with open_store(path) as db:
        overwrite(db, b"old ")
        db.compact_range()
        overwrite(db, b"new ", 20)
        db.flush()
        db.put(b"logged", b"value")
        return dict(db)


def digest(path: Path) -> dict[str, tuple[str, int]]:
    return {
        file.name: (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in sorted(path.iterdir())
    }


@pytest.mark.parametrize("write", WRITES)
def test_a_read_only_handle_refuses_to_write(
    path: Path, write: Callable[[lsmkv.DB], object]
) -> None:
    mixed_store(path)
    before = digest(path)
    with open_store(path, read_only=True) as db:
        with pytest.raises(lsmkv.ReadOnlyError) as caught:
            write(db)
        assert str(path) in str(caught.value)
    assert digest(path) == before


def read_everything(db: lsmkv.DB) -> dict[bytes, bytes]:
    assert db.read_only and not db.closed
    for key in list(db)[::10]:
        assert db.get(key) is not None and key in db
    with db.snapshot() as snapshot, db.cursor() as cursor:
        assert cursor.first() and len(snapshot) == len(db)
    db.explain(b"key00001")
    db.inspect()
    db.stats()
    db.memory_usage()
    assert db.verify().ok
    db.refresh()
    return dict(db)


def test_a_read_only_handle_reads_everything_and_changes_no_file(path: Path) -> None:
    expected = mixed_store(path)
    before = digest(path)
    with open_store(path, read_only=True) as db:
        assert read_everything(db) == expected
    gc.collect()
    assert digest(path) == before


def test_a_read_only_handle_leaves_a_torn_log_and_orphans_as_they_are(path: Path) -> None:
    with open_store(path) as db:
        db.put(b"key", b"value")
        copy = path.with_name("crashed")
        shutil.copytree(path, copy)
    log = next(copy.glob("*.log"))
    log.write_bytes(log.read_bytes() + b"torn")
    (copy / "000099.sst").write_bytes(b"an unfinished table")
    (copy / "000098.log").write_bytes(b"")
    before = digest(copy)
    with open_store(copy, read_only=True) as db:
        assert dict(db) == {b"key": b"value"}
    assert digest(copy) == before


@pytest.fixture
def read_only_directory(path: Path) -> Iterator[Callable[[], None]]:
    """A function that makes the store's directory read-only."""
    if os.geteuid() != 0:
        path.mkdir()
        yield lambda: path.chmod(0o555)
        path.chmod(0o755)
        return
    # No permission stops root; a read-only mount does.
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(path)]
    if (
        not shutil.which("mount")
        or subprocess.run(mount, capture_output=True, timeout=WAIT_S).returncode != 0
    ):
        pytest.skip("run as root, and root may not mount a file system here")

    def freeze() -> None:
        subprocess.run(["mount", "-o", "remount,ro", str(path)], check=True, timeout=WAIT_S)

    yield freeze
    gc.collect()
    subprocess.run(
        ["umount", "-l", str(path)], check=True, timeout=WAIT_S
    )  # lazily: a failed test may hold files


def test_a_read_only_handle_works_on_a_directory_that_cannot_be_written(
    path: Path, read_only_directory: Callable[[], None]
) -> None:
    expected = mixed_store(path)
    read_only_directory()
    with pytest.raises(OSError):
        (path / "probe").write_bytes(b"")
    with open_store(path, read_only=True) as db:
        assert read_everything(db) == expected
