"""Stores that the toy of ``examples`` opens."""

from __future__ import annotations

from pathlib import Path

import toy

NOW_S = 1_800_000_000  # the time of the tests


def open_toy(path: Path, now_s: float = NOW_S) -> toy.Store:
    return toy.Store(path, clock=lambda: now_s)


def read_all(path: Path) -> dict[bytes, bytes]:
    store = open_toy(path)
    try:
        return dict(store.scan())
    finally:
        store.lock.close()
