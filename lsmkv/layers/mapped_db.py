"""Mappings over an open store, and batches for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self

from lsmkv.layers.coding import Coding, K, KeyIn, V, ValueIn
from lsmkv.layers.cursors import successor
from lsmkv.layers.mapped import MappedStore

if TYPE_CHECKING:  # loaded by `DB.explain` alone
    from lsmkv import Explanation


class MappedDB(MappedStore[K, V, KeyIn, ValueIn]):
    """Reading and writing, of an open store."""

    def put(self, key: KeyIn, value: ValueIn, *, sync: bool = False) -> None:
        """Set ``key`` to ``value``.  TypeError or ValueError: not a key or value.

        ``sync`` and other errors are those of ``DB.put``.
        """
        data = self._coding.encode_key(key)
        self._below.put(data, self._coding.encode_value(key, value), sync=sync)

    def delete(self, key: KeyIn, *, sync: bool = False) -> None:
        """Remove ``key`` if it is there.  Arguments and errors as :meth:`put`."""
        self._below.delete(self._coding.encode_key(key), sync=sync)

    def popitem(self) -> tuple[K, V]:
        """Remove the first key, and return it with its value; KeyError without one.

        Two threads never pop the same entry.  An entry that does not decode is put back.
        """
        key, value = self._below.popitem()
        try:
            return self._coding.decode_key(key), self._coding.decode_value(key, value)
        except BaseException:
            self._below.put(key, value)
            raise

    def clear(self) -> None:
        """Remove every key that is there now, in several batches."""
        self._below.clear()

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
        end = successor(head)
        ends = [bound for bound in (high, end) if bound is not None]
        return max(low or head, head), min(ends, default=None)

    def approximate_size(
        self,
        start: KeyIn | tuple[Any, ...] | None = None,
        stop: KeyIn | tuple[Any, ...] | None = None,
    ) -> int:
        """About how many bytes of tables a range of keys takes: ``DB.approximate_size``."""
        size: int = self._below.approximate_size(*self._bounds(start, stop))
        return size

    def compact_range(
        self,
        start: KeyIn | tuple[Any, ...] | None = None,
        stop: KeyIn | tuple[Any, ...] | None = None,
        *,
        force: bool = False,
    ) -> None:
        """Flush, then merge all entries between two keys: ``DB.compact_range``."""
        self._below.compact_range(*self._bounds(start, stop), force=force)


class MappedBatch(Generic[K, V, KeyIn, ValueIn]):
    """Operations for a batch of the store: applied in order, all or none.

    Several of these may collect into one ``WriteBatch``.  Leaving a ``with`` block over any of them
    commits all of it, through an exception discards it.
    """

    def __init__(self, below: Any, coding: Coding[K, V, KeyIn, ValueIn]) -> None:
        self._below = below
        self._coding = coding

    def put(self, key: KeyIn, value: ValueIn) -> None:
        """Set ``key`` to ``value`` when the batch is committed.

        Raises:
            TypeError, ValueError: not a key or value, or the batch would exceed its limit of 1 GiB.
            ClosedError: the batch was committed or discarded already.
        """
        data = self._coding.encode_key(key)
        self._below.put(data, self._coding.encode_value(key, value))

    def delete(self, key: KeyIn) -> None:
        """Remove ``key`` when the batch is committed.  Raises as :meth:`put`."""
        self._below.delete(self._coding.encode_key(key))

    def __setitem__(self, key: KeyIn, value: ValueIn) -> None:
        self.put(key, value)

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

    @property
    def closed(self) -> bool:
        """Whether the batch was committed or discarded."""
        closed: bool = self._below.closed
        return closed

    def __enter__(self) -> Self:
        self._below.__enter__()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._below.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._below!r}>"
