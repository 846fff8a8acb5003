"""The counters of the program that has the explored store open."""

from __future__ import annotations

import dataclasses
import os
from typing import Final

import lsmkv
from lsmkv.counters import Counters, read
from lsmkv.explore import messages
from lsmkv.explore.keys import text_of

_COUNTERS: Final = frozenset(field.name for field in dataclasses.fields(lsmkv.Stats))
_SHOWN_TABLES: Final = 10
_SHOWN_PROBLEM: Final = 300


class ProgramReader:
    """Reads what a program publishes, and makes rates of it."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._last: Counters | None = None
        self._per_second: dict[str, float] = {}

    def now(self) -> messages.Program | None:
        """Its last counters; None without any, or for a store in object storage."""
        try:
            found = None if "://" in self._store else read(self._store)
        except (ValueError, OSError) as error:
            told = text_of(os.fsencode(str(error)), _SHOWN_PROBLEM)
            return messages.Program(0, None, {}, {}, [], [], told)
        self._note(found)
        if found is None:
            return None
        return messages.Program(
            pid=found.pid,
            silent_s=max(0, round(found.age_s)) if found.is_old else None,
            stats={name: number for name, number in found.stats.items() if name in _COUNTERS},
            per_second={} if found.is_old else self._per_second,
            tables=found.tables[:_SHOWN_TABLES],
            levels=found.levels,
            problem=None,
        )

    def _note(self, found: Counters | None) -> None:
        """Make rates of the last two publications of one program."""
        last, self._last = self._last, found
        if found is None or last is None or last.pid != found.pid:
            self._per_second = {}
            return
        elapsed_s = found.published_at_s - last.published_at_s
        if elapsed_s > 0:
            self._per_second = {
                name: max(0.0, (number - last.stats.get(name, 0)) / elapsed_s)
                for name, number in found.stats.items()
                if name in _COUNTERS
            }
