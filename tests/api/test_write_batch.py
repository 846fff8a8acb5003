"""Write batches: their size, and its limit."""

from __future__ import annotations

import pytest

from lsmkv import DB, MAX_BATCH_BYTES, WriteBatch
from lsmkv.log.batch import OPERATION_OVERHEAD_BYTES
from torture.fuzz.encoded import encode_batch


def test_a_batch_knows_its_encoded_size(db: DB) -> None:
    batch = db.write_batch()
    for number in range(300):
        batch.put(b"k" * number, b"v" * (number % 7))
        batch.delete(b"%d" % number)
    assert batch._operations is not None
    assert batch._size_bytes == len(encode_batch(1, batch._operations))


def test_a_cleared_batch_is_as_new(db: DB) -> None:
    batch = db.write_batch()
    batch.put(b"k", b"v")
    batch.clear()
    assert (len(batch), batch._size_bytes) == (0, db.write_batch()._size_bytes)


def test_a_batch_up_to_its_limit_is_taken_and_no_more(db: DB) -> None:
    batch = db.write_batch()
    value = bytes(64 << 20)  # one object, held many times
    while batch._size_bytes + OPERATION_OVERHEAD_BYTES + len(value) <= MAX_BATCH_BYTES:
        batch.put(b"", value)
    rest = MAX_BATCH_BYTES - batch._size_bytes - OPERATION_OVERHEAD_BYTES
    count = len(batch)
    with pytest.raises(ValueError, match="over the limit of 1073741824 bytes; commit it in parts"):
        batch.put(b"k", value[:rest])
    assert len(batch) == count
    batch.put(b"", value[:rest])
    assert batch._size_bytes == MAX_BATCH_BYTES


def test_a_batch_is_made_by_its_store(db: DB) -> None:
    for arguments in ((), (db,), (db, True)):
        with pytest.raises(TypeError, match=r"^make a batch with db\.write_batch\(\), not with W"):
            WriteBatch(*arguments)
