"""Operation files of Tectonic and of KVBench, which it comes from.

Tectonic: https://github.com/SSD-Brandeis/Tectonic (the lines are those that ``tectonic-cli generate``
writes, and ``db-layer/src/lib.rs`` reads).  KVBench: https://github.com/BU-DiSC/K-V-Workload-Generator
(``load_gen.cc``).  Neither has a description in prose.

``I``, ``U`` and ``M`` have a key and a value; a merge counts as a put.  ``P`` (KVBench: ``Q``) and
``D`` have a key.  ``S`` and ``R``, a range that is read or deleted, have its first key and the key at its
end, which does not belong to it in Tectonic; KVBench does not say.  ``SC`` and ``RC`` have a key and a
number of entries.  ``FS`` and ``FE`` are about statistics.
"""

from __future__ import annotations

from typing import ClassVar, Final

from .base import Kind, Operation, TraceFormat

_KINDS: Final[dict[bytes, Kind]] = {
    b"I": "put", b"U": "put", b"M": "put", b"P": "get", b"Q": "get", b"D": "delete",
    b"S": "scan", b"R": "delete-range", b"SC": "scan", b"RC": "delete-range",
}  # fmt: skip


class Tectonic(TraceFormat):
    name: ClassVar[str] = "tectonic"
    form: ClassVar[str] = "I, U, M, P, Q, D, S, R, SC or RC, a key, and what belongs to it"

    def operation(self, line: bytes) -> Operation | None:
        letters, *words = line.split()
        if letters in (b"FS", b"FE"):
            return None
        kind = _KINDS[letters]
        if kind in ("get", "delete"):
            (key,) = words
            return Operation(kind, (key,))
        key, other = words
        if kind == "put":
            return Operation(kind, (key,), len(other))
        if letters.endswith(b"C"):
            return Operation(kind, (key,), limit=int(other))
        return Operation(kind, (key, other))
