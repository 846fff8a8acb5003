"""The cache: what a program calls."""

from __future__ import annotations

import functools
import io
import math
import os
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, Literal, Self, TypeVar, Unpack

import lsmkv
from lsmkv.cache.book import Book
from lsmkv.cache.entries import Entry, decoded_key, expiry_time, new_entry, packed_key
from lsmkv.typed import Codec, DecodeError, MsgPack

F = TypeVar("F", bound=Callable[..., Any])
Side = Literal["back", "front"]

_MESSAGE_PACK: Final = MsgPack()
_NOTHING: Final = object()
_EMPTY: Final = None, None
_FIRST_IN_QUEUE: Final = 500_000_000_000_000  # diskcache's


def _now() -> float:
    return time.time()  # looked up anew: tests of programs replace it


class Cache(Book):
    """A cache on disk for one process that writes.

    Its threads share it.  Others read it with ``read_only=True``, as it was when they opened it.

    Args:
        path: a directory of its own, which is created.
        size_limit_bytes: evict entries while :meth:`volume` is more than this.
        cull_limit: the most entries that one write evicts; 0 leaves that to :meth:`cull`.
        eviction_policy: ``"least-recently-stored"`` evicts what was stored first, ``"none"`` nothing.
        statistics: count hits and misses from the start (see :meth:`stats`).
        value: a codec of :mod:`lsmkv.typed` for all values.
        clock: tells the time, in seconds since the epoch; for tests.
        read_only, wait_s, and options by name: those of :func:`lsmkv.open`, whose errors it raises, too.

    Keys are str, bytes, int, float, bool, None, UUID and tuples of these.  1, 1.0 and True are three
    keys.  Methods take the ``retry`` of diskcache, and do nothing with it: nothing here times out.

    Methods raise TypeError or ValueError for what is no key or value (then nothing changed), ClosedError
    once the cache is closed, DecodeError for a stored key or value that does not decode, and
    CorruptionError for damage: :meth:`check` lists that of files, :meth:`clear` removes all entries.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        size_limit_bytes: int = 1 << 30,
        cull_limit: int = 10,
        eviction_policy: Literal["least-recently-stored", "none"] = "least-recently-stored",
        statistics: bool = False,
        value: Codec[Any] = _MESSAGE_PACK,
        clock: Callable[[], float] = _now,
        read_only: bool = False,
        wait_s: float = 0.0,
        **options: Unpack[lsmkv.OptionsDict],
    ) -> None:
        if options.get("default_ttl_s") is not None:
            raise TypeError("no such option: default_ttl_s (set and add take expire=)")
        if "size_limit" in options:  # diskcache's name
            raise TypeError("no such option: size_limit (did you mean 'size_limit_bytes'?)")
        for name, limit in (("size_limit_bytes", size_limit_bytes), ("cull_limit", cull_limit)):
            if not isinstance(limit, int) or limit < 0:
                raise ValueError(f"{name}={limit!r}: must be an int from 0 on")
        if eviction_policy not in ("least-recently-stored", "none"):
            known = "choose 'least-recently-stored' or 'none': reads write nothing here"
            raise ValueError(f"eviction_policy={eviction_policy!r}: {known}")
        if not isinstance(value, Codec):
            raise TypeError(f"value={value!r}: give a codec, such as lsmkv.typed.Json()")
        self.size_limit_bytes = math.inf if eviction_policy == "none" else size_limit_bytes
        self.cull_limit, self._codec = cull_limit, value
        self._counts_hits = bool(statistics)
        self._hits = self._misses = 0
        db = lsmkv.open(path, clock=clock, read_only=read_only, wait_s=wait_s, **options)
        super().__init__(db, clock)

    def __enter__(self) -> Self:
        return self

    def get(self, key: Any, default: Any = None, **wanted: bool) -> Any:
        """The value of ``key``, or ``default``.

        With ``expire_time=True`` or ``tag=True`` a tuple of it, seconds since the epoch (None for never),
        and the tag.  With ``read=True`` bytes are an open ``io.BytesIO``.
        """
        found = self._find(packed_key(key))
        if self._counts_hits:
            self._misses += found is None
            self._hits += found is not None
        if found is None:
            return _shown(default, None, wanted) if wanted else default
        value = self._decoded(key, found[1])
        return _shown(value, found[0], wanted) if wanted else value

    def __getitem__(self, key: Any) -> Any:
        found = self.get(key, _NOTHING)
        if found is _NOTHING:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        return self._find(packed_key(key)) is not None

    def _decoded(self, key: Any, data: bytes) -> Any:
        try:
            return self._codec.decode(data)
        except Exception as error:  # a codec of a program's own may raise any
            raise DecodeError("value of key", key, self._codec, error, data) from error

    def set(
        self,
        key: Any,
        value: Any,
        expire: float | None = None,
        read: bool = False,
        tag: Any = None,
        retry: bool = False,
    ) -> Literal[True]:
        """Set ``key`` to ``value``, or with ``read=True`` to what ``value.read()`` returns.

        ``expire``: seconds from now, None for never.  ``tag``: what :meth:`evict` removes it by.
        """
        packed, data = packed_key(key), self._codec.encode(value.read() if read else value)
        tagged = b"" if tag is None else packed_key(tag, len(packed))
        expires = expiry_time(expire, self._clock())
        with self._lock:
            old, sizes = self._stored(packed), self._read_sizes()
            sizes.last_number += 1
            if self._fronts and packed < self._fronts.get(_queue_of(packed), b""):
                del self._fronts[_queue_of(packed)]
            entry = new_entry(packed, expires, sizes.last_number, tagged, data)
            self._write([] if old is None else [old[0]], entry, data)
            if sizes.total_bytes > self.size_limit_bytes:
                self._remove_oldest(self.size_limit_bytes, self.cull_limit)
        return True

    def __setitem__(self, key: Any, value: Any) -> None:
        self.set(key, value)

    def add(self, key: Any, value: Any, expire: float | None = None, **kept: Any) -> bool:
        """As :meth:`set`, if ``key`` is not there; tells whether.  Of several threads, one does."""
        with self._lock:
            return key not in self and self.set(key, value, expire, **kept)

    def incr(self, key: Any, delta: float = 1, default: Any = 0, retry: bool = False) -> Any:
        """Add ``delta`` to the number at ``key``; returns the sum.  In one step; the expiry stays.

        A missing key counts as ``default``; KeyError if that is None.  TypeError: it is no number.
        """
        with self._lock:
            found = self._find(packed_key(key))
            number = default if found is None else self._decoded(key, found[1])
            if found is None and default is None:
                raise KeyError(key)
            if not isinstance(number, (int, float)) or isinstance(number, bool):
                raise TypeError(f"the value of {key!r} is {type(number).__name__}, not a number")
            total = number + delta
            if found is None:
                self.set(key, total)
            else:
                self._renew(found[0], self._codec.encode(total), found[0].expires)
        return total

    def decr(self, key: Any, delta: float = 1, default: Any = 0, retry: bool = False) -> Any:
        """Subtract ``delta`` from the number at ``key``, as :meth:`incr`."""
        return self.incr(key, -delta, default)

    def touch(self, key: Any, expire: float | None = None, retry: bool = False) -> bool:
        """Let ``key`` expire in ``expire`` seconds, or never.  Tells whether it is there."""
        expires = expiry_time(expire, self._clock())
        with self._lock:
            found = self._find(packed_key(key))
            if found is not None:
                self._renew(found[0], found[1], expires)
        return found is not None

    def _renew(self, old: Entry, data: bytes, expires: float) -> None:
        self._write([old], new_entry(old.key, expires, old.number, old.tag, data), data)

    def pop(self, key: Any, default: Any = None, **wanted: bool) -> Any:
        """Remove ``key`` and return its value, in one step.  Arguments as :meth:`get`."""
        missing = _shown(default, None, wanted)
        with self._lock:
            found = self._find(packed_key(key))
            if found is None:
                return missing
            value = self._decoded(key, found[1])  # first: an entry that does not decode stays
            self._write([found[0]])
        return _shown(value, found[0], wanted)

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

    def cull(self, retry: bool = False) -> int:
        """Remove expired entries, and evict others over the limit; returns how many."""
        removed = self.expire()
        with self._lock:
            while count := self._remove_oldest(self.size_limit_bytes):
                removed += count
        return removed

    def push(self, value: Any, prefix: str | None = None, side: Side = "back", **kept: Any) -> Any:
        """Put ``value`` at a side of a queue; returns its key.  Other arguments as :meth:`set`.

        Keys are numbers from 500 trillion on; ``f"{prefix}-{number}"`` in a queue with a name.
        """
        with self._lock:
            number = _FIRST_IN_QUEUE
            for entry, _ in self._queued(prefix, side):
                last = decoded_key(entry.key)
                number = int(last if prefix is None else last.removeprefix(f"{prefix}-"))
                number += 1 if side == "back" else -1
                break
            key = number if prefix is None else f"{prefix}-{number:015}"
            self.set(key, value, **kept)
        return key

    def pull(
        self, prefix: str | None = None, default: Any = _EMPTY, side: Side = "front", **wanted: bool
    ) -> Any:
        """Remove what is at a side of a queue; returns its key and value, or ``default``."""
        return self._first(prefix, default, side, True, wanted)

    def peek(
        self, prefix: str | None = None, default: Any = _EMPTY, side: Side = "front", **wanted: bool
    ) -> Any:
        """The key and value that :meth:`pull` would return."""
        return self._first(prefix, default, side, False, wanted)

    def _queued(self, prefix: str | None, side: str) -> Iterator[tuple[Entry, bytes]]:
        """The entries of a queue, expired ones too, from a side on."""
        if side not in ("back", "front"):
            raise ValueError(f"side={side!r}: choose 'back' or 'front'")
        first = packed_key(1 << 48 if prefix is None else f"{prefix}-{0:015}")
        stop = packed_key(10**15 if prefix is None else f"{prefix}-:")
        start = self._fronts.get(_queue_of(first), first)
        return self._entries(start, stop, reverse=side == "back")

    def _first(self, prefix: str | None, item: Any, side: Side, removes: bool, wanted: Any) -> Any:
        """The first item of a side that is not expired.  Expired ones before it go."""
        shown, gone, now = _shown(item, None, wanted), list[Entry](), self._clock()
        with self._lock:
            for entry, data in self._queued(prefix, side):
                if entry.expires > now:
                    key = decoded_key(entry.key)
                    shown = _shown((key, self._decoded(key, data)), entry, wanted)
                    gone += [entry] * removes
                    break
                gone.append(entry)
            if gone and (removes or not self.db.read_only):
                self._write(gone)
                if side == "front":
                    self._fronts[_queue_of(gone[-1].key)] = gone[-1].key  # past the deletions
        return shown

    def memoize(
        self,
        name: str | None = None,
        typed: bool = False,
        expire: float | None = None,
        tag: Any = None,
        ignore: Collection[int | str] = (),
    ) -> Callable[[F], F]:
        """Decorate a function so that the cache keeps its results.

        ``name`` is what its keys start with: by default its module and qualified name, which others may
        share, if it is a lambda, an inner function or a method of an object.  ``ignore`` has places and
        names of arguments that make no difference; the others must be keys.  ``typed`` does nothing: 1,
        1.0 and True are three arguments.  ``function.__cache_key__(*args, **kwargs)`` is a result's key.
        """
        if callable(name):
            raise TypeError("name cannot be callable: write @cache.memoize() with parentheses")
        expiry_time(expire, 0.0), packed_key(tag)  # what is wrong is an error before any call

        def decorated(function: Any) -> Any:
            base = name or f"{function.__module__}.{function.__qualname__}"

            def cache_key(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
                named = sorted(pair for pair in kwargs.items() if pair[0] not in ignore)
                return base, tuple(v for at, v in enumerate(args) if at not in ignore), tuple(named)

            @functools.wraps(function)
            def remembered(*args: Any, **kwargs: Any) -> Any:
                result = self.get(key := cache_key(*args, **kwargs), _NOTHING)
                if result is _NOTHING:
                    result = function(*args, **kwargs)
                    self.set(key, result, expire, tag=tag)
                return result

            remembered.__cache_key__ = cache_key  # type: ignore[attr-defined]
            return remembered

        return decorated

    def stats(self, enable: bool = True, reset: bool = False) -> tuple[int, int]:
        """Hits and misses of :meth:`get` and ``cache[key]`` so far; then counts on, or anew."""
        counted = self._hits, self._misses
        if reset:
            self._hits = self._misses = 0
        self._counts_hits = enable
        return counted


def _queue_of(packed: bytes) -> bytes:
    """The start that the keys of one queue share."""
    return packed[:-16] or packed[:1]


def _shown(value: Any, entry: Entry | None, wanted: dict[str, bool]) -> Any:
    """``value``, or a tuple of it and what else is wanted."""
    if unknown := wanted.keys() - {"read", "expire_time", "tag", "retry"}:
        raise TypeError(f"unexpected arguments: {', '.join(unknown)}")
    shown = [io.BytesIO(value) if wanted.get("read") and isinstance(value, bytes) else value]
    if wanted.get("expire_time"):
        shown.append(entry.expires if entry is not None and entry.expires < math.inf else None)
    if wanted.get("tag"):
        shown.append(decoded_key(entry.tag) if entry is not None and entry.tag else None)
    return shown[0] if len(shown) == 1 else tuple(shown)
