"""Opening what a crash left, and seeing whether it is a store as good as any.

Of an image: it opens, without help; scan and look-ups agree; verifying finds nothing; files that
nothing names are gone; writes are taken, and are there when the store is opened again; whatever was
opened is closed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import lsmkv
from lsmkv.storage.file_names import CURRENT, LOCK, parse_file_name
from lsmkv.storage.storage import Storage
from lsmkv.tree.manifest import read_current, read_state
from torture.crash.disk import STORE, Image
from torture.crash.disk_storage import MemoryStorage
from torture.crash.workloads import SMALL, Contents
from torture.framework.ordered_background import in_order

_LATER: Final = {b"written-after-the-crash": b"1", b"key-000": b"synced after the crash"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found.

    Attributes:
        matches: numbers of the models that equal the contents.
        problem: what is wrong with the image whatever it should hold; empty if nothing is.
    """

    matches: tuple[int, ...]
    problem: str = ""


class UnsoundError(Exception):
    """What an examination found wrong."""


class Examiner:
    """Examines images once each."""

    def __init__(self, models: Sequence[Contents], counts: Counter[str]) -> None:
        self._models: dict[int, list[int]] = {}
        for number, model in enumerate(models):
            self._models.setdefault(_hash(model), []).append(number)
        self._keys = sorted({key for model in models for key in model})
        self._counts = counts
        self._seen: dict[int, Verdict] = {}

    def examine(self, image: Image) -> tuple[Verdict, bool]:
        """What is to be said of ``image``, and whether it was not said before."""
        place = _hash(image)
        verdict = self._seen.get(place)
        if verdict is not None:
            return verdict, False
        self._counts["distinct states"] += 1
        try:
            with in_order():
                verdict = self._open(image)
        except UnsoundError as error:
            verdict = Verdict((), str(error))
        except (lsmkv.Error, OSError, AssertionError) as error:
            verdict = Verdict((), f"{type(error).__name__}: {error}")
        self._seen[place] = verdict
        return verdict, True

    def _open(self, image: Image) -> Verdict:
        storage = MemoryStorage(image)
        with self._opened(storage) as db:
            found = dict(db.items())
            self._look_up(db, found)
            report = db.verify()
            if not report.ok:
                raise UnsoundError(f"verify: {report}")
            db.wait_until_settled()
            leftovers = left_over(storage, STORE)
            if leftovers:
                raise UnsoundError(f"left over: {', '.join(leftovers)}")
            with db.write_batch(sync=True) as batch:
                for key, value in _LATER.items():
                    batch.put(key, value)
        expected = dict(sorted({**found, **_LATER}.items()))
        with self._opened(storage) as db:
            if dict(db.items()) != expected:
                raise UnsoundError("what is written after the crash is not there after that")
        if storage.open_files:
            raise UnsoundError(f"left open: {', '.join(sorted(storage.open_files.values()))}")
        return Verdict(tuple(self._models.get(_hash(found), ())))

    def _opened(self, storage: MemoryStorage) -> lsmkv.DB:
        self._counts["openings"] += 1
        return lsmkv.open(STORE, SMALL, storage=storage)

    def _look_up(self, db: lsmkv.DB, found: Contents) -> None:
        for key in self._keys:
            if db.get(key) != found.get(key):
                raise UnsoundError(f"get({key!r}) differs from what a scan finds")


def left_over(storage: Storage, directory: str) -> list[str]:
    """Files of an open store that nothing names (call it when nothing is going on)."""
    number = read_current(storage, directory)
    state = read_state(storage, directory, number)
    tables = {table.number for table in state.levels.tables()}
    needed = {("manifest", number), *(("table", table) for table in tables)}
    found = []
    for name in storage.list_directory(directory):
        parsed = parse_file_name(name)
        if name in (CURRENT, LOCK) or parsed in needed:
            continue
        if parsed is None or parsed[0] != "log" or parsed[1] < state.log_number:
            found.append(name)
    return found


def _hash(contents: dict[bytes, bytes] | Image) -> int:
    """Of two that differ, two numbers (of 64 bits: chance makes them equal in no run of ours)."""
    return hash(frozenset(contents.items()))
