"""Background work in helper processes: that it is done there, and what may happen to them."""

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
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import lsmkv
from conftest import fill, number_key, open_small
from damage import files, flip
from filter_kinds import own_registry
from gates import WAIT_S
from lsmkv import recovery, tables
from lsmkv.background import process
from lsmkv.background.failures import error_of, failure_of
from lsmkv.background.jobs import FlushJob, LogUnusableError, NumbersUsedUpError, Order, run_job
from lsmkv.background.process import HelperDiedError, HelperProcess
from lsmkv.errors import CorruptionError, UnsupportedFormatError
from lsmkv.filters.policy import BLOOM, PRIVATE_SCHEMES, FilterPolicy, register
from lsmkv.options import Background
from lsmkv.stats import Stats
from lsmkv.storage import Storage

MODES: Final[tuple[Background, ...]] = ("thread", "process")


def open_store(path: str | Path, background: Background = "process", **options: Any) -> lsmkv.DB:
    """A small store whose every flush and compaction is worth a process."""
    return open_small(path, background=background, **{"process_job_size_bytes": 0, **options})


def helpers(db: lsmkv.DB) -> tuple[HelperProcess, HelperProcess]:
    """The one for flushes and the one for compactions."""
    maintenance = db._engine._maintenance
    runners = (maintenance._flush_runner, maintenance._merge_runner)
    assert runners[0] is not None and runners[1] is not None
    return runners[0].process, runners[1].process


def has_runners(db: lsmkv.DB) -> bool:
    return db._engine._maintenance._flush_runner is not None


def running(helper: HelperProcess) -> int:
    """The number of its process, which is there."""
    assert helper.pid is not None
    return helper.pid


