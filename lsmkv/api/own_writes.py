"""The writes of a transaction, which only it sees until it commits."""

from __future__ import annotations

from collections.abc import Iterator

from sortedcontainers import SortedDict

from lsmkv.encoding.entries import ABSENT, MAX_BATCH_BYTES, Absent, Value
from lsmkv.log.batch import _HEADER, OPERATION_OVERHEAD_BYTES, Operation
from lsmkv.read.scan import Bounds


class OwnWrites:
    """Values by key, in order; None deletes.

    Views do not see what is written after them.  So a key has the values of several moments, if it is
    written again after a view was made.
    """

    def __init__(self) -> None:
        # None before the first write: a sorted dict takes microseconds to make.
        self._versions: SortedDict[bytes, list[tuple[int, Value]]] | None = None
        self._moment = 0
        self.size_bytes = _HEADER.size

    def __len__(self) -> int:
        return 0 if self._versions is None else len(self._versions)

    def put(self, key: bytes, value: Value) -> None:
        """Set ``key``.  ValueError if all would be too much for one write; O(log n)."""
        if self._versions is None:
            self._versions = SortedDict()
        versions = self._versions.get(key)
        size = self.size_bytes + len(value or b"")
        if versions is None:
            size += OPERATION_OVERHEAD_BYTES + len(key)
        else:
            size -= len(versions[-1][1] or b"")
        if size > MAX_BATCH_BYTES:
            raise ValueError(
                f"writes of {size} bytes are over a transaction's limit of {MAX_BATCH_BYTES} bytes; "
                "commit them in parts"
            )
        if versions is None:
            self._versions[key] = [(self._moment, value)]
        elif versions[-1][0] == self._moment:
            versions[-1] = self._moment, value
        else:
            versions.append((self._moment, value))
        self.size_bytes = size

    def get(self, key: bytes) -> Value | Absent:
        """The newest value; None for a deletion, ABSENT if it was not written."""
        versions = None if self._versions is None else self._versions.get(key)
        return ABSENT if versions is None else versions[-1][1]

    def freeze(self) -> int:
        """The present moment, for views to see nothing later."""
        self._moment += 1
        return self._moment - 1

    def get_at(self, key: bytes, moment: int) -> Value | Absent:
        """As :meth:`get`, at ``moment``."""
        if self._versions is not None:
            for written_at, value in reversed(self._versions.get(key, ())):
                if written_at <= moment:
                    return value
        return ABSENT

    def entries(self, wanted: Bounds, moment: int) -> Iterator[tuple[bytes, Value]]:
        """What was written to a range by ``moment``, in order; more may be written meanwhile."""
        low, high = wanted.start, wanted.stop
        included = (True, False)
        while self._versions is not None:
            count = len(self._versions)
            for key in self._versions.irange(low, high, included, wanted.reverse):
                value = self.get_at(key, moment)
                if not isinstance(value, Absent):
                    yield key, value
                if len(self._versions) != count:  # the lists that it walks have changed
                    low, high = (low, key) if wanted.reverse else (key, high)
                    included = (included[0] and wanted.reverse, False)
                    break
            else:
                return

    def operations(self) -> list[Operation]:
        """The newest values, for a batch."""
        written = {} if self._versions is None else self._versions
        return [(key, versions[-1][1]) for key, versions in written.items()]
