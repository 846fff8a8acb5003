"""Workloads on a recorded disk that exercise a store in few operations.

Buffers, blocks and tables are as small as possible, so that a hundred operations rotate logs, flush
memtables and compact several levels.  A workload depends only on its name and the seed, to the byte:
background work runs only at fixed points (see :mod:`torture.framework.ordered_background`), and salts
of logs and names of staged tables come from the seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

import lsmkv
from lsmkv.engine import adoption
from torture.crash.disk import STORE, Operation
from torture.crash.disk_storage import MemoryStorage
from torture.crash.injection import Fault
from torture.framework.changes import Change, Contents, change_model, write_batch
from torture.framework.ordered_background import Background, in_order

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
"""Options with which flushes and compactions happen after a few writes."""

VARIANTS: Final[dict[str, dict[str, Any]]] = {
    "sessions": {},
    "leveled": {},
    "tiered": {"compaction": "tiered"},
    "lazy-leveled": {"compaction": "lazy-leveled", "filter_allocation": "monkey"},
    "zstd": {"compression": "zstd", "filter_granularity": "table", "block_size_bytes": 1024},
    "one-table": {"table_size_bytes": 1 << 20, "level0_compaction_trigger": 4, "size_ratio": 4},
    "unfiltered": {"filter_policy": "none", "compression_dictionary_size_bytes": 1024},
}
"""Options that each variant changes, by the variant's name.  Only ``sessions`` has other operations."""

SESSIONS: Final = (
    *("open large", "fill", "reopen", "synced put", "put", "kill", "put", "reopen", "flush"),
    *("open large", "fill", "kill", "synced put", "checkpoint", "idle", "put", "sync", "backup"),
    *("kill", "put", "open large", "fill", "idle", "reopen", "synced put", "bulk load", "backup"),
)
"""The first operations of ``sessions``.

A log that is long enough is followed by another before the first write of the next session.
"""

_LARGE_BUFFER_BYTES: Final = 4 * SMALL.write_buffer_size_bytes
_KEYS: Final = 60
_LATER_S: Final = 5e9  # seconds since 1970: in the year 2128
_MOST_WAITING: Final = 3  # writes before background work runs


@dataclass(frozen=True, slots=True)
class Size:
    """The work of one scale.

    Attributes:
        operations: operations of each workload.
        rounds: workloads of each variant, each with another seed.
        samples: random combinations of losses at each crash point, besides the extremes.
        share: share of what a part tries.
    """

    operations: int
    rounds: int
    samples: int
    share: float


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded run of a workload.

    Attributes:
        operations: operations on the disk, with notes of the workload among them: which of its own
            operations is ``begun``, ``done`` or ``synced``.
        models: the contents of the store after each operation of the workload, from operation 0 on,
            which opens the store.
        kinds: the kind of each operation of the workload.
    """

    operations: list[Operation]
    models: list[Contents]
    kinds: list[str]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The last operations that were begun, done and synced, by number."""

    begun: int = 0
    done: int = 0
    synced: int = 0

    def after(self, operation: Operation) -> Bounds:
        """The bounds after one more operation on the disk; only notes change them."""
        if operation.kind != "note":
            return self
        number = operation.length
        return Bounds(
            number if operation.path == "begun" else self.begun,
            number if operation.path == "done" else self.done,
            number if operation.path == "synced" else self.synced,
        )


