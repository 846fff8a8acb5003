"""Looking at a store from outside: levels, runs, tables, blocks and filters, as data and text."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from lsmkv.filters.policy import FilterPolicy
from lsmkv.inspection.report import Report, count, count_entries
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.format import CODEC_NONE, CODEC_ZSTD, CODEC_ZSTD_REDUCED
from lsmkv.sstable.reader import TableReader

_CODECS: Final = {CODEC_NONE: "none", CODEC_ZSTD: "zstd", CODEC_ZSTD_REDUCED: "zstd"}


@dataclass(frozen=True, slots=True)
class BlockInfo(Report):
    """One data block and its filter.

    Attributes:
        number: its place in the table, from 0.
        offset, length_bytes: its place in the file, filter and trailer included.
        raw_bytes: its payload before compression.
        codec: ``"none"`` or ``"zstd"``.
        entry_count: entries in it, deletions and old versions included.
        first_key, last_key: its key range.
        key_count, bit_count, probe_count: its filter's n, m and k; all 0 when it has none.
        expected_rate: the exact false-positive rate for them; 1.0 without a filter of its own.
    """

    number: int
    offset: int
    length_bytes: int
    raw_bytes: int
    codec: str
    entry_count: int
    first_key: bytes
    last_key: bytes
    key_count: int
    bit_count: int
    probe_count: int
    expected_rate: float

    def __str__(self) -> str:
        return (
            f"block {self.number} at {self.offset}: {count_entries(self.entry_count)}, "
            f"{count(self.length_bytes, 'byte')} ({self.raw_bytes} raw, {self.codec}), "
            f"{self.first_key!r} to {self.last_key!r}, filter n={self.key_count} "
            f"m={self.bit_count} k={self.probe_count} p={self.expected_rate:.3%}"
        )


@dataclass(frozen=True, slots=True)
class TableInfo(Report):
    """One table.

    Attributes:
        number, file_name, size_bytes: its file.
        entry_count, tombstone_count: entries, and how many of them are deletions.
        smallest, largest: its key range.
        smallest_seq, largest_seq: its sequence numbers; 0 is what compaction makes of old ones.
        block_count: data blocks.
        raw_bytes, stored_bytes: data blocks before compression, and as they are in the file (with
            their filters and trailers).
        dictionary_bytes, index_bytes: sizes of the compression dictionary and the index.
        filter_kind: the name of its policy (``Options.filter_policy``), or ``"none"``.
        granularity: one filter per ``"block"``, or one for the ``"table"``.
        filter_key: which part of the key the filters hold, in text form.
        filter_bytes: size of the filters; of those in the blocks there is a copy in the file.
        filter_memory_bytes: how much of them is held in memory for good.
        requested_rate: the false-positive rate the filters were sized for.
        expected_rate: the exact rate of what came of it: the mean over the blocks.  None when only
            the blocks themselves could tell, and they were not to be read.
        writer: what wrote the file.
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

    def __str__(self) -> str:
        filters = "no filters"
        if self.filter_kind != "none":
            exact = "?" if self.expected_rate is None else f"{self.expected_rate:.3%}"
            filters = (
                f"{count(self.filter_bytes, 'filter byte')} per {self.granularity}, "
                f"{self.filter_key} keys, p {self.requested_rate:.3%} asked, {exact} exact"
            )
        return (
            f"{self.file_name}: {count_entries(self.entry_count)} "
            f"({count(self.tombstone_count, 'deletion')}), "
            f"{count(self.size_bytes, 'byte')}, {count(self.block_count, 'block')} "
            f"({count(self.raw_bytes, 'byte')} raw, {self.stored_bytes} stored), "
            f"{self.smallest!r} to {self.largest!r}, "
            f"sequence numbers {self.smallest_seq} to {self.largest_seq}, {filters}"
        )


@dataclass(frozen=True, slots=True)
class RunInfo(Report):
    """One run: its number (higher is newer within a level), and its tables by ascending key."""

    derived: ClassVar[tuple[str, ...]] = ("size_bytes", "entry_count")

    number: int
    tables: tuple[TableInfo, ...]

    @property
    def size_bytes(self) -> int:
        """Size of its files."""
        return sum(table.size_bytes for table in self.tables)

    @property
    def entry_count(self) -> int:
        """Entries, deletions and old versions included."""
        return sum(table.entry_count for table in self.tables)

    def __str__(self) -> str:
        return (
            f"run {self.number}: {count(len(self.tables), 'table')}, "
            f"{count_entries(self.entry_count)}, {count(self.size_bytes, 'byte')}"
        )


@dataclass(frozen=True, slots=True)
class LevelInfo(Report):
    """One level: its number, and its runs, newest first."""

    derived: ClassVar[tuple[str, ...]] = ("size_bytes", "entry_count")

    number: int
    runs: tuple[RunInfo, ...]

    @property
    def size_bytes(self) -> int:
        """Size of its files."""
        return sum(run.size_bytes for run in self.runs)

    @property
    def entry_count(self) -> int:
        """Entries, deletions and old versions included."""
        return sum(run.entry_count for run in self.runs)

    def __str__(self) -> str:
        return (
            f"level {self.number}: {count(len(self.runs), 'run')}, "
            f"{count_entries(self.entry_count)}, {count(self.size_bytes, 'byte')}"
        )


