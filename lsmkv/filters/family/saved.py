"""Saved filters: bytes that say what they are.

Layout, all integers little-endian::

    0   8s   magic "lsmkvFLT"
    8   u16  format version, 1
    10  u16  kind of filter
    12  u16  number of parameters, c
    14  u16  0
    16  u64  parameters, c times; their meaning is the kind's
    ..       body; its length follows from the parameters
    ..  u64  XXH3-64 of all the bytes before it

Every version keeps the first 10 bytes and the last 8 as they are, so that a newer file is told from
a damaged one.  A checksum is no signature, so parameters are checked one by one against limits, and
the body's length against what they call for, before anything is made of them: no input takes more
than a small multiple of its own length in memory or time.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import ClassVar, Final, Self

from lsmkv.encoding.checksums import checksum
from lsmkv.errors import CorruptionError, UnsupportedFormatError

FORMAT_VERSION: Final = 1
MAX_PROBES_SAVED: Final = 255
"""Most probes per key of a filter that is saved: more would only make hostile bytes slow."""

_MAGIC: Final = b"lsmkvFLT"
_HEAD: Final = struct.Struct("<8sHHHH")
_HEAD_BYTES: Final = 16
_SUM_BYTES: Final = 8


class SavedParts:
    """What saved bytes hold: kind, parameters and body, checked only as far as they all have to be.

    Raises:
        CorruptionError: not a saved filter, or a damaged one.
        UnsupportedFormatError: another format version.
    """

    def __init__(self, data: bytes, path: str) -> None:
        self._path = path
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
        self.kind: int = kind
        self._parameters: tuple[int, ...] = struct.unpack_from(
            f"<{parameter_count}Q", data, _HEAD_BYTES
        )
        self._body = data[body_start:end]

    def parameters(self, *limits: tuple[int, int]) -> tuple[int, ...]:
        """The parameters, as many as ``limits``, each within its own.

        Raises:
            CorruptionError: more, fewer or others.
        """
        if len(self._parameters) != len(limits):
            raise self.corrupt(
                "wrong number of parameters", expected=len(limits), got=len(self._parameters)
            )
        for parameter, (low, high) in zip(self._parameters, limits, strict=True):
            if not low <= parameter <= high:
                raise self.corrupt(f"parameter {parameter} does not lie in {low}..{high}")
        return self._parameters

    def body(self, byte_count: int) -> bytes:
        """The body, which has to be ``byte_count`` bytes long.

        Raises:
            CorruptionError: it is not.
        """
        if len(self._body) != byte_count:
            raise self.corrupt("wrong size of body", expected=byte_count, got=len(self._body))
        return self._body

    @property
    def body_length(self) -> int:
        """Length of the body, in bytes."""
        return len(self._body)

    def corrupt(
        self, reason: str, *, expected: object = None, got: object = None
    ) -> CorruptionError:
        """An error about these bytes, to be raised."""
        return CorruptionError(
            self._path, _HEAD_BYTES, f"saved filter: {reason}", expected=expected, got=got
        )

    def check_kind(self, kind: int, name: str) -> None:
        """Raise UnsupportedFormatError unless the bytes hold a filter of ``kind``."""
        if self.kind != kind:
            raise UnsupportedFormatError(
                self._path, f"a saved filter of kind {self.kind}, not a {name} (kind {kind})"
            )


class SavedFilter(ABC):
    """A filter that can be asked and saved.

    Class attributes:
        KIND: the number that stands for the class in saved bytes.
    """

    KIND: ClassVar[int] = 0

    @abstractmethod
    def may_contain(self, key: bytes, /) -> bool:
        """Whether the filter may hold ``key``; False is certain."""

    @abstractmethod
    def _parameters(self) -> tuple[int, ...]:
        """The numbers to save with the body, 0 <= number < 2**64."""

    @abstractmethod
    def _body(self) -> bytes:
        """The contents to save."""

    @classmethod
    @abstractmethod
    def _restore(cls, parts: SavedParts) -> Self:
        """The filter of these parts, every number and length of which it checks."""

    def to_bytes(self) -> bytes:
        """The filter as bytes: the same ones on every platform and in every process.

        The layout is described in :mod:`lsmkv.filters.family.saved`.  O(size).
        """
        parameters = self._parameters()
        head = _HEAD.pack(_MAGIC, FORMAT_VERSION, self.KIND, len(parameters), 0)
        packed = struct.pack(f"<{len(parameters)}Q", *parameters)
        data = b"".join((head, packed, self._body()))
        return data + checksum(data, 0).to_bytes(_SUM_BYTES, "little")

    @classmethod
    def from_bytes(cls, data: bytes, path: str = "filter") -> Self:
        """The filter that ``data`` was made from by :meth:`to_bytes`.

        O(size); hostile bytes take no more time or memory than others.

        Args:
            data: a saved filter of this class.
            path: what errors call the place that the bytes come from.

        Raises:
            CorruptionError: the bytes are damaged, or no saved filter.
            UnsupportedFormatError: they are of another version or another kind of filter.
        """
        parts = SavedParts(data, path)
        parts.check_kind(cls.KIND, cls.__name__)
        return cls._restore(parts)

    def _check_same_shape(self, other: SavedFilter) -> None:
        """Raise ValueError unless ``other`` is of the same class and has the same parameters."""
        if type(other) is not type(self) or other._parameters() != self._parameters():
            raise ValueError(
                f"only filters of the same shape can be united: {self!r} and {other!r} differ"
            )
