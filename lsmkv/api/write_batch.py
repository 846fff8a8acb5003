"""Write batches as users see them."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self, SupportsIndex

from lsmkv.encoding.entries import (
    MAX_BATCH_BYTES,
    Buffer,
    key_bytes,
    value_bytes,
)
from lsmkv.engine.engine import Engine
from lsmkv.errors import ClosedError, uncopyable
from lsmkv.log.batch import _HEADER, OPERATION_OVERHEAD_BYTES, Operation


class WriteBatch:
    """Operations collected by ``DB.write_batch``: applied in order, all or none.

    Leaving the ``with`` block commits them; leaving it through an exception discards them.  Without
    ``with``, call ``commit``.

    A commit is O(n) and looks for no key's place; the first look-up afterwards does it for all batches
    that are not in tables yet, O(n) too.
    """

    def __init__(self, engine: Engine, sync: bool) -> None:
        self._engine = engine
        self._sync = sync
        self._pending: OperationList | None = OperationList()

    def _open(self) -> OperationList:
        pending = self._pending
        if pending is None:
            raise ClosedError("the write batch was committed or discarded already")
        self._engine.require_open()
        return pending

    def put(self, key: Buffer, value: Buffer) -> None:
        """Set ``key`` to ``value`` when the batch is committed.

        Raises:
            TypeError, ValueError: not a key or value, or the batch would be over its limit of 1 GiB.
            ClosedError: the batch was committed or discarded already.
        """
        self._open().add(key_bytes(key), value_bytes(value))

    def delete(self, key: Buffer) -> None:
        """Remove ``key`` when the batch is committed.  Raises as :meth:`put`."""
        self._open().add(key_bytes(key), None)

    def __setitem__(self, key: Buffer, value: Buffer) -> None:
        self.put(key, value)

    def __delitem__(self, key: Buffer) -> None:
        self.delete(key)

    def __len__(self) -> int:
        """Operations collected so far."""
        return len(self._open().operations)

    def clear(self) -> None:
        """Forget what was collected so far."""
        self._open().clear()

    def commit(self) -> None:
        """Apply everything, in one step.  Raises as ``DB.put``."""
        pending = self._open()
        self._pending = None
        self._engine.require_open()
        # A copy: another thread, in a put of its own, may still append to the list.
        self._engine.write_batch(pending.operations.copy(), self._sync)

    def close(self) -> None:
        """Discard what was not committed.  A second call does nothing."""
        self._pending = None

    @property
    def closed(self) -> bool:
        """Whether the batch was committed or discarded."""
        return self._pending is None

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None and self._pending is not None:
            self.commit()
        self.close()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("a WriteBatch", "collect the operations of another in DB.write_batch()")

    def __repr__(self) -> str:
        pending = self._pending
        state = "committed or discarded"
        if pending is not None:
            count = len(pending.operations)
            state = f"{count} operation{'' if count == 1 else 's'}, {pending.size_bytes} bytes"
        return f"<lsmkv.WriteBatch for {self._engine.directory!r}, {state}>"


class OperationList:
    """Operations in the order given, within the limits of a batch."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.size_bytes = _HEADER.size

    def add(self, key: bytes, value: bytes | None) -> None:
        """Append one operation.

        Raises:
            ValueError: the batch would be over :data:`~lsmkv.encoding.entries.MAX_BATCH_BYTES`.
        """
        size = self.size_bytes + OPERATION_OVERHEAD_BYTES + len(key) + len(value or b"")
        if size > MAX_BATCH_BYTES:
            raise ValueError(
                f"write batch of {size} bytes is over the limit of {MAX_BATCH_BYTES} bytes; "
                "commit it in parts"
            )
        self.operations.append((key, value))
        self.size_bytes = size

    def clear(self) -> None:
        """Forget every operation."""
        self.operations = []
        self.size_bytes = _HEADER.size
