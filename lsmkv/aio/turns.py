"""Shares the event loop between a store's calls and all other tasks."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Final

TURN_S: Final = 0.0005  # time of a round of the event loop for calls; the last one may exceed it
_WOKEN_AT_ONCE: Final = 16  # few: those who find the turn over go back to sleep


class Turns:
    """Limits calls to :data:`TURN_S` a round of the loop; who ``must_wait`` waits."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._returned = 0  # those at the front of the queue whom this turn could not serve
        self._has_begun = False
        self._ends = 0.0
        self._is_scheduled = False

    def must_wait(self) -> bool:
        """Whether the turn is over, or others wait."""
        return bool(self._waiting) or self._is_over()

    def _is_over(self) -> bool:
        if self._has_begun:
            return time.perf_counter() >= self._ends
        self._has_begun = True
        self._ends = time.perf_counter() + TURN_S
        self._schedule()
        return False

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._begin_next)  # which runs in the loop's next round

    def _begin_next(self) -> None:
        self._has_begun = self._is_scheduled = False
        self._returned = 0
        if self._waiting:
            for _ in range(min(_WOKEN_AT_ONCE, len(self._waiting))):
                woken = self._waiting.popleft()
                if not woken.done():  # it may have been cancelled
                    woken.set_result(None)
            self._schedule()

    async def wait(self) -> None:
        """Wait for a turn."""
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(turn)
        self._schedule()
        await turn
        while self._is_over():
            turn = self._loop.create_future()
            self._waiting.insert(self._returned, turn)
            self._returned += 1
            await turn
