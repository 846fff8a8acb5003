"""Tables written outside a store, for tests of ingesting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import lsmkv
from lsmkv.storage.file_names import UNFINISHED


def write_table(path: Path, entries: Mapping[bytes, bytes | None], **overrides: Any) -> Path:
    """A table of ``entries``; None is a deletion."""
    with lsmkv.TableWriter(path, **overrides) as writer:
        for key in sorted(entries):
            value = entries[key]
            if value is None:
                writer.delete(key)
            else:
                writer.add(key, value)
    return path


def numbered(start: int, stop: int, value: bytes = b"outside") -> dict[bytes, bytes | None]:
    return {b"%05d" % number: value for number in range(start, stop)}


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def staged(store: Path) -> list[str]:
    return [name for name in names(store) if name.endswith(UNFINISHED)]


@pytest.fixture
def unchanged(db: lsmkv.DB) -> Iterator[None]:
    """Checks that what was refused has changed nothing."""
    db[b"kept"] = b"1"
    before = names(Path(db.path))
    yield
    assert names(Path(db.path)) == before
    assert dict(db) == {b"kept": b"1"}
    db[b"more"] = b"2"