def is_running(pid: int) -> bool:
    """Whether the process is there, and no zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def has_ended(pid: int) -> bool:
    return not is_running(pid)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.002)


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that does nothing meanwhile; it may be killed."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def table_names(path: str) -> set[str]:
    return {file.name for file in files(Path(path), ".sst")}


def live_tables(db: lsmkv.DB) -> set[str]:
    return {info.file_name for info in db.inspect().tables()}


# --- where work is done --------------------------------------------------------------------------


def test_flushes_and_compactions_run_each_in_a_process_of_their_own(path: str) -> None:
    with open_store(path) as db:
        assert [helper.pid for helper in helpers(db)] == [None, None]
        contents = fill(db, range(100))
        db.flush()
        flusher, compactor = helpers(db)
        assert flusher.pid is not None and compactor.pid is None
        db.compact_range(force=True)
        assert len({flusher.pid, compactor.pid, os.getpid(), None}) == 4
        assert dict(db.items()) == contents
        pids = [running(helper) for helper in helpers(db)]
    assert not any(map(is_running, pids))
    with open_small(path) as db:
        assert dict(db.items()) == contents and db.verify().ok


def test_no_process_is_started_for_little_work(path: str) -> None:
    with open_store(path, process_job_size_bytes=lsmkv.Options().process_job_size_bytes) as db:
        fill(db, range(1000))
        db.flush()
        db.compact_range(force=True)
        assert [helper.pid for helper in helpers(db)] == [None, None]


def test_what_helpers_count_is_counted(path: str, tmp_path: Path) -> None:
    counted = []
    for mode in MODES:
        with open_store(tmp_path / mode, mode, write_buffer_size_bytes=1 << 20) as db:
            for seed in range(3):
                fill(db, range(500), seed=seed)
                db.flush()
            db.compact_range()
            counted.append(db.stats())
    thread, elsewhere = counted
    for name in (
        *("flushes", "flush_bytes", "compactions", "compaction_write_bytes"),
        *("compaction_block_reads", "compaction_read_bytes", "block_reads", "filter_read_bytes"),
    ):
        # The digits of a table's number are in the table.
        assert getattr(elsewhere, name) == pytest.approx(getattr(thread, name), abs=20), name
    assert elsewhere.filter_build_ns > 0
    assert elsewhere.log_read_bytes - thread.log_read_bytes >= 1500 * 40  # what flushes read
    assert elsewhere.index_reads > thread.index_reads
    assert elsewhere.flush_us.count == thread.flush_us.count == 3


def test_a_snapshot_older_than_a_flush_sees_what_the_log_alone_holds(path: str) -> None:
    with open_store(path, write_buffer_size_bytes=1 << 20) as db:
        snapshots = []
        for turn in range(4):
            with db.write_batch() as batch:
                for number in range(50):
                    batch.put(number_key(number), b"batch %d" % turn)
                batch.delete(number_key(turn))
            db[b"single"] = b"%d" % turn
            snapshots.append((db.snapshot(), dict(db.items())))
        db[b"single"] = b"last"
        db.flush()
        for snapshot, contents in snapshots:
            assert dict(snapshot.items()) == contents
        assert db[b"single"] == b"last"
        for snapshot, _ in snapshots:
            snapshot.close()
        db.compact_range()
        assert db.inspect().entry_count == len(db) == 50


def test_more_tables_come_out_than_expected(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "numbers_wanted", lambda *_: 1)
    with open_store(path, table_size_bytes=4096, write_buffer_size_bytes=1 << 20) as db:
        contents = fill(db, range(1000))
        db.flush()
        assert len(live_tables(db)) > 3
        assert live_tables(db) == table_names(path)
        assert dict(db.items()) == contents


def test_a_job_is_a_plain_function_of_files(path: str) -> None:
    with open_small(path, write_buffer_size_bytes=1 << 20) as db:
        fill(db, range(200))
        db.sync()
        order = Order.of(path, db.options, 0.01, [], range(100, 200))
        log = files(Path(path), ".log")[0]
        job = FlushJob(
            order=order,
            log_number=int(log.stem),
            log_bytes=log.stat().st_size,
            first_seq=1,
            end_seq=201,
            key_count=200,
        )
        stats = Stats()
        written = run_job(job, stats)
        assert [meta.number for meta in written] == list(range(100, 100 + len(written)))
        assert sum(meta.entry_count for meta in written) == 200
        assert stats.log_reads == 1


# --- where it cannot be done ---------------------------------------------------------------------


def test_a_storage_of_ones_own_keeps_the_work_here(path: str) -> None:
    class OwnStorage(Storage):
        pass

    with (
        pytest.warns(RuntimeWarning, match="only this process has"),
        open_store(path, storage=OwnStorage()) as db,
    ):
        contents = fill(db, range(500))
        db.compact_range()
        assert not has_runners(db) and dict(db.items()) == contents


class OwnPolicy(FilterPolicy):
    """A policy that only this process knows: Bloom filters, by another name."""

    @property
    def scheme(self) -> int:
        return PRIVATE_SCHEMES[0]

    @property
    def name(self) -> str:
        return "own-bloom"

    def build(self, hashes: list[int], error_rate: float) -> tuple[bytes, int]:
        return BLOOM.build(hashes, error_rate)

    def may_contain(self, bits: bytes, start: int, byte_count: int, parameter: int, h: int) -> bool:
        return BLOOM.may_contain(bits, start, byte_count, parameter, h)

    def exact_rate(self, byte_count: int, key_count: int, parameter: int) -> float:
        return BLOOM.exact_rate(byte_count, key_count, parameter)

    def is_possible(self, byte_count: int, parameter: int) -> bool:
        return BLOOM.is_possible(byte_count, parameter)


def test_a_registered_filter_policy_keeps_the_work_here(path: str) -> None:
    with own_registry():
        register(OwnPolicy())
        for policy in ("own-bloom", "bloom"):  # to write with; and only to read what is there
            with (
                pytest.warns(RuntimeWarning, match="'own-bloom' is registered in this process"),
                open_store(path, filter_policy=policy) as db,
            ):
                contents = fill(db, range(500))
                db.flush()
                assert not has_runners(db) and dict(db.items()) == contents
                db.compact_range(force=True)
        with open_store(path) as db:  # nothing is left of that policy
            assert has_runners(db)


@pytest.mark.parametrize("executable", ["", None, "/usr/sbin/uwsgi"], ids=repr)
def test_without_an_interpreter_the_work_stays_here(
    path: str, monkeypatch: pytest.MonkeyPatch, executable: str | None
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    with (
        pytest.warns(RuntimeWarning, match="is not known to be a Python interpreter"),
        open_store(path) as db,
    ):
        contents = fill(db, range(500))
        db.compact_range()
        assert not has_runners(db) and dict(db.items()) == contents


@pytest.mark.parametrize(
    "program",
    [
        "raise SystemExit(4)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "print('x' * 4000, flush=True); input()",
        "from lsmkv.nowhere import main",
    ],
)
def test_a_process_that_does_not_start_is_warned_of_once_and_the_work_done_here(
    path: str, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(process, "_PROGRAM", program)
    if "input" in program:  # it never answers, and is not waited for as long as usual
        monkeypatch.setattr(process, "_START_LIMIT_S", 0.5)
    with (
        pytest.warns(RuntimeWarning, match="goes on in a thread") as warned,
        open_store(path) as db,
    ):
        contents = fill(db, range(1000))
        db.flush()
        db.wait_until_settled()
        assert dict(db.items()) == contents
        assert db.stats().flushes > 3
    assert len(warned) <= 2  # one for each kind of work


def test_an_interpreter_that_is_gone_is_no_reason_to_fail(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    with pytest.warns(RuntimeWarning, match="cannot be started"), open_store(path) as db:
        contents = fill(db, range(1000))
        db.flush()
        assert dict(db.items()) == contents


# --- its end -------------------------------------------------------------------------------------


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


# Does the first half of what it is to do, and dies.
DIES: Final = """
import sys
sys.path += sys.argv[2:]
import os
from lsmkv.background import helper, jobs
def work(job, stats):
    open(os.path.join(job.order.path, "%06d.sst" % job.order.first_number), "wb").write(b"half")
    print("no more of this", flush=True)
    os._exit(3)
