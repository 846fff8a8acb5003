"""Interpreters and systems on which a store may be opened."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lsmkv
from gates import WAIT_S
from other_processes import run


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


# Remove the modules that Windows lacks before the package is loaded.
ON_WINDOWS = """
for name in [name for name in sys.modules if name.partition(".")[0] == "lsmkv"]:
    del sys.modules[name]
sys.modules["fcntl"] = None
for name in ("fork", "register_at_fork", "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "pwrite", "preadv"):
    delattr(os, name)
import lsmkv
"""

REFUSED_THERE = f"""{ON_WINDOWS}
for name in lsmkv.__all__:
    try:
        used = getattr(lsmkv, name)
        if name in ("open", "destroy"):
            used("store")
        elif name == "repair":
            used("store", "mended")
    except ImportError as error:
        print(name, error)
"""


@pytest.mark.skipif(
    "LSMKV_SANITIZED" in os.environ and sys.version_info[:2] == (3, 12),
    reason="mypyc allocates a type's docstring by PyMem_Malloc and Python 3.12 frees it by "
    "PyObject_Free, which the debug allocator refuses when this test drops the package's modules",
)
def test_a_system_without_file_locks_is_refused_in_one_sentence() -> None:
    refused = dict(line.split(" ", 1) for line in run(REFUSED_THERE).splitlines())
    assert {"DB", "open", "destroy", "repair", "Cursor", "Snapshot", "WriteBatch"} <= refused.keys()
    assert len(set(refused.values())) == 1
    assert "need a POSIX system" in refused["open"]


def test_filters_work_without_file_locks() -> None:
    use = "print(lsmkv.filters.bits_for(1000, 0.01), lsmkv.filters.BloomFilter.__name__)"
    assert run(ON_WINDOWS + use).endswith(" BloomFilter\n")


def test_a_subinterpreter_is_refused_and_the_main_interpreter_goes_on(tmp_path: Path) -> None:
    script = """
import sys, lsmkv
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
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "store"), str(said)],
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert done.returncode == 0, done.stderr
    assert "runs in the main interpreter alone" in said.read_text()
