"""Write batches: several operations applied in one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, SupportsIndex

from lsmkv.api.ranges import deleted_range
from lsmkv.encoding.entries import (
    MAX_BATCH_BYTES,
    MAX_SEQUENCE,
    Buffer,
    key_bytes,
    value_bytes,
)
from lsmkv.encoding.expiry import Held, held_bytes
from lsmkv.encoding.range_deletes import RangeDelete, RangeDeletes
from lsmkv.engine.erase import delete_ranges
from lsmkv.engine.readers import Readers
from lsmkv.engine.writer import Writer
from lsmkv.errors import ClosedError, uncopyable
from lsmkv.html import state_table
from lsmkv.log.batch import HEADER_BYTES, OPERATION_OVERHEAD_BYTES, Operation

if TYPE_CHECKING:  # imported where it is used: most programs never need it
    from lsmkv.layers.prefixed import PrefixedBatch


class WriteBatch:
    """Operations collected by ``DB.write_batch``: applied in order, all or none.

    Leaving the ``with`` block commits them, through an exception discards them.  Without ``with``, call
    ``commit``.  It is O(n) and leaves the operations unsorted; the first lookup afterwards sorts all
    batches in the memtable, which is O(n) too.
    """

    def __init__(self, writer: object = None, sync: bool = False, readers: object = None) -> None:
        if not isinstance(writer, Writer) or not isinstance(readers, Readers):
            raise TypeError("make a batch with db.write_batch(), not with WriteBatch(...)")
        self._readers = readers
        self._writer = writer
        self._expires = writer.state.clock.default_ttl_s is not None
        self._sync = sync
        self._operations: list[Operation] | None = []  # None once committed or discarded
        self._ranges: list[RangeDelete] = []  # each with the number of operations before it
        self._size_bytes = HEADER_BYTES

    def _open(self) -> list[Operation]:
        operations = self._operations
        if operations is None:
            raise ClosedError("the write batch was committed or discarded already")
        self._writer.state.require_open()
        return operations

    def _add(self, key: bytes, value: Held) -> None:
        operations = self._open()
        length = len(value) if isinstance(value, bytes) else held_bytes(value)
        size = self._size_bytes + OPERATION_OVERHEAD_BYTES + len(key) + length
        if size > MAX_BATCH_BYTES:
            raise self._too_large(size)
        operations.append((key, value))
        self._size_bytes = size

    def _too_large(self, size_bytes: int) -> ValueError:
        return ValueError(
            f"write batch of {size_bytes} bytes is over the limit of {MAX_BATCH_BYTES} bytes; "
            "commit it in parts"
        )

    def put(
        self,
        key: Buffer,
        value: Buffer,
        ttl_s: float | None = None,  # named arguments alone would cost compiled code 10 % of a put
        expires_at: float | None = None,
    ) -> None:
        """Set ``key`` to ``value`` when the batch is committed.

        ``ttl_s`` and ``expires_at`` are as for ``DB.put``, from now on.

        Raises:
            TypeError, ValueError: not a key or value, or the batch would exceed its limit of 1 GiB.
            ClosedError: the batch was committed or discarded already.
        """
        held: Held = value_bytes(value)
        if self._expires or ttl_s is not None or expires_at is not None:
            held = self._writer.state.clock.held(value_bytes(value), ttl_s, expires_at)
        self._add(key_bytes(key), held)

    def delete(self, key: Buffer) -> None:
        """Remove ``key`` when the batch is committed.  Raises as :meth:`put`."""
        self._add(key_bytes(key), None)

    def delete_range(
        self,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        *,
        prefix: Buffer | None = None,
    ) -> None:
        """Remove the keys of a range when the batch is committed.  Raises as :meth:`put`.

        Operations that come after it in the batch stay.  Arguments as for ``DB.delete_range``.
        """
        operations = self._open()
        for low, high in deleted_range(start, stop, prefix):
            size = self._size_bytes + OPERATION_OVERHEAD_BYTES + len(low) + len(high or b"")
            if size > MAX_BATCH_BYTES:
                raise self._too_large(size)
            self._size_bytes = size
            self._ranges.append((low, high, len(operations)))

    def prefixed(self, prefix: Buffer) -> PrefixedBatch:
        """Operations on the keys with ``prefix``, which leave it out."""
        from lsmkv.layers.prefixed import PrefixedBatch

        self._open()
        return PrefixedBatch(self, prefix)

    def __setitem__(self, key: Buffer, value: Buffer) -> None:
        self.put(key, value)

    def __delitem__(self, key: Buffer) -> None:
        self.delete(key)

    def __len__(self) -> int:
        """Operations collected so far."""
        return len(self._open()) + len(self._ranges)

    def clear(self) -> None:
        """Forget the operations collected so far."""
        self._open().clear()
        self._ranges.clear()
        self._size_bytes = HEADER_BYTES

    def commit(self) -> None:
        """Apply everything, in one step.  Raises as ``DB.put``."""
        operations = self._open()
        self._operations = None
        operations = operations.copy()  # a put of another thread may still append to the list
        if not self._ranges:
            self._writer.write_batch(operations, self._sync)
            return
        erased = RangeDeletes(tuple(self._ranges))  # they are written first, without what they hide
        kept = [
            each
            for before, each in enumerate(operations)
            if erased.newest_over(each[0], MAX_SEQUENCE) <= before
        ]
        ranges = [(start, stop) for start, stop, _ in self._ranges]
        delete_ranges(self._readers, self._writer, ranges, kept, self._sync)

    def close(self) -> None:
        """Discard the operations unless they are committed.  A second call does nothing."""
        self._operations = None

    @property
    def closed(self) -> bool:
        """Whether the batch was committed or discarded."""
        return self._operations is None

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None and self._operations is not None:
            self.commit()
        self.close()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("a WriteBatch", "collect the operations of another in DB.write_batch()")

    def __repr__(self) -> str:
        return f"<lsmkv.WriteBatch for {self._writer.state.directory!r}, {self._state()}>"

    def _repr_html_(self) -> str:
        return state_table(self, self._writer.state.directory, self._state())

    def _state(self) -> str:
        operations = self._operations
        if operations is None:
            return "committed or discarded"
        count = len(operations) + len(self._ranges)
        return f"{count} operation{'' if count == 1 else 's'}, {self._size_bytes} bytes"
