"""Ctrl-C during the ``lsmkv`` command: it ends with 130, whenever it comes."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lsmkv
from commands import fill, process, read
from gates import WAIT_S
from lsmkv.cli import main
from other_processes import run
from threaded_stores import wait_until


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


# In a process of its own: an interrupt while a thread is started leaves it among those that are starting.
EACH_PLACE = """
import contextlib, io, itertools
from interruptions import Interruption
from lsmkv.cli import main

sys.argv[0] = "lsmkv"
shell, sys.stdout = sys.stdout, io.StringIO()
sys.stdin, sys.stderr = io.StringIO("n\\n"), io.StringIO()
with contextlib.suppress(SystemExit):
    main()  # Python loses interrupts that come just when it has imported a module
gc.disable()
lost = []  # or within a finalizer, such as a generator's that is dropped
sys.unraisablehook = lost.append
for at in itertools.count(1, 5):  # place 0 is before main
    sys.stdin, sys.stderr = io.StringIO("n\\n"), io.StringIO()
    interruption = Interruption(at)
    code = None
    lost.clear()
    try:
        with interruption:
            main()
    except (SystemExit, KeyboardInterrupt) as error:
        code = getattr(error, "code", None)
    said = sys.stderr.getvalue()
    if not interruption.came:
        break
    if not lost and (code != 130 or "Traceback" in said):
        print("interrupted at place", at, "it ends with", code, "and says", said, file=shell)
print(at, code, file=shell)
"""


@pytest.mark.parametrize(
    ("command", "code"), [(["delete", "--prefix", "a"], 1), (["destroy"], 1), (["--version"], 0)]
)
def test_an_interrupt_at_any_place_ends_with_130(store: str, command: list[str], code: int) -> None:
    fill(store, {b"a": b"1"})
    said = run(EACH_PLACE, *command, store)
    assert said.count("\n") == 1, said
    places, ended = said.split()
    assert int(places) > 100
    assert int(ended) == code, "the last one is not interrupted"
    assert read(store) == {b"a": b"1"}


class Interrupting(io.RawIOBase):
    """Standard error whose reader presses Ctrl-C upon a question."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        if b"?" in bytes(data):
            raise KeyboardInterrupt
        return len(bytes(data))


def test_an_interrupt_while_modules_are_imported_ends_with_130(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "rich", raising=False)
    monkeypatch.setattr(sys, "meta_path", [SimpleNamespace(find_spec=interrupt)])
    with pytest.raises((SystemExit, KeyboardInterrupt)) as ended:
        main()
    assert getattr(ended.value, "code", None) == 130


def test_an_interrupt_while_a_question_is_written_ends_with_130(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, {b"a": b"1"})
    monkeypatch.setattr(sys, "argv", ["lsmkv", "delete", store, "--prefix", "a"])
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BufferedWriter(Interrupting())))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


def test_control_c_at_a_question_ends_with_130(store: str) -> None:
    fill(store, {b"a": b"1"})
    with process("delete", store, "--prefix", "a", stdin=subprocess.PIPE) as running:
        assert running.stderr is not None
        while (shown := running.stderr.read(1)) != b"?":
            assert shown, "it ended without a question"
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=WAIT_S)
    assert running.returncode == 130
    assert b"Traceback" not in err
    assert read(store) == {b"a": b"1"}


def test_control_c_ends_load_with_130_and_keeps_what_was_loaded(store: str) -> None:
    arguments = ("load", store, "-", "--format", "tsv", "--batch-size", "1")
    with process(*arguments, stdin=subprocess.PIPE) as running:
        assert running.stdin is not None
        running.stdin.write(b"a\t1\nb\t2\n")
        running.stdin.flush()
        wait_until(lambda: running.poll() is not None or holds(store, b"b"))
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=WAIT_S)
    assert running.returncode == 130
    assert b"2 entries loaded" in err and b"Traceback" not in err
    assert read(store) == {b"a": b"1", b"b": b"2"}


def holds(store: str, key: bytes) -> bool:
    try:
        return key in read(store)
    except lsmkv.NotAStoreError:  # not made yet
        return False
