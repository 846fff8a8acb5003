"""The part of ``DB`` that begins transactions."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from lsmkv.api.reads import Reads
from lsmkv.api.snapshot import Snapshot
from lsmkv.encoding.entries import Buffer, key_bytes, value_bytes
from lsmkv.engine.engine import Engine
from lsmkv.engine.recent_writes import Place
from lsmkv.errors import ConflictError

if TYPE_CHECKING:  # imported where it is used: most programs never need it
    from lsmkv.api.transaction import Transaction

_T = TypeVar("_T")
_FIRST_PAUSE_S: Final = 0.0002
_LONGEST_PAUSE_S: Final = 0.05


class Transacting:
    """``transaction``, ``transact`` and ``compare_and_set`` of a store."""

    _engine: Engine

    def transaction(self, *, sync: bool = False) -> Transaction:
        """Reads and writes that the ``with`` block commits together, or not.

        It sees the store as it is now, and its own writes.  Committed transactions are serialisable: they
        have the effect of running one after the other, each at its commit.  One that is begun inside
        another is one of its own: what it commits stays, whatever becomes of the other.  On a handle that
        is open for reading it can only read.

        Args:
            sync: as for :meth:`put`.

        Raises:
            ConflictError: at the end, if someone else wrote to what it read; nothing was written.
                :meth:`transact` tries again.
            ClosedError: this handle is closed.

        >>> import lsmkv, tempfile
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
        ...     db.update({b"ada": b"50", b"alan": b"10"})
        ...     with db.transaction() as t:
        ...         t[b"ada"] = b"%d" % (int(t[b"ada"]) - 20)
        ...         t[b"alan"] = b"%d" % (int(t[b"alan"]) + 20)
        ...     dict(db)
        {b'ada': b'30', b'alan': b'30'}
        """
        from lsmkv.api.transaction import Transaction

        return Transaction(self._engine, sync, self)

    def transact(
        self, function: Callable[[Transaction], _T], attempts: int = 10, *, sync: bool = False
    ) -> _T:
        """Call ``function`` with a transaction, commit, and return what it returned.

        After a ConflictError it begins anew, so ``function`` may run several times: it should do nothing
        but read and write the transaction.  An exception of another kind discards the transaction.

        Args:
            function: called with the :class:`Transaction`.
            attempts: how often it is called at most, with short random pauses in between.
            sync: as for :meth:`put`.

        Raises:
            ConflictError: all attempts met a conflict; the last one is the cause.
            ValueError: ``attempts`` is less than 1.
            OSError, BackgroundError, ReadOnlyError, ClosedError: as :meth:`put`.

        >>> import lsmkv, tempfile
        >>> def count(t):
        ...     t[b"visits"] = b"%d" % (int(t.get(b"visits", b"0")) + 1)
        ...     return int(t[b"visits"])
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
        ...     db.transact(count), db.transact(count)
        (1, 2)
        """
        if not isinstance(attempts, int) or attempts < 1:
            raise ValueError(f"attempts={attempts!r}: give a number from 1 on")
        pause_s = _FIRST_PAUSE_S
        for attempt in range(1, attempts + 1):
            try:
                with self.transaction(sync=sync) as transaction:
                    return function(transaction)
            except ConflictError as error:
                if attempt == attempts:
                    raise ConflictError(error.key, attempts) from error
            time.sleep(random.uniform(0, pause_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        raise AssertionError  # the last attempt returns or raises

    def compare_and_set(
        self, key: Buffer, expected: Buffer | None, value: Buffer | None, *, sync: bool = False
    ) -> bool:
        """Set ``key`` if it has the value ``expected``, in one step.

        Args:
            key: up to 65,535 bytes.
            expected: the value that it must have; None: it must not be there.
            value: the new value; None removes it.
            sync: as for :meth:`put`.

        Returns:
            Whether it was set.

        Raises:
            TypeError, ValueError, OSError, BackgroundError, ReadOnlyError, ClosedError: as :meth:`put`.

        >>> import lsmkv, tempfile
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
        ...     db.compare_and_set(b"lock", None, b"mine"), db.compare_and_set(b"lock", None, b"yours")
        (True, False)
        """
        data = key_bytes(key)
        wanted = None if expected is None else value_bytes(expected)
        operations = [(data, None if value is None else value_bytes(value))]
        engine = self._engine
        engine.check_for_writing()
        reads = Reads()
        reads.keys.add(data)
        while True:
            current, pin, place = engine.begin()
            snapshot = Snapshot(engine, current, pin, self)
            try:
                if snapshot.get(data) != wanted:
                    return False
                engine.write_batch(operations, sync, partial(_admit, reads, place, snapshot))
                return True
            except ConflictError:  # someone else has set it, and so got ahead
                pass
            finally:
                snapshot.close()
                place.release()


def _admit(reads: Reads, place: Place, snapshot: Snapshot) -> None:
    """Check what was read, and let go of the snapshot: the write need not keep what it replaces."""
    reads.check(place)
    snapshot.close()
