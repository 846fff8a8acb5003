"""Waits that end: for threads, forked children and other processes that may hang."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from gates import WAIT_S

T = TypeVar("T")


def join(*threads: threading.Thread) -> None:
    """Wait until threads have ended; the test fails if one hangs."""
    for thread in threads:
        thread.join(WAIT_S)
    assert not [thread.name for thread in threads if thread.is_alive()], "they hang"


def in_time(action: Callable[[], T], *, thread_name: str = "in time") -> T:
    """What ``action`` returns or raises, in a thread; the test fails if it hangs."""
    found: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            found.append(action())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name=thread_name, daemon=True)
    thread.start()
    join(thread)
    if errors:
        raise errors[0]
    return found[0]


def exit_code(child: int) -> int:
    """The exit code of a forked child, once it has ended; it is killed if it hangs."""
    with _in_case_of_a_hang(lambda: os.kill(child, signal.SIGKILL)):
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def started(command: Sequence[str], **settings: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process with a session of its own, killed with its children when the block ends, or hangs."""

    def kill() -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    with subprocess.Popen(command, start_new_session=True, **settings) as process:
        try:
            with _in_case_of_a_hang(kill):
                yield process
        finally:
            kill()


@contextmanager
def _in_case_of_a_hang(action: Callable[[], None]) -> Iterator[None]:
    timer = threading.Timer(WAIT_S, action)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
