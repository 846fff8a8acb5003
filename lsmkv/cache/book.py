"""The entries of a cache in its store, written whole and counted."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

import lsmkv
from lsmkv.cache.arguments import decoded_key
from lsmkv.cache.entries import (
    ENTRY,
    FORMAT,
    FORMAT_KEY,
    NEVER,
    SPAN_S,
    STORED,
    TAGGED,
    About,
    Counts,
    Entry,
    due_s,
    read_entry,
    read_stored,
)

_BATCH: Final = 1000
_AHEAD: Final = 100  # so many of the oldest are looked up at once
_PATIENCE_S: Final = 1.0  # for writers, when a cache is closed


def _present_flow() -> tuple[int, object]:
    """The thread that runs, and its asyncio task or None."""
    task, asyncio = None, sys.modules.get("asyncio")
    if asyncio is not None:
        with suppress(RuntimeError):  # no loop runs
            task = asyncio.current_task()
    return threading.get_ident(), task


def _apply(
    target: lsmkv.WriteBatch | lsmkv.Transaction,
    operations: Iterable[tuple[bytes, bytes | None]],
) -> None:
    for place, data in operations:
        if data is None:
            target.delete(place)
        else:
            due = due_s(data)
            if due == NEVER:
                target.put(place, data)
            else:
                target.put(place, data, expires_at=due)


class Book:
    """The base of a cache."""

    def __init__(self, db: lsmkv.DB, clock: Callable[[], float]) -> None:
        self._db = db
        self._clock = clock
        self._lock = threading.RLock()  # writers hold it
        self._counts, self._is_counted, self._is_closing = Counts(), False, False
        # The oldest places in the order of storing, some of which may be gone, and where others start.
        self._oldest: deque[bytes] = deque()
        self._floor = STORED
        # The transaction of the thread that holds the lock, whose it is, and what takes back the writes
        # of one inside it.
        self._transaction: lsmkv.Transaction | None = None
        self._flow: tuple[int, object] = (0, None)
        self._is_nested = False
        self._before: list[tuple[bytes, bytes | None]] = []
        try:
            self._load_counts()
        except BaseException:
            self._db.close()
            raise

    def _load_counts(self) -> None:
        note = self._db.get(FORMAT_KEY, b"")
        if not note.startswith(FORMAT) and self._db:
            raise ValueError(
                f"{self._db.path} is a store, but no cache: give a cache its own directory"
            )
        if len(note) <= len(FORMAT):  # new, or not closed by the process that wrote last
            self._count_all()
            return
        try:
            self._counts = Counts.read(note[len(FORMAT) :])
        except ValueError as error:
            raise self._damage(FORMAT_KEY, error) from error
        self._note(b"")

    def _count_all(self) -> None:
        counts = Counts(self._counts.last_number)
        for place, data in self._db.items(prefix=STORED):
            try:
                number, expires, size_bytes = read_stored(place, data)
            except ValueError as error:
                raise self._damage(place, error) from error
            counts.add(expires, 1, size_bytes)
            counts.last_number = max(counts.last_number, number)
        self._counts, self._floor = counts, STORED
        self._oldest.clear()
        self._note(b"")

    def _note(self, counts: bytes) -> None:
        if not self._db.read_only:
            self._db.put(FORMAT_KEY, FORMAT + counts)
        self._is_counted = True

    def _present_counts(self) -> Counts:
        now = self._clock()
        if self._counts.next_due <= now and self._lock.acquire(blocking=False):
            try:
                self._counts.drop_due(now)
            finally:
                self._lock.release()
        return self._counts

    # Reading

    @property
    def _store(self) -> lsmkv.DB | lsmkv.Transaction:
        """What the present thread reads: the store, or its own transaction."""
        transaction = self._transaction  # before the flow: whose it is
        return self._db if transaction is None or self._flow != _present_flow() else transaction

    def _stored(self, packed: bytes) -> Entry | None:
        """An entry, expired ones, too, which the store has not dropped."""
        data = self._store.get(ENTRY + packed)
        return None if data is None else self._entry(packed, data)

    def _find(self, packed: bytes) -> Entry | None:
        found = self._stored(packed)
        return None if found is None or found[0].expires <= self._clock() else found

    def _entry(self, packed: bytes, data: bytes) -> Entry:
        try:
            return read_entry(packed, data)
        except ValueError as error:
            raise self._damage(ENTRY + packed, error) from error

    def _damage(self, place: bytes, error: object) -> lsmkv.CorruptionError:
        return lsmkv.CorruptionError(
            self._db.path,
            None,
            f"what the cache has at {place[:80]!r} is none of its own: {error}; "
            "clear() removes all entries, lsmkv.destroy the whole cache",
        )

    def _entries(
        self, start: bytes = b"", stop: bytes = b"\xff", *, reverse: bool
    ) -> Iterator[Entry]:
        """The entries of a range, as they are at the first."""
        for place, data in self._store.items(
            start=ENTRY + start, stop=ENTRY + stop, reverse=reverse
        ):
            yield self._entry(place[1:], data)

    # Writing

    def _write(self, removed: Iterable[About], new: Entry | None = None) -> None:
        """Remove entries and add one, all or none."""
        operations: dict[bytes, bytes | None] = {}
        changes = []
        for about in removed:
            operations[ENTRY + about.key] = None
            operations.update(dict.fromkeys(about.places()))
            changes.append((about.expires, -1, -about.size_bytes))
        if new is not None:
            about, data = new
            operations[ENTRY + about.key] = about.packed(data)
            operations.update(about.places())
            changes.append((about.expires, 1, about.size_bytes))
        if not operations:
            return
        if self._is_closing:
            raise lsmkv.ClosedError(f"{self._db.path} is closed, or is being closed")
        transaction = self._transaction
        if transaction is None and not self._is_counted:
            self._count_all()
        was_counted, self._is_counted = self._is_counted, False  # an interrupt may come
        if transaction is None:
            with self._db.write_batch() as batch:
                _apply(batch, operations.items())
        else:
            self._check_flow()
            if self._is_nested:
                self._before += [(place, transaction.get(place)) for place in operations]
            _apply(transaction, operations.items())
        for change in changes:
            self._counts.add(*change)
        self._is_counted = was_counted

    def _transaction_block(self) -> Generator[None]:
        with self._lock:
            outer = self._transaction
            if outer is not None:
                self._check_flow()
            elif not self._is_counted:
                self._count_all()
            counts, writes, flow = self._counts.copy(), len(self._before), _present_flow()
            was_nested = self._is_nested
            transaction = self._db.transaction() if outer is None else outer
            self._transaction, self._flow = transaction, flow
            self._is_nested = outer is not None
            # An interrupt comes no earlier than inside the block that follows.
            try:
                yield
                if outer is None:
                    # An interrupt may come now, as it may have come before.
                    was_counted, self._is_counted = self._is_counted, False
                    transaction.commit()
                    self._is_counted = was_counted
            except BaseException:
                if outer is not None:
                    _apply(transaction, reversed(self._before[writes:]))
                self._counts = counts
                raise
            finally:
                self._is_nested = was_nested
                if outer is None:
                    self._transaction = None
                    self._before.clear()
                    transaction.close()
                    if not self._is_counted:
                        self._count_all()

    def _check_flow(self) -> None:
        if self._flow != _present_flow():
            raise RuntimeError(
                "another asyncio task of this thread is inside transact(): await nothing in its block, "
                "or leave the whole block to asyncio.to_thread"
            )

    def _forbid_in_transaction(self, what: str) -> None:
        if self._store is not self._db:
            raise RuntimeError(f"cannot {what} inside transact(): do it before or after")

    # Removing many

    def _remove(self, keys: Iterable[bytes], is_wanted: Callable[[About], bool]) -> int:
        rest, removed = iter(keys), 0
        while batch := list(islice(rest, _BATCH)):
            with self._lock:
                found = [entry[0] for key in batch if (entry := self._stored(key)) is not None]
                wanted = list(filter(is_wanted, found))
                self._write(wanted)
            removed += len(wanted)
        return removed

    def _remove_oldest(self, limit_bytes: int, most: int = _BATCH) -> int:
        """Remove up to ``most`` of the oldest entries over the limit."""
        over_bytes = self._counts.size_bytes - limit_bytes
        if over_bytes > 0:
            over_bytes = self._present_counts().size_bytes - limit_bytes
        found: list[About] = []
        while over_bytes > 0 and len(found) < most:
            if not self._oldest:
                self._oldest.extend(islice(self._db.keys(prefix=STORED, start=self._floor), _AHEAD))
                if not self._oldest:
                    break
                self._floor = self._oldest[-1] + b"\0"
            place = self._oldest.popleft()
            entry = self._stored(place[9:])
            if entry is not None and place in entry[0].places():  # else it was written anew
                found.append(entry[0])
                over_bytes -= entry[0].size_bytes
        self._write(found)
        return len(found)

    def _remove_expired(self, moment: float) -> int:
        self._forbid_in_transaction("expire")
        with self._lock:
            before = self._counts.count
            self._count_all()
            places = self._db.items(prefix=STORED)
            expired = (place[9:] for place, data in places if due_s(data) <= moment + 1)
            self._remove(expired, lambda about: about.expires <= moment)
            return before - self._counts.count

    def _remove_all(self) -> int:
        self._forbid_in_transaction("clear")
        with self._lock:
            removed, self._is_counted = self._counts.count, False
            self._db.clear()
            self._counts = Counts()
            self._count_all()
        return removed

    # Checking and closing

    def _problems(self) -> list[str]:
        self._forbid_in_transaction("check the cache")
        counts, expected = Counts(), dict[bytes, bytes]()
        with self._lock, self._db.snapshot() as view:
            found = [str(problem) for problem in self._db.verify().problems]
            for place, data in view.items(prefix=ENTRY):
                try:
                    about, _ = read_entry(place[1:], data)
                    decoded_key(about.key)
                except ValueError as error:
                    found.append(f"the entry at {place!r} is damaged: {error}")
                    continue
                counts.add(about.expires, 1, about.size_bytes)
                expected |= about.places()
            listed = dict(view.items(prefix=STORED)) | dict(view.items(prefix=TAGGED))
            odd = {place for place, _ in expected.items() ^ listed.items()}
            found += [f"an index and the entries disagree at {place!r}" for place in sorted(odd)]
            later = self._clock() + SPAN_S  # of those that expire before, some may be gone
            if self._is_counted and self._counts.parts_after(later) != counts.parts_after(later):
                found.append(f"{self._counts} disagree with the entries: {counts}")
        return found

    def _close(self) -> None:
        self._forbid_in_transaction("close the cache")
        # Callbacks of other threads may close it, too, so the lock is free while the store is closed, and
        # not waited for without end: a writer may hold it that waits for this thread.
        if self._lock.acquire(timeout=_PATIENCE_S):
            try:
                if self._is_counted and not self._is_closing and not self._db.closed:
                    self._is_closing = True
                    with suppress(lsmkv.ClosedError):  # by another thread, meanwhile
                        self._note(self._counts.pack())
            finally:
                self._lock.release()
        self._db.close()
