"""``background="auto"``, the default: large compactions in a process, where that is possible."""

from __future__ import annotations

import logging
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import fill, open_small

import lsmkv
from filter_kinds import OwnPolicy, own_registry
from gates import WAIT_S
from lsmkv.background import background_thread
from lsmkv.background.pace import Starvation
from lsmkv.background.process import parent as process
from lsmkv.background.process import runner
from lsmkv.filters.policy import register
from lsmkv.storage.storage import Storage
from time_limits import exit_code


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_core_count", lambda: 2)


def open_auto(path: str, **options: Any) -> lsmkv.DB:
    """A store whose every compaction is large."""
    return open_small(path, background="auto", **{"process_job_size_bytes": 0, **options})


def helper_pid(db: lsmkv.DB) -> int | None:
    """The process that runs compactions, if any does."""
    found = db._engine.background.compactor.runner
    return None if found is None else found.process.pid


def compacted(db: lsmkv.DB) -> dict[bytes, bytes]:
    contents = fill(db, range(500))
    db.compact_range(force=True)
    assert dict(db.items()) == contents
    return contents


def test_a_large_compaction_runs_in_a_process_and_a_flush_in_the_thread(path: str) -> None:
    with open_auto(path) as db:
        fill(db, range(300))
        db.flush()
        assert db._engine.background.flusher.runner is None
        compacted(db)
        assert helper_pid(db) is not None
        assert db.stats().compactions > 0
        assert db.verify().ok


def test_the_compactors_thread_imports_nothing(path: str) -> None:
    """An interrupt of another thread's import may leave its lock held, and the compactor waiting."""
    program = (
        "import sys, threading, lsmkv\n"
        f"db = lsmkv.open({path!r}, process_job_size_bytes=0)\n"
        "found = []\n"
        "class Watch:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if threading.current_thread().name == 'lsmkv-compact': found.append(name)\n"
        "sys.meta_path.insert(0, Watch())\n"
        "for round in range(6):\n"
        "    for number in range(300): db.put(b'%05d' % number, b'v' * 100)\n"
        "    db.flush()\n"
        "db.wait_until_settled()\n"
        "assert db.stats().compactions > 0\n"
        "assert db._engine.background.compactor.runner is not None or sys.argv[1] == '1'\n"
        "db.close()\n"
        "sys.exit(str(found) if found else 0)"
    )
    cores = str(len(os.sched_getaffinity(0)))
    subprocess.run([sys.executable, "-c", program, cores], check=True, timeout=60)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    caplog.set_level(logging.INFO, "lsmkv")
    yield lambda: [record.getMessage() for record in caplog.records]


def in_thread(path: str, **options: Any) -> None:
    """Compact; the work is done, and no process did it."""
    with open_auto(path, **options) as db:
        compacted(db)
        assert helper_pid(db) is None


class OwnStorage(Storage):
    pass


@pytest.mark.parametrize(
    ("patched", "options", "told"),
    [
        ((runner, "_core_count", lambda: 1), {}, "in a thread, not in a process: this process "),
        ((sys, "frozen", True), {}, "is not known to be a Python interpreter"),
        ((sys, "executable", None), {}, "is not known to be a Python interpreter"),
        ((), {"storage": OwnStorage()}, "only this process has"),
        ((), {"filter_policy": "own-bloom"}, "'own-bloom' is registered in this process"),
    ],
    ids=["one core", "frozen", "no interpreter", "own storage", "own policy"],
)
def test_what_keeps_the_work_in_the_thread_is_told(
    path: str,
    monkeypatch: pytest.MonkeyPatch,
    lines: Any,
    patched: tuple[Any, str, Any],
    options: dict[str, Any],
    told: str,
) -> None:
    if patched:
        monkeypatch.setattr(*patched, raising=False)
    with own_registry():
        register(OwnPolicy())
        in_thread(path, **options)
    assert any(told in line for line in lines())


def test_a_table_with_a_private_policy_that_comes_later_is_merged_in_the_thread(
    path: str, tmp_path: Path
) -> None:
    with own_registry():
        register(OwnPolicy())
        with open_auto(path) as db:
            contents = compacted(db)
            before = helper_pid(db)
            assert before is not None
            table = tmp_path / "table"
            with lsmkv.TableWriter(table, filter_policy="own-bloom") as writer:
                writer.add(b"zz", b"new")
            db.ingest([table])
            db.compact_range(force=True)
            assert dict(db.items()) == contents | {b"zz": b"new"}


