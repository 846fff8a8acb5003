"""The ``lsmkv`` command as a whole: its help and its exit status."""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import lsmkv
from commands import ENVIRONMENT, fail, fill, fill_tables, one_line, process, read, run, succeed
from gates import WAIT_S
from lsmkv.cli.commands import cli
from lsmkv.cli.group import OTHER_NAMES, describe
from lsmkv.storage.file_names import MAX_FILE_NUMBER
from lsmkv.storage.files import NO_DIRECT
from lsmkv.tree.manifest import check_file_number
from time_limits import started

COMMANDS = sorted(cli.commands)


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


# --- help ---


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str) -> None:
    assert f"Example:  lsmkv {command}" in succeed(command, "--help").decode()


EXAMPLES = [
    line.strip()
    for name, command in cli.commands.items()
    if name != "bench"  # of the harness, in tests/bench
    for line in (command.help or "").partition("Example:")[2].strip().splitlines()
]


NEEDS_SHELL = re.compile(r"[|<>]|--serve")


def made_for_examples(tmp_path: Path) -> None:
    fill_tables(str(tmp_path / "users.db"))
    fill_tables(str(tmp_path / "old.db"))
    for name in ("users.jsonl.gz", "dump.jsonl.gz"):
        (tmp_path / name).write_bytes(b'{"key": "a", "value": ""}\n')
    (tmp_path / "users.csv").write_bytes(b"id,name\n7,Alice\n")
    (tmp_path / "keys.txt").write_bytes(b"alice\n")
    (tmp_path / "ranks.csv").write_bytes(b"1,example.com\n")
    (tmp_path / "words.txt").write_bytes(b"apple\n")
    (tmp_path / "alice.jpeg").write_bytes(b"\xff\xd8")


