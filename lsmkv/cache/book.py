"""The entries of one cache: written whole, counted, found by age, expiry and tag."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

import lsmkv
from lsmkv.cache.entries import (
    COUNTS,
    COUNTS_KEY,
    ENTRY,
    EXPIRY,
    FORMAT,
    FORMAT_KEY,
    NEVER,
    STORED,
    TAGGED,
    About,
    Operation,
    delete_operations,
    expiry_key,
    key_of_place,
    put_operations,
    read_about,
)

_BATCH: Final = 1000


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
        # Keys below these are gone from their index: scans start here, past their deletions.
        self._stored_floor = STORED
        self._expiry_floor = EXPIRY
        # What the transaction of the thread that holds the lock has written so far.
        self._written: dict[bytes, bytes | None] | None = None
        self._owner = 0  # the thread whose transaction that is
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
            self.count, self.size_bytes, self._last_number = COUNTS.unpack(counts)
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
        self.count, self.size_bytes = count, size_bytes

    def close(self) -> None:
        """Note the counts for the next opening, and close the store."""
        self.forbid_in_transaction("close the cache")
        with self.lock:
            try:
                if not self._db.closed and not self._db.read_only and self._counts_are_known:
                    self._db.put(
                        COUNTS_KEY, COUNTS.pack(self.count, self.size_bytes, self._last_number)
                    )
            finally:
                self._db.close()

    # Reading

    def find(self, key: bytes) -> tuple[About, bytes] | None:
        """An entry and its encoded value; expired ones, too."""
        place = ENTRY + key
        written = self._own_writes()
        is_written = written is not None and place in written
        data = written[place] if written is not None and is_written else self._db.get(place)
        return None if data is None else read_about(data)

    def keys(self, *, reverse: bool = False) -> Iterator[bytes]:
        self.forbid_in_transaction("iterate over the cache")
        for place in self._db.keys(prefix=ENTRY, reverse=reverse):
            yield place[1:]

    def _own_writes(self) -> dict[bytes, bytes | None] | None:
        """The writes of the present thread's transaction."""
        written = self._written  # before the owner: whose it is
        return written if self._owner == threading.get_ident() else None

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
            self._last_number += 1
            number = self._last_number
        about = About(number, expires, len(key) + len(value), tag)
        operations = put_operations(key, about, value)
        if old is not None:
            kept = {place for place, _ in operations}
            operations += [(place, None) for place in old.places(key) if place not in kept]
        added = 0 if old is not None else 1
        self._apply(operations, added, about.size_bytes - (old.size_bytes if old else 0))
        if expires < self.next_expiry:
            self.next_expiry = expires
        self._expiry_floor = min(self._expiry_floor, expiry_key(expires))

    def delete(self, found: list[tuple[bytes, About]]) -> None:
        """Remove entries, all or none."""
        operations = [operation for entry in found for operation in delete_operations(*entry)]
        self._apply(operations, -len(found), -sum(about.size_bytes for _, about in found))

    def _apply(self, operations: list[Operation], added: int, added_bytes: int) -> None:
        if not operations:
            return
        known, self._counts_are_known = self._counts_are_known, False  # an interrupt may come
        if self._written is not None:
            self._written.update(operations)
        else:
            self._commit(operations)
        self.count += added
        self.size_bytes += added_bytes
        self._counts_are_known = known

    def _commit(self, operations: list[Operation]) -> None:
        with self._db.write_batch() as batch:
            for place, data in operations:
                if data is None:
                    batch.delete(place)
                else:
                    batch.put(place, data)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Apply all writes in the block together, or none of them."""
        with self.lock:
            if self._written is not None:  # inside another, which ends later
                yield
                return
            before = self.count, self.size_bytes
            self._owner, self._written = threading.get_ident(), {}
            try:
                yield
                written, self._written = self._written, None
                self._commit(list(written.items()))
            except BaseException:
                if self._written is None:  # an interrupt in the commit: it may have taken place
                    self._counts_are_known = False
                    self._count_all()
                    self._counts_are_known = True
                else:
                    self.count, self.size_bytes = before
                raise
            finally:
                self._written = None

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
            about, _ = read_about(data)
            yield key_of_place(place, about), about

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

    def delete_tagged(self, tag: bytes) -> int:
        """Remove up to 1,000 entries with ``tag``; returns how many."""
        place = TAGGED + tag
        # A tag that goes on after a NUL has 255 there, which no entry's number begins with.
        found = list(islice(self._listed(place, place, place + b"\xff"), _BATCH))
        self.delete(found)
        return len(found)

    # Checking

    def problems(self) -> list[str]:
        """Where indexes, counts and entries disagree."""
        found = []
        entries = {place[1:]: read_about(data)[0] for place, data in self._db.items(prefix=ENTRY)}
        expected = {place for key, about in entries.items() for place in about.places(key)}
        listed = {
            place for index in (STORED, EXPIRY, TAGGED) for place in self._db.keys(prefix=index)
        }
        found += [f"an index lacks {place!r}" for place in sorted(expected - listed)]
        found += [
            f"an index has {place!r}, which is no entry" for place in sorted(listed - expected)
        ]
        sizes = len(entries), sum(about.size_bytes for about in entries.values())
        if sizes != (self.count, self.size_bytes):
            found.append(f"count and size are {(self.count, self.size_bytes)}, not {sizes}")
        return found
