"""Other Python processes that use a test's store."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

import lsmkv
from gates import WAIT_S
from time_limits import started

HANG_S: Final = 60  # only ends a process that would hang

SMALL: Final[dict[str, Any]] = {
    "write_buffer_size_bytes": 8192,
    "block_size_bytes": 512,
    "table_size_bytes": 16_384,
    "level1_size_bytes": 32_768,
    "size_ratio": 4,
    "level0_compaction_trigger": 2,
}


def open_store(path: str | Path, **options: Any) -> lsmkv.DB:
    return lsmkv.open(path, **{**SMALL, **options})


@contextmanager
def process(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Another Python process, with pipes; killed at the end of the block."""
    with started(
        [sys.executable, "-c", f"import sys, lsmkv, gc, os\n{script}", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        yield running


def run(script: str, *arguments: object) -> str:
    """The output of another Python process; an error if it fails."""
    with process(script, *arguments) as running:
        output, errors = running.communicate(timeout=WAIT_S)
        assert running.returncode == 0, errors
        return output


def line_of(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    line = running.stdout.readline()
    if not line:
        _, errors = running.communicate(timeout=WAIT_S)
        pytest.fail(f"the other process ended early: {errors}")
    return line.strip()


HOLDER = """
with lsmkv.open(sys.argv[1]) as db:
    db[b"key"] = b"value"
    print("open", flush=True)
    sys.stdin.readline()
"""

REFUSED = """
try:
    lsmkv.open(sys.argv[1])
except lsmkv.Error as error:
    print(type(error).__name__)
"""


def overwrite(db: lsmkv.DB, value: bytes, count: int = 300) -> None:
    for number in range(count):
        db.put(b"key%05d" % (number * 7919 % count), value + b"%d" % number)


def compact(db: lsmkv.DB) -> None:
    overwrite(db, b"compacted ")
    db.compact_range()


def put(db: lsmkv.DB) -> None:
    db.put(b"key", b"value")


def commit_batch(db: lsmkv.DB) -> None:
    with db.write_batch() as batch:
        batch.put(b"key", b"value")
