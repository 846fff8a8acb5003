"""Saved filters: bytes that name their kind, shape and format version.

Layout, all integers little-endian::

    0   8s   magic "lsmkvFLT"
    8   u16  format version, 1
    10  u16  kind of filter
    12  u16  number of parameters, c
    14  u16  0
    16  u64  parameters, c times; their meaning is the kind's
    ..       body; its length follows from the parameters
    ..  u64  XXH3-64 of all the bytes before it

Every format version keeps the first 10 bytes and the last 8 as they are, so that a reader tells a
newer file from a damaged one.  A checksum is no signature: a reader checks each parameter against
its limits, and the length of the body against the parameters, so no input takes more memory or time
than a small multiple of its own length.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from lsmkv.encoding.checksums import checksum
from lsmkv.errors import CorruptionError, UnsupportedFormatError

FORMAT_VERSION: Final = 1

_MAGIC: Final = b"lsmkvFLT"
_HEAD: Final = struct.Struct("<8sHHHH")
_HEAD_BYTES: Final = 16
_SUM_BYTES: Final = 8


@dataclass(frozen=True)
class SavedParts:
    """A saved filter, taken apart.  Header and checksum are right; nothing else is checked yet."""

    path: str
    kind: int
    parameters: tuple[int, ...]
    body: bytes

    @classmethod
    def parse(cls, data: bytes, path: str) -> Self:
        if len(data) < _HEAD_BYTES + _SUM_BYTES:
            raise CorruptionError(path, 0, f"{len(data)} bytes are too short for a saved filter")
        magic, version, kind, parameter_count, reserved = _HEAD.unpack_from(data)
        if magic != _MAGIC:
            raise CorruptionError(path, 0, "not a saved filter", expected=_MAGIC, got=magic)
        end = len(data) - _SUM_BYTES
        computed = checksum(data[:end], 0)
        stored = int.from_bytes(data[end:], "little")
        if computed != stored:
            raise CorruptionError(
                path, end, "checksum of a saved filter fails", expected=stored, got=computed
            )
        if version != FORMAT_VERSION:
            raise UnsupportedFormatError(
                path, f"filter format {version}; this release reads format {FORMAT_VERSION}"
            )
        body_start = _HEAD_BYTES + 8 * parameter_count
        if reserved or body_start > end:
            raise CorruptionError(path, 12, "header of a saved filter does not fit its length")
        parameters = struct.unpack_from(f"<{parameter_count}Q", data, _HEAD_BYTES)
        return cls(path, kind, parameters, data[body_start:end])

    def checked_parameters(self, *limits: tuple[int, int]) -> tuple[int, ...]:
        """The parameters: as many as ``limits``, each within its own."""
        if len(self.parameters) != len(limits):
            raise self.corrupt(
                "wrong number of parameters", expected=len(limits), got=len(self.parameters)
            )
        for parameter, (low, high) in zip(self.parameters, limits, strict=True):
            if not low <= parameter <= high:
                raise self.corrupt(f"parameter {parameter} does not lie in {low}..{high}")
        return self.parameters

    def checked_body(self, byte_count: int) -> bytes:
        """The body, if it is ``byte_count`` bytes long."""
        if len(self.body) != byte_count:
            raise self.corrupt("wrong size of body", expected=byte_count, got=len(self.body))
        return self.body

    def corrupt(
        self, reason: str, *, expected: object = None, got: object = None
    ) -> CorruptionError:
        return CorruptionError(
            self.path, _HEAD_BYTES, f"saved filter: {reason}", expected=expected, got=got
        )


class SavedFilter(ABC):
    """A filter that can be asked and saved.

    A class that sets ``KIND``, its number in saved bytes, is one of :data:`KINDS` from then on.
    ``_ARGUMENTS`` names the properties that its constructor takes, for ``repr`` and saved bytes.
    """

    KIND: ClassVar[int] = 0
    _ARGUMENTS: ClassVar[tuple[str, ...]] = ()
    _bits: bytes | bytearray  # the contents

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "KIND" in vars(cls) and KINDS.setdefault(cls.KIND, cls) is not cls:
            raise TypeError(f"KIND={cls.KIND} of {cls.__name__} is {KINDS[cls.KIND].__name__}'s")

    def __repr__(self) -> str:
        arguments = [f"{name}={getattr(self, name)}" for name in self._ARGUMENTS]
        return f"{type(self).__name__}({', '.join(arguments)})"

    @abstractmethod
    def may_contain(self, key: bytes, /) -> bool:
        """Whether the filter may hold ``key``; False is certain."""

    @property
    def byte_count(self) -> int:
        """Size, in bytes."""
        return len(self._bits)

    def _parameters(self) -> tuple[int, ...]:
        """The numbers to save with the body, 0 <= number < 2**64."""
        return tuple([getattr(self, name) for name in self._ARGUMENTS])

    def _body(self) -> bytes:
        return bytes(self._bits)

    @classmethod
    @abstractmethod
    def _restore(cls, parts: SavedParts) -> Self:
        """The filter of these parts; checks every number and length of theirs."""

    def to_bytes(self) -> bytes:
        """The filter as bytes: the same ones on every platform and in every process.  O(size)."""
        parameters = self._parameters()
        head = _HEAD.pack(_MAGIC, FORMAT_VERSION, self.KIND, len(parameters), 0)
        packed = struct.pack(f"<{len(parameters)}Q", *parameters)
        data = b"".join((head, packed, self._body()))
        return data + checksum(data, 0).to_bytes(_SUM_BYTES, "little")

    @classmethod
    def from_bytes(cls, data: bytes, path: str = "filter") -> Self:
        """The saved filter, as :func:`load`; another kind of filter is an UnsupportedFormatError."""
        parts = SavedParts.parse(data, path)
        if parts.kind != cls.KIND:
            raise UnsupportedFormatError(
                path, f"a saved filter of kind {parts.kind}, not a {cls.__name__} (kind {cls.KIND})"
            )
        return cls._restore(parts)

    def _check_same_shape(self, other: SavedFilter) -> None:
        if type(other) is not type(self) or other._parameters() != self._parameters():
            raise ValueError(
                f"only filters of the same shape can be united: {self!r} and {other!r} differ"
            )


KINDS: Final[dict[int, type[SavedFilter]]] = {}
"""Every kind of filter that can be saved, by its number."""


def load(data: bytes, path: str = "filter") -> SavedFilter:
    """The filter, of whatever kind, that ``to_bytes`` saved as ``data``.

    O(size), for hostile bytes too.  Errors call the source of the bytes ``path``.

    Raises:
        CorruptionError: the bytes are damaged, or no saved filter.
        UnsupportedFormatError: this release does not know their format version or their kind.
    """
    kind = SavedParts.parse(data, path).kind
    if kind not in KINDS:
        raise UnsupportedFormatError(path, f"a saved filter of unknown kind {kind}")
    return KINDS[kind].from_bytes(data, path)
