"""The processes of the part ``published``: one publishes a store, others read it through a disk cache."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import random
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import lsmkv
from torture.framework.changes import write_batch
from torture.framework.part import UnsoundError
from torture.published.ledger import KEYS, MARKER, changes

FORM: Final = lsmkv.Options(
    write_buffer_size_bytes=8192,
    block_size_bytes=512,
    table_size_bytes=8192,
    level1_size_bytes=16_384,
    compression="none",
    block_cache_size_bytes=0,
    disk_cache_size_bytes=1 << 20,
    request_timeout_s=20,
    request_retries=2,
)
EXPECTED: Final = (OSError, lsmkv.CorruptionError, lsmkv.NotAStoreError, lsmkv.PublishConflictError)
"""Errors by which a failing server shows."""

KEEP: Final = 2
_HANGS_S: Final = 60.0
_LOOK_S: Final = 1.0
_LOOKUPS: Final = 6
_TOGETHER: Final = 30


Found = dict[bytes, bytes | None]  # values by key; None for a key that is absent


class FailedError(Exception):
    """A call failed, as calls to a failing server may."""


class Publisher:
    """Publishes version after version of a store."""

    def __init__(self, directory: Path, url: str, seed: int) -> None:
        self._db = lsmkv.open(directory, FORM)
        self._url = url
        self._seed = seed

    def publish(self, version: int) -> int:
        """Bring the store to a version, and publish it; the generation."""
        for number in range(int(self._db.get(MARKER, b"0")) + 1, version + 1):
            write_batch(self._db, changes(self._seed, number))
        try:
            return self._db.publish(self._url, keep=KEEP).generation
        except lsmkv.PublishConflictError:  # the last request of a killed publisher came late
            return self._db.publish(self._url, keep=KEEP).generation


class Reader:
    """Reads the published store through a cache that it shares with others."""

    def __init__(self, cache: Path, url: str, residency: str) -> None:
        self._url = url
        self._options = {"disk_cache_path": str(cache), "filter_residency": residency}
        self._db: lsmkv.DB | None = None

    def open(self) -> int:
        """Open the store anew; the generation."""
        if self._db is not None:
            self._db.close()
            self._db = None
        self._db = lsmkv.open(self._url, FORM, read_only=True, **self._options)  # type: ignore[arg-type]
        return self._db.generation or 0

    def refresh(self) -> int:
        if self._db is None:
            return self.open()
        self._db.refresh()
        return self._db.generation or 0

    def read(self, seed: float) -> tuple[int, list[Found]]:
        """The generation, and the keys found or missed by each way of reading that did not fail."""
        if self._db is None:
            self.open()
        assert self._db is not None
        db, dice = self._db, random.Random(seed)
        found: list[Found] = []
        for key in (MARKER, *dice.sample(KEYS, _LOOKUPS)):
            with contextlib.suppress(*EXPECTED):
                found.append({key: db.get(key)})
        for way in (_looked_up, _scanned):
            with contextlib.suppress(*EXPECTED):
                found.append(way(db, dice.sample(KEYS, _TOGETHER)))
        return db.generation or 0, found

    def read_all(self) -> tuple[int, list[Found], str]:
        """The generation, all keys by each way of reading, and what verify finds."""
        assert self._db is not None
        keys = [MARKER, *KEYS]
        found = [way(self._db, keys) for way in (_looked_up, _scanned)]
        report = self._db.verify()
        return self._db.generation or 0, found, "" if report.ok else str(report)


def _looked_up(db: lsmkv.DB, keys: Sequence[bytes]) -> Found:
    return dict(zip(keys, db.multi_get(keys), strict=True))


def _scanned(db: lsmkv.DB, keys: Sequence[bytes]) -> Found:
    """Everything that a scan finds, and which of the keys it misses."""
    return {**dict.fromkeys(keys), **dict(db.items())}


class Child:
    """A process that serves the calls of one object, which it makes."""

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        fork = multiprocessing.get_context("fork")  # a planted defect comes along
        self._pipe, theirs = fork.Pipe()
        self._process = fork.Process(target=_serve, args=(theirs, make, *arguments), daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, *call: Any) -> None:
        """Send the name of a method and its arguments."""
        self._pipe.send(call)

    def answer(self) -> Any:
        """The result of the call; FailedError if it failed as it may."""
        if not self._pipe.poll(_HANGS_S):
            raise UnsoundError(f"no answer in {_HANGS_S:.0f} s")
        try:
            kind, result = self._pipe.recv()
        except EOFError:
            self._process.join(_HANGS_S)
            raise UnsoundError(f"the process ended with {self._process.exitcode}") from None
        if kind == "done":
            return result
        raise FailedError(result) if kind == "failed" else UnsoundError(result)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _serve(pipe: Connection, make: Callable[..., Any], *arguments: Any) -> None:
    logging.getLogger("lsmkv").setLevel(logging.CRITICAL)  # warnings of damage are no news here
    parent = os.getppid()
    served = make(*arguments)
    while True:
        while not pipe.poll(_LOOK_S):
            if os.getppid() != parent:  # others hold the pipe's end, too
                return
        method, *given = pipe.recv()
        try:
            answer = "done", getattr(served, method)(*given)
        except EXPECTED as error:
            answer = "failed", repr(error)
        except BaseException:
            answer = "broken", traceback.format_exc()
        pipe.send(answer)
