"""Calls with a time limit."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_Result = TypeVar("_Result")


class HangsError(Exception):
    """A call did not end in time; the message has its stack."""


def patiently(job: Callable[[], _Result], limit_s: float) -> _Result:
    """Call ``job`` in a thread and return its result; HangsError after ``limit_s``."""
    ended: Future[_Result] = Future()

    def work() -> None:
        try:
            ended.set_result(job())
        except BaseException as error:
            ended.set_exception(error)

    thread = threading.Thread(target=work, name="torture-job", daemon=True)
    thread.start()
    try:
        return ended.result(limit_s)
    except TimeoutError:
        if ended.done():
            raise
        frame = sys._current_frames().get(thread.ident or 0)
        stack = "".join(traceback.format_stack(frame)[-4:]) if frame else ""
        raise HangsError(f"it hangs:\n{stack}") from None
