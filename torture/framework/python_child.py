"""Python processes that run a module of this folder beside the parent.

The parent keeps a pipe to the child's standard input open for as long as the child is to work.  The
child prints its result as one line of JSON at the end; an exception in it ends with its traceback.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from torture.framework.part import UnsoundError

ROOT: Final = Path(__file__).parents[2]  # the folder from which children import torture and lsmkv


def command(module: str, *arguments: object) -> list[str]:
    """The command line that runs a module; run it in :data:`ROOT`."""
    return [sys.executable, "-X", "faulthandler", "-m", module, *map(str, arguments)]


@contextlib.contextmanager
def running(module: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run a module while the block runs, then kill its process."""
    with subprocess.Popen(
        command(module, *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def finish(process: subprocess.Popen[str], limit_s: float) -> Any:
    """Close the child's standard input, and return its result; UnsoundError after ``limit_s``."""
    try:
        output, errors = process.communicate("", timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise UnsoundError(f"the child process does not end within {limit_s:g} s") from None
    if process.returncode:
        raise UnsoundError(f"the child process ended with {process.returncode}:\n{errors[-2000:]}")
    return json.loads(output)


def stdin_closed() -> threading.Event:
    """In a child: an event that is set when the parent closes the pipe or ends."""
    closed = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        closed.set()

    threading.Thread(target=wait, daemon=True).start()
    return closed
