"""What the store needs of the Python interpreter: checks, lazy names, finalizers.  Never compiled.

**Finalizers.**  mypyc calls the ``__del__`` of its own classes with an exception pending, if one is on
its way; a call made there fails then.  Python sets it aside.  So compiled objects hold a
:class:`Finalizer`.

An interrupt (Ctrl-C) may come at the first instruction of any Python function.  One that comes in a
finalizer is lost, and the finalizer with it.  So a :class:`Finalizer` has no function of its own: Python
calls the action itself, and nothing interrupts an action that is written in C.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any


def check_main_interpreter() -> None:
    """Refuse a subinterpreter: compiled modules keep their objects in C variables, one set a process.

    Called before any of them is loaded, because loading is what would change those of the main
    interpreter.

    Raises:
        ImportError: this is a subinterpreter.
    """
    for name in ("_interpreters", "_xxsubinterpreters"):  # of Python 3.13 and later, and before
        try:
            interpreters: Any = importlib.import_module(name)
        except ImportError:
            continue
        if interpreters.get_current() != interpreters.get_main():
            raise ImportError(
                "lsmkv runs in the main interpreter alone, and this is a subinterpreter: "
                "use a thread or a process instead"
            )
        return


def check_interpreter() -> None:
    """Refuse to go on without the global interpreter lock, on which shared state relies.

    Raises:
        RuntimeError: this process runs with the lock off, as free-threaded builds can.
    """
    if not getattr(sys, "_is_gil_enabled", lambda: True)():  # new in Python 3.13
        raise RuntimeError(
            "lsmkv relies on the global interpreter lock, which is off in this process: "
            "start Python with -X gil=1, or with PYTHON_GIL=1 in the environment"
        )


def loaded_when_used(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for a package that gives the names of others, and its modules.

    Args:
        package: its name.
        homes: for each module that names come from, the names.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> object:
        if name in home_of:
            value: object = getattr(importlib.import_module(home_of[name]), name)
            setattr(sys.modules[package], name, value)
            return value
        if not name.startswith("_"):
            module = f"{package}.{name}"
            try:
                return importlib.import_module(module)
            except ModuleNotFoundError as error:
                if error.name != module:
                    raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return load, names


_add_one = (1).__add__


class Finalizer:
    """Runs ``action`` once the last reference to it goes, unless it was cancelled before."""

    __slots__ = ("__del__",)

    def __init__(self, action: Callable[[], object]) -> None:
        self.__del__ = action

    def cancel(self) -> None:
        """Do nothing in the end."""
        self.__del__ = object


class Opened(Finalizer):
    """A descriptor, owned from the moment it is open: it is closed when the last reference goes.

    ``numbers``: its number, once there is one.
    """

    __slots__ = ("numbers",)

    def __init__(self) -> None:
        numbers: list[int] = []
        self.numbers = numbers
        # Each looks at ``numbers`` when it runs.  ``closerange`` passes over errors.
        closing = map(os.closerange, numbers, map(_add_one, numbers))
        super().__init__(partial(deque, closing, 0))

    def open(self, path: str, flags: int, mode: int) -> None:
        """Open ``path`` as ``os.open`` does."""
        # One call: an interrupt comes before it or when the number is in its place.
        self.numbers.extend(map(os.open, (path,), (flags,), (mode,)))
