"""Processes of their own for measured code: no memory, cache or thread of another run disturbs it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Worker:
    """A process that runs one call at a time, and raises its errors here, or ``BrokenProcessPool``."""

    def __init__(self) -> None:
        # spawn: the process starts with an empty memory, not with a copy of this one.
        self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a module's function there, and return its result."""
        return self._pool.submit(function, *args, **kwargs).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._pool.shutdown()


def alone(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of one call in a process of its own."""
    with Worker() as worker:
        return worker.call(function, *args, **kwargs)
