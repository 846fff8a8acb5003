"""Workloads of Harvard's course CS265: https://bitbucket.org/HarvardDASlab/cs265-sysproj.

The language is described in http://daslab.seas.harvard.edu/classes/cs265/project.html; the lines are
those that ``generator/generator.c`` prints.  ``p KEY VALUE``, ``g KEY``, ``d KEY`` and ``r FIRST END``, a
range without its end, all of 32-bit numbers.  A key is stored as four bytes that sort as the numbers do,
a value has four bytes.  ``l "FILE"``, which puts the pairs of a binary file, is refused: generate the
workload without ``--external-puts``.  ``s``, statistics, is no operation.
"""

from __future__ import annotations

from typing import ClassVar, Final

from .base import Kind, Operation, TraceFormat

_KINDS: Final[dict[bytes, Kind]] = {b"p": "put", b"g": "get", b"d": "delete", b"r": "scan"}
_LEAST: Final = -(1 << 31)
_BYTES: Final = 4


class CS265(TraceFormat):
    name: ClassVar[str] = "cs265"
    form: ClassVar[str] = "p KEY VALUE, g KEY, d KEY or r FIRST END, of 32-bit numbers"

    def operation(self, line: bytes) -> Operation | None:
        letter, *numbers = line.split()
        if letter == b"s" and not numbers:
            return None
        kind = _KINDS[letter]
        if kind == "put":
            key, _ = map(_key, numbers)
            return Operation(kind, (key,), _BYTES)
        if kind == "scan":
            first, end = map(_key, numbers)
            return Operation(kind, (first, end))
        (key,) = map(_key, numbers)
        return Operation(kind, (key,))


def _key(number: bytes) -> bytes:
    shifted = int(number) - _LEAST
    if shifted >> 32:
        raise ValueError(number)
    return shifted.to_bytes(_BYTES, "big")
