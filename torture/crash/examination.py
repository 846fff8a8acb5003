"""Checks that the files after a crash are a sound store.

The store must open without repair, scan and lookups must agree, ``verify`` must find nothing, and no
file that the store does not need may be left.  It must take a write, hold it after the next opening,
and close every file that it opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import lsmkv
from torture.crash.disk import STORE, Image
from torture.crash.disk_storage import MemoryStorage
from torture.crash.workloads import SMALL
from torture.framework.changes import Contents, write_batch
from torture.framework.ordered_background import in_order
from torture.framework.part import UnsoundError
from torture.framework.store_checks import check_files, check_no_leftovers

_LATER: Final = {b"written-after-the-crash": b"1", b"key-000": b"synced after the crash"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one examination.

    Attributes:
        matches: numbers of the models that equal the contents.
        problem: what is wrong with the store whatever it should hold; empty if it is sound.
    """

    matches: tuple[int, ...]
    problem: str = ""


class Examiner:
    """Examines each distinct image once; ``models`` are the contents that the store may have."""

    def __init__(self, models: Sequence[Contents], counts: Counter[str]) -> None:
        self._models: dict[int, list[int]] = {}
        for number, model in enumerate(models):
            self._models.setdefault(_hash(model), []).append(number)
        self._keys = sorted({key for model in models for key in model})
        self._counts = counts
        self._seen: dict[int, Verdict] = {}

    def examine(self, image: Image) -> tuple[Verdict, bool]:
        """The verdict on ``image``, and whether the image is new."""
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
            check_files(db)
            check_no_leftovers(db, storage)
            write_batch(db, _LATER.items(), sync=True)
        expected = dict(sorted({**found, **_LATER}.items()))
        with self._opened(storage) as db:
            if dict(db.items()) != expected:
                raise UnsoundError("a write made after the crash is gone after the next opening")
        if storage.open_files:
            raise UnsoundError(f"files stay open: {', '.join(sorted(storage.open_files.values()))}")
        return Verdict(tuple(self._models.get(_hash(found), ())))

    def _opened(self, storage: MemoryStorage) -> lsmkv.DB:
        self._counts["openings"] += 1
        return lsmkv.open(STORE, SMALL, storage=storage)

    def _look_up(self, db: lsmkv.DB, found: Contents) -> None:
        for key in self._keys:
            if db.get(key) != found.get(key):
                raise UnsoundError(f"get({key!r}) differs from the scan")


def _hash(contents: dict[bytes, bytes] | Image) -> int:
    """A 64-bit hash of contents; a run is too short for two of them to collide."""
    return hash(frozenset(contents.items()))
