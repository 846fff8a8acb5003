"""Mappings, cursors and batches over those of a store, by a coding.

``DB.prefixed`` and ``lsmkv.typed`` differ only in their coding.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Self, TypeVar, overload

from lsmkv.encoding.entries import prefix_successor
from lsmkv.errors import ClosedError, CursorError, unbounded_delete
from lsmkv.layers import peers
from lsmkv.layers.coding import Bound, Coding, K, KeyIn, Readable, ReadWritable, V, ValueIn
from lsmkv.layers.mapping import OrderedReader
from lsmkv.layers.views import MappedItems, MappedKeys, MappedValues

if TYPE_CHECKING:  # loaded by `DB.explain` alone
    from lsmkv.inspection.explain import Explanation

_T = TypeVar("_T")
_MISSING: Final = object()


def _bounded(
    coding: Coding[Any, Any, Any, Any], start: Any, stop: Any, prefix: Any
) -> tuple[bytes | None, bytes | None, bytes | None]:
    """A range below; ValueError without any bound."""
    if start is None and stop is None and prefix is None:
        raise unbounded_delete()
    return coding.encode_range(start, stop, prefix)


class _Closing:
    """What ends in one below, with ``close`` or ``with``."""

    _below: Any

    @property
    def closed(self) -> bool:
        """Whether it was closed; a batch, whether it was committed or discarded."""
        return bool(self._below.closed)

    def __enter__(self) -> Self:
        self._below.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._below.__exit__(*error)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._below!r}>"


@peers.tells_names_of_cursors
class MappedCursor(_Closing, Generic[K, V, KeyIn], metaclass=peers.KnowsPeers):
    """Moves over a layer's keys as they were: as ``lsmkv.Cursor``."""

    def __init__(self, below: Any, coding: Coding[K, V, KeyIn, Any]) -> None:
        self._below = below
        self._coding = coding
        self._prefix = coding.encode_range(None, None, None)[2] or b""
        self._inside = False  # whether the cursor below is at a key of the layer

    def seek(self, key: Bound[KeyIn]) -> bool:
        """Go to the first key at or above ``key``."""
        return self._at(self._below.seek(self._coding.encode_bound(key)))

    def seek_for_prev(self, key: Bound[KeyIn]) -> bool:
        """Go to the last key at or below ``key``."""
        return self._at(self._below.seek_for_prev(self._coding.encode_bound(key)))

    def first(self) -> bool:
        """Go to the first key."""
        return self._at(self._below.seek(self._prefix))

    def last(self) -> bool:
        """Go to the last key."""
        end = prefix_successor(self._prefix)
        if end is None:
            return self._at(self._below.last())
        found = self._below.seek_for_prev(end)
        if found and self._below.key == end:
            found = self._below.prev()
        return self._at(found)

    def next(self) -> bool:
        """Go to the next key above."""
        return self._at(self._below.next()) if self.valid else self._nowhere()

    def prev(self) -> bool:
        """Go to the next key below."""
        return self._at(self._below.prev()) if self.valid else self._nowhere()

    def _at(self, found: bool) -> bool:
        self._inside = found and self._below.key.startswith(self._prefix)
        return self._inside

    def _nowhere(self) -> bool:
        if self._below.closed:
            raise ClosedError("the cursor is closed")
        return False

    @property
    def valid(self) -> bool:
        """Whether the cursor is at a key."""
        return self._inside and bool(self._below.valid)

    def _entry(self) -> tuple[bytes, bytes]:
        if not self.valid and not self._nowhere():
            raise CursorError("the cursor is at no key; move it with seek, first or last")
        entry: tuple[bytes, bytes] = self._below.item
        return entry

    @property
    def item(self) -> tuple[K, V]:
        """The key and the value at the cursor.  CursorError: it is at no key."""
        key, value = self._entry()
        return self._coding.decode_key(key), self._coding.decode_value(key, value)

    @property
    def key(self) -> K:
        """The key at the cursor; raises as :attr:`item`."""
        return self._coding.decode_key(self._entry()[0])

    @property
    def value(self) -> V:
        """The value at the cursor; raises as :attr:`item`."""
        return self._coding.decode_value(*self._entry())

    def __iter__(self) -> NoReturn:
        raise peers.not_iterable(self)

    def __dir__(self) -> list[str]:
        return peers.own_names(type(self), super().__dir__())

    def close(self) -> None:
        """End the cursor, so that the store may drop old entries.  A second call does nothing."""
        self._below.close()


