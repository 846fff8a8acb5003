"""Small published stores, and operations on them that end in bounded time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from conftest import SMALL, fill, number_key, open_small

import lsmkv
from time_limits import in_time

FEW_RETRIES: Final = SMALL.replace(request_retries=2)
"""Options of a reader that soon gives up, if the server answers."""


def fill_in_runs(db: lsmkv.DB) -> dict[bytes, bytes]:
    """Put overlapping parts, so that there are several tables in several runs; the contents."""
    contents = fill(db, range(1500), seed=1)
    db.compact_range()
    contents |= fill(db, range(700, 1000), value=b"newer", seed=2)
    db.flush()
    contents |= fill(db, range(1400, 1600), value=b"newest", seed=3)
    for number in range(0, 50, 5):
        db.delete(number_key(number))
        del contents[number_key(number)]
    db.flush()
    return dict(sorted(contents.items()))


def publish_runs(path: str | Path, url: str) -> dict[bytes, bytes]:
    """Publish a store of several runs; its contents."""
    with open_small(path, compaction="tiered", level0_compaction_trigger=12) as db:
        contents = fill_in_runs(db)
        db.publish(url)
    return contents


def open_published(url: str, options: lsmkv.Options = FEW_RETRIES, **overrides: Any) -> lsmkv.DB:
    return lsmkv.open(url, options, read_only=True, **overrides)


def outcome_of(work: Callable[[], Any]) -> Any:
    """What ``work`` returns, or the exception that it raises; AssertionError if it hangs."""

    def tried() -> Any:
        try:
            return work()
        except Exception as error:
            return error

    return in_time(tried)
