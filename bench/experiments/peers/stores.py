"""One engine's stores, and keys and values made in advance."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from ...engines.base import KIB, MIB, Pairs, Settings, Store, engine_named
from ...workloads.keys import KEY_BYTES, Values, absent_key, present_key, shuffled
from .tasks import VALUE_BYTES, Task

MOST_LOOKUPS: Final = 1_000_000
"""The most keys that a phase asks for; a larger store gives random ones, some in every block."""

BATCH: Final = 1000  # operations of a batch
STRETCH: Final = 100
"""Neighbouring keys that are deleted, and that are left between two such stretches."""

TURNS: Final = 3  # how often keys are overwritten, and a part of the others deleted


class Stores:
    """One engine's stores in a directory, their keys and values.

    Attributes:
        direct_reads: whether the file system can be read past the page cache.
    """

    def __init__(self, task: Task, engine: str, directory: str, *, direct_reads: bool) -> None:
        self.entries = task.entries
        self.direct_reads = direct_reads
        self._task = task
        self._directory = directory
        self._seed = task.seed + task.number
        self._engine = engine_named(engine)
        self._values = Values(VALUE_BYTES, self._seed)
        self._for_reads: Store | None = None
        self._was_read = False
        self._with_deletions: Store | None = None
        self._orders: dict[int, list[int]] = {}

    @property
    def data_bytes(self) -> int:
        """Keys and values of a large store."""
        return self.entries * (KEY_BYTES + VALUE_BYTES)

    def order(self, which: int) -> list[int]:
        """The numbers of all keys in a random order; each ``which`` has its own."""
        if which not in self._orders:
            self._orders[which] = shuffled(self.entries, self._seed * 10 + which)
        return self._orders[which]

    def asked(self) -> list[int]:
        """The numbers of the keys to look up, in random order."""
        return self.order(2)[:MOST_LOOKUPS]

    # Lists of keys are new objects each time: Python remembers the hash of a used one, which would
    # speed up a later lookup.

    def present(self, numbers: Sequence[int]) -> list[bytes]:
        return [present_key(number) for number in numbers]

    def absent(self, numbers: Sequence[int]) -> list[bytes]:
        """The absent keys just after these numbers' keys."""
        return [absent_key(number) for number in numbers]

    def mixed(self, numbers: Sequence[int]) -> list[bytes]:
        """These numbers' keys, of every other number the absent one."""
        ways = (present_key, absent_key)
        return [ways[at & 1](number) for at, number in enumerate(numbers)]

    def values(self, numbers: Sequence[int], shift: int = 0) -> list[bytes]:
        """The values of these numbers; another ``shift`` gives other values."""
        return [self._values.of(number + shift) for number in numbers]

    def batches(self, numbers: Sequence[int], shift: int = 0) -> list[Pairs]:
        """Keys and values of these numbers in batches of :data:`BATCH`."""
        pairs = list(zip(self.present(numbers), self.values(numbers, shift), strict=True))
        return [pairs[at : at + BATCH] for at in range(0, len(pairs), BATCH)]

    def settings(self, **changes: Any) -> Settings:
        """How stores are opened, but for ``changes``."""
        chosen: dict[str, Any] = {
            "bits_per_key": self._task.bits_per_key,
            "cache_size_bytes": self._task.cache_size_bytes,
            "compression": self._task.compression,
            "background": self._task.background,
            **changes,
        }
        return Settings(**chosen)

    def small_write_buffer_bytes(self) -> int:
        """A sixteenth of the data: a fill flushes and compacts while it goes on."""
        return max(64 * KIB, self.data_bytes // 16)

    def page_cache_limit_bytes(self) -> int:
        """How much of a store's files the page cache may hold in phases that limit it."""
        return self._task.page_cache_limit_bytes

    def group_limit_bytes(self) -> int:
        """The memory of a control group that limits lookups: half of the data, at least 16 MiB."""
        return max(16 * MIB, self.data_bytes // 2)

    def small_cache_bytes(self) -> int:
        """A 64th of the data: nearly every block asked for has to be read."""
        return max(64 * KIB, self.data_bytes // 64)

    def path(self, name: str) -> str:
        """The directory of the store of that name, made if need be."""
        path = os.path.join(self._directory, name)
        os.makedirs(path, exist_ok=True)
        return path

    def open(self, name: str, **changes: Any) -> Store:
        """Open or make the store of that name."""
        return self._engine.open(self.path(name), self.settings(**changes))

    @contextmanager
    def fresh(self, name: str, **changes: Any) -> Iterator[Store]:
        """A new store, which is closed and removed afterwards."""
        self.remove(name)
        store = self.open(name, **changes)
        try:
            yield store
        finally:
            store.close()
            self.remove(name)

    def remove(self, name: str) -> None:
        """Remove the files of a store that is closed."""
        shutil.rmtree(self.path(name))

    # The store of the read phases

    def for_reads(self) -> Store:
        """Open the settled store, once asked for every key, as some engines compact what is read."""
        if self._for_reads is None:
            self._fill_for_reads()
            self._for_reads = store = self.open("reads")
            if not self._was_read:
                self._was_read = True
                for key in self.present(self.asked()):
                    store.get(key)
                store.settle()
        return self._for_reads

    def _fill_for_reads(self) -> None:
        """Fill it, unless a fill phase has left it."""
        if not os.listdir(self.path("reads")):
            store = self.open("reads")
            for batch in self.batches(self.order(0)):
                store.put_batch(batch)
            store.settle()
            store.close()

    def closed_for_reads(self) -> str:
        """The same store, closed; its directory."""
        self.for_reads()
        self.close()
        return self.path("reads")

    # The store of which half was deleted

    @staticmethod
    def is_deleted(number: int) -> bool:
        """Whether a key is in one of the deleted stretches: every other one."""
        return number // STRETCH % 2 == 0

    def with_deletions(self) -> Store:
        """As :meth:`for_reads`, of the store of which half was deleted."""
        if self._with_deletions is None:
            if not os.listdir(self.path("deleted")):
                buffer = self.small_write_buffer_bytes()
                store = self.open("deleted", write_buffer_size_bytes=buffer)
                self._fill_with_deletions(store)
                for key in self.present(self.asked()):
                    store.get(key)
                store.settle()
                store.close()
            self._with_deletions = self.open("deleted")
        return self._with_deletions

    def _fill_with_deletions(self, store: Store) -> None:
        """Fill it; then thrice overwrite what is to stay and delete a third of the rest."""
        for batch in self.batches(self.order(0)):
            store.put_batch(batch)
        for turn in range(TURNS):
            order = self.order(4 + turn)
            for batch in self.batches(
                [number for number in order if not self.is_deleted(number)], shift=1 + turn
            ):
                store.put_batch(batch)
            for number in order:
                if self.is_deleted(number) and number // (2 * STRETCH) % TURNS == turn:
                    store.delete(present_key(number))
        store.settle()

    def close(self) -> None:
        """Close the stores that are open."""
        for store in (self._for_reads, self._with_deletions):
            if store is not None:
                store.close()
        self._for_reads = self._with_deletions = None
