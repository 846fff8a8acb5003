"""Reads that are not atomic: the operating system copies a file page by page while a writer works.

A page copied early may lack bytes that a page copied late refers to.  :class:`AgedLog` has the whole
history of a log, from which :class:`AgedStorage` gives each page of a read an age of its own.
:class:`TornStorage` calls a function between two pages.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lsmkv.log.reader import read_log
from lsmkv.log.writer import LogWriter
from lsmkv.stats import Stats
from lsmkv.storage.storage import RandomFile, ReadKind, Storage
from torture.framework.part import UnsoundError

ORDERS: Final = ("copied", "any")  # ages of the pages of one read: ascending, or in any order


class AgedLog:
    """A log, as it was after each step of writing it.

    Attributes:
        history: the file's bytes after each step.
        counts: the number of records after each step, and the end of the bytes before a sync mark.
        ends: end offset of each record.
    """

    def __init__(self, path: Path, number: int, dice: random.Random, steps: int) -> None:
        self.path = path
        self.number = number
        self.payloads: list[bytes] = []
        self.ends: list[int] = []
        self.history: list[bytes] = []
        self.counts: list[tuple[int, int]] = []
        log = LogWriter.create(Storage(), str(path), number, "log")
        synced = marked = log.end
        for _ in range(steps):
            payload = dice.randbytes(dice.choice((0, 5, 40, 40, 300, 5000)))
            self.ends.append(log.append(payload))
            self.payloads.append(payload)
            marked = synced
            if dice.random() < 0.4:
                log.sync_through(log.end)
                synced = log.end
            self.history.append(path.read_bytes())
            self.counts.append((len(self.payloads), marked))
        log.close()

    def read(self, storage: AgedStorage) -> int:
        """Read the log from ``storage``; return the number of records found."""
        at_least = self.counts[storage.now][0]
        contents = read_log(storage, str(self.path), self.number, "log")
        if contents is None:
            raise UnsoundError("the log exists, but the reader does not find it")
        found = [payload for _, payload in contents.records()]
        if found != self.payloads[: len(found)]:
            raise UnsoundError(f"the {len(found)} records found are no prefix of those written")
        if not at_least <= len(found) <= self.counts[storage.now][0]:
            raise UnsoundError(
                f"{len(found)} records found, but there were {at_least} before the read and "
                f"{self.counts[storage.now][0]} after it"
            )
        return len(found)

    def damaged(self, dice: random.Random, since: int) -> tuple[list[bytes], range]:
        """The history with a damaged byte from step ``since`` on; where a reader may report it."""
        first, vouched = self.ends[0], self.counts[since][1]
        place = dice.randrange(first, vouched)
        start = max(end for end in self.ends if end <= place)
        mask = 1 << dice.randrange(8)
        changed = [
            data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :] if at >= since else data
            for at, data in enumerate(self.history)
        ]
        return changed, range(start, place + 1)


class AgedStorage(Storage):
    """Shows a log whose reads take time.

    Attributes:
        now: the step at which the last read ended.
        torn: reads with pages of different ages.
    """

    def __init__(
        self, history: list[bytes], now: int, order: str, page_bytes: int, dice: random.Random
    ) -> None:
        super().__init__()
        self.now = now
        self.torn = 0
        self._history = history
        self._order = order
        self._page_bytes = page_bytes
        self._dice = dice

    def read_whole(self, path: str, kind: ReadKind, limit: int, start: int = 0) -> bytes:
        """The log's bytes from ``start`` to its end when the read began."""
        begun, history = self.now, self._history
        self.now = self._dice.randrange(begun, min(len(history), begun + 12))
        size = len(history[begun])
        pages = range(start, size, self._page_bytes)
        ages = [self._dice.randint(begun, self.now) for _ in pages]
        if self._order == "copied":
            ages.sort()
        self.torn += len(set(ages)) > 1
        return b"".join(
            history[age][at : min(at + self._page_bytes, size)]
            for age, at in zip(ages, pages, strict=True)
        )


class TornStorage(Storage):
    """Copies logs and manifests by pages, and calls ``between`` between some."""

    def __init__(
        self,
        between: Callable[[], None],
        order: str,
        page_bytes: int,
        dice: random.Random,
        stats: Stats | None = None,
    ) -> None:
        super().__init__(stats)
        self.between = between
        self.order = order
        self.page_bytes = page_bytes
        self.dice = dice
        self.is_busy = False

    def _random_file(self, path: str, descriptor: int, size: int, direct: bool) -> RandomFile:
        if not path.endswith(".log") and "MANIFEST" not in path:
            return super()._random_file(path, descriptor, size, direct)
        return _TornFile(self, path, descriptor, size)


class _TornFile(RandomFile):
    def __init__(self, storage: TornStorage, path: str, descriptor: int, size: int) -> None:
        super().__init__(path, descriptor, size, storage.stats, False)
        self._storage = storage

    def _pread(self, length: int, offset: int) -> bytes:
        storage = self._storage
        if storage.is_busy:
            return super()._pread(length, offset)
        places = list(range(offset, offset + length, storage.page_bytes))
        if storage.order == "any":
            storage.dice.shuffle(places)
        pages: dict[int, bytes] = {}
        for place in places:
            count = min(storage.page_bytes, offset + length - place)
            pages[place] = os.pread(self.fileno(), count, place)
            if storage.dice.random() < 4 / len(places):
                storage.is_busy = True
                try:
                    storage.between()
                finally:
                    storage.is_busy = False
        data = b""
        for place in sorted(pages):  # a file that was truncated meanwhile ends early
            data += pages[place]
            if len(pages[place]) < min(storage.page_bytes, offset + length - place):
                break
        return data
