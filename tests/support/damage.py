"""Damage for tests: flipped bytes, cut files, and forged tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from lsmkv.encoding.checksums import checksum, running_checksum
from lsmkv.encoding.expiry import Expiring, Held
from lsmkv.filters import bloom
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.maths.sizing import filter_bytes_for, probes_for
from lsmkv.filters.policy import SCHEME_BLOOM
from lsmkv.sstable.block.trailer import TRAILER_BYTES, BlockTrailer
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.format import (
    CODEC_NONE,
    FOOTER_BYTES,
    Footer,
    TableFormat,
    TableMeta,
    TableProperties,
    blocks_checksum,
    decode_footer,
    expiry_of,
)
from lsmkv.sstable.index_builder import IndexBuilder
from lsmkv.sstable.index_layout import separator
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.writer import TableWriter
from lsmkv.storage.storage import Storage
from torture.fuzz.encoded import encode_block, encode_block_frame

Entry = tuple[bytes, Held, int]


def flip(path: Path, offset: int, mask: int = 0x01) -> None:
    """Change one byte of a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        old = file.read(1)
        file.seek(offset)
        file.write(bytes([old[0] ^ mask]))


def cut(path: Path, length: int) -> None:
    os.truncate(path, length)


def files(directory: Path, suffix: str) -> list[Path]:
    """Files of a directory with this ending, by number."""
    return sorted(path for path in directory.iterdir() if path.name.endswith(suffix))


def footer_of(path: Path) -> Footer:
    data = path.read_bytes()
    return decode_footer(data[-FOOTER_BYTES:], str(path), len(data))


def open_table(
    path: Path, meta: TableMeta | None = None, residency: str = "resident"
) -> TableReader:
    table = unloaded(path, meta, residency)
    table.load()
    return table


def unloaded(path: Path, meta: TableMeta | None = None, residency: str = "resident") -> TableReader:
    """:func:`open_table` without loading index and filters."""
    storage = Storage()
    cache = BlockCache(1 << 20, storage.stats)
    return TableReader(storage, str(path), cache, meta=meta, filter_residency=residency)


def entries_of(path: Path) -> list[list[Entry]]:
    """The entries of a table, block by block."""
    table = open_table(path, residency="off")
    blocks = [table.block(number, False) for number in range(table.index.block_count)]
    return [list(zip(block.keys(), block.values(), block.seqs(), strict=True)) for block in blocks]


def sections(path: Path) -> dict[str, tuple[int, int]]:
    """Start and end of each non-empty part of a table file.

    The parts of block 1 (payload, filter, trailer) are named after it.
    """
    footer = footer_of(path)
    table = open_table(path, residency="off")
    start, stop = table.index.offset(1), table.index.offset(2)
    filter_length = table.read_past_cache(1)[1].filter_length
    filter_start = stop - TRAILER_BYTES - filter_length
    bounds = {
        "payload": (start, filter_start),
        "block filter": (filter_start, stop - TRAILER_BYTES),
        "trailer": (stop - TRAILER_BYTES, stop),
        "dictionary": (footer.data_length, footer.filters_offset),
        "filters": (footer.filters_offset, footer.index_offset),
        "index": (footer.index_offset, footer.properties_offset),
        "properties": (footer.properties_offset, table.meta.size_bytes - FOOTER_BYTES),
        "footer": (table.meta.size_bytes - FOOTER_BYTES, table.meta.size_bytes),
    }
    return {name: span for name, span in bounds.items() if span[0] < span[1]}


def write_table(
    path: Path,
    entries: Sequence[Entry],
    form: TableFormat,
    number: int = 1,
    replaces: list[int] | None = None,
) -> TableMeta:
    """A table with these entries, by the real writer."""
    writer = TableWriter(Storage(), str(path), number, form)
    for entry in entries:
        writer.add(*entry)
    return writer.finish(replaces)


def forge_table(
    path: Path,
    blocks: Sequence[Sequence[Entry]],
    *,
    empty_filters: bool = False,
    properties: dict[str, object] | None = None,
) -> None:
    """A table with right checksums and possibly wrong contents.

    Blocks may be out of order; ``properties`` replaces the true values.
    """
    index = IndexBuilder()
    data, filters, before = b"", b"", b""
    raw_bytes, trailers = 0, running_checksum()
    for block in blocks:
        keys, values, seqs = [list(column) for column in zip(*block, strict=True)]
        hashes = [hash_key(key) for key in keys]
        payload = encode_block(
            keys,
            values,
            seqs,
            bytes(h & 0xFF for h in hashes),
            has_versions=len(set(keys)) < len(keys),
        )
        length = filter_bytes_for(len(keys), 0.01)
        probes = probes_for(length * 8, len(keys))
        bits = bytes(length) if empty_filters else bloom.build(hashes, length, probes)
        trailer = BlockTrailer(
            len(payload),
            len(payload),
            length,
            len(keys),
            len(keys),
            CODEC_NONE,
            SCHEME_BLOOM,
            probes,
        )
        frame = encode_block_frame(payload, bits, trailer, 1, len(data))
        above = separator(before, keys[0])
        index.add(above, len(frame), length, len(keys), probes)
        before = keys[-1]
        data += frame
        trailers.update(frame[-TRAILER_BYTES:])
        filters += bits
        raw_bytes += len(payload)
    said = _true_properties(blocks, raw_bytes, len(filters))
    said = msgspec.structs.replace(said, blocks_checksum=blocks_checksum(trailers))
    said = msgspec.structs.replace(said, **(properties or {}))
    index_data = index.finish(filters, said.smallest, said.largest)
    tail = index_data + msgspec.json.encode(said)
    footer = Footer(
        len(data), 0, len(filters), len(index_data), len(tail) - len(index_data),
        checksum(b"", 0), checksum(tail, 0),
    )  # fmt: skip
    path.write_bytes(data + filters + tail + footer.encode())


def _true_properties(
    blocks: Sequence[Sequence[Entry]], raw_bytes: int, filter_bytes: int
) -> TableProperties:
    entries = [entry for block in blocks for entry in block]
    keys_in_order = [entry[0] for entry in entries]
    return TableProperties(
        number=1,
        smallest=keys_in_order[0],
        largest=keys_in_order[-1],
        smallest_seq=min(entry[2] for entry in entries),
        largest_seq=max(entry[2] for entry in entries),
        entry_count=len(entries),
        tombstone_count=sum(entry[1] is None for entry in entries),
        expiry=expiry_of(
            [entry[1].expires_at_s for entry in entries if isinstance(entry[1], Expiring)],
            len(entries),
        ),
        has_versions=len(set(keys_in_order)) < len(keys_in_order),
        block_count=len(blocks),
        raw_bytes=raw_bytes,
        blocks_checksum=0,  # set once all trailers are known
        compression="none",
        filter_bytes=filter_bytes,
        filter_key="whole",
        granularity="block",
        error_rate=0.01,
        filter_key_count=0,
        probe_count=0,
        filter_scheme=SCHEME_BLOOM,
        writer="forged",
    )


def spoil_first_block(table: Path) -> None:
    """Flip a byte of the first block's payload."""
    content = bytearray(table.read_bytes())
    content[100] ^= 0xFF
    table.write_bytes(content)
