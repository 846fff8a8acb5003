"""What the filters of one open table answer: a block may hold a key, or it does not.

Where their bits come from: :mod:`lsmkv.sstable.filter_section`.  Where these are lost, blocks are
searched without a filter.
"""

from __future__ import annotations

from typing import NamedTuple

from mypy_extensions import i64

from lsmkv.errors import CorruptionError, UnsupportedFormatError, caused
from lsmkv.filters.keys import FilterKey, filter_key_from_spec
from lsmkv.filters.learning import LearntKeys
from lsmkv.filters.policy import FilterPolicy, policy_for
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.filter_section import FilterSection
from lsmkv.sstable.format import Footer, TableProperties
from lsmkv.sstable.index import TableIndex
from lsmkv.stats import Stats
from lsmkv.storage.storage import RandomFile


class FilterKind(NamedTuple):
    key: FilterKey
    policy: FilterPolicy


def filter_kind(properties: TableProperties, path: str, footer: Footer) -> FilterKind:
    """The kind that a table's properties name.

    Raises CorruptionError if the filter key does not parse, UnsupportedFormatError if no policy of that
    scheme and name is registered.
    """
    try:
        key = filter_key_from_spec(properties.filter_key)
    except ValueError as error:
        raise caused(CorruptionError(path, footer.properties_offset, str(error)), error)
    try:
        policy = policy_for(properties.filter_scheme, properties.filter_policy)
    except ValueError as error:
        raise caused(UnsupportedFormatError(path, str(error)), error)
    return FilterKind(key, policy)


class TableFilters:
    """A table's filters, asked by any number of threads.

    ``exist`` tells whether there are filters to ask: one ``per_block`` or one ``per_table``.
    ``lack_some`` tells whether some blocks are searched without asking one.  ``learnt`` has keys that
    filters let pass, which lookups ask afterwards.  Raises CorruptionError if a filter has a size or
    parameter that its policy cannot have.
    """

    def __init__(
        self,
        file: RandomFile,
        footer: Footer,
        properties: TableProperties,
        kind: FilterKind,
        index: TableIndex,
        cache: BlockCache,
        residency: str,
        stats: Stats,
    ) -> None:
        self.index = index
        self.filter_key = kind.key
        self.policy: FilterPolicy = kind.policy
        self._are_key_hashes: bool = kind.key.is_whole and not self.policy.has_own_hash
        per_table: bool = properties.granularity == "table"
        self._length: i64 = footer.filters_length
        self._table_probe_count: i64 = properties.probe_count
        self.exist: bool = footer.filters_length > 0 and residency != "off"
        self.per_table: bool = self.exist and per_table
        self.per_block: bool = self.exist and not per_table
        shapes = index.filter_shapes() if footer.filters_length else set[tuple[int, int]]()
        lengths = [length for length, _ in shapes]
        self.lack_some: bool = not self.exist or (self.per_block and 0 in lengths)
        _check_shapes(shapes, self.policy, file.path, footer.index_offset)
        if per_table and footer.filters_length:
            shape = footer.filters_length, properties.probe_count
            _check_shapes({shape}, self.policy, file.path, footer.properties_offset)
        self.section = FilterSection(
            file,
            footer,
            index,
            cache,
            stats,
            is_whole=per_table,
            is_resident=self.exist and residency == "resident",
        )
        self._resident = self.section.resident  # a copy, for lookups
        self.learnt = LearntKeys(index.block_count, properties.entry_count)

    # Asking

    def hash_of(self, key: bytes, h: i64) -> i64:
        """The hash that the filters hold for ``key``, whose own is ``h``."""
        if self._are_key_hashes:
            return h
        return self.policy.hash_key(self.filter_key.part(key))

    def table_may_hold(self, filter_hash: i64) -> bool:
        """The answer of the table's one filter, which it must have."""
        return self._ask(0, 0, self._length, self._table_probe_count, filter_hash)

    def block_may_hold(self, block_number: i64, filter_hash: i64) -> bool:
        """The answer of a block's filter; True if that block has none."""
        start, length, probes = self.index.filter_place(block_number)
        bits = self._resident
        if bits is not None:  # the usual case, without a detour
            return self.policy.may_contain(bits, start, length, probes, filter_hash)
        return self._ask(block_number, start, length, probes, filter_hash)

    def asks_for(self, block_number: i64) -> bool:
        """Whether a lookup in that block asks a filter."""
        if not self.per_block:
            return self.per_table
        return self.index.filter_place(block_number)[1] > 0

    def may_hold(self, block_number: i64, filter_hash: i64) -> bool:
        """The answer of the filters of table or block; True without any."""
        if self.per_table:
            return self.table_may_hold(filter_hash)
        return not self.per_block or self.block_may_hold(block_number, filter_hash)

    def may_hold_between(self, block_number: i64, start: bytes, stop: bytes) -> bool:
        """Whether a block may hold a key from ``start`` to below ``stop``; its policy answers that."""
        bits = self.bits_of(block_number)
        parameter = self.index.filter_place(block_number)[2]
        return not bits or self.policy.may_contain_between(bits, parameter, start, stop)

    def _ask(
        self, block_number: i64, start: i64, length: i64, probes: i64, filter_hash: i64
    ) -> bool:
        bits = self._resident
        if bits is None:
            if length == 0:
                return True
            chunk = self.section.chunk_with(block_number)
            bits = chunk.bits
            if len(bits) == 0:  # lost
                return True
            start -= chunk.start
        return self.policy.may_contain(bits, start, length, probes, filter_hash)

    def bits_of(self, block_number: i64) -> bytes:
        """A block's filter, or the table's, as lookups ask it; empty if it is lost or there is none."""
        if not self.exist:
            return b""
        start: i64 = 0
        end: i64 = self._length
        if self.per_block:
            start, length, _ = self.index.filter_place(block_number)
            end = start + length
        bits = self._resident
        if bits is None and start < end:
            chunk = self.section.chunk_with(block_number)
            bits = chunk.bits
            start -= chunk.start
            end -= chunk.start
        return b"" if bits is None else bits[start:end]

    def prefetch(self, block_number: i64) -> i64:
        """Fetch a block's resident filter into the processor's cache."""
        bits = self._resident
        start, length, fetched = self.index.filter_place(block_number)
        if bits is not None and length > 0:
            fetched += bits[start] + bits[start + length - 1]
        return fetched

    # Inspection

    @property
    def memory_bytes(self) -> int:
        return self.section.memory_bytes + self.learnt.memory_bytes

    def bytes_to_read(self, block_number: i64) -> int:
        """Bytes that asking a block's filter would read from disk now."""
        return self.section.bytes_to_read(block_number) if self.exist else 0


def _check_shapes(
    shapes: set[tuple[int, int]], policy: FilterPolicy, path: str, offset: int
) -> None:
    """Raise CorruptionError if a filter has an impossible shape."""
    for length, parameter in sorted(shapes):
        if length and not policy.is_possible(length, parameter):
            reason = (
                f"no filter of policy {policy.name!r} has {length} bytes "
                f"and the parameter {parameter}"
            )
            raise CorruptionError(path, offset, reason)