def test_a_helper_has_no_descriptor_of_the_lock(path: str) -> None:
    """So a store whose process was killed can be opened while its helper still runs."""
    with open_auto(path) as db:
        contents = compacted(db)
        pid = helper_pid(db)
        assert pid is not None
        lock = f"{path}/LOCK"
        held = [target for target in Path(f"/proc/{pid}/fd").iterdir() if target.exists()]
        assert lock not in [str(target.readlink()) for target in held]
    with open_small(path) as db:
        assert dict(db.items()) == contents


def test_a_fork_of_another_thread_waits_while_a_helper_starts() -> None:
    """Its child would keep the pipes open that the start reads to their end."""
    order: list[str] = []

    def fork() -> None:
        pid = os.fork()
        if not pid:
            os._exit(0)
        order.append("forked")
        exit_code(pid)

    with process._starting:
        forking = threading.Thread(target=fork, daemon=True)
        forking.start()
        forking.join(0.2)
        order.append("started")
    forking.join(WAIT_S)
    assert order == ["started", "forked"]


def killed_in_each_job(program: str) -> str:
    """The helper's program, which kills itself as ``program`` says when its first order comes."""
    return (
        "import sys, os, signal, time; sys.path += sys.argv[2:]; "
        "sys.modules['lsmkv.not_compiled'] = None; "
        "from lsmkv.background.process import child; "
        f"child.run_and_reply = lambda order: {program}; child.main()"
    )


FAILING: dict[str, tuple[str, str]] = {
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", "killed by signal 9"),
    "out of CPU time": ("os.kill(os.getpid(), signal.SIGXCPU)", "killed by signal 24"),
    "exits": ("os._exit(3)", "exit status 3"),
    "hangs up in a message": ("(os.write(3, b'\\x09'), os._exit(0))", "exit status 0"),
    "raises": ("1 / 0", "division by zero"),
    "answers nonsense": ("child.messages.Ready(b'/')", "ready twice"),
}


