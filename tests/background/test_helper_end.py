"""Ends and failures of helper processes: killed, idle, closed or orphaned, and no data lost."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from conftest import fill, open_small

import lsmkv
from damage import files, flip
from gates import WAIT_S
from helper_processes import (
    MODES,
    helpers,
    is_running,
    live_tables,
    open_store,
    running,
    table_names,
)
from lsmkv.background.process import parent as process
from lsmkv.background.process.exceptions import error_of, failure_of
from lsmkv.background.process.jobs import LogUnusableError, NumbersUsedUpError
from lsmkv.background.process.parent import HelperDiedError
from lsmkv.errors import CorruptionError, UnsupportedFormatError
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


@pytest.mark.parametrize("work", ["flush", "compaction"])
def test_closing_ends_what_a_helper_is_doing(path: str, work: str) -> None:
    db = open_store(path, write_buffer_size_bytes=1 << 20)
    contents = fill(db, range(300))
    db.compact_range(force=True)
    flusher, compactor = helpers(db)
    pid = running(flusher if work == "flush" else compactor)
    if work == "flush":
        contents |= fill(db, range(300, 600))
    errors: list[Any] = []

    def ended() -> None:
        with pytest.raises(lsmkv.ClosedError) as caught:
            db.flush() if work == "flush" else db.compact_range(force=True)
        errors.append(caught.value)

    with stopped(pid):
        working = threading.Thread(target=ended)
        working.start()
        if work == "flush":
            wait_until(lambda: db.inspect().memtable_key_counts == (0, 300))
        else:
            wait_until(db._engine.background.compactor.running.locked)
        db.close()
        working.join(WAIT_S)
        assert len(errors) == 1 and not is_running(pid)
    with open_small(path) as db:
        assert dict(db.items()) == contents and db.verify().ok


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


ERRORS: Final = [
    CorruptionError("/store/1.sst", 4096, "checksum fails", expected=2**64 - 1, got=-5),
    CorruptionError("/store/1.sst", None, "it is missing"),
    CorruptionError("/store/1.sst", 0, "not a table", expected=b"magic", got=("log", 3)),
    CorruptionError("/sto\udcffre/1.sst", 7, "bad"),
    UnsupportedFormatError("/store/1.sst", "table format 9"),
    OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/store/1.sst"),
    FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "/sto\udcffre", None, "/other"),
    OSError(errno.EIO, os.strerror(errno.EIO)),
    ValueError("filter policy built nonsense"),
    MemoryError(),
    LogUnusableError("the log is short"),
    NumbersUsedUpError("3 are too few"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{type(error).__name__} {error!s}")
def test_an_error_comes_back_as_it_was_raised(error: Exception) -> None:
    back = error_of(failure_of(error, "trace"))
    if isinstance(error, (LogUnusableError, NumbersUsedUpError)):  # handled by name
        assert isinstance(back, lsmkv.Error)
        return
    assert type(back) is type(error)
    assert str(back) == str(error)
    for name in ("path", "offset", "reason", "errno", "strerror", "filename", "filename2"):
        assert getattr(back, name, None) == getattr(error, name, None), name
    for name in ("expected", "got"):
        assert repr(getattr(back, name, None)) == repr(getattr(error, name, None)), name


def test_an_error_that_cannot_be_pickled_becomes_an_lsmkv_error() -> None:
    class OddError(Exception):
        pass

    for error in (OddError("odd"), UnicodeDecodeError("ascii", b"\xff", 0, 1, "odd")):
        back = error_of(failure_of(error, "where it was"))
        assert type(back) is lsmkv.Error
        assert type(error).__name__ in str(back) and "odd" in str(back)
        assert "where it was" in "".join(back.__notes__)


def test_a_damaged_input_is_the_same_error_as_in_a_thread(path: str) -> None:
    with open_small(path, write_buffer_size_bytes=1 << 20) as db:
        for seed in range(2):
            fill(db, range(300), seed=seed)
            db.flush()
    flip(files(Path(path), ".sst")[0], 1000)
    found = []
    for mode in MODES:
        with open_store(path, mode) as db:
            before = table_names(path)
            with pytest.raises(CorruptionError) as caught:
                db.compact_range()
            error = caught.value
            found.append((str(error), error.path, error.offset, error.expected, error.got))
            with pytest.raises(lsmkv.BackgroundError) as refused:
                db[b"more"] = b""
            cause = refused.value.__cause__
            assert isinstance(cause, CorruptionError) and str(cause) == str(error)
            assert table_names(path) == before
    assert found[0] == found[1]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of others are Linux's")
def test_a_failed_table_write_raises_the_systems_error_and_leaves_no_file(path: str) -> None:
    with open_store(path, write_buffer_size_bytes=1 << 20) as db:
        contents = fill(db, range(300))
        db.flush()
        before = table_names(path)
        flusher, _ = helpers(db)
        resource.prlimit(running(flusher), resource.RLIMIT_FSIZE, (500, 500))
        contents |= fill(db, range(300, 600))
        with pytest.raises(lsmkv.BackgroundError) as caught:
            db.flush()
        cause = caught.value.__cause__
        assert isinstance(cause, OSError) and cause.errno == errno.EFBIG
        assert str(cause.filename).startswith(path) and str(cause.filename).endswith(".sst")
        assert table_names(path) == before
        assert dict(db.items()) == contents
        db.resume()
        assert dict(db.items()) == contents
    with open_small(path) as db:
        assert dict(db.items()) == contents


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_log_that_cannot_be_read_is_no_loss(path: str, damage: str) -> None:
    with open_store(path, write_buffer_size_bytes=1 << 20) as db:
        contents = fill(db, range(300))
        log = files(Path(path), ".log")[0]
        if damage == "flip":
            flip(log, 2000)
        elif damage == "cut":
            os.truncate(log, 2000)
        else:
            log.unlink()
        db.flush()
        assert dict(db.items()) == contents
    with open_small(path) as db:
        assert dict(db.items()) == contents
