"""Follows a store that another process may write: reads what is new since the last time.

Of each log it remembers where the last good record ends.  Later records of that log go to a memtable of
their own, in front of those that readers may hold, which never change.  Small ones are merged into new
ones, so that a log has few, and each write is merged a few times only.

What does not fit what was read before (a file is missing, a record was taken back by the writer, another
store took the place of this one) makes it read everything again, as an opening does.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from lsmkv.engine.recovery import recover_beside_writer
from lsmkv.errors import CorruptionError
from lsmkv.log.chain import log_numbers, trusted_logs
from lsmkv.log.reader import LogReader
from lsmkv.log.replay import replay
from lsmkv.memtable.memtable import Memtable
from lsmkv.read.view import SuperVersion
from lsmkv.storage.file_names import CURRENT, LOCK, manifest_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.manifest import State, read_current, read_manifest, read_more_manifest
from lsmkv.tree.version import Version
from lsmkv.tree.version_set import VersionSet

_SMALL_BYTES: Final = 64 * 1024  # of log: such a memtable is merged with the next at once
_GROWTH: Final = 4  # any other, once the newer ones have a quarter of its bytes


@dataclass(frozen=True, slots=True)
class _FollowedLog:
    """A log, without its bytes, and its writes."""

    contents: LogReader
    memtables: tuple[Memtable, ...]  # newest first, never empty
    # first_seq, next_seq: its writes have the numbers from the first up to the second.
    first_seq: int
    next_seq: int


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the last look found; ``current_stamp`` is that of CURRENT, taken before."""

    current_stamp: tuple[int, int, int]
    state: State
    manifest: LogReader
    logs: list[_FollowedLog]
    super_version: SuperVersion

    @property
    def last_seq(self) -> int:
        return self.logs[-1].next_seq - 1


class StoreFollower:
    """Reads a store in a directory, and later what is new there.  One thread at a time."""

    def __init__(self, storage: Storage, directory: str, tables: VersionSet) -> None:
        self._storage = storage
        self._directory = directory
        self._tables = tables
        self._seen: _Seen | None = None
        self._place: tuple[int, int] | None = None  # of the store's LOCK, which is never replaced
        self.found_more = False  # whether the last look found writes that the one before did not
        self.found_another = False  # whether it found another store in the place

    def recover(self) -> tuple[SuperVersion, int]:
        """The newest state, and its last sequence number."""
        before, seen = self._seen, None
        self.found_another = self._is_elsewhere()
        if before is not None and not self.found_another:
            try:
                seen = self._read_on(before)
                self.found_more = seen.last_seq != before.last_seq
            except (FileNotFoundError, CorruptionError):  # one more look tells whether it is damage
                pass
        if seen is None:
            seen = self._read_all()
            self.found_more = True
            if before is not None and seen.state.store_id != before.state.store_id:
                self.found_another = True
                # It may have been written into the files that are open.
                self._tables.forget_replaced(all_are=True)
                seen = self._read_all()
        self._seen = seen
        self._tables.store_id = seen.state.store_id
        return seen.super_version, seen.last_seq

    def _is_elsewhere(self) -> bool:
        """Whether other files took the store's place, maybe a copy's."""
        lock = os.path.join(self._directory, LOCK)
        before, self._place = self._place, self._storage.file_at(lock)
        return before is not None and before != self._place

    def forget(self) -> None:
        """Keep no table and no memtable: their readers alone do from now on."""
        self._seen = None

    def _read_all(self) -> _Seen:
        try:
            stamp = self._storage.fingerprint(os.path.join(self._directory, CURRENT))
        except FileNotFoundError:  # which recovery says better, unless the file is back by then
            stamp = (0, 0, 0)
        found, version = recover_beside_writer(self._storage, self._directory, self._open_anew)
        firsts = [memtable.first_seq for memtable in found.memtables]
        logs = [
            _FollowedLog(contents.without_data(), (memtable,), first, following)
            for contents, memtable, first, following in zip(
                found.logs, found.memtables, firsts, [*firsts[1:], found.last_seq + 1], strict=True
            )
        ]
        manifest = found.manifest.without_data()
        return _Seen(stamp, found.state, manifest, logs, _super_version(logs, version))

    def _open_anew(self, state: State) -> Version:
        """Open the tables of what may be another store than before."""
        self._tables.forget_replaced()
        return self._tables.open_version(state.levels, state.range_deletes)

    def _read_on(self, before: _Seen) -> _Seen:
        """What the store holds now; raises if that does not go on from ``before``."""
        storage, directory = self._storage, self._directory
        stamp = storage.fingerprint(os.path.join(directory, CURRENT))
        state, manifest = self._read_manifest(before, stamp)
        if state.store_id != before.state.store_id:  # its LOCK has the number of one that is gone
            raise CorruptionError(manifest.path, None, "this is another store")
        first = state.log_number
        numbers = log_numbers(storage.list_directory(directory), first)
        known = {log.contents.number: log for log in before.logs if log.contents.number >= first}
        ends = {number: log.contents for number, log in known.items()}
        expected = state.last_seq + 1
        logs: list[_FollowedLog] = []
        for contents in trusted_logs(storage, directory, numbers, first, state.closed, ends):
            log = _followed(contents, known.get(contents.number), expected)
            expected = log.next_seq
            logs.append(log)
        if state.levels is not before.state.levels:
            if stamp != before.current_stamp:
                version = self._open_anew(state)
            else:
                version = self._tables.open_version(state.levels, state.range_deletes)
            current = _super_version(logs, version)
        elif _memtables(logs) != _memtables(before.logs):
            current = _super_version(logs, before.super_version.version)
        else:
            current = before.super_version
        return _Seen(stamp, state, manifest.without_data(), logs, current)

    def _read_manifest(self, before: _Seen, stamp: tuple[int, int, int]) -> tuple[State, LogReader]:
        if stamp != before.current_stamp:  # another manifest, or another store's of this number
            number = read_current(self._storage, self._directory)
            return read_manifest(self._storage, self._directory, number)
        path = manifest_path(self._directory, before.manifest.number)
        if self._storage.file_size(path) != before.manifest.size:
            return read_more_manifest(self._storage, before.state, before.manifest)
        return before.state, before.manifest