@pytest.mark.parametrize("line", [line for line in EXAMPLES if not NEEDS_SHELL.search(line)])
def test_examples_in_help_are_right_arguments(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_for_examples(tmp_path)
    monkeypatch.chdir(tmp_path)
    command, *arguments = shlex.split(line)
    assert command == "lsmkv"
    result = run(*arguments)  # raises what the command does not report
    assert result.exit_code in (0, 1, 3), result.output


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.slow
@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_in_help_are_right_usage(line: str, tmp_path: Path) -> None:
    made_for_examples(tmp_path)
    script = f'set -o pipefail\nlsmkv() {{ "{sys.executable}" -m lsmkv "$@"; }}\n{line}\n'
    with started(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**ENVIRONMENT, "BROWSER": "true"},  # a command that does nothing
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        if "--serve" in line:  # goes on until it is interrupted
            assert process.stdout is not None
            assert b"http://127.0.0.1:" in process.stdout.readline()
            os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode in (0, 1, 3, -signal.SIGINT), errors
    assert b"Traceback" not in errors


# --- advice in errors ---


@pytest.mark.parametrize(
    "arguments", [["put", "{}", "b", "2"], ["delete", "{}", "a"], ["compact", "{}"]]
)
def test_a_locked_store_is_refused_without_advice_for_python(
    store: str, arguments: list[str]
) -> None:
    fill(store, {b"a": b"1"})
    script = "import lsmkv, sys; db = lsmkv.open(sys.argv[1]); print(flush=True); input()"
    with started(
        [sys.executable, "-c", script, store],
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        message = fail(*(argument.format(store) for argument in arguments))
    assert f"process {holder.pid}; close it there; commands that only read work" in message
    assert "read_only" not in message


def test_a_store_without_file_numbers_is_referred_to_dump(store: str) -> None:
    with pytest.raises(lsmkv.CorruptionError) as caught:
        check_file_number(MAX_FILE_NUMBER, store)
    assert 'read it with "lsmkv dump"' in describe(caught.value)


def test_the_error_for_refused_direct_reads_names_the_option() -> None:
    error = OSError(errno.EINVAL, NO_DIRECT, "000001.sst")
    assert describe(error).endswith("; do without --set direct_reads=true")


def test_the_error_for_a_background_failure_says_to_run_the_command_again(store: str) -> None:
    with lsmkv.open(store) as db:
        db._state.fail(OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(lsmkv.BackgroundError) as caught:
            db[b"a"] = b"1"
        db.resume()
    assert "mend its cause and run the command again" in describe(caught.value)


# --- as a process ---


def test_version_is_the_packages() -> None:
    with process("--version") as running:
        out, _ = running.communicate(timeout=WAIT_S)
    assert out.decode().startswith(f"lsmkv {lsmkv.__version__} (")


def test_other_names_of_commands_are_no_commands_and_mean_some() -> None:
    assert not OTHER_NAMES.keys() & cli.commands.keys()
    assert set(OTHER_NAMES.values()) <= {*cli.commands, "--version", "--help"}


def test_help_fits_a_terminal() -> None:
    for command in ([], *([name] for name in COMMANDS)):
        shown = succeed(*command, "--help").decode()
        assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("arguments", [["scan", "--help"], ["--version"]])
def test_help_into_a_closed_pipe_ends_quietly(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with process(*arguments, stdout=writing) as running:
        os.close(writing)
        _, err = running.communicate(timeout=WAIT_S)
    assert (running.returncode, err) == (141, b"")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("scan store >&-", 1),
        pytest.param("get store a >&-", 1, marks=pytest.mark.slow),
        pytest.param("stats store >&-", 1, marks=pytest.mark.slow),
        pytest.param("--help >&-", 1, marks=pytest.mark.slow),
        pytest.param("put store b 2 >&-", 0, marks=pytest.mark.slow),
        pytest.param("load store - <&-", 1, marks=pytest.mark.slow),
        pytest.param("put store b - <&-", 1, marks=pytest.mark.slow),
        ("put store b 2 <&- >&- 2>&-", 0),
        pytest.param("get store x 2>&-", 3, marks=pytest.mark.slow),
    ],
)
def test_a_closed_stream_is_no_traceback(store: str, tmp_path: Path, line: str, code: int) -> None:
    fill(store, {b"a": b"1"})
    done = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -m lsmkv {line}'],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        timeout=WAIT_S,
    )
    assert done.returncode == code, done.stderr
    assert code == 1 or done.stderr == b""
    assert code != 1 or one_line(done.stderr.decode())
    assert read(store)[b"a"] == b"1"


def test_too_little_memory_is_an_error_in_one_line(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise MemoryError

    fill(store, {b"a": b"1"})
    monkeypatch.setattr("lsmkv.cli.data.render", fails)
    assert fail("get", store, "a") == "Error: there is not enough memory\n"


def test_a_reader_that_stops_early_ends_it_quietly(store: str) -> None:
    fill(store, {b"%06d" % number: b"v" * 100 for number in range(20_000)})
    with process("scan", store) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(WAIT_S) == 141


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_an_error_in_one_line(store: str) -> None:
    fill(store, {b"a": b"1"})
    with open("/dev/full", "wb") as full, process("scan", store, stdout=full.fileno()) as running:
        _, err = running.communicate(timeout=WAIT_S)
    assert running.returncode == 1
    assert err.decode() == f"Error: {os.strerror(errno.ENOSPC)}\n"


def test_progress_is_drawn_on_a_terminal(store: str) -> None:
    leader, follower = os.openpty()
    with started(
        [sys.executable, "-m", "lsmkv", "verify", fill_tables(store)],
        stdout=subprocess.DEVNULL,
        stderr=follower,
        env={**ENVIRONMENT, "TERM": "xterm"},
    ) as running:
        os.close(follower)
        drawn = b""
        try:
            while chunk := os.read(leader, 4096):
                drawn += chunk
        except OSError:  # the terminal's other side is closed
            pass
        os.close(leader)
        assert running.wait(WAIT_S) == 0
    assert b"Verifying" in drawn


@pytest.mark.parametrize("library", ["click", "rich"])
def test_without_its_libraries_the_command_line_names_the_extra(library: str) -> None:
    script = f"import sys; sys.modules[{library!r}] = None; from lsmkv.cli import main; main()"

    def run_without(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", script, *arguments]
        return subprocess.run(
            command, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=WAIT_S
        )

    for arguments in ([], ["put", "store", "a", "1"]):
        done = run_without(*arguments)
        assert done.returncode == 1
        needs = f"the command line needs {library}, which is not installed"
        assert done.stderr == f'Error: {needs}: pip install "lsmkv[cli]"\n'
    assert run_without("--version").stdout.startswith(f"lsmkv {lsmkv.__version__} (")


@pytest.mark.parametrize(("module", "lacks"), [("lsmkv", "click"), ("lsmkv.cli.commands", "rich")])
def test_libraries_are_imported_where_they_are_used_alone(module: str, lacks: str) -> None:
    script = f"import {module}, sys; sys.exit({lacks!r} in sys.modules)"
    subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, timeout=WAIT_S, check=True)
