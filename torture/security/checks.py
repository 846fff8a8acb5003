"""A store for the part ``security``, and uses of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import lsmkv
from lsmkv.errors import CorruptionError, NotAStoreError, UnsupportedFormatError
from lsmkv.salvage.repair import repair
from lsmkv.storage.file_names import parse_file_name
from torture.corruption.samples import SMALL
from torture.framework.part import UnsoundError, expect

ERRORS: Final = (CorruptionError, UnsupportedFormatError, NotAStoreError, OSError)
SECRET: Final = b"a value that nobody must see"
KINDS: Final = ("table", "log", "manifest", "current", "lock")
_HANG_S: Final = 10


def store(path: Path, **options: Any) -> dict[str, Path]:
    """Make a closed store with a table and a log; return its files by kind."""
    with lsmkv.open(path, SMALL, **options) as db:
        for number in range(30):
            db.put(b"key%03d" % number, SECRET)
        db.flush()
        db.put(b"in the log", SECRET)
    files = {
        (parse_file_name(file.name) or (file.name.lower(), 0))[0]: file for file in path.iterdir()
    }
    expect(set(files) == set(KINDS), f"unexpected files in the store: {files}")
    return files


def uses(path: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Calls that open a store's files."""

    def read() -> None:
        with lsmkv.open(path, read_only=True, create_if_missing=False) as db:
            dict(db.items())
            db.verify()

    def write() -> None:
        with lsmkv.open(path, create_if_missing=False) as db:
            db.put(b"new", b"1", sync=True)

    yield "reading", read
    yield "writing", write
    yield "repair", lambda: repair(path, path.with_name("output"))


@contextmanager
def no_hang(doing: str) -> Iterator[None]:
    """UnsoundError if the block waits too long."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise UnsoundError(f"{doing} did not end within {_HANG_S} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(_HANG_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for inner in path.iterdir():
            remove(inner)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
