"""Copies a log up to an offset, byte for byte."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from lsmkv.encoding.checksums import short_checksum
from lsmkv.log.reader import HEADER_BYTES, SYNC_MARK
from lsmkv.storage.storage import Storage

_COPY_BYTES: Final = 1 << 20
_MARK: Final = struct.Struct("<IBQ")  # length, kind and payload


def write_log_copy(
    storage: Storage,
    path: str,
    end: int,
    read: Callable[[int, int], bytes],
    *,
    mark_with: int | None,
) -> None:
    """Write the bytes of a log before ``end``, and sync them; the caller syncs the name.

    ``read(offset, length)`` gives bytes of the other log.  The last log of a chain gets a sync mark,
    with its salt, so that damage to its end is not taken for a torn tail.
    """
    with storage.create(path) as file:
        for offset in range(0, end, _COPY_BYTES):
            file.append(read(offset, min(_COPY_BYTES, end - offset)))
        if mark_with is not None and end > HEADER_BYTES:
            mark = _MARK.pack(8, SYNC_MARK, end)
            sealed: int = short_checksum(mark, mark_with + end)  # an i32 has no to_bytes
            file.append((sealed & 0xFFFF_FFFF).to_bytes(4, "little") + mark)
        file.sync()