class MappedReader(OrderedReader[K, V, KeyIn, Bound[KeyIn]], Generic[K, V, KeyIn, ValueIn]):
    """The reading part."""

    _keys, _values, _items = MappedKeys, MappedValues, MappedItems

    def __init__(self, below: Readable, coding: Coding[K, V, KeyIn, ValueIn]) -> None:
        self._below: Any = below
        self._coding = coding

    # Lookups are not those of the mapping: a value may decode as None.

    @overload  # type: ignore[override]  # KeyIn holds every K
    def get(self, key: KeyIn, default: None = None) -> V | None: ...
    @overload
    def get(self, key: KeyIn, default: _T) -> V | _T: ...
    def get(self, key: KeyIn, default: object = None) -> object:
        """The value of ``key``, or ``default``: ``DB.get``.  TypeError, ValueError: not a key."""
        data = self._coding.encode_key(key)
        value = self._below.get(data)
        return default if value is None else self._coding.decode_value(data, value)

    def __getitem__(self, key: KeyIn) -> V:  # type: ignore[override]
        data = self._coding.encode_key(key)
        value = self._below.get(data)
        if value is None:
            raise KeyError(key)
        return self._coding.decode_value(data, value)

    def __contains__(self, key: object) -> bool:
        data = self._coding.encode_key(key)  # type: ignore[arg-type]  # raises TypeError itself
        return self._below.get(data) is not None

    def _lookup_many(self, keys: Iterable[KeyIn]) -> list[V | None]:
        if isinstance(keys, (bytes, bytearray, memoryview, str)):
            raise TypeError(
                f"keys is an iterable of keys, not one key: put the {type(keys).__name__} into a list"
            )
        coding = self._coding
        wanted = [coding.encode_key(key) for key in keys]
        look_up = getattr(self._below, "multi_get", None)  # a transaction may have none
        found = map(self._below.get, wanted) if look_up is None else look_up(wanted)
        return [
            None if value is None else coding.decode_value(data, value)
            for data, value in zip(wanted, found, strict=True)
        ]

    def _range(self, start: Any, stop: Any, prefix: Any, reverse: bool) -> Any:
        """The items of a range below."""
        low, high, head = self._coding.encode_range(start, stop, prefix)
        return self._below.items(start=low, stop=high, prefix=head, reverse=reverse)

    def __bool__(self) -> bool:
        """Whether there is any key.  Looks for the first only, and decodes nothing."""
        return next(iter(self._range(None, None, None, False)), None) is not None

    def expires_at(self, key: KeyIn) -> int | None:
        """When ``key`` goes, in seconds since 1970 UTC; None: it never does, or is not there."""
        due_s: int | None = self._below.expires_at(self._coding.encode_key(key))
        return due_s

    def cursor(self) -> MappedCursor[K, V, KeyIn]:
        """A cursor over the keys as they are now, at no key."""
        return MappedCursor(self._below.cursor(), self._coding)


class MappedSnapshot(MappedReader[K, V, KeyIn, ValueIn], _Closing):
    """The reading part, of a snapshot; end it with ``close`` or ``with``."""

    @property
    def sequence_number(self) -> int:
        """The number of the last write that the snapshot sees."""
        return int(self._below.sequence_number)

    def close(self) -> None:
        """End the snapshot itself, also for others that read it."""
        self._below.close()


class _Writing(Generic[K, V, KeyIn, ValueIn]):
    """Writes to a store, batch or transaction below; a batch does so when it is committed."""

    _below: Any
    _coding: Coding[K, V, KeyIn, ValueIn]

    def put(
        self,
        key: KeyIn,
        value: ValueIn,
        *,
        ttl_s: float | None = None,
        expires_at: float | None = None,
    ) -> None:
        """Set ``key`` to ``value``: ``DB.put``.  TypeError or ValueError: not a key or value."""
        data = self._coding.encode_key(key)
        encoded = self._coding.encode_value(key, value)
        if ttl_s is None and expires_at is None:  # all that another library's transaction takes
            self._below.put(data, encoded)
        else:
            self._below.put(data, encoded, ttl_s=ttl_s, expires_at=expires_at)

    def delete(self, key: KeyIn) -> None:
        """Remove ``key`` if it is there.  Raises as :meth:`put`."""
        self._below.delete(self._coding.encode_key(key))

    def delete_range(
        self,
        start: Bound[KeyIn] | None = None,
        stop: Bound[KeyIn] | None = None,
        *,
        prefix: Any = None,
    ) -> None:
        """Remove every key of a range: ``DB.delete_range``."""
        low, high, head = _bounded(self._coding, start, stop, prefix)
        self._below.delete_range(low, high, prefix=head)

    def __setitem__(self, key: KeyIn, value: ValueIn) -> None:
        data = self._coding.encode_key(key)
        self._below.put(data, self._coding.encode_value(key, value))


