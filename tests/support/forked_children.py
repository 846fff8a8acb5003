"""Forked children, and what they return or raise."""

from __future__ import annotations

import os
import pickle
import signal
from typing import Any

from other_processes import HANG_S
from time_limits import exit_code


def in_child(job: Any) -> Any:
    """The result of ``job`` in a forked child, or the error that it raised."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(HANG_S)  # a child that hangs is killed
        try:
            answer = job()
        except BaseException as error:
            answer = error
        os.write(writer, pickle.dumps(answer))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pickle.load(pipe)
    exit_code(child)
    return answer
