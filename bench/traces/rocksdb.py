"""RocksDB's traces, made readable: ``trace_analyzer -convert_to_human_readable_trace``.

Described in https://github.com/facebook/rocksdb/wiki/RocksDB-Trace,-Replay,-Analyzer,-and-Workload-Generation;
the order of the fields and the numbers are those of ``tools/trace_analyzer_tool.cc``: key in hexadecimal
digits, operation, column family, size of the value, time in microseconds.  A merge counts as a put.  The
trace does not say how far an iterator went: a seek reads one entry.  Nor does it say the end of a deleted
range, so that such a trace cannot be replayed.  The keys of one MultiGet have one time.  A key stands
behind the number of its column family, but in the default one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import ClassVar, Final

from .base import Kind, Operation, TraceFormat

_KINDS: Final[tuple[Kind | None, ...]] = (
    "get", "put", "delete", "delete", None, "put", "scan", "scan", "multi-get"
)  # fmt: skip
_SEEK_FOR_PREV: Final = 7
_US: Final = 1_000_000


class RocksDBTrace(TraceFormat):
    name: ClassVar[str] = "rocksdb"
    form: ClassVar[str] = "0xKEY operation family value-size microseconds, no DeleteRange"

    def operation(self, line: bytes) -> Operation | None:
        digits, number, family, value_bytes, time_us = line.split()
        if not digits.startswith(b"0x"):
            raise ValueError(digits)
        kind = _KINDS[int(number)]
        if kind is None:
            raise ValueError(number)
        prefix = b"" if int(family) == 0 else int(family).to_bytes(4, "big")
        return Operation(
            kind,
            (prefix + bytes.fromhex(digits[2:].decode()),),
            int(value_bytes) if kind == "put" else 0,
            limit=1 if kind == "scan" else None,
            is_reverse=int(number) == _SEEK_FOR_PREV,
            time_s=int(time_us),
        )

    def joined(self, operations: Iterator[Operation]) -> Iterator[Operation]:
        for (kind, time_us), same in groupby(operations, lambda each: (each.kind, each.time_s)):
            time_s = (time_us or 0) // _US
            if kind == "multi-get":
                yield Operation(kind, tuple(each.keys[0] for each in same), time_s=time_s)
            else:
                for each in same:
                    yield Operation(
                        kind, each.keys, each.value_bytes, 0, each.limit, each.is_reverse, time_s
                    )
