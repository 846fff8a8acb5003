"""The file ERASED: a second copy of a store's range deletes, for a repair without a manifest.

It is a line of JSON with its checksum (:mod:`lsmkv.encoding.checked_line`), and replaced by a rename.  A
store that never had a range delete in its manifest has none.

It holds every range delete of the manifest, and is written before the manifest gets a new one.  It may
hold more: one that never came into the manifest, because a power failure took its log, goes at the next
opening.  One that left the manifest stays until the next one is added, because a table that it erased is
there until its file is removed.  It hides nothing in any other table: their entries are newer, or their
``erased_seq`` is as high.
"""

from __future__ import annotations

import errno
import os
from typing import Final

import msgspec

from lsmkv.encoding.checked_line import decode_line, encode_line
from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.encoding.range_deletes import RangeDelete, why_impossible
from lsmkv.errors import CorruptionError
from lsmkv.storage.file_names import ERASED
from lsmkv.storage.storage import ReadKind, Storage

_FORMAT: Final = 1
_MOST_BYTES: Final = 1 << 30


class ErasedRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The contents of ERASED: the store's identity, and range deletes as in the manifest."""

    format: int = _FORMAT
    store_id: str
    range_deletes: list[RangeDelete]


def decode_erased(data: bytes, path: str) -> ErasedRecord:
    """The record in ``data``.  Raises CorruptionError, and UnsupportedFormatError for another format."""
    record = decode_line(data, path, ErasedRecord, _FORMAT, "list of range deletes")
    for each in record.range_deletes:
        if problem := why_impossible(each, MAX_SEQUENCE):
            raise CorruptionError(path, 0, f"bad list of range deletes: {problem}")
    return record


def read_erased(storage: Storage, directory: str) -> ErasedRecord | None:
    """The record of a store; None without one.  Raises as :func:`decode_erased`, and OSError."""
    path = os.path.join(directory, ERASED)
    try:
        data = storage.read_whole(path, ReadKind.LOG, _MOST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise CorruptionError(path, 0, "it is too long") from error
        raise
    return decode_erased(data, path)


def write_erased(
    storage: Storage, directory: str, store_id: str, ranges: list[RangeDelete]
) -> None:
    data = encode_line(ErasedRecord(store_id=store_id, range_deletes=ranges))
    storage.write_atomically(os.path.join(directory, ERASED), data)