class Workload:
    """One run of a workload; tests may pass a broken storage."""

    def __init__(
        self,
        name: str,
        seed: int,
        storage: MemoryStorage,
        background: Background,
    ) -> None:
        self._variant = name.partition("-x")[0]
        self._dice = random.Random(f"workload {seed} {name}")
        self._options = SMALL.replace(**VARIANTS[self._variant])
        self.storage = storage
        self._background = background
        self._waiting = 0
        self._snapshot: tuple[lsmkv.Snapshot, Contents] | None = None
        self.models: list[Contents] = [{}]
        self.kinds = ["open"]
        self.db = self._opened()

    def _opened(self, **overrides: Any) -> lsmkv.DB:
        return lsmkv.open(STORE, self._options.replace(**overrides), storage=self.storage)

    def run(self, operations: int) -> None:
        """Run operations, and close."""
        kinds: dict[str, Callable[[int], bool]] = {
            "put": self._put,
            "delete": self._delete,
            "batch": self._batch,
            "sync": self._sync,
            "settle": self._settle,
            "flush": self._flush,
            "compact": self._compact,
            "bulk load": self._bulk_load,
            "snapshot": self._take_snapshot,
            "failure": self._fail_and_resume,
            "reopen": self._reopen,
            "range": self._delete_range,
        }
        if self._variant == "sessions":
            kinds |= {
                "open large": self._open_large,
                "fill": self._fill,
                "synced put": self._synced_put,
                "idle": self._idle,
                "kill": self._kill,
                "checkpoint": self._checkpoint,
                "backup": self._backup,
            }
            plan = [*SESSIONS, *self._dice.choices(SESSIONS, k=operations)]
        else:
            plan = self._drawn(tuple(kinds), operations)
        for number, kind in enumerate([*plan[: operations - 1], "reopen"], 1):
            self.kinds.append(kind)
            self.storage.note("begun", number)
            self.models.append(dict(self.models[-1]))
            is_synced = kinds[kind](number)
            self.storage.note("done", number)
            if is_synced:
                self.storage.note("synced", number)
            if self._waiting >= _MOST_WAITING:
                self._settle(number)
        self._forget_snapshot()
        self.db.close()

    def _drawn(self, kinds: tuple[str, ...], operations: int) -> list[str]:
        """Random operations, at least one of each kind."""
        weights = (44, 9, 14, 4, 12, 4, 3, 2, 4, 3, 4, 4)
        drawn = self._dice.choices(kinds, weights, k=max(0, operations - len(kinds) - 1))
        drawn += kinds
        self._dice.shuffle(drawn)
        return drawn

    # Operations; each returns whether every write is synced after it.

    def _note_changes(self, changes: list[Change]) -> None:
        change_model(self.models[-1], changes)
        self._waiting += 1

    def _key(self) -> bytes:
        return b"key-%03d" % self._dice.randrange(_KEYS)

    def _value(self, number: int) -> bytes:
        size = self._dice.choice((0, 10, 100, 300, 700, 1500))
        return b"%d:" % number + self._dice.randbytes(size // 2) + b"v" * (size // 2)

    def _put(self, number: int) -> bool:
        return self._put_one(number, sync_share=0.2)

    def _synced_put(self, number: int) -> bool:
        return self._put_one(number, sync_share=1.0)

    def _put_one(self, number: int, *, sync_share: float) -> bool:
        key, value = self._key(), self._value(number)
        sync = self._dice.random() < sync_share
        self._note_changes([(key, value)])
        self.db.put(key, value, expires_at=_LATER_S if number % 3 else None, sync=sync)
        return sync

    def _fill(self, number: int) -> bool:
        """Make the log longer than a small buffer."""
        size_bytes = SMALL.write_buffer_size_bytes // 3
        changes: list[Change] = [
            (b"key-%03d" % key, b"%d:" % number + self._dice.randbytes(size_bytes))
            for key in self._dice.sample(range(_KEYS), 3)
        ]
        self._note_changes(changes)
        write_batch(self.db, changes, sync=False)
        return False

    def _delete(self, number: int) -> bool:
        model = self.models[-1]
        key = self._dice.choice(sorted(model)) if model else self._key()
        sync = self._dice.random() < 0.2
        self._note_changes([(key, None)])
        if number % 2:
            self.db.delete(key, sync=sync)
        else:  # what is due already counts as a deletion
            self.db.put(key, b"due", expires_at=1, sync=sync)
        return sync

    def _delete_range(self, number: int) -> bool:
        """Delete a range, in whichever way, and put one of its keys in the same batch."""
        dice, sync = self._dice, self._dice.random() < 0.3
        low, high = sorted((self._key(), self._key()))
        changes: list[Change] = [(key, None) for key in self.models[-1] if low <= key < high]
        self._note_changes([*changes, (low, self._value(number))])
        self.db._engine.writer.most_deletions = dice.choice((0, 128))
        with self._background.beside(), self.db.write_batch(sync=sync) as batch:
            batch.delete_range(low, high)
            batch.put(low, self.models[-1][low])
        return sync

    def _batch(self, number: int) -> bool:
        dice, sync = self._dice, self._dice.random() < 0.3
        changes: list[Change] = [
            (self._key(), self._value(number) if dice.random() < 0.8 else None)
            for _ in range(dice.randint(2, 6))
        ]
        self._note_changes(changes)
        write_batch(self.db, changes, sync=sync)
        return sync

    def _sync(self, number: int) -> bool:
        self.db.sync()
        return True

    def _settle(self, number: int) -> bool:
        self.db.wait_until_settled()
        self._waiting = 0
        return False

    def _flush(self, number: int) -> bool:
        self._settle(number)  # or an older flush would run while this one makes a new log
        with self._background.beside():
            self.db.flush()
        self._waiting = 0
        return True

    def _compact(self, number: int) -> bool:
        self._flush(number)
        self.db.compact_range(force=self._dice.random() < 0.5)
        return True

    def _bulk_load(self, number: int) -> bool:
        self._flush(number)
        pairs = [(self._key(), self._value(number)) for _ in range(self._dice.randint(1, 12))]
        self._note_changes([*pairs])
        with self._background.beside():
            self.db.bulk_load(pairs)
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
        self.storage.faults.add(Fault("append", path_suffix=".log"))
        try:
            self.db.put(self._key(), self._value(number))
        except OSError:
            with self._background.beside():
                self.db.resume()
        self.storage.faults.heal()
        return True

    def _reopen(self, number: int, **overrides: Any) -> bool:
        self._forget_snapshot()
        self.db.close()
        self.storage.note("synced", number)
        self._waiting = 0
        self.db = self._opened(**overrides)
        return True

    def _open_large(self, number: int) -> bool:
        return self._reopen(number, write_buffer_size_bytes=_LARGE_BUFFER_BYTES)

    def _idle(self, number: int) -> bool:
        """A session in which nothing happens."""
        return self._reopen(number) and self._reopen(number)

    def _kill(self, number: int) -> bool:
        """The process ends; the operating system does not."""
        self._forget_snapshot()
        self.storage, killed = self.storage.left_behind(), self.db
        killed.close()
        self._waiting = 0
        self.db = self._opened()
        return True

    def _checkpoint(self, number: int) -> bool:
        self.db.checkpoint(f"/checkpoint-{number}")
        return False

    def _backup(self, number: int) -> bool:
        self._settle(number)
        with self._background.beside():
            lsmkv.backup(self.db, "/backup")  # which flushes
        return True


def names(rounds: int) -> list[str]:
    """Workloads by name: every variant once, then every variant with ``-x2``, and so on."""
    suffixes = ("", *(f"-x{number}" for number in range(2, rounds + 1)))
    return [variant + suffix for suffix in suffixes for variant in VARIANTS]


def record(name: str, seed: int, operations: int, storage: MemoryStorage) -> Recording:
    """Run the workload ``name``, one of :func:`names`."""
    dice = random.Random(f"bytes {seed} {name}")
    with (
        in_order() as background,
        mock.patch.object(os, "urandom", dice.randbytes),
        mock.patch.object(adoption, "_SYNCS_AT_ONCE", 1),
    ):
        workload = Workload(name, seed, storage, background)
        workload.run(operations)
    return Recording(workload.storage.operations, workload.models, workload.kinds)