class MappedStore(  # type: ignore[misc]  # KeyIn holds every K
    MappedReader[K, V, KeyIn, ValueIn], _Writing[K, V, KeyIn, ValueIn], MutableMapping[K, V]
):
    """Reading and writing, of anything that has ``get``, ``items``, ``put`` and ``delete``."""

    def __init__(self, below: ReadWritable, coding: Coding[K, V, KeyIn, ValueIn]) -> None:
        for name in ("get", "items", "put", "delete"):
            if not hasattr(below, name):
                raise TypeError(
                    f"{below!r} has no {name}(): it is no store, snapshot, batch or transaction"
                )
        super().__init__(below, coding)

    def touch(
        self, key: KeyIn, *, ttl_s: float | None = None, expires_at: float | None = None
    ) -> bool:
        """Set anew when ``key`` goes; returns whether it was there: ``DB.touch``."""
        data = self._coding.encode_key(key)
        return bool(self._below.touch(data, ttl_s=ttl_s, expires_at=expires_at))

    def __delitem__(self, key: KeyIn) -> None:  # type: ignore[override]
        """Remove ``key``; KeyError when it is not there.  (``delete`` does not look it up.)"""
        data = self._coding.encode_key(key)
        if self._below.get(data) is None:
            raise KeyError(key)
        self._below.delete(data)

    def popitem(self) -> tuple[K, V]:
        """Remove the first key, and return it with its value; KeyError without one."""
        for key, value in self._range(None, None, None, False):
            item = self._coding.decode_key(key), self._coding.decode_value(key, value)
            self._below.delete(key)
            return item
        raise KeyError("popitem(): there is no key")

    def clear(self) -> None:
        """Remove every key that is there now."""
        for key in [key for key, _ in self._range(None, None, None, False)]:
            self._below.delete(key)


