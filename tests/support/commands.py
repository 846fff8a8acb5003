"""Runs the ``lsmkv`` command, in this process or another; and its stores."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner, Result
from hypothesis import strategies as st

import lsmkv
from lsmkv.cli.commands import cli
from time_limits import started

# Subprocesses import the same modules as these tests, installed or not.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(lsmkv.__file__).parent.parent)}
AWKWARD = {
    b"": b"",
    b"plain": b"value",
    b"tab\there": b"line\nbreak\r\n",
    b"back\\slash": b"\\x41 is not A",
    b"quo\"te'": b'","',
    b"\x00\x1b[31m": b"\x7f",
    "naïve ☃ \U0001f600".encode(): "\ufeff\u2028\x85\u202e".encode(),
    b"\xff\xfe": bytes(range(256)),
    b"[bold]": b"=1+1",
}

contents = st.dictionaries(st.binary(max_size=40), st.binary(max_size=60), max_size=12)


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    result = CliRunner().invoke(cli, arguments, input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def succeed(*arguments: str, stdin: bytes | None = None) -> bytes:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.stderr
    return result.stdout_bytes


def fail(*arguments: str, code: int = 1, stdin: bytes | None = None) -> str:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == code, result.output
    return result.stderr


def fill(path: str, entries: dict[bytes, bytes]) -> str:
    with lsmkv.open(path) as db:
        db.update(entries)
    return path


def read(path: str) -> dict[bytes, bytes]:
    with lsmkv.open(path, read_only=True) as db:
        return dict(db.items())


def fill_tables(path: str, count: int = 500) -> str:
    """Fill a store whose entries are in a table of several blocks."""
    with lsmkv.open(path, block_size_bytes=512, compression="none") as db:
        db.update({b"key%04d" % number: b"value%04d" % number for number in range(count)})
        db.flush()
    return path


def damage_block(path: str) -> None:
    """Change one byte of the first block of a store's first table."""
    table = min(name for name in os.listdir(path) if name.endswith(".sst"))
    with open(os.path.join(path, table), "r+b") as file:
        file.seek(100)
        byte = file.read(1)[0]
        file.seek(100)
        file.write(bytes([byte ^ 0xFF]))


@contextmanager
def process(
    *arguments: str, stdin: int | None = subprocess.DEVNULL, stdout: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command in a process, as users do; it ends with the block."""
    with started(
        [sys.executable, "-m", "lsmkv", *arguments],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as running:
        yield running


def one_line(text: str) -> bool:
    return text.count("\n") == 1 and text.endswith("\n")
