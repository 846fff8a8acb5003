"""Ends of helper processes: killed, idle, closed or orphaned."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Final

import pytest
from conftest import fill, open_small

import lsmkv
from gates import WAIT_S
from helper_processes import helpers, is_running, live_tables, open_store, running, table_names
from lsmkv.background.process import parent as process
from lsmkv.background.process.parent import HelperDiedError
from threaded_stores import wait_until
from time_limits import exit_code, started


def has_ended(pid: int) -> bool:
    return not is_running(pid)


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop the process while the block runs; it may be killed."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("idle", [True, False])
def test_a_helper_that_is_killed_is_replaced(path: str, idle: bool) -> None:
    with open_store(path, write_buffer_size_bytes=1 << 20) as db:
        contents = fill(db, range(300))
        db.flush()
        flusher, _ = helpers(db)
        first = running(flusher)
        contents |= fill(db, range(300, 600))
        if idle:
            os.kill(first, signal.SIGKILL)
            wait_until(lambda: not is_running(first))
            db.flush()
        else:
            with stopped(first):
                flushing = threading.Thread(target=db.flush)
                flushing.start()
                wait_until(lambda: db.inspect().memtable_key_counts == (0, 300))
                os.kill(first, signal.SIGKILL)
                flushing.join(WAIT_S)
        assert running(flusher) != first
        assert dict(db.items()) == contents
        assert table_names(path) == live_tables(db)


# Does half of its job, and dies.
DIES: Final = """
import sys
sys.path += sys.argv[2:]
import os
from lsmkv.background.process import child as helper, staged
def work(job, storage, directory, is_cancelled):
    open(os.path.join(directory, "%06d.sst" % job.spec.first_number), "wb").write(b"half")
    print("no more of this", flush=True)
    os._exit(3)
staged.run_job = work
helper.main()
"""


def test_a_helper_that_dies_twice_fails_the_store_until_it_is_resumed(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_PROGRAM", DIES)
    with open_store(path, write_buffer_size_bytes=1 << 20) as db:
        contents = fill(db, range(300))
        with pytest.raises(lsmkv.BackgroundError, match="exit status 3") as caught:
            db.flush()
        cause = caught.value.__cause__
        assert isinstance(cause, HelperDiedError) and cause.status == 3
        assert "in the middle of a job (background=" in str(cause)
        assert "needs none); its last words:" in str(cause)
        assert "no more of this" in str(cause)
        with pytest.raises(lsmkv.BackgroundError):
            db[b"more"] = b""
        assert dict(db.items()) == contents
        assert table_names(path) == set()
        db.resume()
        assert dict(db.items()) == contents and len(live_tables(db)) == len(table_names(path)) > 0
        db[b"more"] = b""


def test_a_helper_with_nothing_to_do_ends_and_is_started_again(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurried = process._PROGRAM.replace("main()", "IDLE_S")  # the folders of sys.path stay
    hurried += (
        "; import lsmkv.background.process.child as helper; helper.IDLE_S = 0.01; helper.main()"
    )
    monkeypatch.setattr(process, "_PROGRAM", hurried.replace("import main", "import IDLE_S"))
    with open_store(path) as db:
        contents: dict[bytes, bytes] = {}
        pids = set()
        for turn in range(3):
            contents |= fill(db, range(50 * turn, 50 * turn + 50))
            db.flush()
            flusher, _ = helpers(db)
            pid = running(flusher)
            wait_until(functools.partial(has_ended, pid))
            pids.add(pid)
        assert len(pids) == 3
        assert dict(db.items()) == contents


def test_closing_ends_what_a_helper_is_doing(path: str) -> None:
    db = open_store(path, write_buffer_size_bytes=1 << 20)
    contents = fill(db, range(300))
    db.flush()
    flusher, _ = helpers(db)
    pid = running(flusher)
    contents |= fill(db, range(300, 600))
    with stopped(pid):
        raised = []

        def flush() -> None:
            with pytest.raises(lsmkv.ClosedError) as caught:
                db.flush()
            raised.append(caught.value)

        flushing = threading.Thread(target=flush)
        flushing.start()
        wait_until(lambda: db.inspect().memtable_key_counts == (0, 300))
        db.close()
        flushing.join(WAIT_S)
        assert len(raised) == 1 and not is_running(pid)
    with open_small(path) as db:
        assert dict(db.items()) == contents and db.verify().ok


def test_closing_ends_a_compaction_in_another_thread(path: str) -> None:
    db = open_store(path)
    contents = fill(db, range(1000))
    db.compact_range(force=True)
    _, compactor = helpers(db)
    with stopped(running(compactor)):
        raised = []

        def compact() -> None:
            with pytest.raises(lsmkv.ClosedError) as caught:
                db.compact_range(force=True)
            raised.append(caught.value)

        compacting = threading.Thread(target=compact)
        compacting.start()
        wait_until(db._engine.background.compactor.running.locked)
        db.close()
        compacting.join(WAIT_S)
        assert len(raised) == 1
    with open_small(path) as db:
        assert dict(db.items()) == contents


STAYS: Final = """
import sys, os, time, types
sys.path += sys.argv[2:]
from lsmkv.background.process import child as helper
helper.os = types.SimpleNamespace(**vars(os))
helper.os._exit = lambda status: time.sleep(60)  # it survives its parent
helper.main()
"""
PARENT: Final = """
import os, signal, sys, time, lsmkv, lsmkv.background.process.parent
if sys.argv[2] == "stays":
    lsmkv.background.process.parent._PROGRAM = sys.argv[3]
