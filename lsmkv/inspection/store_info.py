"""The shape of a store, as data and text."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final, Literal

from lsmkv.encoding.expiry import Expiring
from lsmkv.filters import bloom
from lsmkv.filters.policy import BLOOM, RIBBON
from lsmkv.inspection.report import IndexAndFilters, Report, count, count_entries, utc
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.format import CODEC_NONE, CODEC_ZSTD, TableExpiry, expiry_of
from lsmkv.sstable.reader import TableReader

Scope = Literal["block", "table"]

_CODECS: Final = {CODEC_NONE: "none", CODEC_ZSTD: "zstd"}


@dataclass(frozen=True, slots=True)
class BlockInfo(Report):
    """One data block and its filter.

    Attributes:
        number: its number in the table, from 0.
        offset, length_bytes: its place in the file, filter and trailer included.
        raw_bytes: size of its payload before compression.
        entry_count: its entries, deletions and old versions included.
        key_count, bit_count, probe_count: its filter's n, m and k; all 0 without a filter.
        expected_rate: their exact false-positive rate; 1.0 without a filter of its own.
        bits_rate: the false-positive rate of its very bits: of a Bloom filter the share of those that are
            set, to the power k; of a ribbon filter ``expected_rate``, whatever its bits are.  None for
            other filters, without one, and if it is lost.
    """

    number: int
    offset: int
    length_bytes: int
    raw_bytes: int
    codec: str  # "none" or "zstd"
    entry_count: int
    first_key: bytes
    last_key: bytes
    key_count: int
    bit_count: int
    probe_count: int
    expected_rate: float
    bits_rate: float | None

    def __str__(self) -> str:
        return (
            f"block {self.number} at {self.offset}: {count_entries(self.entry_count)}, "
            f"{count(self.length_bytes, 'byte')} ({self.raw_bytes} raw, {self.codec}), "
            f"{self.first_key!r} to {self.last_key!r}, filter n={self.key_count} "
            f"m={self.bit_count} k={self.probe_count} p={self.expected_rate:.3%}"
        )


@dataclass(frozen=True, slots=True)
class FilterInfo(Report):
    """The filter of a block, or of a whole table.

    Attributes:
        policy: the name of its policy (``Options.filter_policy``).
        scope: whether it is that of a ``"block"`` or of the ``"table"``.
        key_count, bit_count, probe_count: its n, m and k (of a ribbon filter: columns; of a Grafite
            filter: low bits of a code).  n is None if only the block has it.  m is 0 without a filter.
        expected_rate: their exact false-positive rate; None without n.  Without a filter 1.0, or 0.0 for
            a block of one key.
    """

    policy: str
    scope: Scope
    key_count: int | None
    bit_count: int
    probe_count: int
    expected_rate: float | None


@dataclass(frozen=True, slots=True)
class ExpiryInfo(Report):
    """When entries are due, in seconds since 1970 UTC.

    Attributes:
        count: how many expire.
        earliest_s, latest_s: when the first and the last of these are due.
        half_due_s: when half of all entries are due, also counting those that never are; None: never.
            Of several tables together it is a time by which they are.
    """

    count: int
    earliest_s: int
    half_due_s: int | None
    latest_s: int

    def __str__(self) -> str:
        half = "never" if self.half_due_s is None else utc(self.half_due_s)
        verb = "entry expires" if self.count == 1 else "entries expire"
        return (
            f"{self.count:,} {verb}, the first {utc(self.earliest_s)}, half of all {half}, "
            f"the last {utc(self.latest_s)}"
        )


@dataclass(frozen=True, slots=True)
class TableInfo(IndexAndFilters):
    """One table.

    Attributes:
        entry_count, tombstone_count: entries, and the deletions among them.
        smallest_seq, largest_seq: its sequence numbers; compaction sets old ones to 0.
        raw_bytes, stored_bytes: size of the data blocks before compression, and in the file (with
            filters and trailers).
        filter_kind: the name of its policy (``Options.filter_policy``), or ``"none"``.
        granularity: one filter per ``"block"``, or one for the ``"table"``.
        filter_key: the part of the key that the filters hold, in text form.
        index_bytes: size of the index, in the file and in memory.
        filter_bytes: size of the filters; those of blocks are stored twice.
        filter_memory_bytes: size of those that stay in memory, with the keys they learnt to deny
            (``Options.adaptive_filters``).
        requested_rate: the false-positive rate that the filters were sized for.
        expected_rate: their exact rate, as the mean over the blocks; None if the index cannot tell it.
        expiry: when entries are due; None if none expires.
    """

    number: int
    file_name: str
    size_bytes: int
    entry_count: int
    tombstone_count: int
    smallest: bytes
    largest: bytes
    smallest_seq: int
    largest_seq: int
    block_count: int
    raw_bytes: int
    stored_bytes: int
    dictionary_bytes: int
    index_bytes: int
    filter_kind: str
    granularity: str
    filter_key: str
    filter_bytes: int
    filter_memory_bytes: int
    requested_rate: float
    expected_rate: float | None
    writer: str
    expiry: ExpiryInfo | None

    def __str__(self) -> str:
        filters = "no filters"
        if self.filter_kind != "none":
            exact = "?" if self.expected_rate is None else f"{self.expected_rate:.3%}"
            filters = (
                f"{count(self.filter_bytes, 'byte')} of filters, one per {self.granularity}, "
                f"{self.filter_key} keys, p {self.requested_rate:.3%} asked, {exact} exact"
            )
        return (
            f"{self.file_name}: {count_entries(self.entry_count)} "
            f"({count(self.tombstone_count, 'deletion')}), "
            f"{count(self.size_bytes, 'byte')}, {count(self.block_count, 'block')} "
            f"({count(self.raw_bytes, 'byte')} raw, {self.stored_bytes:,} stored), "
            f"{self.smallest!r} to {self.largest!r}, "
            f"sequence numbers {self.smallest_seq} to {self.largest_seq}, "
            f"{count(self.index_bytes, 'byte')} of index, {filters}{_expiry_text(self.expiry)}"
        )


def _expiry_text(expiry: ExpiryInfo | None) -> str:
    return "" if expiry is None else f"; {expiry}"


class _Sum(IndexAndFilters):
    """Base of reports whose sizes are those of their parts together."""

    __slots__ = ()
    derived: ClassVar[tuple[str, ...]] = (
        "size_bytes",
        "entry_count",
        "block_count",
        "index_bytes",
        "filter_bytes",
        "filter_memory_bytes",
        "expiry",
        *IndexAndFilters.derived,
    )

    def _parts(self) -> Sequence[_Sum | TableInfo]:
        raise NotImplementedError

    @property
    def size_bytes(self) -> int:
        """Length of its files."""
        return sum(part.size_bytes for part in self._parts())

    @property
    def entry_count(self) -> int:
        """Entries, deletions and old versions included."""
        return sum(part.entry_count for part in self._parts())

    @property
    def block_count(self) -> int:
        """Data blocks."""
        return sum(part.block_count for part in self._parts())

    @property
    def index_bytes(self) -> int:
        """Size of every table's index."""
        return sum(part.index_bytes for part in self._parts())

    @property
    def filter_bytes(self) -> int:
        """Size of every table's filters."""
        return sum(part.filter_bytes for part in self._parts())

    @property
    def filter_memory_bytes(self) -> int:
        """Size of the filters that stay in memory."""
        return sum(part.filter_memory_bytes for part in self._parts())

    @property
    def expiry(self) -> ExpiryInfo | None:
        """When entries of its tables are due; None if none expires."""
        return _together((part.expiry, part.entry_count) for part in self._parts())

    def _totals(self) -> str:
        return f"{count_entries(self.entry_count)}, {count(self.size_bytes, 'byte')}"


