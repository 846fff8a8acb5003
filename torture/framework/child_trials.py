"""Runs trials in child processes, which may hang, crash or exhaust memory.

Each of these is a failure of the trial.  A trial is a function of its name and a directory; it returns
counts and failures.  Children are forked, so they run the parent's modules, patched or not.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from torture.framework.part import Settings

Verdict = tuple[dict[str, int], list[str]]  # counts, and all failures
Trial = Callable[[str, Path], Verdict]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of trials.

    Attributes:
        time_s: a trial without a verdict after this long hangs.
        memory_bytes: address space that a child may add to that at its start (Linux only).
        workers: children at a time.
    """

    time_s: float = 30.0
    memory_bytes: int = 512 << 20
    workers: int = 1


@dataclass(frozen=True, slots=True)
class TrialName:
    """A trial of some kind; ``str`` gives the argument of ``--replay``."""

    group: str
    variant: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind}/{self.number}"

    @property
    def kind(self) -> str:
        return f"{self.group}/{self.variant}"

    @classmethod
    def parsed(cls, text: str, kinds: Container[str], form: str) -> TrialName:
        """The trial that ``text`` names; ValueError, with the ``form``, if there is no such one."""
        with suppress(ValueError):
            group, variant, number = text.split("/")
            name = cls(group, variant, int(number))
            if name.kind in kinds:
                return name
        raise ValueError(f"{text!r} is not a {form}")


def attempt(trial: Trial, name: str, directory: Path) -> Verdict:
    """Run a trial here; an exception is a failure, with the end of its traceback."""
    try:
        return trial(name, directory)
    except Exception as error:
        lines = traceback.format_exception(error)
        return {"trials": 1}, [f"unexpected {type(error).__name__}: {''.join(lines[-3:])}"]


def try_all(
    trial: Trial, names: Sequence[str], settings: Settings, limits: Limits, deadline: float
) -> Iterator[tuple[str, Verdict]]:
    """The verdicts of :func:`run_trials`, or of the trial to replay, which runs in this process."""
    if settings.replay is None:
        return run_trials(trial, names, settings.directory, limits, deadline)
    return iter([(settings.replay, attempt(trial, settings.replay, settings.directory))])


def run_trials(
    trial: Trial, names: Sequence[str], directory: Path, limits: Limits, deadline: float
) -> Iterator[tuple[str, Verdict]]:
    """The verdict of every trial begun before ``deadline``; each of n workers takes every n-th name."""
    workers = max(1, min(limits.workers, len(names)))
    children = [
        _Child(trial, names[first::workers], directory / f"worker-{first}", limits, deadline)
        for first in range(workers)
    ]
    try:
        while children:
            by_pipe = {child.pipe: child for child in children}
            ready, _, _ = select.select(list(by_pipe), [], [], 0.5)
            for child in list(children):
                if child.pipe in ready:
                    yield from child.read()
                else:
                    yield from child.check_time()
                if child.is_done:
                    children.remove(child)
    finally:
        for child in children:
            child.kill()


class _Child:
    """A process that tries its names in order; after a name that kills it, a new one goes on."""

    def __init__(
        self, trial: Trial, names: Sequence[str], directory: Path, limits: Limits, deadline: float
    ) -> None:
        self._trial = trial
        self._names = names
        self._directory = directory
        self._limits = limits
        self._deadline = deadline
        self._next = 0  # position of the name being tried
        self.is_done = False
        self._start()

    def _start(self) -> None:
        self._unread = b""
        self._heard = time.monotonic()
        self.pipe, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self.pipe)
            self._work(writing)
        os.close(writing)

    def _work(self, pipe: int) -> NoReturn:
        code = 1
        try:
            _limit_memory(self._limits.memory_bytes)
            self._directory.mkdir(parents=True, exist_ok=True)
            for name in self._names[self._next :]:
                if time.monotonic() >= self._deadline:
                    break
                verdict = attempt(self._trial, name, self._directory)
                line = json.dumps(verdict).encode() + b"\n"
                while line:
                    line = line[os.write(pipe, line) :]
            code = 0
        finally:
            os._exit(code)

    def read(self) -> Iterator[tuple[str, Verdict]]:
        """Yield new verdicts; if the process has died, a failure of the trial that killed it."""
        data = os.read(self.pipe, 1 << 16)
        self._heard = time.monotonic()
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            counts, failures = json.loads(line)
            self._next += 1
            yield self._names[self._next - 1], (counts, failures)
        if not data:
            _, status = os.waitpid(self._pid, 0)
            os.close(self.pipe)
            if status == 0:
                self.is_done = True
            else:
                yield from self._died(f"the process died (wait status {status})")

    def check_time(self) -> Iterator[tuple[str, Verdict]]:
        """Kill a child whose trial takes too long."""
        if time.monotonic() - self._heard > self._limits.time_s:
            self.kill()
            yield from self._died(f"the trial did not end within {self._limits.time_s:g} s")

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self.pipe)

    def _died(self, reason: str) -> Iterator[tuple[str, Verdict]]:
        if self._next >= len(self._names):
            self.is_done = True
            return
        yield self._names[self._next], ({"trials": 1}, [reason])
        self._next += 1
        if self._next < len(self._names) and time.monotonic() < self._deadline:
            self._start()
        else:
            self.is_done = True


def _limit_memory(added_bytes: int) -> None:
    """Make larger allocations fail, where the system tells the present size."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return
    limit = pages * resource.getpagesize() + added_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
