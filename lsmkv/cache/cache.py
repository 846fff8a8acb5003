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
    added,
    check_settings,
    checked_number,
    decoded_key,
    expiry_time,
    packed_key,
    packed_tag,
)
from lsmkv.cache.book import Book
from lsmkv.cache.entries import NEVER, About
from lsmkv.cache.memoize import memoized
from lsmkv.cache.values import PlainValue
from lsmkv.errors import CorruptionError, uncopyable
from lsmkv.typed import Codec, DecodeError

F = TypeVar("F", bound=Callable[..., Any])

_PLAIN: Final = PlainValue()


class Cache:
    """A cache on disk for one process that writes.

    Its threads share it.  Other processes read it with ``read_only=True``, as it was when they opened
    it.

    Args:
        path: a directory of its own, which is created.
        size_limit_bytes: evict entries while keys and values have more bytes than this.  (The files may
            be smaller, by compression, or larger for a while, by what compactions have not removed.)
        cull_limit: the most expired entries, and the most others, that one write removes; 0 leaves that
            to :meth:`expire` and :meth:`cull`.
        eviction_policy: ``"least-recently-stored"`` evicts what was stored first; reading an entry
            writes nothing.  ``"none"`` evicts nothing, and the limit is for :meth:`cull` to report.
        statistics: count hits and misses from the start (see :meth:`stats`).
        value: a codec of :mod:`lsmkv.typed` for all values, instead of :class:`PlainValue`.
        read_only: write nothing, beside the process that writes.
        wait_s, on_event, options, **overrides: those of :func:`lsmkv.open`.

    Keys are str, bytes, or tuples of str, bytes, int, float, bool, None, UUID and tuples; these may be
    keys by themselves, too.  1, 1.0 and True are three keys.

    Methods take the ``retry`` of diskcache, and do nothing with it: nothing here times out.

    Raises:
        CorruptionError: it is damaged; ``lsmkv.destroy`` removes it.
        LockedError: another process has the cache open for writing.
        ValueError: ``path`` holds a store that is no cache.
        TypeError, ValueError: an argument is wrong; nothing was changed.

    Methods raise TypeError or ValueError for what is no key or value, ClosedError once the cache is
    closed, DecodeError for a stored key or value that does not decode, and CorruptionError for damage of
    files, entries or indexes: :meth:`check` lists it, :meth:`clear` removes all entries.  A write that
    raises it may have taken place: it removes others that expired or are over the limit afterwards.
    """

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
        wait_s: float = 0.0,
        on_event: Callable[[lsmkv.Event], object] | None = None,
        options: lsmkv.Options | None = None,
        **overrides: Unpack[lsmkv.OptionsDict],
    ) -> None:
        check_settings(eviction_policy, value, overrides)
        self.size_limit_bytes = size_limit_bytes
        self.cull_limit = cull_limit
        self._evicts = eviction_policy != "none"
        self._codec = value
        self._counts_hits = bool(statistics)
        self._hits = self._misses = 0
        self._db = lsmkv.open(
            path, options, read_only=read_only, wait_s=wait_s, on_event=on_event, **overrides
        )
        try:
            self._book = Book(self._db)
        except BaseException:
            self._db.close()
            raise

    def __setattr__(self, name: str, given: Any) -> None:
        if name in ("size_limit_bytes", "cull_limit"):
            if type(given) is not int:
                raise TypeError(f"{name}={given!r}: must be an int")
            if given < 0:
                raise ValueError(f"{name}={given}: must be 0 or more")
        super().__setattr__(name, given)

    # Reading

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
            if found is None:
                self._misses += 1
            else:
                self._hits += 1
        if found is None:
            return _with_details(default, None, expire_time, tag)
        value = self._decoded(key, found[1])
        return _with_details(io.BytesIO(value) if read else value, found[0], expire_time, tag)

    def _find(self, packed: bytes) -> tuple[About, bytes] | None:
        found = self._book.find(packed)
        if found is None or found[0].is_expired(time.time()):
            return None
        return found

    def _decoded(self, key: Any, data: bytes) -> Any:
        try:
            return self._codec.decode(data)
        except Exception as error:  # a codec of a program's own may raise any
            raise DecodeError("value of key", key, self._codec, error, data) from error

    def __getitem__(self, key: Any) -> Any:
        found = self.get(key, _NOTHING)
        if found is _NOTHING:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return self._find(packed_key(key)) is not None

    def __len__(self) -> int:
        """The number of entries, with expired ones that are not removed yet.  O(1)."""
        return self._book.count

    def __bool__(self) -> bool:
        """Whether there is any entry."""
        return self._book.count > 0

    def __iter__(self) -> Iterator[Any]:
        """The keys in order, with expired ones that are not removed yet."""
        return self.iterkeys()

    def __reversed__(self) -> Iterator[Any]:
        return self.iterkeys(reverse=True)

    def iterkeys(self, reverse: bool = False) -> Iterator[Any]:
        """The keys in order, as they are when the iteration starts."""
        for packed in self._book.keys(reverse=reverse):
            yield decoded_key(packed)

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
        expires, tagged = expiry_time(expire, time.time()), packed_tag(tag, len(packed))
        with self._book.lock:
            self._put(packed, self._about(packed), data, expires, tagged)
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
        """Set ``key`` if it is not there, and tell whether.

        Of several threads, one does.
        """
        packed, data = packed_key(key), self._codec.encode(value.read() if read else value)
        expires, tagged = expiry_time(expire, time.time()), packed_tag(tag, len(packed))
        with self._book.lock:
            old = self._about(packed)
            if old is not None and not old.is_expired(time.time()):
                return False
            self._put(packed, old, data, expires, tagged)
        return True

    def incr(
        self, key: Any, delta: float = 1, default: float | None = 0, retry: bool = False
    ) -> Any:
        """Add ``delta`` to the number at ``key``, and return the sum.

        No other write comes in between.  A missing key counts as ``default``; KeyError if that is
        None.  TypeError: the value is no number.  ValueError: the sum is too large.  The expiry stays.
        """
        packed = packed_key(key)
        with self._book.lock:
            found = self._book.find(packed)
            old = None if found is None else found[0]
            if found is None or found[0].is_expired(time.time()):
                if default is None:
                    raise KeyError(key)
                total = added(default, delta)
                self._put(packed, old, self._codec.encode(total), NEVER, b"")
                return total
            number = self._decoded(key, found[1])
            if not isinstance(number, (int, float)) or isinstance(number, bool):
                raise TypeError(f"the value of {key!r} is {type(number).__name__}, not a number")
            total, about = added(number, delta), found[0]
            self._put(
                packed, about, self._codec.encode(total), about.expires, about.tag, about.number
            )
        return total

    def decr(
        self, key: Any, delta: float = 1, default: float | None = 0, retry: bool = False
    ) -> Any:
        """Subtract ``delta`` from the number at ``key``, as :meth:`incr`."""
        return self.incr(key, -delta, default)

    def touch(self, key: Any, expire: float | None = None, retry: bool = False) -> bool:
        """Let ``key`` expire in ``expire`` seconds, or never.

        Returns whether it is there.
        """
        packed, expires = packed_key(key), expiry_time(expire, time.time())
        with self._book.lock:
            found = self._find(packed)
            if found is None:
                return False
            about, data = found
            self._put(packed, about, data, expires, about.tag, about.number)
        return True

    def pop(
        self,
        key: Any,
        default: Any = None,
        expire_time: bool = False,
        tag: bool = False,
        retry: bool = False,
    ) -> Any:
        """Remove ``key`` and return its value, in one step.  Arguments as :meth:`get`."""
        packed = packed_key(key)
        with self._book.lock:
            found = self._find(packed)
            if found is None:
                return _with_details(default, None, expire_time, tag)
            value = self._decoded(key, found[1])  # first: an entry that does not decode stays
            self._book.delete([(packed, found[0])])
        return _with_details(value, found[0], expire_time, tag)

    def delete(self, key: Any, retry: bool = False) -> bool:
        """Remove ``key``; tell whether it was there."""
        packed = packed_key(key)
        with self._book.lock:
            found = self._find(packed)
            if found is None:
                return False
            self._book.delete([(packed, found[0])])
        return True

    def __delitem__(self, key: Any) -> None:
        if not self.delete(key):
            raise KeyError(key)

    def transact(self, retry: bool = False) -> AbstractContextManager[None]:
        """Apply all writes of the ``with`` block, or none.

        If the block raises, nothing changes.  One inside another is part of it: if the inner block raises
        and the outer goes on, only the writes of the inner are gone.  Other threads wait with their
        writes, and see those of the block at its end.  Removing many entries and iterating are for before
        and after (RuntimeError).  Each call is for one ``with``.  ``await`` nothing in the block: other
        asyncio tasks of the thread cannot wait, and their writes raise RuntimeError.
        """
        return self._book.transaction()

    def _about(self, packed: bytes) -> About | None:
        found = self._book.find(packed)
        return None if found is None else found[0]

    def _put(
        self,
        packed: bytes,
        old: About | None,
        data: bytes,
        expires: float,
        tag: bytes,
        number: int = 0,
    ) -> None:
        book = self._book
        book.put(packed, old, data, expires, tag, number)
        most = self.cull_limit
        if most and not book.is_in_transaction:
            now = time.time()
            if book.next_expiry <= now:
                book.delete_expired(now, most)
            if self._evicts and book.size_bytes > self.size_limit_bytes:
                book.delete_oldest(most, self.size_limit_bytes)

    # Removing many

    def expire(self, now: float | None = None, retry: bool = False) -> int:
        """Remove all expired entries; returns how many.

        ``now``: those that are expired then, in seconds since the epoch.  Writes remove some of them
        each (see ``cull_limit``).
        """
        moment = (
            time.time() if now is None else checked_number("now", now, "seconds since the epoch")
        )
        return self._repeat("expire", lambda: self._book.delete_expired(moment))

    def cull(self, retry: bool = False) -> int:
        """Remove expired entries, and evict others over the limit.

        Returns how many were removed.
        """
        expired = self.expire()
        if not self._evicts:
            return expired
        return expired + self._repeat(
            "cull", lambda: self._book.delete_oldest(until_bytes=self.size_limit_bytes)
        )

    def evict(self, tag: Any, retry: bool = False) -> int:
        """Remove all entries with ``tag``; returns how many.  O(their number)."""
        tagged = packed_tag(tag)
        if not tagged:
            raise ValueError("tag=None: entries without a tag are removed by their keys")
        return self._repeat("evict", self._book.remover_of_tagged(tagged))

    def clear(self, retry: bool = False) -> int:
        """Remove all entries, damaged ones, too; returns how many."""
        return self._repeat("clear", self._delete_any)

    def _delete_any(self) -> int:
        book = self._book
        try:
            return book.delete_oldest() or book.delete_rest()
        except CorruptionError:
            return book.delete_rest()

    def _repeat(self, what: str, remove: Callable[[], int]) -> int:
        """Remove batches of entries until there are no more."""
        self._book.forbid_in_transaction(what)
        removed = 0
        while True:
            with self._book.lock:
                count = remove()
            if count == 0:
                return removed
            removed += count

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
        """The bytes of all keys and values.  O(1)."""
        return self._book.size_bytes

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

    def check(self) -> list[str]:
        """Read everything, and list what is damaged or does not fit.  O(entries), in memory too."""
        self._book.forbid_in_transaction("check the cache")
        with self._book.lock:
            return [str(problem) for problem in self._db.verify().problems] + self._book.problems()

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
        self._book.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("a Cache", "open it by its path, with read_only=True in other processes")

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self)} entries, {self.volume()} bytes"
        return f"<lsmkv.cache.Cache at {self.directory!r}, {state}>"


_NOTHING: Final = object()


def _with_details(value: Any, about: About | None, expire_time: bool, tag: bool) -> Any:
    if not expire_time and not tag:
        return value
    details = [value]
    if expire_time:
        details.append(None if about is None or about.expires == NEVER else about.expires)
    if tag:
        details.append(decoded_key(about.tag) if about is not None and about.tag else None)
    return tuple(details)
