"""The parent's side of a helper process: starting it, giving it jobs, and its end."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from typing import IO, Final

import msgspec

from lsmkv.background import handles
from lsmkv.background.process.jobs import Job
from lsmkv.background.process.messages import (
    Done,
    Failed,
    MessageBuffer,
    Ready,
    Reply,
    decode_reply,
    encode,
    package_folder,
)
from lsmkv.errors import Error
from lsmkv.sstable.multi_writer import CancelledError

PACKAGE: Final = package_folder()
"""The folder of ``lsmkv``; a helper must have it from there, too."""

# The folders where modules are found stand behind the standard library: a script's folder may hold
# files with its modules' names, and -I keeps what the environment says about Python out.
_PROGRAM: Final = (
    "import sys; sys.path += sys.argv[2:]; from lsmkv.background.process.child import main; main()"
)
_START_LIMIT_S: Final = 60.0  # a program that is no Python may do anything but answer
_EXIT_LIMIT_S: Final = 5.0
_PIECE_BYTES: Final = 1 << 16
_QUOTED_BYTES: Final = 2000


class HelperUnavailableError(Error):
    """No helper process can be started here."""


class HelperDiedError(Error):
    """A helper process ended in the middle of a job, or before it was ready for one.

    Attributes:
        status: its exit status; negative, the signal that killed it.
    """

    def __init__(self, status: int, complaint: str, *, was_ready: bool = True) -> None:
        how = (
            f"was killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
        )
        when = "in the middle of a job" if was_ready else "before it was ready"
        said = f"; its last words:\n{complaint}" if complaint else ""
        super().__init__(f"the helper process {how} {when}{said}")
        self.status = status


def interpreter() -> str | None:
    """The Python interpreter to run helpers with; None when there is none to be sure of.

    (Python may be part of another program, which would be started a second time.)
    """
    path = sys.executable
    if not path or getattr(sys, "frozen", False):
        return None
    return path if os.path.basename(path).lower().startswith(("python", "pypy")) else None


class HelperProcess:
    """One process that runs one job at a time; started with the first, and anew when it has ended.

    ``run`` is for one thread at a time; ``close`` may be called beside it.
    """

    def __init__(self, executable: str, lock_descriptor: int) -> None:
        self._executable = executable
        self._lock_descriptor = lock_descriptor
        self._child: _Child | None = None
        self._closed = False
        self._mutex = threading.Lock()  # guards the two above

    @property
    def pid(self) -> int | None:
        """The number of the process; None while there is none."""
        child = self._child
        return None if child is None else child.pid

    def run(self, job: Job) -> Done | Failed:
        """Have ``job`` run.

        Whatever is raised here, no process works on it any more.

        Raises:
            CancelledError: ``close`` was called.
            HelperUnavailableError: no process can be started.
            HelperDiedError: it ended before it had an answer.
        """
        kept = self._child
        try:
            return self._start().ask(job) if kept is None else kept.ask(job)
        except BaseException as error:
            status = self._drop()
            if self._closed:
                raise CancelledError("the store is closing") from None
            if kept is None or not isinstance(error, HelperDiedError) or status:
                raise
        # One that has nothing to do for long ends; this one did just when the job came.
        return self.run(job)

    def _start(self) -> _Child:
        with self._mutex:
            if self._closed:
                raise CancelledError("the store is closing")
            handles.watch(self)
            self._child = child = _Child(self._executable, self._lock_descriptor)
        child.greet()
        return child

    def _drop(self) -> int | None:
        """End the process, if there is one; its exit status."""
        with self._mutex:
            child, self._child = self._child, None
        handles.unwatch(self)
        return None if child is None else child.end()

    def close(self) -> None:
        """End the process and whatever it is doing, for good; a second call does nothing."""
        with self._mutex:
            self._closed = True
            child = self._child
            if child is not None:
                child.kill()  # a thread that waits in ``run`` sees it end

    def reap(self) -> None:
        """After ``close``, once nobody is in ``run``: return when the process has ended."""
        self._drop()

    def mark_forked(self) -> None:
        """In the child of a fork: let go of the pipes, which are the parent's."""
        self._mutex = threading.Lock()
        child, self._child = self._child, None
        self._closed = True
        if child is not None:
            child.forget()


