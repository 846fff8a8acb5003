"""Putting what a log holds into a memtable: when a store is opened, and to flush a finished log."""

from __future__ import annotations

from lsmkv.errors import CorruptionError
from lsmkv.log.batch import decode_batch_in
from lsmkv.log.reader import LogReader
from lsmkv.memtable.memtable import Memtable


def replay(
    contents: LogReader, memtable: Memtable, expected: int, oldest_snapshot: int | None
) -> int:
    """Put the writes of a log into ``memtable``.

    Args:
        expected: sequence number of the first write.
        oldest_snapshot: versions that it or a later snapshot may see are kept; None keeps only
            the newest of each key.

    Returns:
        The sequence number after the last write.

    Raises:
        CorruptionError: a record is not a write batch, or a write is missing.
    """
    path, payloads = contents.path, contents.payloads()
    data = payloads.data
    while payloads.advance():
        offset = payloads.offset
        seq, operations = decode_batch_in(data, payloads.start, payloads.stop, path, offset)
        if seq != expected:
            raise CorruptionError(
                path,
                offset,
                "a write is missing before this record",
                expected=expected,
                got=seq,
            )
        memtable.put_all(operations, seq, oldest_snapshot is not None and seq > oldest_snapshot)
        expected += len(operations)
    return expected
