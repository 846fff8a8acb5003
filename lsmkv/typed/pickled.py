"""Runs code from the store: pickle, for those who ask for it by name."""

from __future__ import annotations

import pickle
from typing import Any, overload

from lsmkv.typed.keys import Codec, T


class Pickle(Codec[T]):
    """DANGER: reading a value runs whatever code its bytes ask for.

    Whoever can write to the store's files, or to a copy of them that you open, runs programs as you.  Use
    it for stores that nobody else can write; else use :class:`lsmkv.typed.Json` or ``MsgPack``.

    Args:
        kind: a class that values are checked to be instances of, when written and when read; the check
            when reading comes after the code has run.

    >>> Pickle(complex).decode(Pickle(complex).encode(1j))
    1j
    """

    @overload
    def __init__(self: Pickle[Any]) -> None: ...
    @overload
    def __init__(self, kind: type[T]) -> None: ...
    def __init__(self, kind: Any = object) -> None:
        if not isinstance(kind, type):
            raise TypeError(f"kind is a class, not {kind!r}")
        self.kind = kind

    def encode(self, value: T, /) -> bytes:
        try:
            return pickle.dumps(self._checked(value), pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, AttributeError, RecursionError) as error:
            raise ValueError(f"{error}") from error

    def decode(self, data: bytes, /) -> T:
        """The object of a pickle, made by whatever code it names."""
        try:
            value = pickle.loads(data)
        except Exception as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        return self._checked(value)

    def _checked(self, value: Any) -> T:
        if not isinstance(value, self.kind):
            raise TypeError(f"{value!r} is {type(value).__name__}, not {self.kind.__qualname__}")
        checked: Any = value
        found: T = checked
        return found

    def __repr__(self) -> str:
        return "Pickle()" if self.kind is object else f"Pickle({self.kind.__qualname__})"
