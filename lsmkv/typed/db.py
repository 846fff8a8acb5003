"""Stores, snapshots, transactions and batches whose keys and values have types."""

from __future__ import annotations

from typing import Any, Generic, overload

import lsmkv
from lsmkv.layers.coding import Bound, Coding, K, ReadWritable, V
from lsmkv.layers.mapped import MappedBatch, MappedDB, MappedReader, MappedSnapshot, MappedStore
from lsmkv.layers.prefixed import PrefixedBatch, PrefixedDB, PrefixedMapping, PrefixedSnapshot
from lsmkv.typed.keys import Codec, KeyCodec, codec_advice

_SHOWN = 200  # characters of a key in an error


class DecodeError(lsmkv.Error, ValueError):
    """A stored key or value is not one that the codec made.

    Attributes:
        key: the key, decoded for a value's error, its bytes for a key's.
        codec: the codec, as text.
        reason: what is wrong.
        data: the bytes that do not decode.
    """

    def __init__(
        self, what: str, key: object, codec: object, cause: Exception, data: bytes
    ) -> None:
        known = type(cause) in (TypeError, ValueError)
        reason = str(cause) if known else f"{type(cause).__name__}: {cause}"
        super().__init__(f"{what} {_shown(key)} does not decode as {codec!r}: {reason}")
        self.key = key
        self.codec = repr(codec)
        self.reason = reason
        self.data = data


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


class TypedCoding(Coding[K, V, K, V]):
    """Translates by a codec for keys and one for values."""

    def __init__(self, key: KeyCodec[K], value: Codec[V]) -> None:
        _check_codec("key", key, KeyCodec)
        _check_codec("value", value, Codec)
        self.key = key
        self.value = value

    def encode_key(self, key: K) -> bytes:
        try:
            return self.key.encode(key)
        except (TypeError, ValueError) as error:
            raise _refused(f"key {_shown(key)}", self.key, error) from error

    def decode_key(self, data: bytes) -> K:
        try:
            return self.key.decode(data)
        except Exception as error:  # a codec of a program's own may raise any
            raise DecodeError("stored key", data, self.key, error, data) from error

    def encode_value(self, key: K, value: V) -> bytes:
        try:
            return self.value.encode(value)
        except (TypeError, ValueError) as error:
            raise _refused(f"value of key {_shown(key)}", self.value, error) from error

    def decode_value(self, key: bytes, data: bytes) -> V:
        try:
            return self.value.decode(data)
        except Exception as error:
            name = self.decode_key(key)
            raise DecodeError("value of key", name, self.value, error, data) from error

    def encode_bound(self, key: Bound[K]) -> bytes:
        try:
            return self.key.bound(key)
        except (TypeError, ValueError) as error:
            raise _refused(f"bound {_shown(key)}", self.key, error) from error

    def encode_range(
        self, start: Bound[K] | None, stop: Bound[K] | None, prefix: Bound[K] | None
    ) -> tuple[bytes | None, bytes | None, bytes | None]:
        low = None if start is None else self.encode_bound(start)
        high = None if stop is None else self.encode_bound(stop)
        if prefix is None:
            return low, high, None
        try:
            head, end = self.key.prefix(prefix)
        except (TypeError, ValueError) as error:
            raise _refused(f"prefix {_shown(prefix)}", self.key, error) from error
        ends = [bound for bound in (high, end) if bound is not None]
        return low, min(ends, default=None), head


def _check_codec(name: str, codec: object, kind: type) -> None:
    if not isinstance(codec, kind):
        advice = codec_advice(codec)
        raise TypeError(f"{name} is an lsmkv.typed.{kind.__name__}, not {codec!r}{advice}")


def _refused(what: str, codec: object, error: Exception) -> Exception:
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{what} does not encode as {codec!r}: {error}")


