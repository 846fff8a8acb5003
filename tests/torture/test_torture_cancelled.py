"""The scenario of cancelled tasks, small, and defects of ``lsmkv.aio`` that it must find."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gates import WAIT_S
from lsmkv.aio import AsyncDB
from lsmkv.aio.work import Work
from torture.framework.part import Scale, UnsoundError
from torture.load import cancelled
from torture.load.scenario import Job

pytestmark = pytest.mark.slow  # `make test` tests the store, not its testers


def cancel(directory: Path, attempts: int) -> Job:
    """Run the scenario for so many attempts."""
    job = Job("tasks", 1, directory, WAIT_S, Scale.CI)
    left = iter(range(attempts))
    cancelled.work(job, lambda: next(left, None) is not None)
    return job


def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path) -> None:
    job = cancel(tmp_path, 10)
    assert job.counts["cancellations"] == 10


async def end_later(work: Work, finish: Callable[[], None], *, end: Any = Work.end) -> None:
    """An end that a cancellation may keep from beginning."""
    await asyncio.sleep(0)
    await end(work, finish)


class TornBatch:
    """Operations that are no batch."""

    def __init__(self, db: AsyncDB) -> None:
        self._db = db
        self._changes: list[tuple[bytes, bytes | None]] = []

    def put(self, key: bytes, value: bytes) -> None:
        self._changes.append((key, value))

    def delete(self, key: bytes) -> None:
        self._changes.append((key, None))

    async def __aenter__(self) -> TornBatch:
        return self

    async def __aexit__(self, *_: object) -> None:
        for key, value in self._changes:
            await (self._db.delete(key) if value is None else self._db.put(key, value))


DEFECTS: dict[str, tuple[str, object]] = {
    "have a wrong value": ("lsmkv.aio.db.copied", lambda data: data),
    "is not closed": ("lsmkv.aio.work.Work.end", end_later),
    "only in part": ("lsmkv.aio.AsyncDB.write_batch", lambda db, *, sync: TornBatch(db)),
}
"""What the scenario says, and what is put in whose place."""


@pytest.mark.parametrize("said", DEFECTS)
def test_a_planted_defect_is_found(
    tmp_path: Path, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*DEFECTS[said])
    monkeypatch.setattr(cancelled, "_CALLS", 4)
    with pytest.raises(UnsoundError, match=said):
        cancel(tmp_path, 300)
