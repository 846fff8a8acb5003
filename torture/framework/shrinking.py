"""Shrinks a failing input by leaving out parts of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def shortest(items: Sequence[T], fails: Callable[[list[T]], bool], deadline: float) -> list[T]:
    """A part of ``items`` that fails, and passes without any one item; delta debugging, TSE 2002."""
    kept = list(items)
    size = max(1, len(kept) // 2)
    while kept and time.monotonic() < deadline:
        at, is_shorter = 0, False
        while at < len(kept) and time.monotonic() < deadline:
            shorter = kept[:at] + kept[at + size :]
            if fails(shorter):
                kept, is_shorter = shorter, True
            else:
                at += size
        if size == 1 and not is_shorter:
            break
        size = max(1, size // 2)
    return kept
