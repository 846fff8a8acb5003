"""The entries of one cache: written whole, counted, found by age, expiry and tag."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import Final

import lsmkv
from lsmkv.cache.arguments import decoded_key
from lsmkv.cache.blocks import Block
from lsmkv.cache.entries import (
    COUNTS_KEY,
    ENTRY,
    EXPIRY,
    FORMAT,
    FORMAT_KEY,
    MOST,
    NEVER,
    STORED,
    TAGGED,
    About,
    Operation,
    delete_operations,
    expiry_key,
    key_of_place,
    pack_counts,
    put_operations,
    read_about,
    read_counts,
)

_BATCH: Final = 1000
_SHOWN: Final = 80
_PATIENCE_S: Final = 1.0  # for writers, when a cache is closed


class _Unwritten:
    """Marks a place that the outer transaction had not written."""


_UNWRITTEN: Final = _Unwritten()


def _present_task() -> object:
    """The asyncio task that runs in this thread, or None."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs
        return None


class Book:
    """Reads and writes the entries.  Writers hold ``lock``; readers need not.

    Attributes:
        count, size_bytes: of all entries.
        next_expiry: no entry expires before.
    """

    def __init__(self, db: lsmkv.DB) -> None:
        self._db = db
        self.lock = threading.RLock()
        self.count = 0
        self.size_bytes = 0
        self.next_expiry = 0.0
        self._last_number = 0
        self._counts_are_known = True
        self._has_ended = False
        # Keys below these are gone from their index: scans start here, past their deletions.
        self._stored_floor = STORED
        self._expiry_floor = EXPIRY
        # What the transaction of the thread that holds the lock has written so far.
        self._written: dict[bytes, bytes | None] | None = None
        self._owner = 0  # the thread whose transaction that is
        self._task: object = None  # and its asyncio task
        # What inner transactions wrote over: their places, and what the outer one had there.
        self._overwritten: list[tuple[bytes, bytes | _Unwritten | None]] | None = None
        self._open()

    def _open(self) -> None:
        db = self._db
        if db.get(FORMAT_KEY) != FORMAT:
            if db:
                raise ValueError(
                    f"{db.path} is a store, but no cache: give a cache its own directory"
                )
            if not db.read_only:
                db.put(FORMAT_KEY, FORMAT)
        counts = db.get(COUNTS_KEY)
        if counts is not None:
            try:
                self.count, self.size_bytes, self._last_number = read_counts(counts)
            except ValueError as error:
                raise self._damage(COUNTS_KEY, f"is no note of its counts: {error}") from error
        else:  # the process that wrote last did not close it
            self._count_all()
        if counts is not None and not db.read_only:
            db.delete(COUNTS_KEY)

    def _count_all(self) -> None:
        count = size_bytes = 0
        for _key, about in self._listed(STORED, STORED):
            count += 1
            size_bytes += about.size_bytes
            self._last_number = max(self._last_number, about.number)
        self._check_counts(count, size_bytes)
        self.count, self.size_bytes = count, size_bytes

    def close(self) -> None:
        """Note the counts for the next opening, and close the store.

        Other threads' callbacks may close it, too, so the lock is free meanwhile, and not waited for
        without end: a writer may hold it that waits for this thread.
        """
        self.forbid_in_transaction("close the cache")
        try:
            if self.lock.acquire(timeout=_PATIENCE_S):
                self._note_counts()
        finally:
            try:  # noqa: SIM105 - an interrupt may come in contextlib.suppress
                self.lock.release()
            except RuntimeError:  # it is not this thread's
                pass
            self._db.close()

    def _note_counts(self) -> None:
        """Write nothing more but the counts, if they are known."""
        if self._has_ended or self._db.closed:
            return
        self._has_ended = True
        if self._counts_are_known and not self._db.read_only:
            with contextlib.suppress(lsmkv.ClosedError):  # by another thread, meanwhile
                counts = pack_counts(self.count, self.size_bytes, self._last_number)
                self._db.put(COUNTS_KEY, counts)

    # Reading

    def find(self, key: bytes) -> tuple[About, bytes] | None:
        """An entry and its encoded value; expired ones, too."""
        place = ENTRY + key
        written = self._own_writes()
        is_written = written is not None and place in written
        data = written[place] if written is not None and is_written else self._db.get(place)
        if data is None:
            return None
        try:
            return read_about(data)
        except ValueError as error:
            raise self._undescribed(place, error) from error

    def keys(self, *, reverse: bool = False) -> Iterator[bytes]:
        self.forbid_in_transaction("iterate over the cache")
        for place in self._db.keys(prefix=ENTRY, reverse=reverse):
            yield place[1:]

    def _own_writes(self) -> dict[bytes, bytes | None] | None:
        """The writes of the present thread's transaction."""
        written = self._written  # before the owner: whose it is
        if written is None or self._owner != threading.get_ident():
            return None
        return written if self._task is _present_task() else None

    def _check_task(self) -> None:
        """RuntimeError for a write of another task of this thread."""
        if self._task is not _present_task():
            raise RuntimeError(
                "another asyncio task of this thread is inside transact(): await nothing in its block, "
                "or leave the whole block to asyncio.to_thread"
            )

    def _undescribed(self, place: bytes, error: ValueError) -> lsmkv.CorruptionError:
        return self._damage(place, f"describes no entry: {error}")

    def _damage(self, place: bytes, what: str) -> lsmkv.CorruptionError:
        shown = repr(place) if len(place) <= _SHOWN else f"{place[:_SHOWN]!r}..."
        return lsmkv.CorruptionError(
            self._db.path,
            None,
            f"what the cache has at {shown} {what}; "
            "clear() removes all entries, lsmkv.destroy the whole cache",
        )

    # Writing

    def put(
        self,
        key: bytes,
        old: About | None,
        value: bytes,
        expires: float,
        tag: bytes,
        number: int = 0,
    ) -> None:
        """Write an entry in place of the old one.  ``number`` 0 makes it the youngest."""
        if number == 0:
            number = self._last_number + 1
            if number > MOST:
                raise self._damage(STORED, "has the highest number that there is")
            self._last_number = number
        about = About(number, expires, len(key) + len(value), tag)
        operations = put_operations(key, about, value)
        if old is not None:
            kept = {place for place, _ in operations}
            operations += [(place, None) for place in old.places(key) if place not in kept]
        if expires < self.next_expiry:  # before it is there, because an interrupt may come
            self.next_expiry = expires
        self._expiry_floor = min(self._expiry_floor, expiry_key(expires))
        added = 0 if old is not None else 1
        self._apply(operations, added, about.size_bytes - (old.size_bytes if old else 0))

    def delete(self, found: list[tuple[bytes, About]]) -> None:
        """Remove entries, all or none."""
        operations = [operation for entry in found for operation in delete_operations(*entry)]
        self._apply(operations, -len(found), -sum(about.size_bytes for _, about in found))

    def _apply(self, operations: list[Operation], added: int, added_bytes: int) -> None:
        if not operations:
            return
        written = self._written
        if written is None:
            self._settle_counts()
        else:
            self._check_task()
        known = self._counts_are_known
        if known:
            self._check_counts(self.count + added, self.size_bytes + added_bytes)
        self._counts_are_known = False  # an interrupt may come
        if written is not None:
            if self._overwritten is not None:
                self._overwritten += [
                    (place, written.get(place, _UNWRITTEN)) for place, _ in operations
                ]
            written.update(operations)
        else:
            self._commit(operations)
        self.count += added
        self.size_bytes += added_bytes
        self._counts_are_known = known

    def _settle_counts(self) -> None:
        """Count all again after a write that was interrupted."""
        if not self._counts_are_known and not self._db.read_only:
            self._count_all()
            self._counts_are_known = True

    def _check_counts(self, count: int, size_bytes: int) -> None:
        """Entries and indexes that do not fit add up to such counts."""
        if not (0 <= count <= MOST and 0 <= size_bytes <= MOST):
            raise lsmkv.CorruptionError(
                self._db.path,
                None,
                f"the cache would have {count} entries of {size_bytes} bytes together, because its "
                "entries, indexes and counts disagree: check() lists where; clear() removes all "
                "entries, lsmkv.destroy the whole cache",
            )

    def _commit(self, operations: list[Operation]) -> None:
        if self._has_ended:
            raise lsmkv.ClosedError(f"{self._db.path} is closed, or is being closed")
        with self._db.write_batch() as batch:
            for place, data in operations:
                if data is None:
                    batch.delete(place)
                else:
                    batch.put(place, data)

    def transaction(self) -> Block:
        """Apply all writes in the block together, or none of them."""
        return Block(self._transaction())

    def _transaction(self) -> Generator[None]:
        with self.lock:
            if self._written is not None:
                self._check_task()
                yield from self._inner_transaction(self._written)
                return
            self._settle_counts()
            before = self.count, self.size_bytes
            self._owner, self._task = threading.get_ident(), _present_task()
            self._written = {}
            try:
                yield
                written, self._written = self._written, None
                self._commit(list(written.items()))
            except BaseException:
                if self._written is None:  # an interrupt in the commit: it may have taken place
                    self._counts_are_known = False
                    self._settle_counts()
                else:
                    self.count, self.size_bytes = before
                raise
            finally:
                self._written = self._task = None

    def _inner_transaction(self, written: dict[bytes, bytes | None]) -> Generator[None]:
        """Take back what the block wrote, if it raises."""
        before = self.count, self.size_bytes
        known = self._counts_are_known
        outer = self._overwritten
        start = 0 if outer is None else len(outer)
        overwritten = self._overwritten = [] if outer is None else outer
        try:
            yield
        except BaseException:
            for place, data in reversed(overwritten[start:]):
                if isinstance(data, _Unwritten):
                    written.pop(place, None)
                else:
                    written[place] = data
            del overwritten[start:]
            self.count, self.size_bytes = before
            self._counts_are_known = known
            raise
        finally:
            self._overwritten = outer

    @property
    def is_in_transaction(self) -> bool:
        """Whether the thread that holds the lock has a transaction."""
        return self._written is not None

    def forbid_in_transaction(self, what: str) -> None:
        if self._own_writes() is not None:
            raise RuntimeError(f"cannot {what} inside transact(): do it before or after")

    # Indexes

    def _listed(
        self, prefix: bytes, start: bytes, stop: bytes | None = None
    ) -> Iterator[tuple[bytes, About]]:
        for place, data in self._db.items(start=start, stop=stop, prefix=prefix):
            try:
                about, rest = read_about(data)
            except ValueError as error:
                raise self._undescribed(place, error) from error
            key = key_of_place(place, about)
            if rest or place not in about.places(key):  # removing the entry would leave it there
                raise self._damage(place, "describes an entry of another place")
            yield key, about

    def delete_expired(self, now: float, most: int = _BATCH) -> int:
        """Remove up to ``most`` entries that are expired; returns how many."""
        found = list(islice(self._listed(EXPIRY, self._expiry_floor), most + 1))
        expired = [(key, about) for key, about in found[:most] if about.is_expired(now)]
        self.delete(expired)
        following = found[len(expired) :]
        self.next_expiry = following[0][1].expires if following else NEVER
        self._expiry_floor = expiry_key(self.next_expiry)
        return len(expired)

    def delete_oldest(self, most: int = _BATCH, until_bytes: int = -1) -> int:
        """Remove up to ``most`` of the oldest entries; returns how many.

        It stops once all entries together have no more than ``until_bytes``.
        """
        found: list[tuple[bytes, About]] = []
        size_bytes = self.size_bytes
        for entry in islice(self._listed(STORED, self._stored_floor), most):
            if size_bytes <= until_bytes:
                break
            found.append(entry)
            size_bytes -= entry[1].size_bytes
        self.delete(found)
        if found:
            key, about = found[-1]
            self._stored_floor = next(about.places(key))
        return len(found)

    def remover_of_tagged(self, tag: bytes) -> Callable[[], int]:
        """A function that removes the next 1,000 entries with ``tag``; returns how many."""
        place = floor = TAGGED + tag

        def remove() -> int:
            nonlocal floor
            # A tag that goes on after a NUL has 255 there, which no entry's number begins with.
            found = list(islice(self._listed(place, floor, place + b"\xff"), _BATCH))
            self.delete(found)
            if found:
                floor = place + found[-1][0]  # past the deletions
            return len(found)

        return remove

    def delete_rest(self) -> int:
        """Remove what indexes did not lead to; returns how many entries."""
        self._counts_are_known = False
        count = 0
        is_damaged = False
        for prefix in (STORED, EXPIRY, TAGGED, ENTRY):
            places = iter(self._db.keys(prefix=prefix))
            while found := list(islice(places, _BATCH)):
                is_damaged = True
                self._commit([(place, None) for place in found])
                count += len(found) if prefix == ENTRY else 0
        self.count = self.size_bytes = 0
        if is_damaged or self._last_number == MOST:  # numbers and expiries may come from damage
            self._last_number, self.next_expiry = 0, 0.0
            self._stored_floor, self._expiry_floor = STORED, EXPIRY
        self._counts_are_known = True
        return count

    # Checking

    def problems(self) -> list[str]:
        """Where indexes, counts and entries disagree."""
        found = []
        count = size_bytes = 0
        expected: dict[bytes, bytes] = {}
        for place, data in self._db.items(prefix=ENTRY):
            key = place[len(ENTRY) :]
            try:
                about, value = read_about(data)
                decoded_key(key)
            except ValueError as error:
                found.append(f"the entry at {place!r} is damaged: {error}")
                continue
            count += 1
            size_bytes += about.size_bytes
            if about.size_bytes != len(key) + len(value):
                found.append(f"the entry at {place!r} has not the size {about.size_bytes}")
            expected.update((place, about.pack()) for place in about.places(key))
        listed = {
            place: data
            for index in (STORED, EXPIRY, TAGGED)
            for place, data in self._db.items(prefix=index)
        }
        found += [f"an index lacks {place!r}" for place in sorted(expected.keys() - listed.keys())]
        found += [
            f"an index has {place!r}, which is no entry"
            for place in sorted(listed.keys() - expected.keys())
        ]
        found += [
            f"an index has {place!r} with other details than its entry"
            for place in sorted(expected.keys() & listed.keys())
            if expected[place] != listed[place]
        ]
        if (count, size_bytes) != (self.count, self.size_bytes):
            found.append(
                f"count and size are {(self.count, self.size_bytes)}, not {(count, size_bytes)}"
            )
        return found
