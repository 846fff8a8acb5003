"""``lsmkv`` put, get, delete and scan, the text form of bytes, and Ctrl-C at any time."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import lsmkv
from commands import AWKWARD, contents, fail, fill, one_line, process, read, succeed
from gates import WAIT_S
from lsmkv.cli import main
from lsmkv.encoding.text_form import from_text, to_text
from other_processes import run
from threaded_stores import wait_until


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


# --- the text form ---


@given(st.binary())
def test_text_reads_back_as_the_bytes_it_shows(data: bytes) -> None:
    text = to_text(data)
    assert from_text(text) == data
    assert len(text.splitlines()) <= 1
    assert not re.search("[\x00-\x1f\x7f-\x9f]", text)


def test_text_leaves_letters_of_any_language_alone() -> None:
    assert to_text("naïve ☃ 日本".encode()) == "naïve ☃ 日本"


@pytest.mark.parametrize("text", ["\\", "\\n", "\\x4", "\\xzz", "C:\\data", "\\u0041"])
def test_text_takes_a_backslash_only_as_one_of_its_two_escapes(text: str) -> None:
    with pytest.raises(ValueError, match=r"write .* for a backslash"):
        from_text(text)


# --- put, get, delete ---


def test_the_absent_key_is_shown_on_one_short_line(store: str) -> None:
    fill(store, {b"a": b"1"})
    key = os.fsdecode(b"\x1b[31m\n" + b"k" * 1000)
    message = fail("get", store, key, "--raw", code=3)
    assert one_line(message) and message.startswith("\\x1b[31m\\x0akkk") and len(message) < 400


def test_put_takes_standard_input_byte_for_byte(store: str) -> None:
    value = bytes(range(256)) + b"\r\n"
    succeed("put", store, "a", "-", stdin=value)
    assert read(store) == {b"a": value}


def test_raw_goes_in_and_out(store: str) -> None:
    succeed("put", store, os.fsdecode(b"a\xff\\"), "C:\\data", "--raw")
    assert read(store) == {b"a\xff\\": b"C:\\data"}
    assert succeed("get", store, os.fsdecode(b"a\xff\\"), "--raw") == b"C:\\data\n"
    assert succeed("scan", store, "--raw") == b"a\xff\\\tC:\\data\n"


def test_a_key_over_the_limit_fails_in_one_line(store: str) -> None:
    message = fail("put", store, "k" * (lsmkv.MAX_KEY_BYTES + 1), "")
    assert one_line(message) and str(lsmkv.MAX_KEY_BYTES) in message


LETTERS = {letter: letter.upper() for letter in (b"a", b"b", b"ba", b"bb", b"c")}


def test_delete_by_prefix_goes_on_beyond_a_batch(store: str) -> None:
    fill(store, {b"x%04d" % number: b"" for number in range(2500)} | {b"y": b""})
    assert json.loads(succeed("delete", store, "--prefix", "x", "--yes", "--json")) == {
        "deleted": 2500
    }
    assert list(read(store)) == [b"y"]


# --- count ---


def test_count_counts_an_overwritten_key_once(store: str) -> None:
    with lsmkv.open(store) as db:
        for _ in range(2):
            db.update(LETTERS)
            db.flush()
    assert succeed("count", store) == b"5\n"


# --- scan ---


@pytest.mark.parametrize(
    ("scan_options", "load_options"),
    [([], ["--format", "tsv"]), (["--hex"], ["--format", "tsv", "--hex"]), (["--json"], [])],
)
@given(entries=contents)
@example(entries=AWKWARD)
@example(entries={b"PAR1": b"the beginning of Parquet files"})
def test_output_of_scan_can_be_loaded(
    scan_options: list[str], load_options: list[str], entries: dict[bytes, bytes]
) -> None:
    with TemporaryDirectory() as directory:
        printed = succeed("scan", fill(f"{directory}/a", entries), *scan_options)
        succeed("load", f"{directory}/b", "-", *load_options, stdin=printed)
        assert read(f"{directory}/b") == entries


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
