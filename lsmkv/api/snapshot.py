"""Snapshots, and the reading part that they share with ``DB``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, TypeVar, overload

from lsmkv.api.cursor import Cursor
from lsmkv.api.views import RangeItems, RangeKeys, RangeValues
from lsmkv.encoding.entries import Buffer, key_bytes, keys_bytes
from lsmkv.engine.engine import Engine
from lsmkv.errors import ClosedError, uncopyable
from lsmkv.read.snapshots import Pin
from lsmkv.read.view import ReadView, SuperVersion

if TYPE_CHECKING:  # imported where it is used: most programs never need it
    from lsmkv.layers.prefixed import PrefixedSnapshot

_T = TypeVar("_T")


class StoreReader(Mapping[bytes, bytes]):
    """The reading part of a store or snapshot."""

    _engine: Engine
    _lookup: Callable[[Buffer], bytes | None]
    _lookup_many: Callable[[Iterable[Buffer]], list[bytes | None]]
    _read_view: Callable[[], ReadView]
    """The state that a reader sees which starts now."""

    @overload
    def get(self, key: Buffer, default: None = None) -> bytes | None: ...
    @overload
    def get(self, key: Buffer, default: _T) -> bytes | _T: ...
    def get(self, key: Buffer, default: object = None) -> object:
        """The value of ``key``, or ``default`` when it is not there.

        Reads at most one block of each sorted run, and none of a run whose filters deny the key.

        Raises:
            TypeError, ValueError: not a key.
            CorruptionError: a block that the lookup read is damaged.
            ClosedError: the store, or the snapshot, is closed.
        """
        lookup = self._lookup  # a name first: CPython 3.11 finds attributes sooner than methods
        value = lookup(key)
        return default if value is None else value

    def __getitem__(self, key: Buffer) -> bytes:
        value = self._lookup(key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self._lookup(key) is not None  # type: ignore[arg-type]  # raises TypeError itself

    def multi_get(self, keys: Iterable[Buffer]) -> list[bytes | None]:
        """The value of each key, in order, or None.  Raises as :meth:`get`."""
        return self._lookup_many(keys)

    def keys(  # type: ignore[override]  # a view by registration
        self,
        *,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        prefix: Buffer | None = None,
        reverse: bool = False,
    ) -> RangeKeys:
        """The keys between ``start`` and ``stop`` with ``prefix``, in order.

        Args:
            start, stop, prefix: start <= key < stop; None sets no bound.
            reverse: in descending order instead.

        Returns:
            A view of the store as it is now, unchanged by later writes.  Each iteration reads it block
            by block.  The store keeps the entries of a view while the view lives.  An iterator is for
            one thread at a time (ValueError), and raises ClosedError once the store is closed.
            ``list(view)`` scans twice, because ``list`` asks for the length first; ``list(iter(view))``
            scans once.
        """
        return RangeKeys(self, self._engine, self._read_view, start, stop, prefix, reverse)

    def values(  # type: ignore[override]  # a view by registration
        self,
        *,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        prefix: Buffer | None = None,
        reverse: bool = False,
    ) -> RangeValues:
        """The values of the keys that :meth:`keys` returns, in their order."""
        return RangeValues(self, self._engine, self._read_view, start, stop, prefix, reverse)

    def items(  # type: ignore[override]  # a view by registration
        self,
        *,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        prefix: Buffer | None = None,
        reverse: bool = False,
    ) -> RangeItems:
        """The keys that :meth:`keys` returns, each with its value."""
        return RangeItems(self, self._engine, self._read_view, start, stop, prefix, reverse)

    def cursor(self) -> Cursor:
        """A cursor over the store as it is now, at no key."""
        return Cursor(self._engine, self._read_view(), self)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.keys())

    def __reversed__(self) -> Iterator[bytes]:
        return iter(self.keys(reverse=True))

    def __len__(self) -> int:
        """The number of keys.  O(n): scans all (``DB.approximate_count`` does not)."""
        return len(self.keys())

    def __bool__(self) -> bool:
        """Whether there is any key.  Looks for the first only."""
        return next(iter(self), None) is not None


class Snapshot(StoreReader):
    """The store as it was at ``DB.snapshot``; end it with ``close`` or ``with``."""

    def __init__(self, engine: Engine, current: SuperVersion, pin: Pin, owner: object) -> None:
        self._owner = owner  # keeps the store open while the snapshot lives
        self._engine = engine
        self._pin: Pin | None = pin
        # Another process writes to a read-only store, so only the super version itself keeps entries.
        self._kept = current if engine.read_only else None

    def _live_pin(self) -> Pin:
        if self._pin is None:
            raise ClosedError("the snapshot is closed")
        return self._pin

    def _super_version(self) -> SuperVersion:
        current = self._engine.require_open()
        return self._kept or current

    def _lookup(self, key: Buffer) -> bytes | None:
        value = self._super_version().get_at(
            key_bytes(key), self._live_pin().seq, self._engine.stats
        )
        self._live_pin()  # if it was closed meanwhile, entries may be gone that it should have seen
        return value

    def _lookup_many(self, keys: Iterable[Buffer]) -> list[bytes | None]:
        kept = self._kept
        if kept is None:
            return list(map(self._lookup, keys_bytes(keys)))
        # A read-only store's super version has nothing that is newer than the snapshot.
        checked = keys_bytes(keys)
        self._super_version()
        found = kept.get_many(checked, self._engine.stats)
        self._live_pin()
        return found

    def _read_view(self) -> ReadView:
        read_view = self._engine.read_view_at(self._super_version(), self._live_pin().seq)
        self._live_pin()  # as in _lookup
        return read_view

    def prefixed(self, prefix: Buffer) -> PrefixedSnapshot:
        """The keys with ``prefix``, as a mapping that leaves it out."""
        from lsmkv.layers.prefixed import PrefixedSnapshot

        self._super_version()
        self._live_pin()
        return PrefixedSnapshot(self, prefix)

    @property
    def sequence_number(self) -> int:
        """The number of the last write that the snapshot sees."""
        return self._live_pin().seq

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._pin is None

    def close(self) -> None:
        """End the snapshot, so that the store may drop old entries.  A second call does nothing."""
        pin, self._pin, self._kept = self._pin, None, None
        if pin is not None:
            pin.release()

    def __enter__(self) -> Self:
        self._live_pin()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("a Snapshot", "share it between threads, or take another of the store")

    def __repr__(self) -> str:
        return f"<lsmkv.Snapshot of {self._engine.directory!r}, {self._state()}>"

    def _repr_html_(self) -> str:
        from lsmkv.layers.notebook import table

        return table(
            "lsmkv.Snapshot", [("store", repr(self._engine.directory)), ("state", self._state())]
        )

    def _state(self) -> str:
        pin = self._pin
        return "closed" if pin is None else f"as of write {pin.seq}"