class _Child:
    """A running process and its pipes."""

    def __init__(self, executable: str, lock_descriptor: int) -> None:
        found = [os.path.abspath(entry) for entry in sys.path if isinstance(entry, str)]
        folders = dict.fromkeys([os.path.dirname(PACKAGE), *found])
        command = [executable, "-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
        command += ["-c", _PROGRAM, str(os.getpid()), *folders]
        self._buffer = MessageBuffer()
        self._complaint = b""
        self._is_ready = False
        try:
            self._process = subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(lock_descriptor,),
                cwd="/",
                process_group=0,  # Ctrl-C goes to the parent's group
            )
        except OSError as error:
            reason = f"{executable} cannot be started: {error}"
            raise HelperUnavailableError(reason) from error
        self.pid = self._process.pid
        self._jobs, self._replies = _stream(self._process.stdin), _stream(self._process.stdout)
        self._errors = _stream(self._process.stderr)
        self._poll = select.poll()
        self._poll.register(self._replies, select.POLLIN)
        self._poll.register(self._errors, select.POLLIN)

    def greet(self) -> None:
        """Return once the process is ready; HelperUnavailableError if it never is."""
        try:
            reply = self._receive(time.monotonic() + _START_LIMIT_S)
        except HelperDiedError as error:
            raise HelperUnavailableError(str(error)) from error
        if not isinstance(reply, Ready) or os.fsdecode(reply.package) != PACKAGE:
            raise HelperUnavailableError(f"another lsmkv than that in {PACKAGE} answers")
        self._is_ready = True

    def ask(self, job: Job) -> Done | Failed:
        """The answer to a job; HelperDiedError when it ended without one."""
        left = memoryview(encode(job))
        try:
            while left:
                left = left[self._jobs.write(left) :]
        except BrokenPipeError:
            raise self._death() from None
        reply = self._receive(None)
        if isinstance(reply, Ready):
            raise HelperUnavailableError("the helper process speaks out of turn")
        return reply

    def _receive(self, deadline: float | None) -> Reply:
        while (message := self._buffer.next()) is None:
            wait_ms = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            ready = [descriptor for descriptor, _ in self._poll.poll(wait_ms)]
            if not ready:
                raise HelperUnavailableError("the helper process does not answer")
            if self._errors.fileno() in ready and not self._hear():
                self._poll.unregister(self._errors)
            if self._replies.fileno() in ready:
                piece = self._replies.read(_PIECE_BYTES)
                if not piece:
                    raise self._death()
                self._buffer.feed(piece)
        try:
            return decode_reply(message)
        except msgspec.MsgspecError as error:
            raise HelperUnavailableError(f"the helper process answers nonsense: {error}") from error

    def _hear(self) -> bool:
        """Take in what it wrote to standard error; False at its end."""
        piece: bytes = self._errors.read(_PIECE_BYTES)
        self._complaint = (self._complaint + piece)[-_QUOTED_BYTES:]
        return bool(piece)

    def _death(self) -> HelperDiedError:
        status = self.end()
        complaint = self._complaint.decode(errors="replace").strip()
        return HelperDiedError(status, complaint, was_ready=self._is_ready)

    def kill(self) -> None:
        """Have it end, without waiting."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def end(self) -> int:
        """Its exit status, once it has ended; it is killed if it does not by itself."""
        if self._process.returncode is None:
            with contextlib.suppress(OSError):
                self._jobs.close()
            try:
                self._process.wait(_EXIT_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            while self._hear():
                pass
            self._replies.close()
            self._errors.close()
        return self._process.returncode

    def forget(self) -> None:
        """In the child of a fork: it is the parent's."""
        for stream in (self._jobs, self._replies, self._errors):
            stream.close()
        self._process.returncode = 0  # or its finalizer would ask after it


def _stream(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
