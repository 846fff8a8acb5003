"""The cache."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, Literal, Self, SupportsIndex, TypeVar, Unpack

import lsmkv
from lsmkv.cache.arguments import (
    EvictionPolicy,
    Limit,
    added,
    check_settings,
    checked_number,
    decoded_key,
    expiry_time,
    packed_key,
    packed_prefix,
    packed_tag,
)
from lsmkv.cache.blocks import Block
from lsmkv.cache.book import Book
from lsmkv.cache.entries import (
    ENTRY,
    NEVER,
    TAGGED,
    About,
    Entry,
)
from lsmkv.cache.memoize import memoized
from lsmkv.cache.values import PlainValue
from lsmkv.errors import uncopyable
from lsmkv.typed import Codec, DecodeError

F = TypeVar("F", bound=Callable[..., Any])

_PLAIN: Final = PlainValue()
_NOTHING: Final = object()
_FIRST_IN_QUEUE: Final = 500_000_000_000_000  # diskcache's


def _now() -> float:
    return time.time()  # looked up anew: tests of programs replace it


class Cache(Book):
    """A cache on disk for one process that writes.

    Its threads share it.  Others read it with ``read_only=True``, as it was when they opened it.

    Args:
        path: a directory of its own, which is created.
        size_limit_bytes: evict entries while keys and values have more bytes than this.
        cull_limit: the most entries that one write evicts; 0 leaves that to :meth:`cull`.
        eviction_policy: ``"least-recently-stored"`` evicts what was stored first; reading an entry
            writes nothing.  ``"none"`` evicts nothing.
        statistics: count hits and misses from the start (see :meth:`stats`).
        value: a codec of :mod:`lsmkv.typed` for all values, instead of :class:`PlainValue`.
        read_only: write nothing, beside the process that writes.
        clock: tells the time, in seconds since the epoch; for tests.
        wait_s, on_event, options, **overrides: those of :func:`lsmkv.open`.

    Keys are str, bytes, int, float, bool, None, UUID and tuples of these.  1, 1.0 and True are three
    keys.  Methods take the ``retry`` of diskcache, and do nothing with it: nothing here times out.

    Raises:
        CorruptionError: it is damaged; ``lsmkv.destroy`` removes it.
        LockedError: another process has the cache open for writing.
        ValueError: ``path`` holds a store that is no cache.
        TypeError, ValueError: an argument is wrong; nothing was changed.

    Methods raise TypeError or ValueError for what is no key or value, ClosedError once the cache is
    closed, DecodeError for a stored key or value that does not decode, and CorruptionError for damage of
    files or entries: :meth:`check` lists it, :meth:`clear` removes all entries.
    """

    size_limit_bytes = Limit()
    cull_limit = Limit()

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        size_limit_bytes: int = 1 << 30,
        cull_limit: int = 10,
        eviction_policy: EvictionPolicy = "least-recently-stored",
        statistics: bool = False,
        value: Codec[Any] = _PLAIN,
        read_only: bool = False,
        clock: Callable[[], float] = _now,
        wait_s: float = 0.0,
        on_event: Callable[[lsmkv.Event], object] | None = None,
        options: lsmkv.Options | None = None,
        **overrides: Unpack[lsmkv.OptionsDict],
    ) -> None:
        check_settings(eviction_policy, value, options, overrides)
        self.size_limit_bytes = size_limit_bytes
        self.cull_limit = cull_limit
        self._evicts = eviction_policy != "none"
        self._codec = value
        self._counts_hits = bool(statistics)
        self._hits = self._misses = 0
        db = lsmkv.open(
            path,
            options,
            read_only=read_only,
            wait_s=wait_s,
            on_event=on_event,
            clock=clock,
            **overrides,
        )
        self._fronts: dict[bytes, bytes] = {}  # of queues: there is no key below
        super().__init__(db, clock)

    # Reading

    def _decoded(self, key: Any, data: bytes) -> Any:
        try:
            return self._codec.decode(data)
        except Exception as error:  # a codec of a program's own may raise any
            raise DecodeError("value of key", key, self._codec, error, data) from error

    def get(
        self,
        key: Any,
        default: Any = None,
        read: bool = False,
        expire_time: bool = False,
        tag: bool = False,
        retry: bool = False,
    ) -> Any:
        """The value of ``key``, or ``default``.

        An expired entry is not there.

        Args:
            read: return bytes as an open ``io.BytesIO`` instead.
            expire_time, tag: return a tuple of the value and what is asked for: seconds since the epoch
                (None for never), and the tag.
        """
        found = self._find(packed_key(key))
        if self._counts_hits:
            self._misses += found is None
            self._hits += found is not None
        if found is None:
            return _with_details(default, None, expire_time, tag)
        value = self._decoded(key, found[1])
        if read and isinstance(value, bytes):
            value = io.BytesIO(value)
        return _with_details(value, found[0], expire_time, tag)

    def __getitem__(self, key: Any) -> Any:
        found = self.get(key, _NOTHING)
        if found is _NOTHING:
            raise KeyError(key)
        return found

    def read(self, key: Any, retry: bool = False) -> Any:
        """The bytes at ``key`` as an open file; KeyError without it."""
        found = self.get(key, _NOTHING, read=True)
        if found is _NOTHING:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return self._find(packed_key(key)) is not None

    def __len__(self) -> int:
        """The number of entries; expired ones may count for 16 more seconds.  O(1)."""
        return self._present_counts().count

    def __bool__(self) -> bool:
        """Whether there is any entry."""
        return len(self) > 0

    def __iter__(self) -> Iterator[Any]:
        """The keys in order.  Some may have expired within the last second."""
        return self.iterkeys()

    def __reversed__(self) -> Iterator[Any]:
        return self.iterkeys(reverse=True)

    def iterkeys(self, reverse: bool = False, *, prefix: Any = None) -> Iterator[Any]:
        """The keys in order, as ``iter`` has them.

        ``prefix``: only str or bytes that start with it, or tuples whose first elements it has.
        """
        start = ENTRY if prefix is None else ENTRY + packed_prefix(prefix)
        return (decoded_key(place[1:]) for place in self._store.keys(prefix=start, reverse=reverse))

    # Writing

    def set(
        self,
        key: Any,
        value: Any,
        expire: float | None = None,
        read: bool = False,
        tag: Any = None,
        retry: bool = False,
    ) -> Literal[True]:
        """Set ``key`` to ``value``.

        Args:
            expire: seconds from now until it expires; None for never.
            read: ``value`` is an open binary file; store what ``value.read()`` returns.
            tag: what :meth:`evict` removes it by; any key may be a tag.
        """
        packed, data = packed_key(key), self._codec.encode(value.read() if read else value)
        expires, tagged = expiry_time(expire, self._clock()), packed_tag(tag, len(packed))
        with self._lock:
            self._put(packed, self._stored(packed), data, expires, tagged)
        return True

    def __setitem__(self, key: Any, value: Any) -> None:
        self.set(key, value)

    def add(
        self,
        key: Any,
        value: Any,
        expire: float | None = None,
        read: bool = False,
        tag: Any = None,
        retry: bool = False,
    ) -> bool:
        """Set ``key`` if it is not there, and tell whether.  Of several threads, one does."""
        with self._lock:
            return self._find(packed_key(key)) is None and self.set(key, value, expire, read, tag)

    def incr(
        self, key: Any, delta: float = 1, default: float | None = 0, retry: bool = False
    ) -> Any:
        """Add ``delta`` to the number at ``key``, and return the sum.

        No other write comes in between.  A missing key counts as ``default``; KeyError if that is
        None.  TypeError: the value is no number.  ValueError: the sum is too large.  The expiry stays.
        """
        packed = packed_key(key)
        with self._lock:
            found = self._find(packed)
            if found is None:
                if default is None:
                    raise KeyError(key)
                total = added(default, delta, key)
                self.set(key, total)
                return total
            total = added(self._decoded(key, found[1]), delta, key)
            self._renew(found, self._codec.encode(total), found[0].expires)
        return total

    def decr(
        self, key: Any, delta: float = 1, default: float | None = 0, retry: bool = False
    ) -> Any:
        """Subtract ``delta`` from the number at ``key``, as :meth:`incr`."""
        return self.incr(key, -delta, default)

    def touch(self, key: Any, expire: float | None = None, retry: bool = False) -> bool:
        """Let ``key`` expire in ``expire`` seconds, or never.  Tells whether it is there."""
        packed, expires = packed_key(key), expiry_time(expire, self._clock())
        with self._lock:
            found = self._find(packed)
            if found is not None:
                self._renew(found, found[1], expires)
        return found is not None

    def pop(
        self,
        key: Any,
        default: Any = None,
        expire_time: bool = False,
        tag: bool = False,
        retry: bool = False,
    ) -> Any:
        """Remove ``key`` and return its value, in one step.  Arguments as :meth:`get`."""
        with self._lock:
            found = self._find(packed_key(key))
            if found is None:
                return _with_details(default, None, expire_time, tag)
            value = self._decoded(key, found[1])  # first: an entry that does not decode stays
            self._write([found[0]])
        return _with_details(value, found[0], expire_time, tag)

    def delete(self, key: Any, retry: bool = False) -> bool:
        """Remove ``key``; tell whether it was there."""
        with self._lock:
            found = self._find(packed_key(key))
            if found is not None:
                self._write([found[0]])
        return found is not None

    def __delitem__(self, key: Any) -> None:
        if not self.delete(key):
            raise KeyError(key)

    def _put(
        self, packed: bytes, old: Entry | None, data: bytes, expires: float, tag: bytes
    ) -> None:
        """Store an entry as the youngest; evict the oldest over the limit."""
        number = self._counts.last_number + 1
        about = About(packed, expires, number, tag, len(packed) + len(data))
        if self._fronts:
            self._fronts.pop(_queue_of(packed), None)
        self._write([] if old is None else [old[0]], (about, data))
        self._counts.last_number = number
        if self._evicts and self._transaction is None:
            self._remove_oldest(self.size_limit_bytes, self.cull_limit)

    def _renew(self, old: Entry, data: bytes, expires: float) -> None:
        """Change an entry that keeps its age."""
        key, _, number, tag, _ = old[0]
        self._write([old[0]], (About(key, expires, number, tag, len(key) + len(data)), data))

    def transact(self, retry: bool = False) -> AbstractContextManager[None]:
        """Apply all writes of the ``with`` block, or none.

        If the block raises, nothing changes.  One inside another is part of it: if the inner block raises
        and the outer goes on, only the writes of the inner are gone.  Other threads wait with their
        writes, and see those of the block at its end.  ``expire``, ``cull``, ``clear``, ``check`` and
        ``close`` are for before and after (RuntimeError).  ``await`` nothing in the block: other asyncio
        tasks of the thread cannot wait, and their writes raise RuntimeError.
        """
        return Block(self._transaction_block())

    # Queues

    def push(
        self,
        value: Any,
        prefix: str | None = None,
        side: Literal["back", "front"] = "back",
        expire: float | None = None,
        read: bool = False,
        tag: Any = None,
        retry: bool = False,
    ) -> Any:
        """Put ``value`` at a side of a queue; returns its key.

        Keys are numbers from 500 trillion on; ``f"{prefix}-{number}"`` in a queue with a name.
        """
        with self._lock:
            number = _FIRST_IN_QUEUE
            for about, _ in self._queued(prefix, side):
                last = decoded_key(about.key)
                number = int(last if prefix is None else last.removeprefix(f"{prefix}-"))
                number += 1 if side == "back" else -1
                break
            key = number if prefix is None else f"{prefix}-{number:015}"
            packed = packed_key(key)
            front = self._fronts.get(_queue_of(packed), b"\xff")
            self.set(key, value, expire, read, tag)
            if front < packed:
                self._fronts[_queue_of(packed)] = front
        return key

    def pull(
        self,
        prefix: str | None = None,
        default: Any = (None, None),
        side: Literal["back", "front"] = "front",
        expire_time: bool = False,
        tag: bool = False,
        retry: bool = False,
    ) -> Any:
        """Remove what is at a side; returns its key and value.

        ``default``: for a queue that is empty.  Other arguments as :meth:`push` and :meth:`get`.
        """
        with self._lock:
            item, about = self._first(self._queued(prefix, side), remove=True) or (default, None)
            if about is not None and side == "front" and self._transaction is None:
                self._fronts[_queue_of(about.key)] = about.key  # past the deletions
        return _with_details(item, about, expire_time, tag)

    def peek(
        self,
        prefix: str | None = None,
        default: Any = (None, None),
        side: Literal["back", "front"] = "front",
        expire_time: bool = False,
        tag: bool = False,
        retry: bool = False,
    ) -> Any:
        """The key and value that :meth:`pull` would return."""
        item, about = self._first(self._queued(prefix, side)) or (default, None)
        return _with_details(item, about, expire_time, tag)

    def peekitem(
        self, last: bool = True, expire_time: bool = False, tag: bool = False, retry: bool = False
    ) -> Any:
        """The last key, or the first one, with its value.  KeyError: there is none."""
        found = self._first(self._entries(reverse=last))
        if found is None:
            raise KeyError("the cache is empty")
        return _with_details(*found, expire_time, tag)

    def _queued(self, prefix: str | None, side: str) -> Iterator[Entry]:
        if side not in ("back", "front"):
            raise ValueError(f"side={side!r}: choose 'back' or 'front'")
        if prefix is None:
            first, last = packed_key(1 << 48), packed_key(10**15 - 1)
        else:
            first, last = packed_key(f"{prefix}-{0:015}"), packed_key(f"{prefix}-{10**15 - 1}")
        front = self._fronts.get(_queue_of(first), first)
        return self._entries(front, last, reverse=side == "back")

    def _first(
        self, entries: Iterator[Entry], *, remove: bool = False
    ) -> tuple[tuple[Any, Any], About] | None:
        """The first item that is not expired.  Expired ones before it go."""
        found, gone, now = None, list[About](), self._clock()
        with self._lock:
            for about, data in entries:
                if about.expires > now:
                    key = decoded_key(about.key)
                    found = (key, self._decoded(key, data)), about
                    gone += [about] * remove
                    break
                gone.append(about)
            if remove or not self._db.read_only:
                self._write(gone)
        return found

    # Removing many

    def expire(self, now: float | None = None, retry: bool = False) -> int:
        """Remove all expired entries; returns how many fewer there are.

        Expired entries go by themselves: this is for who wants exact counts at once.  Writers wait
        meanwhile.  O(entries).

        ``now``: those that are expired then, in seconds since the epoch.
        """
        moment = self._clock()
        if now is not None:
            moment = checked_number("now", now, "seconds since the epoch")
        return self._remove_expired(moment)

    def cull(self, retry: bool = False) -> int:
        """Remove expired entries, and evict others over the limit; returns how many."""
        removed = self.expire()
        with self._lock:
            while self._evicts and (count := self._remove_oldest(self.size_limit_bytes)):
                removed += count
        return removed

    def evict(self, tag: Any, retry: bool = False) -> int:
        """Remove all entries with ``tag``; returns how many.  O(their number)."""
        tagged = packed_tag(tag)
        if not tagged:
            raise ValueError("tag=None: entries without a tag are removed by their keys")
        start = TAGGED + tagged
        # A tag that goes on after a NUL has 255 there, which no entry's key begins with.
        places = self._store.keys(prefix=start, stop=start + b"\xff")
        return self._remove((place[len(start) :] for place in places), lambda a: a.tag == tagged)

    def clear(self, retry: bool = False) -> int:
        """Remove all entries, damaged ones, too; returns how many were counted."""
        return self._remove_all()

    # Functions

    def memoize(
        self,
        name: str | None = None,
        typed: bool = False,
        expire: float | None = None,
        tag: Any = None,
        ignore: Collection[int | str] = (),
    ) -> Callable[[F], F]:
        """Decorate a function so that the cache keeps its results.

        Coroutine functions, too.

        Args:
            name: what its keys start with; by default its module and qualified name.  A UserWarning says
                where these do not tell it from others: give lambdas, inner functions and methods of an
                object a name.
            typed: tell 1, 1.0 and True apart.
            expire, tag: those of :meth:`set`.
            ignore: positions and names of arguments that make no difference.

        The other arguments must be keys.  Two calls at once may both run the function.
        ``function.__cache_key__(*args, **kwargs)`` is the key of a result.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as path, Cache(path) as cache:
        ...     @cache.memoize(expire=60)
        ...     def square(number):
        ...         print("squaring", number)
        ...         return number * number
        ...     square(3), square(3)
        squaring 3
        (9, 9)
        """
        if callable(name):
            raise TypeError("name cannot be callable: write @cache.memoize() with parentheses")
        return lambda function: memoized(self, function, name, typed, expire, tag, ignore)

    # Looking inside

    def volume(self) -> int:
        """The bytes of all keys and values that count.  O(1)."""
        return self._present_counts().size_bytes

    def stats(self, enable: bool = True, reset: bool = False) -> tuple[int, int]:
        """Hits and misses of :meth:`get` and ``cache[key]`` so far.

        Args:
            enable: count from now on, or not.
            reset: start again at 0.
        """
        counted = self._hits, self._misses
        if reset:
            self._hits = self._misses = 0
        self._counts_hits = enable
        return counted

    def check(self, retry: bool = False) -> list[str]:
        """Read everything, and list what is damaged or does not fit.  O(entries), in memory too."""
        return self._problems()

    @property
    def directory(self) -> str:
        """The directory of the cache."""
        return self._db.path

    @property
    def db(self) -> lsmkv.DB:
        """The store of the cache, for statistics and metrics.  Write nothing to it."""
        return self._db

    @property
    def closed(self) -> bool:
        """Whether the cache is closed."""
        return self._db.closed

    def close(self) -> None:
        """Sync all writes and close the cache.

        Waits up to a second for writes and ``transact`` blocks of other threads.  A second call waits for
        the first, as :meth:`DB.close` does.  OSError: syncing failed; the cache is closed anyway.
        """
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("a Cache", "open it by its path, with read_only=True in other processes")

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self)} entries, {self.volume()} bytes"
        return f"<lsmkv.cache.Cache at {self.directory!r}, {state}>"


def _queue_of(packed: bytes) -> bytes:
    """The start that the keys of one queue share."""
    return packed[:-16] or packed[:1]


def _with_details(value: Any, about: About | None, expire_time: bool, tag: bool) -> Any:
    if not expire_time and not tag:
        return value
    details = [value]
    if expire_time:
        details.append(None if about is None or about.expires == NEVER else about.expires)
    if tag:
        details.append(decoded_key(about.tag) if about is not None and about.tag else None)
    return tuple(details)
