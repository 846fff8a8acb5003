"""The Python interpreter for the store: checks, its build, lazy names, finalizers.

Never compiled.  mypyc calls the ``__del__`` of compiled classes even while an exception is pending, and
then calls inside it fail.  Python sets the exception aside first.  So compiled objects hold a
:class:`Finalizer`.

An interrupt (Ctrl-C) may come at the first instruction of any Python function.  In a finalizer it is
lost, and the finalizer does not run.  So a :class:`Finalizer` is not a function: Python calls the action
itself, and nothing interrupts an action written in C.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any


def check_system() -> None:
    """Raise ImportError where Python has no POSIX system below it."""
    if sys.platform in ("win32", "emscripten", "wasi"):
        raise ImportError(
            f"lsmkv runs on POSIX systems only for now, and this is {sys.platform}: use Linux or macOS "
            "(on Windows, the Windows Subsystem for Linux)"
        )


def check_main_interpreter() -> None:
    """Raise ImportError in a subinterpreter.

    Compiled modules keep their objects in C variables, which exist once per process.  A subinterpreter
    would change those of the main interpreter.
    """
    for name in ("_interpreters", "_xxsubinterpreters"):  # since Python 3.13, and before
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
    """Raise RuntimeError without the global interpreter lock, on which shared state relies."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():  # since Python 3.13
        raise RuntimeError(
            "lsmkv relies on the global interpreter lock, which is off in this process: "
            "start Python with -X gil=1, or with PYTHON_GIL=1 in the environment"
        )


def reason_for_plain_python() -> str:
    """Why the build, which was to be compiled, is not; empty if it is as it was to be."""
    try:
        return str(importlib.import_module("lsmkv.not_compiled").REASON)  # setup.py writes it
    except ModuleNotFoundError:
        return ""


def tell_of_plain_python() -> None:
    """Log a warning if the build could not be compiled."""
    reason = reason_for_plain_python()
    if reason:
        import logging  # here, because most programs never need it

        logging.getLogger("lsmkv").warning(
            "this build of lsmkv is plain Python, several times slower than a compiled one: %s. "
            "Mend that and install it again with pip's --force-reinstall --no-cache-dir; with "
            "LSMKV_PURE=1 in the environment plain Python is what you asked for.",
            reason,
        )


def loaded(module: str, name: str) -> Any:
    """A name of a module, loaded if it is not yet."""
    return getattr(importlib.import_module(module), name)


def loaded_when_used(
    package: str, homes: Mapping[str, Sequence[str]], modules: Sequence[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package that loads names on first use.

    It loads its modules, too.  ``homes`` lists the names that come from each module, and ``modules``
    the public modules: completion shows both, and nothing else.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> object:
        if name in home_of:
            value: object = loaded(home_of[name], name)
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
        special = (name for name in vars(sys.modules[package]) if name.startswith("__"))
        return sorted({*special, *home_of, *modules})

    return load, names


def pyinstaller_hooks() -> list[str]:
    """The folder that tells PyInstaller what to freeze.

    An entry point names this function.
    """
    return [os.path.join(os.path.dirname(os.path.abspath(__file__)), "pyinstaller")]


_add_one = (1).__add__


class Finalizer:
    """Runs ``action`` when its last reference is dropped, unless cancelled."""

    __slots__ = ("__del__",)

    def __init__(self, action: Callable[[], object]) -> None:
        self.__del__ = action

    def cancel(self) -> None:
        self.__del__ = object


class Opened(Finalizer):
    """Closes a file descriptor when its last reference is dropped.

    ``numbers`` holds the descriptor once it is open.
    """

    __slots__ = ("numbers",)

    def __init__(self) -> None:
        numbers: list[int] = []
        self.numbers = numbers
        # Both ``map`` calls read ``numbers`` when they run.  ``closerange`` ignores errors.
        closing = map(os.closerange, numbers, map(_add_one, numbers))
        super().__init__(partial(deque, closing, 0))

    def open(self, path: str, flags: int, mode: int) -> None:
        # One call of C code: an interrupt comes before it, or after the number is stored.
        self.numbers.extend(map(os.open, (path,), (flags,), (mode,)))
