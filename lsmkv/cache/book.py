"""The entries of a cache as its store has them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from typing import Any, Final
from weakref import ref

import lsmkv
from lsmkv.cache import entries as at
from lsmkv.cache.entries import Entry, Sizes

_BATCH: Final = 1000
_SLACK: Final = 64  # this part of the limit becomes free at once, so that evicting rests


class Book:
    """The base of a cache: entries as bytes, and many at once."""

    def __init__(self, db: lsmkv.DB, clock: Callable[[], float]) -> None:
        self.db, self.directory = db, db.path  # for statistics: write nothing to the store
        self._clock = clock
        self._lock = threading.RLock()  # writers hold it
        # None: to be read from the store.  So it is while a write goes on: an interrupt may end it.
        self._sizes: Sizes | None = None
        self._transaction: lsmkv.Transaction | None = None
        self._thread, self._task = 0, object()  # whose transaction it is
        self._fronts: dict[bytes, bytes] = {}  # of queues: there is no key below
        if not db and not db.read_only:
            db[at.FORMAT_KEY] = at.FORMAT
        if db and db.get(at.FORMAT_KEY) != at.FORMAT:
            db.close()
            raise ValueError(f"{db.path} is a store, but no cache: give a cache its own directory")

    @property
    def _store(self) -> lsmkv.DB | lsmkv.Transaction:
        """What the present thread reads: the store, or its own transaction."""
        found = self._transaction  # before the thread: whose it is
        return self.db if found is None or self._thread != threading.get_ident() else found

    def _find(self, packed: bytes) -> tuple[Entry, bytes] | None:
        """An entry that is not expired, and its value."""
        found = self._stored(packed)
        return None if found is None or found[0].expires <= self._clock() else found

    def _stored(self, packed: bytes) -> tuple[Entry, bytes] | None:
        data = self._store.get(at.ENTRY + packed)
        return None if data is None else self._entry(packed, at.ENTRY + packed, data)

    def _entry(self, packed: bytes, place: bytes, data: bytes) -> tuple[Entry, bytes]:
        try:
            return at.read_entry(packed, data)
        except ValueError as error:
            raise self._damage(place, error) from error

    def _damage(self, place: bytes, error: object) -> lsmkv.CorruptionError:
        told = f"what the cache has at {place[:80]!r} is none of its own: {error}; "
        told += "clear() removes all entries, lsmkv.destroy the whole cache"
        return lsmkv.CorruptionError(self.directory, None, told)

    def _entries(self, start: bytes, stop: bytes, reverse: bool) -> Iterator[tuple[Entry, bytes]]:
        store, start, stop = self._store, at.ENTRY + start, at.ENTRY + stop
        for place, data in store.items(start=start, stop=stop, reverse=reverse):
            yield self._entry(place[1:], place, data)

    def _listed(self, prefix: bytes, start: bytes) -> Iterator[tuple[bytes, Entry]]:
        """The places and entries of a list, from a place on."""
        key_at = len(prefix) if prefix != at.STORED else 9
        # A tag that goes on after a NUL has 255 there, which neither key nor number begins with.
        for place, data in self._store.items(start=start, stop=prefix + b"\xff"):
            entry, _ = self._entry(place[key_at:], place, data)
            if place not in entry.places():
                raise self._damage(place, "it is not the entry's")
            yield place, entry

    def _stored_sizes(self) -> Iterator[tuple[int, int]]:
        for place, data in self._store.items(prefix=at.SIZE):
            if len(place) != 9 or len(data) != 8 or data[0]:
                raise self._damage(place, f"{data[:8]!r} is no size")
            yield int.from_bytes(place[1:]), int.from_bytes(data)

    def _read_sizes(self) -> Sizes:
        """The sizes in memory, which are read first if need be."""
        if self._sizes is None:
            if self._transaction is not None:
                raise RuntimeError("a write inside transact() failed: leave the block")
            last = next(iter(self.db.keys(prefix=at.STORED, reverse=True)), b"")
            if last[1:2] > b"\0":
                raise self._damage(last, "its number cannot be")
            self._sizes = Sizes(dict(self._stored_sizes()), int.from_bytes(last[1:9]))
        return self._sizes

    def _write(self, gone: Iterable[Entry], new: Entry | None = None, value: bytes = b"") -> None:
        """Remove entries and add one, all or none."""
        places: dict[bytes, bytes | None] = {}
        changes: dict[int, int] = {}
        due_s = None
        for entry in gone:
            places.update(dict.fromkeys(entry.places()))
            span_s = entry.span_s()
            changes[span_s] = changes.get(span_s, 0) - entry.size_bytes
        if new is not None:
            due_s, span_s, head = new.due_s(), new.span_s(), new.head()
            places.update(dict.fromkeys(new.places(), head))
            places[at.ENTRY + new.key] = head + value
            changes[span_s] = changes.get(span_s, 0) + new.size_bytes
        if not places:
            return
        sizes, target = self._read_sizes(), self._target()
        self._sizes = None
        for place, data in places.items():
            if data is None:
                target.delete(place)
            else:
                target.put(place, data, expires_at=due_s)
        for change in changes.items():
            place, data, until_s = sizes.add(*change)
            target.put(place, data, expires_at=until_s)
        if self._transaction is None:
            target.commit()
        self._sizes = sizes

    def _target(self) -> lsmkv.WriteBatch | lsmkv.Transaction:
        """A new batch, or the transaction of the block."""
        if self._transaction is None:
            return self.db.write_batch()
        if self._task is not _present_task():
            told = "another asyncio task of this thread is inside transact(): await nothing in its block,"
            raise RuntimeError(f"{told} or leave the whole block to asyncio.to_thread")
        return self._transaction

    def transact(self, retry: bool = False) -> AbstractContextManager[None]:
        """Apply all writes of the ``with`` block, or none.

        If the block raises, nothing changes.  A block inside another is a part of it, also
        when the outer one catches its exception.  Other threads wait
        with their writes.  ``await`` nothing in the block: other tasks' writes raise RuntimeError.
        """
        return _Block(self._steps())

    def _steps(self) -> Generator[None]:
        with self._lock:
            if self._transaction is not None:
                self._target()
                yield
                return
            self._read_sizes()
            transaction = self.db.transaction()
            self._thread, self._task = threading.get_ident(), _present_task()
            self._transaction = transaction
            try:  # an interrupt comes no earlier than here
                yield
                sizes, self._sizes = self._read_sizes(), None
                transaction.commit()
                self._sizes = sizes
            except BaseException:
                self._sizes = None
                self._fronts.clear()
                raise
            finally:
                self._transaction = self._task = None
                transaction.close()

    def _remove(self, prefix: bytes, is_wanted: Callable[[Entry], bool]) -> int:
        """Remove entries of a list; returns how many."""
        start, removed = prefix, 0
        while True:
            with self._lock:
                listed = list(islice(self._listed(prefix, start), _BATCH))
                wanted = [entry for _, entry in listed if is_wanted(entry)]
                self._write(wanted)
            removed += len(wanted)
            if len(listed) < _BATCH:
                return removed
            start = listed[-1][0] + b"\0"

    def _remove_oldest(self, limit_bytes: float, most: int = _BATCH) -> int:
        """Remove up to ``most`` of the oldest entries over the limit; returns how many."""
        sizes = self._read_sizes()
        over_bytes = sizes.total_at(self._clock()) - limit_bytes
        if over_bytes <= 0:
            return 0
        over_bytes += limit_bytes // _SLACK
        found, oldest = list[Entry](), sizes.oldest
        for place, entry in islice(self._listed(at.STORED, oldest), most):
            if over_bytes <= 0:
                break
            found.append(entry)
            over_bytes -= entry.size_bytes
            oldest = place + b"\0"
        self._write(found)
        sizes.oldest = oldest
        return len(found)

    def expire(self, now: float | None = None, retry: bool = False) -> int:
        """Remove what is expired, now or then; returns how many there still were."""
        moment = self._clock() if now is None else at.expiry_time(now, 0.0)
        return self._remove(at.STORED, lambda entry: entry.expires <= moment)

    def evict(self, tag: Any, retry: bool = False) -> int:
        """Remove all entries with ``tag``; returns how many.  O(their number)."""
        if tag is None:
            raise ValueError("tag=None: entries without a tag are removed by their keys")
        return self._remove(at.TAGGED + at.packed_key(tag), lambda _: True)

    def clear(self, retry: bool = False) -> int:
        """Remove all entries, damaged ones, too; returns how many there were.  O(entries)."""
        with self._lock:
            removed = len(self)
            target, self._sizes = self._target(), None
            target.delete_range(b"")
            target.put(at.FORMAT_KEY, at.FORMAT)
            if self._transaction is None:
                target.commit()
            self._sizes = Sizes({}, 0)
        return removed

    def __len__(self) -> int:
        """The number of keys that ``iter`` shows.  O(n): counts them."""
        return len(self._store.keys(prefix=at.ENTRY))

    def __bool__(self) -> bool:
        return any(True for _ in self._store.keys(prefix=at.ENTRY))

    def __reversed__(self) -> Iterator[Any]:
        return self.iterkeys(reverse=True)

    def iterkeys(self, reverse: bool = False, *, prefix: Any = None) -> Iterator[Any]:
        """The keys in order.  Some may have expired within the last second.

        ``prefix``: only str or bytes that start with it, or tuples whose first elements it has.
        """
        if not isinstance(prefix, (str, bytes, tuple, type(None))):
            raise TypeError(f"prefix={prefix!r}: give what keys start with, as str, bytes or tuple")
        start = (
            b"" if prefix is None else at.packed_key(prefix)[:-1]
        )  # without the byte that ends it
        places = self._store.keys(prefix=at.ENTRY + start, reverse=reverse)
        return (at.decoded_key(place[1:]) for place in places)

    __iter__ = iterkeys

    def volume(self) -> int:
        """About the bytes of all entries: uncompressed, expired ones for up to a minute more."""
        return sum(size for _, size in self._stored_sizes())

    def check(self, retry: bool = False) -> list[str]:
        """Read all files of the cache, and list what is damaged."""
        return [str(problem) for problem in self.db.verify().problems]

    def close(self) -> None:
        """Sync all writes and close the cache, as :meth:`DB.close` does."""
        self.db.close()

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<lsmkv.cache.Cache at {self.directory!r}{', closed' if self.db.closed else ''}>"


def _present_task() -> object:
    """The asyncio task that runs, or None."""
    asyncio = sys.modules.get("asyncio")
    try:
        return None if asyncio is None else asyncio.current_task()
    except RuntimeError:  # no loop runs
        return None


def _leave(steps: ref[Generator[None]], kind: object, _error: object, _trace: object) -> None:
    # An interrupt comes before ``steps`` is called, or once the generator runs.
    generator = steps()
    assert generator is not None  # the caller has it
    if kind is None:
        next(generator, None)
    else:
        generator.close()


class _Taken:
    """A special method that each block gives away once."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, block: _Block | None, owner: type) -> Any:
        if block is None:  # contextlib.ExitStack asks the class
            return lambda block, *arguments: self.__get__(block, owner)(*arguments)
        if self._name not in block.methods:
            raise RuntimeError("this block was entered already: make another for each 'with'")
        return block.methods.pop(self._name)


class _Block:
    """A ``with`` block around a generator's ``yield``: no interrupt skips its end.

    With ``contextlib.contextmanager`` an interrupt (Ctrl-C) may come before contextlib's code goes on:
    what keeps the traceback then keeps the generator, and its lock.  Here only the ``with`` statement
    refers to the generator: if it ends early, the generator's ``finally`` runs.
    """

    __enter__ = _Taken()
    __exit__ = _Taken()

    def __init__(self, steps: Generator[None]) -> None:
        leave: Any = partial(_leave, ref(steps))
        leave.steps = steps  # the frame of a call of it has only the weak reference
        # ``__next__`` is C code: no interrupt comes between the generator's ``yield`` and the block.
        self.methods: dict[str, Any] = {"__enter__": steps.__next__, "__exit__": leave}
