"""What is done to a store while its disk is recorded: everything a store does, in few operations.

Buffers, blocks and tables are as small as can be, so that a hundred operations rotate logs, flush,
and compact several levels.  A workload depends on its name and the seed alone: background work goes
on only where the workload lets it (see :mod:`torture.framework.ordered_background`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import lsmkv
from torture.crash.disk import STORE, Operation
from torture.crash.disk_storage import MemoryStorage
from torture.crash.injection import Fault
from torture.framework.ordered_background import Background, in_order

Contents = dict[bytes, bytes]
Change = tuple[bytes, bytes | None]

SMALL: Final = lsmkv.Options(
    write_buffer_size_bytes=4096,
    max_immutable_memtables=6,
    block_size_bytes=512,
    level0_compaction_trigger=2,
    level1_size_bytes=8192,
    table_size_bytes=4096,
    size_ratio=2,
    compression="none",
)
"""Everything happens after a few writes; the names below change what a store is like besides."""

VARIANTS: Final[dict[str, dict[str, Any]]] = {
    "leveled": {},
    "tiered": {"compaction": "tiered"},
    "lazy-leveled": {"compaction": "lazy-leveled", "filter_allocation": "monkey"},
    "zstd": {"compression": "zstd", "filter_granularity": "table", "block_size_bytes": 1024},
    "one-table": {"table_size_bytes": 1 << 20, "level0_compaction_trigger": 4, "size_ratio": 4},
    "unfiltered": {"filter_policy": "none", "compression_dictionary_size_bytes": 1024},
}

_KEYS: Final = 60
_MOST_WAITING: Final = 3  # writes between two times that background work may go on


@dataclass(frozen=True, slots=True)
class Recording:
    """A run that was recorded.

    Attributes:
        name: of the workload.
        operations: what happened to the disk, with the notes ``begun``, ``done`` and ``synced`` of
            the workload's own operations among them.
        models: the contents after each of those (the first: after none).
        kinds: what each of them was (the first: opening).
    """

    name: str
    operations: list[Operation]
    models: list[Contents]
    kinds: list[str]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Numbers of the workload's operations: begun, done, and known to be synced."""

    begun: int = 0
    done: int = 0
    synced: int = 0

    def after(self, operation: Operation) -> Bounds:
        """The bounds after one more operation, which may be a note that changes them."""
        if operation.kind != "note":
            return self
        number = operation.length
        return Bounds(
            number if operation.path == "begun" else self.begun,
            number if operation.path == "done" else self.done,
            number if operation.path == "synced" else self.synced,
        )