class MappedDB(MappedStore[K, V, KeyIn, ValueIn]):
    """Reading and writing, of an open store.  Methods say what differs from those of ``DB``."""

    def put(
        self,
        key: KeyIn,
        value: ValueIn,
        *,
        ttl_s: float | None = None,
        expires_at: float | None = None,
        sync: bool = False,
    ) -> None:
        """Set ``key`` to ``value``: ``DB.put``.  TypeError, ValueError: not a key or value."""

    def delete(self, key: KeyIn, *, sync: bool = False) -> None:
        """Remove ``key`` if it is there.  Arguments and errors as :meth:`put`."""

    def delete_range(
        self,
        start: Bound[KeyIn] | None = None,
        stop: Bound[KeyIn] | None = None,
        *,
        prefix: Any = None,
        sync: bool = False,
    ) -> None:
        """Remove every key of a range, in one step: ``DB.delete_range``."""
        low, high, head = _bounded(self._coding, start, stop, prefix)
        self._below.delete_range(low, high, prefix=head, sync=sync)

    if not TYPE_CHECKING:  # as in DB

        @wraps(put)
        def put(self, key, value, unnamed=None, sync=False, ttl=None, ttl_s=None, expires_at=None):
            if unnamed is not None or ttl is not None:
                raise peers.wrong_write(f"{type(self).__name__}.put", unnamed, ttl)
            data = self._coding.encode_key(key)
            encoded = self._coding.encode_value(key, value)
            self._below.put(data, encoded, ttl_s=ttl_s, expires_at=expires_at, sync=sync)

        @wraps(delete)
        def delete(self, key, unnamed=None, sync=False):
            if unnamed is not None:
                raise peers.wrong_write(f"{type(self).__name__}.delete", unnamed, None)
            self._below.delete(self._coding.encode_key(key), sync=sync)

    def touch(
        self,
        key: KeyIn,
        *,
        ttl_s: float | None = None,
        expires_at: float | None = None,
        sync: bool = False,
    ) -> bool:
        """Set anew when ``key`` goes; returns whether it was there: ``DB.touch``."""
        data = self._coding.encode_key(key)
        return bool(self._below.touch(data, ttl_s=ttl_s, expires_at=expires_at, sync=sync))

    def __delitem__(self, key: KeyIn) -> None:  # type: ignore[override]
        """Remove ``key``, in one step; KeyError when it is not there.  As ``del`` of a ``DB``."""
        if self._below.pop(self._coding.encode_key(key), None) is None:
            raise KeyError(key)

    @overload  # type: ignore[override]  # KeyIn holds every K
    def pop(self, key: KeyIn) -> V: ...
    @overload
    def pop(self, key: KeyIn, default: _T) -> V | _T: ...
    def pop(self, key: KeyIn, default: object = _MISSING) -> object:
        """Remove ``key``, and return its value or ``default``; one that does not decode is put back."""
        data = self._coding.encode_key(key)
        value = self._below.pop(data, None)
        if value is not None:
            return self._removed(data, value)[1]
        if default is _MISSING:
            raise KeyError(key)
        return default

    def popitem(self) -> tuple[K, V]:
        """Remove the first key, and return it with its value; one that does not decode is put back."""
        return self._removed(*self._below.popitem())

    def _removed(self, key: bytes, value: bytes) -> tuple[K, V]:
        """A removed entry; one that does not decode is put back, unless a newer one is there."""
        try:
            return self._coding.decode_key(key), self._coding.decode_value(key, value)
        except BaseException:
            self._below.setdefault(key, value)
            raise

    def setdefault(self, key: KeyIn, default: ValueIn) -> V:  # type: ignore[override]
        """The value of ``key``, set to ``default`` if missing: ``DB.setdefault``."""
        data = self._coding.encode_key(key)
        value = self._below.setdefault(data, self._coding.encode_value(key, default))
        return self._coding.decode_value(data, value)

    def clear(self) -> None:
        """Remove every key, in one step: ``DB.clear``."""
        low, high, head = self._coding.encode_range(None, None, None)
        if low is None and high is None and not head:
            self._below.clear()
        else:
            self._below.delete_range(low, high, prefix=head)

    def sync(self) -> None:
        """Make every write so far survive a power failure.  Raises as ``DB.sync``."""
        self._below.sync()

    def explain(self, key: KeyIn) -> Explanation:
        """Every step of one lookup, as ``DB.explain`` tells it."""
        told: Explanation = self._below.explain(self._coding.encode_key(key))
        return told

    def _bounds(self, start: Any, stop: Any) -> tuple[bytes | None, bytes | None]:
        """The bounds of a range below, without a prefix."""
        low, high, head = self._coding.encode_range(start, stop, None)
        if not head:
            return low, high
        ends = [bound for bound in (high, prefix_successor(head)) if bound is not None]
        return max(low or head, head), min(ends, default=None)

    def approximate_size(
        self, start: Bound[KeyIn] | None = None, stop: Bound[KeyIn] | None = None
    ) -> int:
        """About how many bytes of tables and logs a range takes: ``DB.approximate_size``."""
        return int(self._below.approximate_size(*self._bounds(start, stop)))

    def compact_range(
        self,
        start: Bound[KeyIn] | None = None,
        stop: Bound[KeyIn] | None = None,
        *,
        force: bool = False,
    ) -> None:
        """Flush, then merge all entries between two keys: ``DB.compact_range``."""
        self._below.compact_range(*self._bounds(start, stop), force=force)


class MappedBatch(_Writing[K, V, KeyIn, ValueIn], _Closing):
    """Operations for a batch of the store: applied in order, all or none.

    Several of these may collect into one ``WriteBatch``.  Leaving a ``with`` block over any of them
    commits all of it, through an exception discards it.
    """

    def __init__(self, below: Any, coding: Coding[K, V, KeyIn, ValueIn]) -> None:
        self._below = below
        self._coding = coding

    def __delitem__(self, key: KeyIn) -> None:
        self.delete(key)

    def __len__(self) -> int:
        """Operations in the whole batch so far, also those of other mappings."""
        return len(self._below)

    def clear(self) -> None:
        """Forget the operations of the whole batch so far."""
        self._below.clear()

    def commit(self) -> None:
        """Apply the whole batch, in one step.  Raises as ``DB.put``."""
        self._below.commit()

    def close(self) -> None:
        """Discard the whole batch unless it is committed.  A second call does nothing."""
        self._below.close()
