"""A clock that tests set."""

from __future__ import annotations


class SetClock:
    """Tells ``now_s``, seconds since 1970."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s
