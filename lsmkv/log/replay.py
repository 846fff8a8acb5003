"""Replays a log into a memtable: at opening, and for flushes in helpers."""

from __future__ import annotations

from lsmkv.errors import CorruptionError
from lsmkv.log.batch import decode_batch
from lsmkv.log.reader import LogReader
from lsmkv.memtable.memtable import Memtable


def replay(
    contents: LogReader, memtable: Memtable, expected: int, oldest_snapshot: int | None
) -> int:
    """Put a log's writes into ``memtable``; returns the next sequence number.

    ``expected`` is the number of the first; a missing write is a CorruptionError, and so is a range
    delete behind other writes: it begins a log.  Older versions of a key are kept if a snapshot from
    ``oldest_snapshot`` on may see them; None keeps none.
    """
    path, payloads = contents.path, contents.payloads()
    data = payloads.data
    while payloads.advance():
        offset = payloads.offset
        seq, ranges, operations = decode_batch(data, path, offset, payloads.start, payloads.stop)
        if seq != expected:
            reason = "a write is missing before this record"
            raise CorruptionError(path, offset, reason, expected=expected, got=seq)
        if ranges:
            if not memtable.is_empty:
                raise CorruptionError(
                    path, offset, "a range delete follows other writes of its log"
                )
            memtable.begin_with(ranges, seq)
        memtable.put_all(operations, seq, oldest_snapshot is not None and seq > oldest_snapshot)
        expected += len(ranges) + len(operations)
    return expected
