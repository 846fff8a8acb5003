"""Stores that a program leaves open at its end, and interpreters on which none is opened."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import open_small

import lsmkv
from gates import WAIT_S
from other_processes import process, run

OPEN = """
import logging
logging.disable()  # a busy machine may stall a write
options = dict(write_buffer_size_bytes=8192, background="thread")
db = lsmkv.open(sys.argv[1], **options)
"""


def end_of(script: str, path: str | Path) -> str:
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


WRITES = """
db.put(b'1', b'')
db.put(b'2', b'', sync=True)
with db.write_batch() as batch: batch.put(b'3', b'')
with db.transaction() as t: t.put(b'4', b'')
db.sync()
for n in range(2000): db.put(b'%d' % n, b'v' * 30)
db.put(b'last', db[b'7'])
print(len(db), next(db.keys().__iter__()))
"""


@pytest.mark.parametrize("close", ["", "db.close()"])
def test_an_exit_handler_from_before_the_import_writes_and_reads(path: str, close: str) -> None:
    assert end_of(early(WRITES + close), path) == "2001 b'0'\n"
    with lsmkv.open(path) as db:
        assert (len(db), db[b"last"]) == (2001, b"v" * 30)
        assert db.verify().ok


def test_an_early_exit_handler_is_told_what_is_no_longer_done(path: str) -> None:
    handler = "try: db.flush()\nexcept lsmkv.ClosedError: print('told')"
    assert end_of(early(handler, "db[b'k'] = b'v'"), path) == "told\n"


@pytest.mark.parametrize(
    "works",
    [
        ["db[b'%d' % n] = b'v' * 50", "db[b'x%d' % n] = b'v'; db.flush()", "db.compact_range()"],
        pytest.param(["db.put(b'%d' % n, b'v', sync=True)"] * 3, marks=pytest.mark.slow),
        pytest.param(["len(db)"] * 3, marks=pytest.mark.slow),
    ],
)
def test_daemon_threads_end_quietly(path: str, works: list[str]) -> None:
    script = f"""
import lsmkv, sys, threading
{OPEN}
db[b"first"] = b"1"
begun = threading.Semaphore(0)

def run(work):
    n = 0
    while True:
        exec(work)
        n += 1
        begun.release()

for work in {works}:
    threading.Thread(target=run, args=(work,), daemon=True).start()
for _ in range(3): begun.acquire()
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
db = lsmkv.open(sys.argv[1], background="process", write_buffer_size_bytes=1 << 14,
                process_job_size_bytes=0)
for n in range(5000): db[b"%06d" % (n * 7919 % 5000)] = b"v" * 50
"""
    end_of(script, path)
    with lsmkv.open(path) as db:
        assert len(db) == 5000
    assert not [name for name in os.listdir(path) if name.startswith("staging")]


@pytest.mark.parametrize("read_only", [False, True])
def test_without_the_global_lock_a_store_is_not_opened_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.raises(RuntimeError, match="-X gil=1"):
        lsmkv.open(tmp_path / "store", read_only=read_only)
    assert list(tmp_path.iterdir()) == []


def test_a_free_threaded_build_that_has_the_lock_on_may_open_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    with lsmkv.open(tmp_path / "store") as db:
        assert db.get(b"key") is None


# What Windows lacks is gone, as are the modules of the package that the test's process has loaded.
ON_WINDOWS = """
for name in [name for name in sys.modules if name.partition(".")[0] == "lsmkv"]:
    del sys.modules[name]
sys.platform = "win32"
sys.modules.update({"fcntl": None, "resource": None})
try:
    import MODULE
except ImportError as error:
    print(error)
    print(error.__context__, [name for name in sys.modules if name.startswith("lsmkv.")])
"""


@pytest.mark.skipif(
    "LSMKV_SANITIZED" in os.environ and sys.version_info[:2] == (3, 12),
    reason="mypyc allocates a type's docstring by PyMem_Malloc and Python 3.12 frees it by "
    "PyObject_Free, which the debug allocator refuses when this test drops the package's modules",
)
@pytest.mark.parametrize("module", ["lsmkv", "lsmkv.filters", "lsmkv.cli"])
def test_windows_is_refused_in_one_sentence_before_anything_is_loaded(module: str) -> None:
    assert run(ON_WINDOWS.replace("MODULE", module)).splitlines() == [
        "lsmkv runs on POSIX systems only for now, and this is win32: use Linux or macOS "
        "(on Windows, the Windows Subsystem for Linux)",
        "None ['lsmkv.runtime']",
    ]


def test_a_subinterpreter_is_refused_and_the_main_interpreter_goes_on(tmp_path: Path) -> None:
    script = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
said = sys.argv[2]
code = f'''
import os
import subprocess
import sys
sys.path[:] = {sys.path!r}
try:
    import lsmkv
except ImportError as error:
    with open({said!r}, "w") as file:
        file.write(str(error))
'''
with lsmkv.open(sys.argv[1]) as db:
    db[b"before"] = b"1"
    other = interpreters.create()
    interpreters.run_string(other, code)
    db[b"after"] = b"2"
    db.flush()
    assert list(db.items()) == [(b"after", b"2"), (b"before", b"1")]
"""
    said = tmp_path / "said"
    run(script, tmp_path / "store", said)
    assert "runs in the main interpreter alone" in said.read_text()
