"""Tables to look into: blocks, keys and filters; those of an open store, or in a file."""

from __future__ import annotations

from typing import Any, SupportsIndex

from lsmkv.encoding.entries import Buffer, key_bytes
from lsmkv.errors import uncopyable
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.keys import FilterKey
from lsmkv.inspection import store_info
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.reader import TableReader
from lsmkv.storage.storage import Storage


def open_table_file(path: str) -> TableReader:
    """The table in a file, without its store.  Raises as :class:`TableReader`."""
    storage = Storage()
    return TableReader(storage, path, BlockCache(0, storage.stats), None, "resident")


class Table:
    """A table of an open store, to look into; :meth:`DB.tables` makes it.

    It stays readable while it is held, also when a compaction has replaced it.  Its index and filters
    are read at the first use, as by a lookup.  Blocks have numbers from 0 to ``block_count`` - 1; a
    method raises ValueError for any other, and CorruptionError or OSError if what it reads is damaged
    or cannot be read.  No method brings a data block into the block cache.  Any number of threads may use
    it.

    Attributes:
        number, level, run: its number and its place; a higher run number is newer within a level.

    >>> import lsmkv, tempfile
    >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
    ...     report = db.bulk_load([(b"fox", b"red"), (b"hare", b"brown")])
    ...     (table,) = db.tables()
    ...     table.keys(0), table.filter(0).key_count, table.may_contain(b"hare")
    ([b'fox', b'hare'], 2, True)
    """

    def __init__(self, reader: TableReader, level: int, run: int) -> None:
        self._reader = reader
        self._filters: dict[
            tuple[int, int | None, int], store_info.FilterInfo
        ] = {}  # by shape: few differ
        self.number = reader.meta.number
        self.level = level
        self.run = run

    def info(self) -> store_info.TableInfo:
        """The table as :meth:`DB.inspect` describes it.  O(blocks)."""
        return store_info.table_info(self._reader)

    @property
    def smallest(self) -> bytes:
        """Its first key."""
        return self._reader.smallest

    @property
    def largest(self) -> bytes:
        """Its last key."""
        return self._reader.largest

    @property
    def size_bytes(self) -> int:
        """The length of its file."""
        return self._reader.meta.size_bytes

    @property
    def entry_count(self) -> int:
        """Its entries, deletions and old versions included."""
        return self._reader.meta.entry_count

    @property
    def filter_key(self) -> FilterKey:
        """The part of each key that its filters hold."""
        return self._reader.filters.filter_key

    @property
    def false_positives(self) -> int:
        """Of ``Stats.filter_false_positives`` those in this table."""
        return int(self._reader.asks.false_positives)

    @property
    def filter_negatives(self) -> int:
        """Of ``Stats.filter_negatives`` those in this table."""
        return self._reader.asks.filter_negatives

    @property
    def absent_asks(self) -> int:
        """Lookups of absent keys that asked it, since it was opened."""
        return int(self._reader.asks.absent)

    @property
    def asks_filters(self) -> bool:
        """Whether lookups ask filters of it: not without any, nor with ``filter_residency="off"``."""
        return self._reader.filters.exist

    # Blocks, by number

    @property
    def block_count(self) -> int:
        """How many data blocks it has."""
        return int(self._reader.index.block_count)

    def separator(self, block: int) -> bytes:
        """What no key of a block is below: of the first block, the table's smallest key.

        All keys of the blocks before it are below, but for one of which both have versions.
        """
        return self.smallest if block == 0 else self._reader.index.separator(self._checked(block))

    def length_bytes(self, block: int) -> int:
        """Size of a block in the file, filter and trailer included."""
        return self._reader.block_length(self._checked(block))

    def entries(self, block: int) -> int:
        """How many entries a block has, deletions and old versions included."""
        return self._reader.index.entry_count(self._checked(block))

    def is_cached(self, block: int) -> bool:
        """Whether the block cache holds a block."""
        return self._reader.is_cached(self._checked(block))

    def block(self, block: int) -> store_info.BlockInfo:
        """A block and its filter, read from disk."""
        return store_info.block_info(self._reader, self._checked(block))

    def keys(self, block: int) -> list[bytes]:
        """The keys of a block, in order; one with several versions comes as often."""
        return self._reader.block(self._checked(block), False).keys()

    # Filters

    def filter(self, block: int) -> store_info.FilterInfo:
        """A block's filter, or that of the whole table; reads no block."""
        reader = self._reader
        shape = store_info.filter_shape(reader, self._checked(block))
        if shape not in self._filters:
            bit_count, key_count, probe_count = shape
            rate = None
            if key_count is not None or not bit_count:
                rate = store_info.filter_rate(reader, bit_count, key_count or 0, probe_count)
            self._filters[shape] = store_info.FilterInfo(
                policy=reader.filter_policy.name,
                scope="table" if reader.properties.granularity == "table" else "block",
                key_count=key_count,
                bit_count=bit_count,
                probe_count=probe_count,
                expected_rate=rate,
            )
        return self._filters[shape]

    def filter_bits(self, block: int) -> bytes:
        """The bits of that filter, as lookups ask it; empty if they ask none, or it is lost."""
        return self._reader.filters.bits_of(self._checked(block))

    def may_contain(self, key: Buffer) -> bool:
        """Whether a lookup of ``key`` would search a block: no filter denies it."""
        reader, data = self._reader, key_bytes(key)
        if not reader.smallest <= data <= reader.largest:
            return False
        filters, index, h = reader.filters, reader.index, hash_key(data)
        last = int(index.find(data))
        first = int(index.find_first(data)) if reader.has_versions else last
        filter_hash = filters.hash_of(data, h)
        return any(
            filters.may_hold(block, filter_hash) and not filters.learnt.has(block, h)
            for block in range(first, last + 1)
        )

    def _checked(self, block: int) -> int:
        if not isinstance(block, int):
            raise TypeError(f"block={block!r}: give the number of a block, as an int")
        if not 0 <= block < self.block_count:
            raise ValueError(
                f"block={block!r}: table {self.number} has blocks 0 to {self.block_count - 1}"
            )
        return block

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable("a Table", "info() is data, which can be pickled")

    def __repr__(self) -> str:
        return f"<lsmkv.Table {self.number}, level {self.level}, run {self.run}>"
