"""How a layer translates keys and values, and what it stands on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from lsmkv.encoding.entries import Buffer

K = TypeVar("K")
V = TypeVar("V")
KeyIn = TypeVar("KeyIn")  # what a method takes for a key: K, or more
ValueIn = TypeVar("ValueIn")  # what a method takes for a value: V, or more
_T_co = TypeVar("_T_co", covariant=True)
Bound: TypeAlias = (
    KeyIn | tuple[Any, ...]
)  # what a method takes for a bound of a range: a key, or a part


class Readable(Protocol):
    """A store, snapshot or transaction, to read from."""

    def get(self, key: bytes, /) -> bytes | None: ...
    def items(
        self,
        *,
        start: bytes | None = None,
        stop: bytes | None = None,
        prefix: bytes | None = None,
        reverse: bool = False,
    ) -> Iterable[tuple[bytes, bytes]]: ...


class Writable(Protocol):
    """A store, batch or transaction, to write to."""

    def put(self, key: bytes, value: bytes, /) -> None: ...
    def delete(self, key: bytes, /) -> None: ...


class ReadWritable(Readable, Writable, Protocol):
    """A store or transaction."""


class Prefixable(Protocol[_T_co]):
    """A store, snapshot, transaction or batch, which makes a part of itself."""

    def prefixed(self, prefix: Buffer, /) -> _T_co: ...


class Coding(ABC, Generic[K, V, KeyIn, ValueIn]):
    """Translates between a layer's keys and values and the bytes below.

    The order of encoded keys is the order of the layer's keys.  ``encode_*`` raise TypeError or
    ValueError for what is no key or value.
    """

    @abstractmethod
    def encode_key(self, key: KeyIn, /) -> bytes: ...
    @abstractmethod
    def decode_key(self, data: bytes, /) -> K: ...
    @abstractmethod
    def encode_value(self, key: KeyIn, value: ValueIn, /) -> bytes: ...
    @abstractmethod
    def decode_value(self, key: bytes, data: bytes, /) -> V:
        """The value that ``data`` encodes; ``key`` is its encoded key, for errors."""

    @abstractmethod
    def encode_bound(self, key: Bound[KeyIn], /) -> bytes:
        """The place of ``key`` in the order below."""

    @abstractmethod
    def encode_range(
        self, start: Bound[KeyIn] | None, stop: Bound[KeyIn] | None, prefix: Bound[KeyIn] | None, /
    ) -> tuple[bytes | None, bytes | None, bytes | None]:
        """``start``, ``stop`` and ``prefix`` of the same range below."""