def _followed(contents: LogReader, before: _FollowedLog | None, expected: int) -> _FollowedLog:
    """A log with the writes of ``contents``.  ``expected`` is the number of its first write."""
    memtables: tuple[Memtable, ...] = ()
    first, start = expected, expected
    if before is not None and before.next_seq > before.first_seq:
        memtables, first, start = before.memtables, before.first_seq, before.next_seq
        if first != expected:
            reason = "a write is missing before this log"
            raise CorruptionError(contents.path, 0, reason, expected=expected, got=first)
    fresh = Memtable(start, contents.number)
    following = replay(contents, fresh, start, None)
    if fresh.range_deletes and not all(memtable.is_empty for memtable in memtables):
        reason = "a range delete follows other writes of its log"
        raise CorruptionError(contents.path, contents.base, reason)
    fresh.log_bytes = contents.end - (contents.base if memtables else 0)
    if following > start or not memtables:
        memtables = _stacked(fresh, memtables)
    return _FollowedLog(contents.without_data(), memtables, first, following)


def _stacked(fresh: Memtable, older: tuple[Memtable, ...]) -> tuple[Memtable, ...]:
    """``fresh`` in front of ``older``; those not much larger are merged."""
    merged = 0
    for memtable in older:
        if fresh.range_deletes or memtable.log_bytes > max(_SMALL_BYTES, _GROWTH * fresh.log_bytes):
            break
        fresh = memtable.with_newer(fresh)
        merged += 1
    return (fresh, *older[merged:])


def _memtables(logs: list[_FollowedLog]) -> list[Memtable]:
    """Those of all logs, newest first."""
    return [memtable for log in reversed(logs) for memtable in log.memtables]


def _super_version(logs: list[_FollowedLog], version: Version) -> SuperVersion:
    newest, *older = _memtables(logs)
    return SuperVersion(newest, tuple(older), version)
