"""The keys with one prefix, as a mapping that leaves it out.

One store then holds many mappings: users, orders, an index.  ``DB.prefixed`` makes them; they nest, and
their ranges, cursors, snapshots and batches stay inside the prefix.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Self, TypeVar, overload

from lsmkv.encoding.entries import MAX_KEY_BYTES, Buffer, to_bytes
from lsmkv.html import key_text, table
from lsmkv.layers.coding import Bound, Coding, Prefixable, Readable, ReadWritable, Writable
from lsmkv.layers.mapped import MappedBatch, MappedDB, MappedReader, MappedSnapshot, MappedStore

_T = TypeVar("_T")


class _PrefixCoding(Coding[bytes, bytes, Buffer, Buffer]):
    """Puts ``prefix`` before each key; values stay as they are."""

    def __init__(self, prefix: Buffer) -> None:
        self.prefix = to_bytes(prefix, "prefix")
        if len(self.prefix) > MAX_KEY_BYTES:
            raise ValueError(
                f"prefix of {len(self.prefix)} bytes is over the limit of {MAX_KEY_BYTES} bytes"
            )
        self._rest = itemgetter(slice(len(self.prefix), None))

    def encode_key(self, key: Buffer) -> bytes:
        return self.prefix + (key if type(key) is bytes else to_bytes(key, "key"))

    def decode_key(self, data: bytes) -> bytes:
        key: bytes = self._rest(data)
        return key

    def encode_value(self, key: Buffer, value: Buffer) -> bytes:
        return value if type(value) is bytes else to_bytes(value, "value")

    def decode_value(self, key: bytes, data: bytes) -> bytes:
        return data

    def encode_bound(self, key: Bound[Buffer]) -> bytes:
        return self.prefix + to_bytes(key, "key")

    def encode_range(
        self, start: Bound[Buffer] | None, stop: Bound[Buffer] | None, prefix: Bound[Buffer] | None
    ) -> tuple[bytes | None, bytes | None, bytes]:
        return (
            None if start is None else self.encode_bound(start),
            None if stop is None else self.encode_bound(stop),
            self.prefix if prefix is None else self.encode_bound(prefix),
        )


class _Prefixed:
    """The base of mappings with a prefix."""

    _below: Any
    _coding: Any

    @property
    def prefix(self) -> bytes:
        """All nested prefixes, as keys in the store begin."""
        prefix: bytes = self._coding.prefix
        return prefix

    def prefixed(self, prefix: Buffer) -> Self:
        """The keys that start with ``prefix`` here, without it."""
        made: Any = type(self)
        found: Self = made(self._below, self._coding.encode_key(prefix))
        return found

    @overload
    def on(self, other: Prefixable[_T]) -> _T: ...
    @overload
    def on(self, other: MappedBatch[Any, Any, Any, Any]) -> PrefixedBatch: ...
    @overload
    def on(self, other: MappedDB[Any, Any, Any, Any]) -> PrefixedDB: ...
    @overload
    def on(self, other: MappedSnapshot[Any, Any, Any, Any]) -> PrefixedSnapshot: ...
    @overload
    def on(self, other: ReadWritable) -> PrefixedMapping: ...
    def on(self, other: Any) -> Any:
        """The same keys of a batch, snapshot or transaction of the store.

        A batch or snapshot of another mapping counts as that of the store.

        >>> import lsmkv, tempfile
        >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
        ...     users, emails = db.prefixed(b"user/"), db.prefixed(b"email/")
        ...     with users.write_batch() as batch:  # both or none
        ...         batch[b"7"] = b"Ada"
        ...         emails.on(batch)[b"ada@example.org"] = b"7"
        ...     list(db)
        [b'email/ada@example.org', b'user/7']
        """
        while isinstance(other, (MappedReader, MappedBatch)):
            other = other._below
        made = getattr(other, "prefixed", None)  # another library's transaction may have none
        return PrefixedMapping(other, self.prefix) if made is None else made(self.prefix)

    def __repr__(self) -> str:
        return f"<lsmkv.{type(self).__name__} {key_text(self.prefix)} of {self._below!r}>"

    def _repr_html_(self) -> str:
        rows = [("prefix", key_text(self.prefix)), ("of", repr(self._below))]
        return table(f"lsmkv.{type(self).__name__}", rows)


class PrefixedSnapshot(_Prefixed, MappedSnapshot[bytes, bytes, Buffer, Buffer]):
    """The keys of a snapshot that have a prefix, without it."""

    def __init__(self, snapshot: Readable, prefix: Buffer) -> None:
        super().__init__(snapshot, _PrefixCoding(prefix))


class PrefixedMapping(_Prefixed, MappedStore[bytes, bytes, Buffer, Buffer]):
    """The keys with a prefix, without it; of anything with ``get``, ``put``, ``delete``, ``items``."""

    def __init__(self, below: ReadWritable, prefix: Buffer) -> None:
        super().__init__(below, _PrefixCoding(prefix))


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

    def __init__(self, db: ReadWritable, prefix: Buffer) -> None:
        super().__init__(db, _PrefixCoding(prefix))

    @property
    def db(self) -> Any:
        """The store: an ``lsmkv.DB``."""
        return self._below

    def snapshot(self) -> PrefixedSnapshot:
        """The mapping as it is now, unchanged by later writes; close it."""
        return PrefixedSnapshot(self.db.snapshot(), self.prefix)

    def write_batch(self, *, sync: bool = False) -> PrefixedBatch:
        """Operations that the end of the ``with`` block applies: ``DB.write_batch``."""
        return PrefixedBatch(self.db.write_batch(sync=sync), self.prefix)

    def popitem(self) -> tuple[bytes, bytes]:
        """Remove the first key, and return it with its value: ``DB.popitem``."""
        key, value = self.db.popitem(prefix=self.prefix)
        return self._coding.decode_key(key), value


class PrefixedBatch(MappedBatch[bytes, bytes, Buffer, Buffer]):
    """Operations on keys with a prefix, for a batch of the store."""

    def __init__(self, batch: Writable, prefix: Buffer) -> None:
        super().__init__(batch, _PrefixCoding(prefix))

    def prefixed(self, prefix: Buffer) -> PrefixedBatch:
        """Operations on the keys that start with ``prefix`` here."""
        return PrefixedBatch(self._below, self._coding.encode_key(prefix))