helper.run_job = work
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
    hurried += "; import lsmkv.background.helper as helper; helper.IDLE_S = 0.01; helper.main()"
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
        wait_until(db._engine._maintenance._compacting.locked)
        db.close()
        compacting.join(WAIT_S)
        assert len(raised) == 1
    with open_small(path) as db:
        assert dict(db.items()) == contents


STAYS: Final = """
import sys, os, time, types
sys.path += sys.argv[2:]
from lsmkv.background import helper
helper.os = types.SimpleNamespace(**vars(os))
helper.os._exit = lambda status: time.sleep(60)  # the end of its parent is nothing to it
helper.main()
"""
PARENT: Final = """
import os, signal, sys, time, lsmkv, lsmkv.background.process
if sys.argv[2] == "stays":
    lsmkv.background.process._PROGRAM = sys.argv[3]
db = lsmkv.open(sys.argv[1], background="process", process_job_size_bytes=0)
for number in range(300):
    db.put(b"%08d" % number, b"value")
db.flush()
helper = db._engine._maintenance._flush_runner.process.pid
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
    """A process with a store, its helper for flushes, and a child that it has forked (or 0)."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PARENT, path, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        helper, forked = map(int, writer.stdout.readline().split())
        try:
            yield writer, helper, forked
        finally:
            writer.kill()
            if forked:
                os.kill(forked, signal.SIGKILL)


@pytest.mark.parametrize("forks", ["", "forks"])
def test_a_helper_ends_with_its_parent_however_that_ends(path: str, forks: str) -> None:
    with parent(path, forks) as (writer, helper, _):
        assert is_running(helper)
        writer.kill()
        writer.wait()
        wait_until(lambda: not is_running(helper))
        with open_small(path) as db:
            assert len(db) == 600 and db.verify().ok


def test_nobody_opens_a_store_that_an_orphaned_helper_may_still_write_to(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with parent(path, "stays", STAYS) as (writer, helper, _):
        writer.kill()
        writer.wait()
        monkeypatch.setattr(recovery, "_ORPHANS_END_S", 0.05)
        with pytest.raises(lsmkv.LockedError):
            open_small(path)
        monkeypatch.undo()
        ending = threading.Timer(0.1, os.kill, (helper, signal.SIGKILL))
        ending.start()
        with open_small(path) as db:  # which waits for it
            assert len(db) == 600 and db.verify().ok
        ending.join()


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
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        contents |= fill(db, range(100, 200))
        db.flush()
        assert running(flusher) == first
        assert dict(db.items()) == contents


def test_ctrl_c_is_not_for_helpers(path: str) -> None:
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


# --- failures ------------------------------------------------------------------------------------


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
    if isinstance(error, (LogUnusableError, NumbersUsedUpError)):  # dealt with by their names
        assert isinstance(back, lsmkv.Error)
        return
    assert type(back) is type(error)
    assert str(back) == str(error)
    for name in ("path", "offset", "reason", "errno", "strerror", "filename", "filename2"):
        assert getattr(back, name, None) == getattr(error, name, None), name
    for name in ("expected", "got"):
        assert repr(getattr(back, name, None)) == repr(getattr(error, name, None)), name


def test_an_error_that_cannot_be_made_again_comes_as_one_of_ours() -> None:
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
            assert refused.value.__cause__ is error
            assert table_names(path) == before
    assert found[0] == found[1]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of others are Linux's")
def test_a_table_that_cannot_be_written_fails_as_the_system_said_and_leaves_nothing(
    path: str,
) -> None:
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
