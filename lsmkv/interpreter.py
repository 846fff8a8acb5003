"""What lsmkv needs of the interpreter that runs it."""

from __future__ import annotations

import importlib
import sys
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