db = lsmkv.open(sys.argv[1], background="process", process_job_size_bytes=0)
for number in range(300):
    db.put(b"%08d" % number, b"value")
db.flush()
helper = db._engine.background.flusher.runner.process.pid
for number in range(300, 600):
    db.put(b"%08d" % number, b"value")
forked = 0
if sys.argv[2] == "forks":
    forked = os.fork()
    if not forked:
        time.sleep(60)
        os._exit(0)
print(helper, forked, flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def parent(path: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """A process with a store, its flush helper and forked child (0: none)."""
    with started(
        [sys.executable, "-W", "ignore", "-c", PARENT, path, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdout is not None
        helper, forked = map(int, writer.stdout.readline().split())
        try:
            yield writer, helper, forked
        finally:
            if forked:
                os.kill(forked, signal.SIGKILL)


@pytest.mark.parametrize("forks", ["", "forks"])
def test_a_helper_ends_with_its_parent_however_that_ends(path: str, forks: str) -> None:
    with parent(path, forks) as (writer, helper, _):
        assert is_running(helper)
        writer.kill()
        writer.wait(WAIT_S)
        wait_until(lambda: not is_running(helper))
        with open_small(path) as db:
            assert len(db) == 600 and db.verify().ok


def test_a_helper_that_outlives_its_parent_does_the_store_no_harm(path: str) -> None:
    with parent(path, "stays", STAYS) as (writer, helper, _):
        writer.kill()
        writer.wait(WAIT_S)
        with open_small(path) as db:
            assert is_running(helper)
            assert len(db) == 600 and db.verify().ok
        os.kill(helper, signal.SIGKILL)


def test_a_forked_child_leaves_the_helpers_alone(path: str) -> None:
    with open_store(path) as db:
        contents = fill(db, range(100))
        db.flush()
        flusher, _ = helpers(db)
        first = running(flusher)
        child = os.fork()
        if not child:
            with contextlib.suppress(lsmkv.ForkedError):
                db.flush()
            db.close()
            os._exit(flusher.pid is not None)
        assert exit_code(child) == 0
        contents |= fill(db, range(100, 200))
        db.flush()
        assert running(flusher) == first
        assert dict(db.items()) == contents


def test_helpers_ignore_ctrl_c(path: str) -> None:
    with open_store(path) as db:
        fill(db, range(100))
        db.flush()
        flusher, _ = helpers(db)
        pid = running(flusher)
        assert os.getpgid(pid) != os.getpgid(0)
        os.kill(pid, signal.SIGINT)
        fill(db, range(200))
        db.flush()
        assert running(flusher) == pid