@dataclass(frozen=True, slots=True)
class RunInfo(_Sum):
    """One run; a higher number is newer within a level.  Its tables are by ascending key."""

    number: int
    tables: tuple[TableInfo, ...]

    def _parts(self) -> tuple[TableInfo, ...]:
        return self.tables

    def __str__(self) -> str:
        return f"run {self.number}: {count(len(self.tables), 'table')}, {self._totals()}"


@dataclass(frozen=True, slots=True)
class LevelInfo(_Sum):
    """One level, and its runs, newest first."""

    number: int
    runs: tuple[RunInfo, ...]

    def _parts(self) -> tuple[RunInfo, ...]:
        return self.runs

    def __str__(self) -> str:
        return f"level {self.number}: {count(len(self.runs), 'run')}, {self._totals()}"


@dataclass(frozen=True, slots=True)
class StoreInfo(_Sum):
    """A store at one moment.

    Attributes:
        store_id: what tells it from every other store, 128 random bits in hexadecimal, given when it was
            made; empty for a published one.  Only a repair that has no manifest to go by changes it.  A
            checkpoint, a backup and a repaired copy each have their own; who copies the files copies it.
        memtable_key_counts: keys of each memtable, the active one first.
        levels: the levels of the tree, from level 0 down; levels without tables too.
        memtable_expiries: when entries of each memtable are due.
        range_delete_count: range deletes that may hide entries.
    """

    store_id: str
    memtable_key_counts: tuple[int, ...]
    levels: tuple[LevelInfo, ...]
    memtable_expiries: tuple[ExpiryInfo | None, ...]
    range_delete_count: int = 0

    @property
    def expiry(self) -> ExpiryInfo | None:
        """When entries are due, in memtables and tables; None if none expires."""
        memtables = zip(self.memtable_expiries, self.memtable_key_counts, strict=True)
        tables = ((table.expiry, table.entry_count) for table in self.tables())
        return _together([*memtables, *tables])

    def _parts(self) -> tuple[LevelInfo, ...]:
        return self.levels

    def tables(self) -> Iterator[TableInfo]:
        """Every table, newest data first."""
        for level in self.levels:
            for run in level.runs:
                yield from run.tables

    def __str__(self) -> str:
        counts = ", ".join(count(keys, "key") for keys in self.memtable_key_counts)
        lines = [f"store {self.store_id}"] if self.store_id else []
        lines.append(f"memtables: {counts}")
        if self.range_delete_count:
            lines.append(count(self.range_delete_count, "range delete"))
        for level in self.levels:
            lines.append(str(level))
            for run in level.runs:
                lines.append(f"  {run}")
                lines += [f"    {table}" for table in run.tables]
        lines.append(
            f"in all: {self._totals()} in {count(sum(1 for _ in self.tables()), 'table')}; "
            f"{self.index_and_filters()}; "
            f"{count(self.filter_memory_bytes, 'byte')} of filters in memory{_expiry_text(self.expiry)}"
        )
        return "\n".join(lines)


