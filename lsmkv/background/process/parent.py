"""Starts a helper process, gives it jobs, and ends it."""

from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import sys
import threading
import time
from typing import IO, Final

import msgspec

from lsmkv.background import handles
from lsmkv.background.process import messages
from lsmkv.background.process.staged import Failed, Written
from lsmkv.errors import Error, WorkerError
from lsmkv.sstable.multi_writer import CancelledError

# The folder of lsmkv: a helper must import it from there, too.
PACKAGE: Final = messages.package_folder()

# The standard library comes first in sys.path: a script's folder may hold files with its modules' names.
# -I ignores what the environment says about Python.  Why a build is not compiled is logged here, once.
_PROGRAM: Final = (
    "import sys; sys.path += sys.argv[2:]; sys.modules['lsmkv.not_compiled'] = None; "
    "from lsmkv.background.process.child import main; main()"
)
# While a helper starts, a child that another thread forks would keep the ends of its pipes open, and the
# start would wait for that child.  So forks wait for the start.
_starting = threading.Lock()
os.register_at_fork(
    before=_starting.acquire, after_in_parent=_starting.release, after_in_child=_starting.release
)
_INTERPRETER: Final = re.compile(r"(python|pypy)w?[\d.]*[a-z]*(-\w+)?(\.exe)?")
_START_LIMIT_S: Final = 60.0  # a program that is no Python may never answer
_EXIT_LIMIT_S: Final = 5.0
_QUOTED_BYTES: Final = 2000


class HelperUnavailableError(Error):
    """No helper process can be started here."""


class HelperDiedError(WorkerError):
    """A helper ended in a job or before.  ``status`` is negative for a signal."""

    def __init__(self, status: int, complaint: str, *, was_ready: bool = True) -> None:
        how = (
            f"was killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
        )
        when = 'in the middle of a job (background="thread" needs none)'
        if not was_ready:
            when = "before it was ready"
        said = f"; its last words:\n{complaint}" if complaint else ""
        super().__init__(f"the helper process {how} {when}{said}")
        self.status = status


def interpreter() -> str | None:
    """The Python interpreter to run helpers with; None if it is uncertain."""
    path = sys.executable  # a program that embeds Python may stand here
    if not path or getattr(sys, "frozen", False):
        return None
    return path if _INTERPRETER.fullmatch(os.path.basename(path).lower()) else None


class HelperProcess:
    """Runs one job at a time in a process.  Any thread may call ``close``."""

    def __init__(self, executable: str) -> None:
        self._executable = executable
        self._child: _Child | None = None
        self._closed = False
        self._mutex = threading.Lock()  # guards the two above

    @property
    def pid(self) -> int | None:
        child = self._child
        return None if child is None else child.process.pid

    def run(self, order: messages.Order) -> Written | Failed:
        """Run an order.  Raises CancelledError, HelperUnavailableError or HelperDiedError."""
        kept = self._child
        try:
            return self._start().ask(order) if kept is None else kept.ask(order)
        except BaseException as error:
            status = self.reap()
            if self._closed:
                raise CancelledError("the store is closing") from None
            if kept is None or not isinstance(error, HelperDiedError) or status:
                raise
        # An idle helper ends by itself; this one did so just when the job came.
        return self.run(order)

    def _start(self) -> _Child:
        with self._mutex:
            if self._closed:
                raise CancelledError("the store is closing")
            handles.watch(self)
            self._child = child = _Child(self._executable)
        child.await_ready()
        return child

    def reap(self) -> int | None:
        """Wait for the process, with nobody in ``run``; returns its exit status."""
        with self._mutex:
            child, self._child = self._child, None
        handles.unwatch(self)
        return None if child is None else child.end()

    def close(self) -> None:
        """Kill the process and start no other; a second call does nothing."""
        with self._mutex:
            self._closed = True
            child = self._child
            if child is not None:
                child.kill()  # a thread that waits in ``run`` sees it end

    def end_with_program(self) -> None:
        self.close()

    def mark_forked(self) -> None:
        self._mutex = threading.Lock()
        child, self._child = self._child, None
        self._closed = True
        if child is not None:
            child.forget()


