"""Stores that a program leaves open at its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import open_small

import lsmkv
from gates import WAIT_S
from other_processes import process

OPEN = """
import logging
logging.disable()  # a busy machine may stall a write
options = dict(write_buffer_size_bytes=8192, background="thread")
db = lsmkv.open(sys.argv[1], **options)
"""


def end_of(script: str, path: str | Path) -> str:
    """What a program printed, which must end quietly."""
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def early(handler: str, rest: str = "") -> str:
    """A program whose handler was registered before it imported lsmkv."""
    body = "\n".join(f"    {line}" for line in handler.strip().splitlines())
    head = f"import atexit, sys\n\ndef last():\n{body}\n\natexit.register(last)\n"
    return f"{head}import lsmkv\n{OPEN}{rest}"


@pytest.mark.parametrize(
    "write",
    [
        "db.put(b'last', b'1')",
        "db.put(b'last', b'1', sync=True)",
        "with db.write_batch() as batch: batch.put(b'last', b'1')",
        "with db.transaction() as t: t.put(b'last', b'1')",
        "db.put(b'last', b'1'); db.sync()",
        "db.put(b'last', b'1'); db.close()",
        "for n in range(2000): db.put(b'%d' % n, b'v' * 30)\ndb.put(b'last', db[b'7'])",
    ],
)
def test_an_exit_handler_from_before_the_import_writes(path: str, write: str) -> None:
    end_of(early(write), path)
    with lsmkv.open(path) as db:
        assert b"last" in db
        assert db.verify().ok


def test_an_early_exit_handler_reads(path: str) -> None:
    assert end_of(early("print(db[b'k'], len(db), list(db.keys()))", "db[b'k'] = b'v'"), path) == (
        "b'v' 1 [b'k']\n"
    )


def test_an_early_exit_handler_is_told_what_is_no_longer_done(path: str) -> None:
    handler = "try: db.flush()\nexcept lsmkv.ClosedError: print('told')"
    assert end_of(early(handler, "db[b'k'] = b'v'"), path) == "told\n"


@pytest.mark.parametrize(
    "work",
    [
        "db[b'%d' % n] = b'v' * 50",
        pytest.param("db.put(b'%d' % n, b'v', sync=True)", marks=pytest.mark.slow),
        "db[b'%d' % n] = b'v' * 50; db.flush()",
        pytest.param("len(db)", marks=pytest.mark.slow),
        "db.compact_range(force=True)",
    ],
)
def test_daemon_threads_end_quietly(path: str, work: str) -> None:
    script = f"""
import lsmkv, sys, threading
{OPEN}
db[b"first"] = b"1"
begun = threading.Event()
def run():
    n = 0
    while True:
        {work}
        n += 1
        begun.set()
threads = [threading.Thread(target=run, daemon=True) for _ in range(3)]
for thread in threads: thread.start()
begun.wait()
"""
    for _ in range(3):
        end_of(script, path)
    with lsmkv.open(path) as db:
        assert b"first" in db
        assert db.verify().ok


def test_another_error_of_a_daemon_thread_is_still_shown(path: str) -> None:
    script = """
import atexit, threading
def fail(): raise KeyError("shown")
def last():
    thread = threading.Thread(target=fail, daemon=True)
    thread.start(); thread.join()
"""
    with process(f"{script}\ndb = lsmkv.open(sys.argv[1])\nlast()", path) as running:
        _, errors = running.communicate(timeout=WAIT_S)
    assert "KeyError: 'shown'" in errors


def test_a_store_that_was_left_open_was_closed_properly(path: str) -> None:
    end_of(f"import lsmkv, sys\n{OPEN}db[b'k'] = b'v'\nassert db", path)
    before = sorted(os.listdir(path))
    with open_small(path) as db:
        assert db[b"k"] == b"v"
        assert sorted(os.listdir(path)) == before  # a store that was not gets a new manifest


def test_an_end_while_work_runs_leaves_no_process_and_no_staging(path: str) -> None:
    script = """
import logging, lsmkv, sys
logging.disable()
db = lsmkv.open(sys.argv[1], background="process", write_buffer_size_bytes=1 << 16,
                process_job_size_bytes=0)
for n in range(20000): db[b"%06d" % (n * 7919 % 20000)] = b"v" * 50
"""
    end_of(script, path)
    with lsmkv.open(path) as db:
        assert len(db) == 20000
    assert not [name for name in os.listdir(path) if name.startswith("staging")]