@dataclass(frozen=True, slots=True)
class StoreInfo(Report):
    """A store at one moment.

    Attributes:
        memtable_key_counts: keys of each memtable, the active one first.
        levels: the levels of the tree, from level 0 down; levels without tables too.
    """

    derived: ClassVar[tuple[str, ...]] = (
        "size_bytes",
        "entry_count",
        "filter_bytes",
        "filter_memory_bytes",
    )

    memtable_key_counts: tuple[int, ...]
    levels: tuple[LevelInfo, ...]

    def tables(self) -> Iterator[TableInfo]:
        """Every table, newest data first."""
        for level in self.levels:
            for run in level.runs:
                yield from run.tables

    @property
    def size_bytes(self) -> int:
        """Size of the table files."""
        return sum(level.size_bytes for level in self.levels)

    @property
    def entry_count(self) -> int:
        """Entries in tables, deletions and old versions included."""
        return sum(level.entry_count for level in self.levels)

    @property
    def filter_bytes(self) -> int:
        """Size of every table's filters."""
        return sum(table.filter_bytes for table in self.tables())

    @property
    def filter_memory_bytes(self) -> int:
        """Filters that are held in memory for good."""
        return sum(table.filter_memory_bytes for table in self.tables())

    def text(self) -> str:
        """A line for the memtables and each level, run and table."""
        counts = ", ".join(count(keys, "key") for keys in self.memtable_key_counts)
        lines = [f"memtables: {counts}"]
        for level in self.levels:
            lines.append(str(level))
            for run in level.runs:
                lines.append(f"  {run}")
                lines += [f"    {table}" for table in run.tables]
        lines.append(
            f"in all: {count_entries(self.entry_count)}, {count(self.size_bytes, 'byte')} in "
            f"{count(sum(1 for _ in self.tables()), 'table')}, "
            f"{count(self.filter_bytes, 'byte')} of filters ({self.filter_memory_bytes} in memory)"
        )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


def inspect_store(current: SuperVersion, *, read_blocks: bool = False) -> StoreInfo:
    """What ``current`` consists of.

    Args:
        read_blocks: whether blocks may be read to learn the exact error rate of filters where the
            index does not tell it (see :func:`expected_error_rate`).

    O(blocks); nothing is read unless ``read_blocks``.

    Raises:
        CorruptionError, OSError: with ``read_blocks``, a block is damaged or cannot be read.
    """
    runs: dict[int, list[RunInfo]] = {
        level: [] for level in range(len(current.version.levels.by_depth))
    }
    for run in current.version.runs:
        tables = tuple(_table_info(table, read_blocks) for table in run.tables)
        runs[run.level].append(RunInfo(run.number, tables))
    return StoreInfo(
        tuple(map(len, current.memtables)),
        tuple(LevelInfo(level, tuple(infos)) for level, infos in runs.items()),
    )


def expected_error_rate(table: TableReader) -> float:
    """The false-positive rate to expect of the table's filters: the mean of ``exact_rate``.

    Blocks weigh the same, those without a filter with a rate of 1.  It is that of the filters in
    the file, whether look-ups ask them or not.  When filters hold whole keys and no key stands
    twice, the index tells every n; otherwise every block is read for it.

    O(blocks), and a few milliseconds at most for the rates.

    Raises:
        CorruptionError, OSError: a block that has to be read is damaged or cannot be.
    """
    known = _rate_by_index(table)
    if known is not None:
        return known
    return _mean_rate(
        table.filters.policy,
        Counter(
            (block.bit_count, block.key_count, block.probe_count) for block in block_infos(table)
        ),
    )


def block_infos(table: TableReader) -> Iterator[BlockInfo]:
    """Each block of ``table``, in order; reads one block per step, past the cache.

    Raises:
        CorruptionError, OSError: a block is damaged or cannot be read.
    """
    for number in range(table.index.block_count):
        block, index = table.block_trailer(number), table.index
        yield BlockInfo(
            number,
            index.offset(number),
            table.block_length(number),
            block.raw_length,
            _CODECS.get(block.codec, str(block.codec)),
            block.entry_count,
            index.first_key(number),
            index.last_key(number),
            block.filter_key_count,
            block.filter_length * 8,
            block.probe_count,
            _rate(
                table.filters.policy,
                block.filter_length * 8,
                block.filter_key_count,
                block.probe_count,
            ),
        )


def _rate_by_index(table: TableReader) -> float | None:
    """The expected rate as far as the load-on-open part of the table tells it."""
    footer, properties, index = table.footer, table.properties, table.index
    if footer.filters_length == 0:
        return 1.0
    if properties.granularity == "table":
        bits = footer.filters_length * 8
        return _rate(
            table.filters.policy, bits, properties.filter_key_count, properties.probe_count
        )
    if properties.has_versions or not table.filters.filter_key.is_whole:
        return None
    starts = [int(index.filter_start(number)) for number in range(index.block_count + 1)]
    return _mean_rate(
        table.filters.policy,
        Counter(
            (
                (starts[number + 1] - starts[number]) * 8,
                index.entry_count(number),
                int(index.probe_count(number)),
            )
            for number in range(index.block_count)
        ),
    )


def _mean_rate(policy: FilterPolicy, shapes: Counter[tuple[int, int, int]]) -> float:
    """The mean exact rate of filters whose (m, n, k) are counted."""
    total = math.fsum(times * _rate(policy, *shape) for shape, times in shapes.items())
    return total / shapes.total()


def _rate(policy: FilterPolicy, bit_count: int, key_count: int, parameter: int) -> float:
    """The exact rate of one filter; 1.0 without one."""
    return policy.exact_rate(bit_count // 8, key_count, parameter) if bit_count else 1.0


def _table_info(table: TableReader, read_blocks: bool) -> TableInfo:
    table.load()  # what it takes in memory is told as it is in use
    meta, footer, properties = table.meta, table.footer, table.properties
    rate = expected_error_rate(table) if read_blocks else _rate_by_index(table)
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
        rate,
        properties.writer,
    )
