"""Event loops for tests, and the threads that they must not leave behind."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from gates import WAIT_S

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns; TimeoutError if it hangs."""
    return asyncio.run(asyncio.wait_for(main, WAIT_S))


def own_threads() -> list[str]:
    """The threads of stores under asyncio."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("lsmkv-aio")]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """No test leaves a thread behind."""
    yield
    gc.collect()
    assert own_threads() == []
