"""Writes one table file from entries in order."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import msgspec

from lsmkv.encoding import checksum
from lsmkv.filters.bloom import MAX_BITS
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.keys import FilterKey
from lsmkv.filters.policy import MAX_PARAMETER, PRIVATE_SCHEMES, SCHEME_NONE, policy_named
from lsmkv.filters.sizing import keys_for
from lsmkv.options import Options
from lsmkv.sstable.block import ENTRY_OVERHEAD_BYTES, Value, encode_block
from lsmkv.sstable.codec import Compressor, train_dictionary
from lsmkv.sstable.index import IndexBuilder
from lsmkv.sstable.layout import (
    CODEC_NONE,
    BlockTrailer,
    Footer,
    TableMeta,
    TableProperties,
    encode_block_frame,
)
from lsmkv.storage import Storage

WRITER: Final = "lsmkv 0.1"
_WRITE_BYTES: Final = 256 * 1024  # blocks are handed to the file in pieces of about this size
_SAMPLES_PER_DICTIONARY_BYTE: Final = 100  # zstd's advice on how much to train a dictionary on
_MAX_SECTION_BYTES: Final = 1 << 30  # keys and filters of the index are addressed with 32 bits


@dataclass(frozen=True, slots=True)
class TableFormat:
    """The options that shape a table, and the error rate its filters are to have."""

    block_size_bytes: int
    compression: str
    compression_level: int
    dictionary_size_bytes: int
    filter_key: FilterKey
    granularity: str
    policy: str
    error_rate: float

    @classmethod
    def from_options(cls, options: Options, error_rate: float) -> TableFormat:
        return cls(
            options.block_size_bytes,
            options.compression,
            options.compression_level,
            options.compression_dictionary_size_bytes,
            options.filter_key,
            options.filter_granularity,
            options.filter_policy,
            error_rate,
        )


@dataclass(slots=True)
class _FinishedBlock:
    payload: bytes
    first: bytes
    last: bytes
    entry_count: int
    filter_bits: bytes
    filter_key_count: int
    probe_count: int


class TableWriter:
    """One table: ``add* finish``, or ``abandon``.

    Entries come in key order, versions of one key newest first.  The file is complete and synced
    when ``finish`` returns; its directory is the caller's to sync.
    """

    def __init__(self, storage: Storage, path: str, number: int, form: TableFormat) -> None:
        self._storage = storage
        self._path = path
        self._number = number
        self._form = form
        self._policy = policy_named(form.policy)
        self._file = storage.create(path)
        self._index = IndexBuilder()
        self._compressor: Compressor | None = None
        self._dictionary = b""
        self._untrained: list[_FinishedBlock] = []  # blocks that wait for the dictionary
        self._untrained_bytes = 0
        self._pieces: list[bytes] = []  # encoded blocks not yet handed to the file
        self._pieces_bytes = 0
        self._filters: list[bytes] = []
        self._filters_bytes = 0
        self._table_hashes: dict[int, None] = {}
        # Half of what one filter can hold: a block's keys may still follow.
        self._table_filter_keys = keys_for(MAX_BITS, min(form.error_rate, 0.5)) // 2
        self._stats = storage.stats
        # the block being filled
        self._keys: list[bytes] = []
        self._values: list[Value] = []
        self._seqs: list[int] = []
        self._hashes: list[int] = []
        self._block_bytes = 0
        self._has_versions = False
        # the table so far
        self._table_has_versions = False
        self._smallest = b""
        self._last_key = b""
        self._smallest_seq = -1
        self._largest_seq = 0
        self._entry_count = 0
        self._tombstone_count = 0
        self._raw_bytes = 0
        self._data_bytes = 0
        self._whole_keys = form.filter_key.is_whole

    @property
    def entry_count(self) -> int:
        return self._entry_count

    @property
    def size_bytes(self) -> int:
        """About how long the file would be if it were finished now."""
        return self._data_bytes + self._untrained_bytes + self._block_bytes + self._filters_bytes

    @property
    def is_full(self) -> bool:
        """Whether index or filter cannot hold much more; the next key belongs in a new table."""
        return (
            max(self._index.key_bytes, self._filters_bytes) > _MAX_SECTION_BYTES
            or len(self._table_hashes) > self._table_filter_keys
        )

    def add(self, key: bytes, value: Value, seq: int) -> None:
        """Add the next entry; a value of None is a deletion."""
        if self._block_bytes >= self._form.block_size_bytes:
            self._finish_block()
        if self._entry_count == 0:
            self._smallest = key
            self._smallest_seq = seq
        elif key == self._last_key:
            self._table_has_versions = True
            self._has_versions = bool(self._keys)
        self._last_key = key
        self._keys.append(key)
        self._values.append(value)
        self._seqs.append(seq)
        self._hashes.append(hash_key(key))
        self._entry_count += 1
        if value is None:
            self._tombstone_count += 1
            self._block_bytes += len(key) + ENTRY_OVERHEAD_BYTES
        else:
            self._block_bytes += len(key) + len(value) + ENTRY_OVERHEAD_BYTES

    def finish(self) -> TableMeta:
        """Write what is left, the index and the footer, and sync the file.

        Raises:
            ValueError: nothing was added.
            OSError: the file cannot be written.
        """
        if not self._entry_count:
            raise ValueError("a table needs at least one entry")
        self._finish_block()
        self._train()
        self._hand_over()
        filters = b"".join(self._filters)
        filter_key_count = probe_count = 0
        if self._form.granularity == "table":
            filters, filter_key_count, probe_count = self._build_table_filter()
        index = self._index.finish(filters)
        properties = TableProperties(
            number=self._number,
            smallest=self._smallest,
            largest=self._last_key,
            smallest_seq=self._smallest_seq,
            largest_seq=self._largest_seq,
            entry_count=self._entry_count,
            tombstone_count=self._tombstone_count,
            has_versions=self._table_has_versions,
            block_count=self._index.block_count,
            raw_bytes=self._raw_bytes,
            filter_bytes=len(filters),
            filter_key=self._form.filter_key.to_spec(),
            granularity=self._form.granularity,
            error_rate=self._form.error_rate,
            filter_key_count=filter_key_count,
            probe_count=probe_count,
            filter_scheme=self._policy.scheme,
            filter_policy=self._policy.name if self._policy.scheme in PRIVATE_SCHEMES else "",
            writer=WRITER,
        )
        tail = index + msgspec.json.encode(properties)
        footer = Footer(
            data_length=self._data_bytes,
            dictionary_length=len(self._dictionary),
            filters_length=len(filters),
            index_length=len(index),
            properties_length=len(tail) - len(index),
            dictionary_checksum=checksum(self._dictionary, 0),
            tail_checksum=checksum(tail, 0),
        )
        self._file.append(b"".join((self._dictionary, filters, tail, footer.encode())))
        self._file.sync()
        size_bytes = self._file.offset
        self._file.close()
        return properties.meta(size_bytes, footer.tail_checksum)

    def abandon(self) -> None:
        """Close and remove the unfinished file."""
        self._file.close()
        self._storage.remove(self._path)

    # Blocks

    def _finish_block(self) -> None:
        keys = self._keys
        if not keys:
            return
        filter_bits, filter_key_count, probe_count = self._block_filter()
        payload = encode_block(
            keys,
            self._values,
            self._seqs,
            bytes([h & 0xFF for h in self._hashes]),
            has_versions=self._has_versions,
        )
        self._smallest_seq = min(self._smallest_seq, min(self._seqs))
        self._largest_seq = max(self._largest_seq, max(self._seqs))
        self._raw_bytes += len(payload)
        block = _FinishedBlock(
            payload, keys[0], keys[-1], len(keys), filter_bits, filter_key_count, probe_count
        )
        self._keys, self._values, self._seqs, self._hashes = [], [], [], []
        self._block_bytes = 0
        self._has_versions = False
        if self._form.dictionary_size_bytes and self._compressor is None:
            self._untrained.append(block)
            self._untrained_bytes += len(payload)
            wanted = self._form.dictionary_size_bytes * _SAMPLES_PER_DICTIONARY_BYTE
            if self._untrained_bytes >= wanted:
                self._train()
        else:
            self._write_block(block)

    def _train(self) -> None:
        """Train the dictionary on the blocks that wait for it, and write them."""
        waiting, self._untrained, self._untrained_bytes = self._untrained, [], 0
        if waiting and self._form.compression == "zstd":
            self._dictionary = train_dictionary(
                [block.payload for block in waiting], self._form.dictionary_size_bytes
            )
        if self._compressor is None:
            self._compressor = Compressor(self._form.compression_level, self._dictionary)
        for block in waiting:
            self._write_block(block)

    def _write_block(self, block: _FinishedBlock) -> None:
        if self._compressor is None:
            self._compressor = Compressor(self._form.compression_level, b"")
        codec, stored = CODEC_NONE, block.payload
        if self._form.compression == "zstd":
            codec, stored = self._compressor.compress(block.payload)
        trailer = BlockTrailer(
            len(stored),
            len(block.payload),
            len(block.filter_bits),
            block.entry_count,
            block.filter_key_count,
            codec,
            self._policy.scheme if block.filter_bits else SCHEME_NONE,
            block.probe_count,
        )
        frame = encode_block_frame(
            stored, block.filter_bits, trailer, self._number, self._data_bytes
        )
        self._index.add(
            block.first,
            block.last,
            length=len(frame),
            filter_length=len(block.filter_bits),
            entry_count=block.entry_count,
            probe_count=block.probe_count,
        )
        self._filters.append(block.filter_bits)
        self._filters_bytes += len(block.filter_bits)
        self._data_bytes += len(frame)
        self._pieces.append(frame)
        self._pieces_bytes += len(frame)
        if self._pieces_bytes >= _WRITE_BYTES:
            self._hand_over()

    def _hand_over(self) -> None:
        self._file.append(b"".join(self._pieces))
        self._pieces = []
        self._pieces_bytes = 0

    # Filters

    def _block_filter(self) -> tuple[bytes, int, int]:
        """The filter of the block being filled, its key count and k; nothing when it has none."""
        if self._policy.scheme == SCHEME_NONE:
            return b"", 0, 0
        started_ns = time.perf_counter_ns()
        if self._whole_keys:
            hashes = self._hashes
            if self._has_versions:
                hashes = list(dict.fromkeys(hashes))
        else:
            part = self._form.filter_key.part
            hashes = list(dict.fromkeys([hash_key(part(key)) for key in self._keys]))
        if self._form.granularity == "table":
            self._table_hashes.update(dict.fromkeys(hashes))
            built = b"", 0, 0
        else:
            built = self._build_filter(hashes)
        spent_ns = time.perf_counter_ns() - started_ns
        self._stats.filter_build_ns += spent_ns
        return built

    def _build_table_filter(self) -> tuple[bytes, int, int]:
        if not self._table_hashes:
            return b"", 0, 0
        started_ns = time.perf_counter_ns()
        built = self._build_filter(list(self._table_hashes))
        spent_ns = time.perf_counter_ns() - started_ns
        self._stats.filter_build_ns += spent_ns
        return built

    def _build_filter(self, hashes: list[int]) -> tuple[bytes, int, int]:
        bits, parameter = self._policy.build(hashes, self._form.error_rate)
        if not bits:
            return b"", 0, 0
        if not 0 <= parameter <= MAX_PARAMETER:  # one more bit would change the scheme
            raise ValueError(
                f"filter policy {self._policy.name!r} built a filter with the parameter {parameter}, "
                f"which does not lie between 0 and {MAX_PARAMETER}"
            )
        return bits, len(hashes), parameter
