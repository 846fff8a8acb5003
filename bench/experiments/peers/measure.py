"""One repetition: every engine in a process of its own, which take turns at each phase.

All processes are alive at once, and one works at a time, so that what the machine does to a phase it
does to all engines alike.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.engines.base import engine_named
from bench.experiments.peers.outcome import Outcome
from bench.experiments.peers.stores import Setup
from bench.harness import process_meter

_ROOT = str(Path(__file__).resolve().parents[3])


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """What is measured at a time: each phase on each engine, once.

    Attributes:
        number: from 0; it decides who begins.
        engines, phases: names.
        entries, seed, bits_per_key, cache_size_bytes, compression, background, plugins: as in
            ``Setup``.
    """

    number: int
    engines: tuple[str, ...]
    phases: tuple[str, ...]
    entries: int
    seed: int
    bits_per_key: float
    cache_size_bytes: int
    compression: str
    background: str = "thread"
    plugins: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"repetition {self.number + 1}: {', '.join(self.engines)}"

    def order(self) -> tuple[str, ...]:
        """The engines, from another one on in each repetition."""
        first = self.number % len(self.engines)
        return self.engines[first:] + self.engines[:first]


@dataclass(frozen=True, slots=True)
class Measured:
    """One phase on one engine."""

    repetition: Repetition
    engine: str
    engine_version: str
    phase: str
    outcome: Outcome


class Child:
    """A process that measures one engine; see :mod:`bench.experiments.peers.child`."""

    def __init__(self, setup: Setup) -> None:
        self._engine, self._setup = setup.engine, setup
        path = os.pathsep.join(filter(None, (_ROOT, os.environ.get("PYTHONPATH"))))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.experiments.peers.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": path},
        )

    def start(self) -> None:
        """Tell it what to work with, and wait until it is ready.

        Raises:
            RuntimeError: it failed, and the message says how.
        """
        self._ask(asdict(self._setup), "starting")

    def _ask(self, question: Any, what: str) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):  # what it answered before it ended says more
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise RuntimeError(f"{self._engine}: the process ended with {code} while {what}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{self._engine}: {what} failed:\n{answer['error']}")
        return answer["outcome"]

    def measure(self, phase: str) -> Outcome:
        """Have it measure a phase.

        Raises:
            RuntimeError: it failed, and the message says how.
        """
        return Outcome(**self._ask(phase, phase))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        if kind is not None:
            self._process.kill()
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def measure(task: Repetition, directory: str) -> list[Measured]:
    """Measure every phase on every engine in turn.

    Raises:
        RuntimeError: an engine failed.
    """
    found: list[Measured] = []
    direct_reads = process_meter.takes_direct_reads(directory)
    with ExitStack() as stack:
        children = {}
        for engine in task.order():
            path = os.path.join(directory, engine)
            os.mkdir(path)
            setup = Setup(
                engine=engine,
                directory=path,
                entries=task.entries,
                seed=task.seed + task.number,
                bits_per_key=task.bits_per_key,
                cache_size_bytes=task.cache_size_bytes,
                compression=task.compression,
                background=task.background,
                direct_reads=direct_reads,
                plugins=task.plugins,
            )
            children[engine] = stack.enter_context(Child(setup))
        for child in children.values():  # by now all of them are importing their modules
            child.start()
        versions = versions_of(task.engines)
        for phase in task.phases:
            for engine, child in children.items():
                found.append(Measured(task, engine, versions[engine], phase, child.measure(phase)))
    return found


def versions_of(engines: Sequence[str]) -> dict[str, str]:
    """The version of each engine's library."""
    return {name: engine_named(name).version() for name in engines}