class _Child:
    def __init__(self, executable: str) -> None:
        found = [os.path.abspath(entry) for entry in sys.path if isinstance(entry, str)]
        folders = dict.fromkeys([os.path.dirname(PACKAGE), *found])
        command = [executable, "-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
        command += ["-c", _PROGRAM, str(os.getpid()), *folders]
        self._complaint = b""
        self._is_ready = False
        try:
            with _starting:
                self.process = subprocess.Popen(
                    command,
                    bufsize=0,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd="/",
                    process_group=0,  # Ctrl-C goes to the parent's group
                )
        except OSError as error:
            reason = f"{executable} cannot be started: {error}"
            raise HelperUnavailableError(reason) from error
        self._orders, self._replies = _pipe(self.process.stdin), _pipe(self.process.stdout)
        self._errors = _pipe(self.process.stderr)
        self._reader = messages.MessageReader(self._replies, messages.REPLIES)
        self._poll = select.poll()
        self._poll.register(self._replies, select.POLLIN)
        self._poll.register(self._errors, select.POLLIN)

    def await_ready(self) -> None:
        """Return once the process is ready; HelperUnavailableError if it never is."""
        try:
            reply = self._receive(time.monotonic() + _START_LIMIT_S)
        except HelperDiedError as error:
            raise HelperUnavailableError(str(error)) from error
        if not isinstance(reply, messages.Ready) or os.fsdecode(reply.package) != PACKAGE:
            raise HelperUnavailableError(f"another lsmkv than that in {PACKAGE} answers")
        self._is_ready = True

    def ask(self, order: messages.Order) -> Written | Failed:
        """The reply to an order; HelperDiedError when the process ended without one."""
        try:
            messages.send(self._orders, order)
        except BrokenPipeError:
            raise self._death() from None
        reply = self._receive(None)
        if isinstance(reply, messages.Ready):
            raise HelperUnavailableError("the helper process is ready twice")
        return reply

    def _receive(self, deadline: float | None) -> messages.Reply:
        try:
            while (reply := self._reader.next()) is None:
                self._read_pipes(deadline)
        except msgspec.MsgspecError as error:
            reason = f"the helper process sends a malformed reply: {error}"
            raise HelperUnavailableError(reason) from error
        return reply

    def _read_pipes(self, deadline: float | None) -> None:
        wait_ms = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
        ready = [descriptor for descriptor, _ in self._poll.poll(wait_ms)]
        if not ready:
            raise HelperUnavailableError("the helper process does not answer")
        if self._errors.fileno() in ready and not self._read_errors():
            self._poll.unregister(self._errors)
        if self._replies.fileno() in ready and not self._reader.read_piece():
            raise self._death()

    def _read_errors(self) -> bool:
        """Read once from standard error; False at its end."""
        piece = self._errors.read(_QUOTED_BYTES)
        self._complaint = (self._complaint + piece)[-_QUOTED_BYTES:]
        return bool(piece)

    def _death(self) -> HelperDiedError:
        status = self.end()
        complaint = self._complaint.decode(errors="replace").strip()
        return HelperDiedError(status, complaint, was_ready=self._is_ready)

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self.process.kill()

    def end(self) -> int:
        """Wait for the end, or enforce it; returns the exit status."""
        if self.process.returncode is None:
            with contextlib.suppress(OSError):
                self._orders.close()
            try:
                self.process.wait(_EXIT_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            while self._read_errors():
                pass
            self._replies.close()
            self._errors.close()
        return self.process.returncode

    def forget(self) -> None:
        """In the child of a fork: leave the process to the parent."""
        for pipe in (self._orders, self._replies, self._errors):
            pipe.close()
        self.process.returncode = 0  # or its finalizer would wait for the process


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