def _together(parts: Iterable[tuple[ExpiryInfo | None, int]]) -> ExpiryInfo | None:
    """The expiry of parts, each with its count of entries."""
    counted = list(parts)
    found = [expiry for expiry, _ in counted if expiry is not None]
    if not found:
        return None
    steps: list[tuple[int, int]] = []  # when more entries are due at the latest, and how many
    for expiry, entries in counted:
        if expiry is not None:
            half = [] if expiry.half_due_s is None else [(expiry.half_due_s, (entries + 1) // 2)]
            known = [(0, 0), (expiry.earliest_s, 1), *half, (expiry.latest_s, expiry.count)]
            steps += [(at_s, due - before) for (_, before), (at_s, due) in pairwise(known)]
    half_due_s, due = None, 0
    for at_s, more in sorted(steps):
        due += more
        if 2 * due >= sum(entries for _, entries in counted):
            half_due_s = at_s
            break
    return ExpiryInfo(
        sum(expiry.count for expiry in found),
        min(expiry.earliest_s for expiry in found),
        half_due_s,
        max(expiry.latest_s for expiry in found),
    )


def _expiry_info(stored: TableExpiry | None) -> ExpiryInfo | None:
    if stored is None:
        return None
    return ExpiryInfo(stored.count, stored.earliest_s, stored.half_due_s, stored.latest_s)


def inspect_store(current: SuperVersion, store_id: str) -> StoreInfo:
    """The shape of ``current``; reads no block."""
    depths = range(len(current.version.levels.by_depth))
    runs: dict[int, list[RunInfo]] = {level: [] for level in depths}
    for run in current.version.runs:
        tables = tuple(map(table_info, run.tables))
        runs[run.level].append(RunInfo(run.number, tables))
    due = []
    for memtable in current.memtables:
        values = [value for _, value in memtable.newest()]
        expiries = [value.expires_at_s for value in values if isinstance(value, Expiring)]
        due.append(_expiry_info(expiry_of(expiries, len(values))))
    return StoreInfo(
        store_id,
        tuple(map(len, current.memtables)),
        tuple(LevelInfo(level, tuple(infos)) for level, infos in runs.items()),
        tuple(due),
        0 if current.range_deletes is None else len(current.range_deletes.ranges),
    )


def block_infos(table: TableReader) -> Iterator[BlockInfo]:
    """Each block of ``table``; reads one block per step, past the cache."""
    for number in range(table.index.block_count):
        yield block_info(table, number)


def block_info(table: TableReader, number: int) -> BlockInfo:
    """One block of ``table``, read from disk past the cache."""
    index, (block, trailer) = table.index, table.read_past_cache(number)
    shape = trailer.filter_length * 8, trailer.filter_key_count, trailer.probe_count
    return BlockInfo(
        number=number,
        offset=index.offset(number),
        length_bytes=table.block_length(number),
        raw_bytes=trailer.raw_length,
        codec=_CODECS.get(trailer.codec, str(trailer.codec)),
        entry_count=trailer.entry_count,
        first_key=block.key(0),
        last_key=block.key(block.count - 1),
        bit_count=shape[0],
        key_count=shape[1],
        probe_count=shape[2],
        expected_rate=filter_rate(table, *shape),
        bits_rate=_bits_rate(table, number, trailer.probe_count) if trailer.filter_length else None,
    )


def _bits_rate(table: TableReader, number: int, probe_count: int) -> float | None:
    """A filter's false-positive rate by its bits; None if not known."""
    bits = table.filters.bits_of(number)
    if not bits:
        return None
    if table.filter_policy is RIBBON:  # each bit of a fingerprint is right by chance, one in two
        return RIBBON.exact_rate(len(bits), 0, probe_count)
    if table.filter_policy is not BLOOM:
        return None
    set_bits = int.from_bytes(bits, "little").bit_count()
    return (set_bits / (8 * len(bits))) ** probe_count


def filter_shape(table: TableReader, number: int) -> tuple[int, int | None, int]:
    """m, n (None: only the block has it) and k of a filter."""
    index, properties = table.index, table.properties
    if properties.granularity == "table":
        bits = table.footer.filters_length * 8
        return bits, properties.filter_key_count, properties.probe_count
    counts_entries = table.filters.filter_key.is_whole and not properties.has_versions
    _, length, parameter = index.filter_place(number)
    return (int(length) * 8, index.entry_count(number) if counts_entries else None, int(parameter))


def filter_rate(table: TableReader, bit_count: int, key_count: int, probe_count: int) -> float:
    """The exact rate of one filter; without bits 1.0."""
    if bit_count == 0:
        return 1.0
    return table.filters.policy.exact_rate(bit_count // 8, key_count, probe_count)


def bits_of_key(policy: str, byte_count: int, probe_count: int, h: int) -> tuple[int, ...]:
    """The bits of one hash in a Bloom filter: those of a filter that holds nothing else."""
    if policy != BLOOM.name:
        return ()
    alone = bloom.build([h], byte_count, probe_count)
    return tuple(
        8 * found.start() + bit
        for found in re.finditer(rb"[^\0]", alone, re.DOTALL)
        for bit in range(8)
        if found[0][0] >> bit & 1
    )


def expected_error_rate(table: TableReader) -> float | None:
    """The mean of the filters' exact rates, 1 without one; None if the index lacks their n."""
    if table.footer.filters_length == 0:
        return 1.0
    is_per_block = table.properties.granularity != "table"
    shapes: Counter[tuple[int, int, int]] = Counter()
    for number in range(int(table.index.block_count) if is_per_block else 1):
        bits, key_count, probes = filter_shape(table, number)
        if key_count is None:
            return None
        shapes[bits, key_count, probes] += 1
    total = math.fsum(times * filter_rate(table, *shape) for shape, times in shapes.items())
    return total / shapes.total()


def table_info(table: TableReader) -> TableInfo:
    """One table; reads no block.  O(blocks)."""
    table.load()  # the memory of its filters is that of a table in use
    meta, footer, properties = table.meta, table.footer, table.properties
    return TableInfo(
        meta.number,
        os.path.basename(table.path),
        meta.size_bytes,
        meta.entry_count,
        meta.tombstone_count,
        meta.smallest,
        meta.largest,
        meta.smallest_seq,
        meta.largest_seq,
        properties.block_count,
        properties.raw_bytes,
        footer.data_length,
        footer.dictionary_length,
        footer.index_length,
        table.filter_policy.name if footer.filters_length else "none",
        properties.granularity,
        properties.filter_key,
        footer.filters_length,
        table.filter_memory_bytes,
        properties.error_rate,
        expected_error_rate(table),
        properties.writer,
        _expiry_info(properties.expiry),
    )
