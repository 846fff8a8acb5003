"""What lsmkv needs of the interpreter that runs it."""

from __future__ import annotations

import sys


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