class _Typed(Generic[K, V]):
    """The base of typed mappings."""

    _below: Any
    _coding: Any

    @overload
    def on(self, other: lsmkv.WriteBatch | MappedBatch[Any, Any, Any, Any]) -> TypedBatch[K, V]: ...
    @overload
    def on(  # type: ignore[overload-overlap]  # a store is written to like a transaction, and more
        self, other: lsmkv.DB | MappedDB[Any, Any, Any, Any]
    ) -> TypedDB[K, V]: ...
    @overload
    def on(
        self, other: lsmkv.Snapshot | MappedSnapshot[Any, Any, Any, Any]
    ) -> TypedSnapshot[K, V]: ...
    @overload
    def on(self, other: ReadWritable) -> TypedMapping[K, V]: ...
    def on(self, other: Any) -> Any:
        """The same typed keys of a batch, snapshot or transaction; a mapping's counts as its store's."""
        if isinstance(self._below, (PrefixedDB, PrefixedMapping, PrefixedSnapshot)):
            other = self._below.on(other)
        else:
            while isinstance(other, (MappedReader, MappedBatch)):
                other = other._below
        made: Any = TypedMapping
        if isinstance(other, (lsmkv.WriteBatch, PrefixedBatch)):
            made = TypedBatch
        elif isinstance(other, (lsmkv.DB, PrefixedDB)):
            made = TypedDB
        elif isinstance(other, (lsmkv.Snapshot, PrefixedSnapshot)):
            made = TypedSnapshot
        return made(other, key=self._coding.key, value=self._coding.value)

    def __repr__(self) -> str:
        coding = self._coding
        return (
            f"<lsmkv.{type(self).__name__} {coding.key!r} to {coding.value!r} of {self._below!r}>"
        )


class TypedSnapshot(_Typed[K, V], MappedSnapshot[K, V, K, V]):
    """A snapshot whose keys and values have types; end it with ``close`` or ``with``."""

    def __init__(
        self, snapshot: lsmkv.Snapshot | PrefixedSnapshot, *, key: KeyCodec[K], value: Codec[V]
    ) -> None:
        super().__init__(snapshot, TypedCoding(key, value))


class TypedMapping(_Typed[K, V], MappedStore[K, V, K, V]):
    """A transaction, or what has ``get``, ``items``, ``put`` and ``delete``, with types."""

    def __init__(self, below: ReadWritable, *, key: KeyCodec[K], value: Codec[V]) -> None:
        super().__init__(below, TypedCoding(key, value))


class TypedDB(_Typed[K, V], MappedDB[K, V, K, V]):
    """A store whose keys and values have types: ``MutableMapping[K, V]``.

    Args:
        db: a store, or one part of it: ``db.prefixed(b"users/")``.  Every key of it is one that ``key``
            made.  Closing stays with the store.
        key: the codec of keys, which keeps their order.
        value: the codec of values.

    Raises:
        TypeError, ValueError: a method got what is no key or value of these kinds; nothing was written.
        DecodeError: a stored key or value does not decode.

    >>> import lsmkv, tempfile
    >>> from dataclasses import dataclass
    >>> from lsmkv.typed import Int64, Json, Str, Tuple, TypedDB
    >>> @dataclass
    ... class Reading:
    ...     celsius: float
    >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
    ...     readings = TypedDB(db, key=Tuple(Str(), Int64()), value=Json(Reading))
    ...     readings["attic", 9] = Reading(31.5)
    ...     readings["attic", 10] = Reading(32.0)
    ...     readings["cellar", 9] = Reading(12.0)
    ...     list(readings.keys(prefix=("attic",))), readings["cellar", 9].celsius
    ([('attic', 9), ('attic', 10)], 12.0)
    """

    def __init__(self, db: lsmkv.DB | PrefixedDB, *, key: KeyCodec[K], value: Codec[V]) -> None:
        if not isinstance(db, (lsmkv.DB, PrefixedDB)):
            raise TypeError(
                f"db is an lsmkv.DB or a part of one, not {db!r}: "
                "TypedSnapshot, TypedBatch and TypedMapping are for the rest"
            )
        super().__init__(db, TypedCoding(key, value))

    def snapshot(self) -> TypedSnapshot[K, V]:
        """The mapping as it is now, unchanged by later writes; close it."""
        coding = self._coding
        return TypedSnapshot(self._below.snapshot(), key=coding.key, value=coding.value)

    def write_batch(self, *, sync: bool = False) -> TypedBatch[K, V]:
        """Operations that the end of the ``with`` block applies: ``DB.write_batch``."""
        coding = self._coding
        below = self._below.write_batch(sync=sync)
        return TypedBatch(below, key=coding.key, value=coding.value)


class TypedBatch(MappedBatch[K, V, K, V]):
    """Operations on typed keys and values, for a batch of the store."""

    def __init__(
        self, batch: lsmkv.WriteBatch | PrefixedBatch, *, key: KeyCodec[K], value: Codec[V]
    ) -> None:
        super().__init__(batch, TypedCoding(key, value))
