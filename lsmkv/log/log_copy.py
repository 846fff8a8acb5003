"""Copies the records of a log into another log, byte for byte.

A record's checksum is seeded with the log's salt and the record's offset.  So the records stay valid
under another number, if salt and offsets stay.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from lsmkv.encoding.checksums import short_checksum
from lsmkv.log.reader import _SYNC_MARK, HEADER_BYTES, encode_header
from lsmkv.storage.storage import Storage

_COPY_BYTES: Final = 1 << 20
_MARK: Final = struct.Struct("<IBQ")  # length, kind and payload


def write_log_copy(
    storage: Storage,
    path: str,
    number: int,
    salt: int,
    previous: tuple[int, int],
    end: int,
    read: Callable[[int, int], bytes],
    *,
    is_last: bool,
) -> None:
    """Write a log with the records up to ``end`` of another, and sync it; the caller syncs its name.

    ``read(offset, length)`` gives bytes of the other log.  ``previous`` are number and end of the log
    before it in its new chain.  The last log of a chain ends with a sync mark, so that damage to its
    end is not taken for a torn tail.
    """
    with storage.create(path) as file:
        file.append(encode_header("log", number, salt, previous))
        for offset in range(HEADER_BYTES, end, _COPY_BYTES):
            file.append(read(offset, min(_COPY_BYTES, end - offset)))
        if is_last and end > HEADER_BYTES:
            mark = _MARK.pack(8, _SYNC_MARK, end)
            sealed = short_checksum(mark, salt + end) & 0xFFFF_FFFF
            file.append(sealed.to_bytes(4, "little") + mark)
        file.sync()
