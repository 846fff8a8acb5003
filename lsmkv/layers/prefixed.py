"""The keys with one prefix, as a mapping that leaves it out.

One store then holds many mappings: users, orders, an index.  ``DB.prefixed`` makes them; they nest, and
their ranges, cursors, snapshots and batches stay inside the prefix.

>>> import lsmkv, tempfile
>>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
...     users, emails = db.prefixed(b"user/"), db.prefixed(b"email/")
...     with db.write_batch() as batch:  # both or none
...         users.on(batch)[b"7"] = b"Ada"
...         emails.on(batch)[b"ada@example.org"] = b"7"
...     dict(users.items(start=b"5")), emails[b"ada@example.org"], len(db)
({b'7': b'Ada'}, b'7', 2)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from typing import Any, Final, overload

import lsmkv
from lsmkv import Buffer
from lsmkv.layers.coding import Coding, ReadWritable
from lsmkv.layers.mapped import MappedReader, MappedSnapshot, MappedStore
from lsmkv.layers.mapped_db import MappedBatch, MappedDB

_CLEAR_BATCH: Final = 1000
_SHOWN_BYTES: Final = 40


class _PrefixCoding(Coding[bytes, bytes, Buffer, Buffer]):
    """Puts ``prefix`` before each key; values stay as they are."""

    def __init__(self, prefix: Buffer) -> None:
        self.prefix = _as_bytes(prefix, "prefix")
        if len(self.prefix) > lsmkv.MAX_KEY_BYTES:
            raise ValueError(
                f"prefix of {len(self.prefix)} bytes is over the limit of {lsmkv.MAX_KEY_BYTES} bytes"
            )
        self._rest = itemgetter(slice(len(self.prefix), None))

    def encode_key(self, key: Buffer) -> bytes:
        if type(key) is bytes:
            return self.prefix + key
        return self.prefix + _as_bytes(key, "key")

    def decode_key(self, data: bytes) -> bytes:
        key: bytes = self._rest(data)
        return key

    def encode_value(self, key: Buffer, value: Buffer) -> bytes:
        return value if type(value) is bytes else _as_bytes(value, "value")

    def decode_value(self, key: bytes, data: bytes) -> bytes:
        return data

    def encode_bound(self, key: Buffer | tuple[Any, ...]) -> bytes:
        return self.prefix + _as_bytes(key, "key")

    def encode_range(
        self,
        start: Buffer | tuple[Any, ...] | None,
        stop: Buffer | tuple[Any, ...] | None,
        prefix: Buffer | tuple[Any, ...] | None,
    ) -> tuple[bytes | None, bytes | None, bytes]:
        return (
            None if start is None else self.encode_bound(start),
            None if stop is None else self.encode_bound(stop),
            self.prefix if prefix is None else self.encode_bound(prefix),
        )


def _as_bytes(data: object, what: str) -> bytes:
    if isinstance(data, str):
        raise TypeError(
            f"a {what} is bytes, not str: encode it, for example {data[:40]!r}.encode()"
        )
    try:
        return bytes(memoryview(data))  # type: ignore[arg-type]  # raises if not
    except TypeError:
        raise TypeError(
            f"a {what} is bytes or another bytes-like object, not {type(data).__name__}"
        ) from None


class _Prefixed:
    """What the mappings with a prefix share."""

    _below: Any
    _coding: Any

    @property
    def prefix(self) -> bytes:
        """What keys start with in the store: all nested prefixes."""
        prefix: bytes = self._coding.prefix
        return prefix

    @overload
    def on(self, other: lsmkv.WriteBatch | MappedBatch[Any, Any, Any, Any]) -> PrefixedBatch: ...
    @overload
    def on(  # type: ignore[overload-overlap]  # a store is written to like a transaction, and more
        self, other: lsmkv.DB | MappedDB[Any, Any, Any, Any]
    ) -> PrefixedDB: ...
    @overload
    def on(
        self, other: lsmkv.Snapshot | MappedSnapshot[Any, Any, Any, Any]
    ) -> PrefixedSnapshot: ...
    @overload
    def on(self, other: ReadWritable) -> PrefixedMapping: ...
    def on(self, other: Any) -> Any:
        """The same keys of a batch, snapshot or transaction of the store.

        A batch or snapshot of another mapping counts as that of the store.

        >>> import lsmkv, tempfile
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
        ...     users, log = db.prefixed(b"user/"), db.prefixed(b"log/")
        ...     with users.write_batch(sync=True) as batch:
        ...         batch[b"ada"] = b"1815"
        ...         log.on(batch)[b"1"] = b"born"
        ...     list(db)
        [b'log/1', b'user/ada']
        """
        while isinstance(other, (MappedReader, MappedBatch)):
            other = other._below
        if isinstance(other, lsmkv.WriteBatch):
            return PrefixedBatch(other, self.prefix)
        if isinstance(other, lsmkv.DB):
            return PrefixedDB(other, self.prefix)
        if isinstance(other, lsmkv.Snapshot):
            return PrefixedSnapshot(other, self.prefix)
        return PrefixedMapping(other, self.prefix)

    def __repr__(self) -> str:
        return f"<lsmkv.{type(self).__name__} {self._shown_prefix()} of {self._below!r}>"

    def _repr_html_(self) -> str:
        from lsmkv.layers.notebook import of_mapped

        name = f"lsmkv.{type(self).__name__}"
        return of_mapped(name, self._below, ("prefix", self._shown_prefix()))

    def _shown_prefix(self) -> str:
        prefix = self.prefix
        return repr(prefix) if len(prefix) <= _SHOWN_BYTES else f"{prefix[:_SHOWN_BYTES]!r}..."


class PrefixedSnapshot(_Prefixed, MappedSnapshot[bytes, bytes, Buffer, Buffer]):
    """The keys of a snapshot that have a prefix, without it."""

    def __init__(self, snapshot: lsmkv.Snapshot, prefix: Buffer) -> None:
        super().__init__(snapshot, _PrefixCoding(prefix))

    def prefixed(self, prefix: Buffer) -> PrefixedSnapshot:
        """The keys that start with ``prefix`` here, without it."""
        return PrefixedSnapshot(self._below, self._coding.encode_key(prefix))


class PrefixedMapping(_Prefixed, MappedStore[bytes, bytes, Buffer, Buffer]):
    """The keys of a transaction that have a prefix, without it.

    It takes anything with ``get``, ``items`` (``start``, ``stop``, ``prefix``, ``reverse``), ``put`` and
    ``delete``.
    """

    def __init__(self, below: ReadWritable, prefix: Buffer) -> None:
        missing = [name for name in ("get", "items", "put", "delete") if not hasattr(below, name)]
        if missing:
            raise TypeError(
                f"{below!r} has no {missing[0]}(): a prefix is of a store, snapshot, batch or transaction"
            )
        super().__init__(below, _PrefixCoding(prefix))

    def prefixed(self, prefix: Buffer) -> PrefixedMapping:
        """The keys that start with ``prefix`` here, without it."""
        return PrefixedMapping(self._below, self._coding.encode_key(prefix))


class PrefixedDB(_Prefixed, MappedDB[bytes, bytes, Buffer, Buffer]):
    """The keys of a store that have a prefix, without it.

    Closing stays with the store (``db``).

    >>> import lsmkv, tempfile
    >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
    ...     tenant = db.prefixed(b"acme/")
    ...     users = tenant.prefixed(b"user/")  # they nest
    ...     users.update({b"ada": b"1815", b"alan": b"1912"})
    ...     list(users.keys(prefix=b"al")), list(tenant), users.popitem()
    ([b'alan'], [b'user/ada', b'user/alan'], (b'ada', b'1815'))
    """

    def __init__(self, db: lsmkv.DB, prefix: Buffer) -> None:
        super().__init__(db, _PrefixCoding(prefix))

    @property
    def db(self) -> lsmkv.DB:
        """The store."""
        db: lsmkv.DB = self._below
        return db

    def prefixed(self, prefix: Buffer) -> PrefixedDB:
        """The keys that start with ``prefix`` here, without it."""
        return PrefixedDB(self.db, self._coding.encode_key(prefix))

    def snapshot(self) -> PrefixedSnapshot:
        """The mapping as it is now, unchanged by later writes; close it."""
        return PrefixedSnapshot(self.db.snapshot(), self.prefix)

    def write_batch(self, *, sync: bool = False) -> PrefixedBatch:
        """Operations that the end of the ``with`` block applies: ``DB.write_batch``."""
        return PrefixedBatch(self.db.write_batch(sync=sync), self.prefix)

    def popitem(self) -> tuple[bytes, bytes]:
        """Remove the first key, and return it with its value; KeyError without one.

        Two threads never pop the same entry.
        """
        key, value = self.db.popitem(prefix=self.prefix)
        return self._coding.decode_key(key), value

    def clear(self) -> None:
        """Remove every key that is here now, in several batches."""
        keys: Iterator[bytes] = iter(self.db.keys(prefix=self.prefix))
        while True:
            with self.db.write_batch() as batch:
                for key in islice(keys, _CLEAR_BATCH):
                    batch.delete(key)
                if not len(batch):
                    return


class PrefixedBatch(MappedBatch[bytes, bytes, Buffer, Buffer]):
    """Operations on keys with a prefix, for a batch of the store."""

    def __init__(self, batch: lsmkv.WriteBatch, prefix: Buffer) -> None:
        super().__init__(batch, _PrefixCoding(prefix))

    def prefixed(self, prefix: Buffer) -> PrefixedBatch:
        """Operations on the keys that start with ``prefix`` here."""
        return PrefixedBatch(self._below, self._coding.encode_key(prefix))