class Workload:
    """One run of a workload, on a storage that may be broken on purpose."""

    def __init__(
        self, name: str, seed: int, storage: MemoryStorage, background: Background
    ) -> None:
        variant = name.partition("-x")[0]
        self._dice = random.Random(f"workload {seed} {name}")
        self._options = SMALL.replace(**VARIANTS[variant])
        self._storage = storage
        self._background = background
        self._waiting = 0
        self._snapshot: tuple[lsmkv.Snapshot, Contents] | None = None
        self.models: list[Contents] = [{}]
        self.kinds = ["open"]
        self.db = self._opened()

    def _opened(self) -> lsmkv.DB:
        return lsmkv.open(STORE, self._options, storage=self._storage)

    def run(self, operations: int) -> None:
        """So many operations, whatever the dice say, and the end."""
        kinds: dict[str, Callable[[int], bool]] = {
            "put": self._put,
            "delete": self._delete,
            "batch": self._batch,
            "sync": self._sync,
            "settle": self._settle,
            "flush": self._flush,
            "compact": self._compact,
            "snapshot": self._take_snapshot,
            "failure": self._fail_and_resume,
            "reopen": self._reopen,
        }
        weights = (44, 9, 14, 4, 12, 4, 3, 4, 3, 4)
        drawn = self._dice.choices(tuple(kinds), weights, k=max(0, operations - len(kinds) - 1))
        drawn += kinds  # each at least once
        self._dice.shuffle(drawn)
        for number, kind in enumerate([*drawn[: operations - 1], "reopen"], 1):
            self.kinds.append(kind)
            self._storage.note("begun", number)
            self.models.append(dict(self.models[-1]))
            is_synced = kinds[kind](number)
            self._storage.note("done", number)
            if is_synced:
                self._storage.note("synced", number)
            if self._waiting >= _MOST_WAITING:
                self._settle(number)
        self._forget_snapshot()
        self.db.close()

    # Operations; each says whether all that was written is synced afterwards.

    def _note_changes(self, changes: list[Change]) -> None:
        """What is about to be written."""
        model = self.models[-1]
        for key, value in changes:
            if value is None:
                model.pop(key, None)
            else:
                model[key] = value
        self._waiting += 1

    def _key(self) -> bytes:
        return b"key-%03d" % self._dice.randrange(_KEYS)

    def _value(self, number: int) -> bytes:
        size = self._dice.choice((0, 10, 100, 300, 700, 1500))
        return b"%d:" % number + self._dice.randbytes(size // 2) + b"v" * (size // 2)

    def _put(self, number: int) -> bool:
        key, value, sync = self._key(), self._value(number), self._dice.random() < 0.2
        self._note_changes([(key, value)])
        self.db.put(key, value, sync=sync)
        return sync

    def _delete(self, number: int) -> bool:
        model = self.models[-1]
        key = self._dice.choice(sorted(model)) if model else self._key()
        sync = self._dice.random() < 0.2
        self._note_changes([(key, None)])
        self.db.delete(key, sync=sync)
        return sync

    def _batch(self, number: int) -> bool:
        dice, sync = self._dice, self._dice.random() < 0.3
        changes: list[Change] = [
            (self._key(), self._value(number) if dice.random() < 0.8 else None)
            for _ in range(dice.randint(2, 6))
        ]
        self._note_changes(changes)
        with self.db.write_batch(sync=sync) as batch:
            for key, value in changes:
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
        return sync

    def _sync(self, number: int) -> bool:
        self.db.sync()
        return True

    def _settle(self, number: int) -> bool:
        self.db.wait_until_settled()
        self._waiting = 0
        return False

    def _flush(self, number: int) -> bool:
        self._settle(number)  # or an older flush would go on beside this one's fresh log
        with self._background.beside():
            self.db.flush()
        self._waiting = 0
        return True

    def _compact(self, number: int) -> bool:
        self._flush(number)
        self.db.compact_range(force=self._dice.random() < 0.5)
        return True

    def _take_snapshot(self, number: int) -> bool:
        self._forget_snapshot()
        self._snapshot = self.db.snapshot(), self.models[-1]
        return False

    def _forget_snapshot(self) -> None:
        if self._snapshot is not None:
            snapshot, expected = self._snapshot
            assert dict(snapshot.items()) == expected, "a snapshot has changed"
            snapshot.close()
            self._snapshot = None

    def _fail_and_resume(self, number: int) -> bool:
        self._settle(number)
        self._storage.faults.add(Fault("append", path_suffix=".log"))
        try:
            self.db.put(self._key(), self._value(number))
        except OSError:
            with self._background.beside():
                self.db.resume()
        self._storage.faults.heal()
        return True

    def _reopen(self, number: int) -> bool:
        self._forget_snapshot()
        self.db.close()
        self._storage.note("synced", number)
        self._waiting = 0
        self.db = self._opened()
        return True


def record(name: str, seed: int, operations: int, storage: MemoryStorage) -> Recording:
    """Run the workload ``name``, one of :data:`VARIANTS` or such a name and ``-x`` and a number."""
    with in_order() as background:
        workload = Workload(name, seed, storage, background)
        workload.run(operations)
    return Recording(name, storage.operations, workload.models, workload.kinds)
