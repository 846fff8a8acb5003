"""The ordered mapping: its reading part, for stores, snapshots, transactions and layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from lsmkv.layers.coding import K, KeyIn, V
from lsmkv.layers.peers import KnowsPeers, own_names, tells_names_of_mappings, wrong_range
from lsmkv.layers.views import OrderedItems, OrderedKeys, OrderedValues

_T = TypeVar("_T")
BoundIn = TypeVar("BoundIn")  # the type of a range's bounds: KeyIn, or more


@tells_names_of_mappings
class OrderedReader(Mapping[K, V], Generic[K, V, KeyIn, BoundIn], metaclass=KnowsPeers):
    """The reading part of an ordered mapping.

    A subclass says how to look up, and which classes make its views.

    Attributes:
        _lookup: gives the value of a key, or None.
        _lookup_many: gives the value of each key, or None.
        _keys, _values, _items: make a view of this mapping, of ``start, stop, prefix, reverse``.
    """

    _lookup: Callable[[KeyIn], V | None]
    _lookup_many: Callable[[Iterable[KeyIn]], list[V | None]]
    _keys: Callable[..., OrderedKeys[Any]]
    _values: Callable[..., OrderedValues[Any]]
    _items: Callable[..., OrderedItems[Any, Any]]

    @overload  # type: ignore[override]  # KeyIn holds every K
    def get(self, key: KeyIn, default: None = None) -> V | None: ...
    @overload
    def get(self, key: KeyIn, default: _T) -> V | _T: ...
    def get(self, key: KeyIn, default: object = None) -> object:
        """The value of ``key``, or ``default`` when it is not there.

        Reads at most one block of each sorted run, and none of a run whose filters deny the key.

        Raises:
            TypeError, ValueError: not a key; or another thread is using the transaction.
            CorruptionError: a block that the lookup read is damaged.
            ClosedError: the store or the snapshot is closed, or the transaction has ended.
        """
        lookup = self._lookup  # a name first: CPython 3.11 finds attributes sooner than methods
        value = lookup(key)
        return default if value is None else value

    def __getitem__(self, key: KeyIn) -> V:  # type: ignore[override]  # KeyIn holds every K
        value = self._lookup(key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self._lookup(key) is not None  # type: ignore[arg-type]  # raises TypeError itself

    def multi_get(self, keys: Iterable[KeyIn]) -> list[V | None]:
        """The value of each key, in order, or None.  Raises as :meth:`get`."""
        return self._lookup_many(keys)

    def keys(
        self,
        *,
        start: BoundIn | None = None,
        stop: BoundIn | None = None,
        prefix: BoundIn | None = None,
        reverse: bool = False,
    ) -> OrderedKeys[K]:
        """The keys between ``start`` and ``stop`` with ``prefix``, in order.

        Args:
            start, stop, prefix: start <= key < stop; None sets no bound.
            reverse: in descending order instead.

        Returns:
            A view of the mapping as it is now, whose entries the store keeps while it lives.  Each
            iteration reads it block by block.  An iterator is for one thread at a time (ValueError), and
            raises ClosedError once the store is closed or the transaction has ended.  ``len`` scans.
        """
        return self._keys(self, start, stop, prefix, reverse)

    def values(
        self,
        *,
        start: BoundIn | None = None,
        stop: BoundIn | None = None,
        prefix: BoundIn | None = None,
        reverse: bool = False,
    ) -> OrderedValues[V]:
        """The values of the keys that :meth:`keys` returns, in their order."""
        return self._values(self, start, stop, prefix, reverse)

    def items(
        self,
        *,
        start: BoundIn | None = None,
        stop: BoundIn | None = None,
        prefix: BoundIn | None = None,
        reverse: bool = False,
    ) -> OrderedItems[K, V]:
        """The keys that :meth:`keys` returns, each with its value."""
        return self._items(self, start, stop, prefix, reverse)

    if not TYPE_CHECKING:  # what other arguments are called here

        @wraps(keys)
        def keys(self, *given, start=None, stop=None, prefix=None, reverse=False, **unknown):
            if given or unknown:
                raise wrong_range(f"{type(self).__name__}.keys", given, unknown)
            return self._keys(self, start, stop, prefix, reverse)

        @wraps(values)
        def values(self, *given, start=None, stop=None, prefix=None, reverse=False, **unknown):
            if given or unknown:
                raise wrong_range(f"{type(self).__name__}.values", given, unknown)
            return self._values(self, start, stop, prefix, reverse)

        @wraps(items)
        def items(self, *given, start=None, stop=None, prefix=None, reverse=False, **unknown):
            if given or unknown:
                raise wrong_range(f"{type(self).__name__}.items", given, unknown)
            return self._items(self, start, stop, prefix, reverse)

    def __dir__(self) -> list[str]:
        return own_names(type(self), super().__dir__())

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())

    def __reversed__(self) -> Iterator[K]:
        return iter(self.keys(reverse=True))

    def __len__(self) -> int:
        """The number of keys.  O(n): scans all (``DB.approximate_count`` does not)."""
        return len(self.keys())

    def __bool__(self) -> bool:
        """Whether there is any key.  Looks for the first only."""
        return next(iter(self), None) is not None