@pytest.mark.parametrize(
    ("work", "kind"),
    [
        *(("compaction", kind) for kind in ("killed", "raises", "imports nothing")),
        ("flush", "killed"),
        *(
            pytest.param(work, kind, marks=pytest.mark.slow)
            for work in ("compaction", "flush")
            for kind in FAILING
            if kind not in ("killed", "raises")
        ),
    ],
)
def test_a_thread_does_what_a_helper_fails_at(
    path: str, kind: str, work: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    program, reason = FAILING.get(kind, ("", "exit status 1"))
    text = killed_in_each_job(program) if program else "import nothing_of_this_name"
    monkeypatch.setattr(process, "_PROGRAM", text)
    if work == "flush":
        request.getfixturevalue("starved")
    events: list[lsmkv.Event] = []
    with open_auto(path, on_event=events.append, write_buffer_size_bytes=1 << 20) as db:
        contents = fill(db, range(2000))
        db.flush()
        if work == "compaction":
            db.compact_range(force=True)
        assert dict(db.items()) == contents
        db.put(b"more", b"")
        db.flush()
        db.compact_range(force=True)
        assert db.verify().ok
        assert not list(Path(path).glob("staging-*"))
        assert helper_pid(db) is None
    failed = [event for event in events if isinstance(event, lsmkv.HelperFailed)]
    runners = 1 if work == "compaction" else 2  # the starved flusher has its own
    assert 1 <= len(failed) <= runners, "a pause gives no helper another job"
    assert all(reason in event.reason for event in failed)
    assert not [event for event in events if isinstance(event, lsmkv.BackgroundFailed)]
    assert "goes on in a thread for 300 s" in str(failed[0])


def test_a_paused_helper_does_not_make_starved_jobs_run_twice(
    path: str, monkeypatch: pytest.MonkeyPatch, starved: list[int]
) -> None:
    monkeypatch.setattr(process, "_PROGRAM", killed_in_each_job(FAILING["killed"][0]))
    with open_starved(path) as db:
        fill(db, range(2000))
        db.flush()
        steps = len(starved)
        fill(db, range(2000))
        db.flush()
        assert len(starved) == steps


def test_after_a_failed_job_and_a_pause_another_helper_is_started(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A helper keeps the limits under which it was started, and one of them may be what failed."""
    events: list[lsmkv.Event] = []
    with open_auto(path, on_event=events.append) as db:
        compacted(db)
        before = helper_pid(db)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        assert before is not None
        resource.prlimit(before, resource.RLIMIT_FSIZE, (64, limits[1]))
        db.compact_range(force=True)
        assert helper_pid(db) is None
        assert any("File too large" in str(event) for event in events)
        monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: float("inf")))
        db.compact_range(force=True)
        assert helper_pid(db) not in (None, before)


@pytest.fixture
def starved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every job in a thread is starved after its second step; the steps since the start."""
    steps: list[int] = []

    def is_found(_: Starvation) -> bool:
        steps.append(1)
        return len(steps) > 2

    monkeypatch.setattr(Starvation, "is_found", is_found)
    monkeypatch.setattr(background_thread, "_LEAST_MOVED_BYTES", 0)
    return steps


def open_starved(path: str) -> lsmkv.DB:
    """Its jobs are small; only starvation moves them."""
    return open_small(path, background="auto", write_buffer_size_bytes=1 << 20)


def test_starved_jobs_move_to_processes(path: str, starved: list[int]) -> None:
    with open_starved(path) as db:
        contents = fill(db, range(2000))
        db.flush()
        runner = db._engine.background.flusher.runner
        assert runner is not None and runner.process.pid is not None
        assert len(starved) == 3
        assert db.stats().flushes == 1
        assert len(list(Path(path).glob("*.sst"))) == len(db.tables())
        starved.clear()
        db.compact_range(force=True)
        assert helper_pid(db) is not None
        assert dict(db.items()) == contents
        assert db.verify().ok


def test_a_starved_job_ends_in_the_thread_where_no_process_may_run(
    path: str, starved: list[int], monkeypatch: pytest.MonkeyPatch, lines: Any
) -> None:
    monkeypatch.setattr(runner, "_core_count", lambda: 1)
    with open_starved(path) as db:
        contents = fill(db, range(2000))
        db.flush()
        fill(db, range(2000))
        db.flush()
        assert len(starved) == 3, "the second flush was watched"
        assert db._engine.background.flusher.runner is None
        assert sum("this process has one core" in line for line in lines()) == 1
        assert dict(db.items()) == contents


@pytest.mark.parametrize("background", ["auto", "thread"])
def test_small_jobs_and_threads_alone_are_never_watched(
    path: str, starved: list[int], monkeypatch: pytest.MonkeyPatch, background: Any
) -> None:
    least_bytes = 1 << 20 if background == "auto" else 0
    monkeypatch.setattr(background_thread, "_LEAST_MOVED_BYTES", least_bytes)
    with open_small(path, background=background, write_buffer_size_bytes=1 << 20) as db:
        fill(db, range(2000))
        db.flush()
        assert not starved
        assert db._engine.background.flusher.runner is None


@pytest.mark.parametrize(
    "error", [PermissionError(1, "not permitted"), BlockingIOError(11, "full")]
)
def test_a_helper_is_tried_again_some_time_after_one_could_not_start(
    path: str, monkeypatch: pytest.MonkeyPatch, lines: Any, error: OSError
) -> None:
    real, tries = subprocess.Popen, 0

    def refused_once(*given: Any, **named: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise error
        return real(*given, **named)

    monkeypatch.setattr(subprocess, "Popen", refused_once)
    with open_auto(path) as db:
        compacted(db)
        assert (helper_pid(db), tries) == (None, 1)
        db.compact_range(force=True)
        assert tries == 1, "it tried again at once"
        monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: float("inf")))
        db.compact_range(force=True)
        assert helper_pid(db) is not None
    (told,) = [line for line in lines() if "goes on in a thread" in line]
    assert error.args[1] in told


@pytest.mark.parametrize(
    ("names", "is_python"),
    [
        ("python python3.11 python3.13t python3-dbg pypy3.11 Python", True),
        (" uwsgi blender python_app pythonshell.bin", False),
    ],
)
def test_only_what_is_named_as_an_interpreter_is_started_as_one(
    monkeypatch: pytest.MonkeyPatch, names: str, is_python: bool
) -> None:
    """Another program would start itself anew."""
    for name in names.split(" "):
        path = name and f"/opt/{name}"
        monkeypatch.setattr(sys, "executable", path)
        assert process.interpreter() == (path if is_python else None)
