"""Batches, payloads and blocks as bytes, each made by one call."""

from __future__ import annotations

from collections.abc import Sequence

from librt.strings import BytesWriter

from lsmkv.encoding.entries import Absent
from lsmkv.encoding.entry_batch import EntryBatch, EntrySlice
from lsmkv.encoding.expiry import Expiring, Held
from lsmkv.encoding.range_deletes import KeyRange
from lsmkv.log.batch import Operation, write_batch
from lsmkv.sstable.block.builder import BlockBuilder
from lsmkv.sstable.block.trailer import BlockTrailer, encode_trailer


def encode_batch(seq: int, operations: list[Operation], ranges: Sequence[KeyRange] = ()) -> bytes:
    """A batch of the log."""
    out = BytesWriter()
    write_batch(out, seq, operations, list(ranges))
    return out.getvalue()


def comparable(held: Held | Absent) -> object:
    """The value; with its expiry, if it has one."""
    return (held.value, held.expires_at_s) if isinstance(held, Expiring) else held


def encode_block(
    keys: list[bytes],
    values: list[Held],
    seqs: list[int],
    fingerprints: bytes,
    *,
    has_versions: bool,
) -> bytes:
    """The payload of a block of these entries."""
    versions = EntryBatch.of(keys, values, seqs, may_repeat=has_versions)
    payload = BlockBuilder([EntrySlice(versions, 0, versions.count)])
    return payload.finish(fingerprints, has_versions=has_versions)


def encode_block_frame(
    payload: bytes, filter_bits: bytes, trailer: BlockTrailer, number: int, offset: int
) -> bytes:
    """A block of table ``number`` at ``offset``: stored payload, filter and trailer."""
    fields = trailer._asdict()
    del fields["payload_length"], fields["filter_length"]
    sealed = encode_trailer(payload, filter_bits, **fields, number=number, offset=offset)
    return payload + filter_bits + sealed
