"""One table file, written and read: answers, filters, reads, damage, bytes."""

from __future__ import annotations

import errno
import gc
import os
import random
import struct
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lsmkv
from lsmkv.cache import BlockCache
from lsmkv.encoding import MAX_KEY_BYTES, MAX_SEQUENCE, checksum
from lsmkv.errors import CorruptionError, Error, UnsupportedFormatError
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.keys import DelimitedPrefix, FixedPrefix
from lsmkv.filters.policy import SCHEME_BLOOM
from lsmkv.filters.sizing import filter_bytes_for, probes_for
from lsmkv.options import Options
from lsmkv.sstable.block import ABSENT, ENTRY_OVERHEAD_BYTES, Absent
from lsmkv.sstable.frame import BLOCK_MAGIC, TRAILER_BYTES, decode_block_frame
from lsmkv.sstable.layout import CODEC_NONE, CODEC_ZSTD, FOOTER_BYTES, TableMeta, decode_footer
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.writer import TableFormat, TableWriter
from lsmkv.storage import ReadKind, Storage
from storages import CountingStorage

if TYPE_CHECKING:
    from golden_support import Golden

Value = bytes | None
Entry = tuple[bytes, Value, int]  # key, value (None: a deletion), sequence number

RESIDENCIES = ("resident", "cached", "off")


class Tables:
    """Writes and opens tables in a directory."""

    def __init__(
        self, directory: str | Path, storage: Storage | None = None, cache_bytes: int = 1 << 24
    ) -> None:
        self.directory = str(directory)
        self.storage = storage or Storage()
        self.stats = self.storage.stats
        self.cache = BlockCache(cache_bytes, self.stats)
        self._last_number = 0

    def path(self, number: int) -> str:
        return os.path.join(self.directory, f"{number:06}.sst")

    def write(
        self, entries: Iterable[Entry], *, error_rate: float = 0.01, **options: Any
    ) -> TableMeta:
        """A finished table; the options not given are those of a small, uncompressed one."""
        chosen: dict[str, Any] = {"block_size_bytes": 256, "compression": "none", **options}
        self._last_number += 1
        number = self._last_number
        form = TableFormat.from_options(Options(**chosen), error_rate)
        writer = TableWriter(self.storage, self.path(number), number, form)
        for key, value, seq in entries:
            writer.add(key, value, seq)
        return writer.finish()

    def open(self, meta: TableMeta, residency: str = "resident") -> TableReader:
        return TableReader(
            self.storage, self.path(meta.number), self.cache, meta=meta, filter_residency=residency
        )

    def table(
        self, entries: Iterable[Entry], *, residency: str = "resident", **options: Any
    ) -> TableReader:
        return self.open(self.write(entries, **options), residency)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


def numbered(count: int, step: int = 2, value: bytes = b"value of %d") -> list[Entry]:
    """Entries with even numbers for keys, so that absent keys can be taken from between them."""
    return [
        (b"key%08d" % number, value % number if b"%" in value else value, index + 1)
        for index, number in enumerate(range(0, step * count, step))
    ]


def ask(table: TableReader, key: bytes, max_seq: int = MAX_SEQUENCE) -> Value | Absent:
    """What the table knows of ``key``, as a version asks it."""
    if not table.meta.smallest <= key <= table.meta.largest:
        return ABSENT
    return table.get(key, hash_key(key), max_seq)


def contents(table: TableReader) -> list[Entry]:
    found: list[Entry] = []
    for number in range(table.index.block_count):
        block = table.block(number, False)
        found += zip(block.keys(), block.values(), block.seqs(), strict=True)
    return found


def expected(entries: Iterable[Entry], key: bytes, max_seq: int) -> Value | Absent:
    """The newest version up to ``max_seq``, by a plain search."""
    for found, value, seq in entries:
        if found == key and seq <= max_seq:
            return value
    return ABSENT


def gaps(table: TableReader) -> list[bytes]:
    """A key between every two neighbouring blocks."""
    return [table.index.last_key(number) + b"!" for number in range(table.index.block_count - 1)]


def absent_within(table: TableReader, entries: list[Entry]) -> list[bytes]:
    """Absent keys, each within one block."""
    beside = [key + b"!" for key, _, _ in entries[:-1]]
    return [key for key in beside if table.index.find(key) >= 0]


# --- round trip ---

keys = st.builds(
    bytes.__add__,
    st.sampled_from([b"", b"", b"user:", b"\0" * 9, b"p" * 700]),
    st.binary(max_size=10),
)
values = st.none() | st.binary(max_size=60) | st.sampled_from([b"", b"v" * 2000])
entry_lists = st.dictionaries(
    keys,
    st.dictionaries(st.integers(0, 1000), values, min_size=1, max_size=5),
    min_size=1,
    max_size=60,
).map(
    lambda found: [
        (key, found[key][seq], seq)
        for key in sorted(found)
        for seq in sorted(found[key], reverse=True)
    ]
)
forms = st.fixed_dictionaries(
    {
        "residency": st.sampled_from(RESIDENCIES),
        "compression": st.sampled_from(["none", "zstd"]),
        "compression_dictionary_size_bytes": st.sampled_from([0, 1024]),
        "filter_granularity": st.sampled_from(["block", "table"]),
        "filter_key": st.sampled_from([lsmkv.WholeKey(), FixedPrefix(3), DelimitedPrefix(b":")]),
        "error_rate": st.sampled_from([0.3, 0.01, 1e-6, 1.0]),
    }
)


@given(entry_lists, forms)
def test_what_goes_in_comes_out(entries: list[Entry], form: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        table = Tables(directory).table(entries, **form)
        assert contents(table) == entries


@given(entry_lists, forms, st.lists(keys, max_size=20), st.integers(0, 1000))
def test_look_ups_are_a_plain_search(
    entries: list[Entry], form: dict[str, Any], others: list[bytes], max_seq: int
) -> None:
    asked = [key for key, _, _ in entries]
    asked += [key + b"\0" for key in asked] + [key[:-1] for key in asked if key] + others
    with tempfile.TemporaryDirectory() as directory:
        table = Tables(directory).table(entries, **form)
        for key in asked:
            assert ask(table, key) == expected(entries, key, MAX_SEQUENCE)
            assert ask(table, key, max_seq) == expected(entries, key, max_seq)


@given(entry_lists, forms)
def test_what_is_written_verifies(entries: list[Entry], form: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        table = Tables(directory).table(entries, **form)
        table.verify_tail()
        for number in range(table.index.block_count):
            table.verify_block(number)


def test_a_deletion_is_found_and_is_not_absence(tables: Tables) -> None:
    table = tables.table([(b"a", b"1", 1), (b"b", None, 2), (b"d", b"", 3)])
    assert [ask(table, key) for key in (b"a", b"b", b"c", b"d")] == [b"1", None, ABSENT, b""]


def test_an_empty_key_and_the_key_after_it(tables: Tables) -> None:
    table = tables.table([(b"", b"empty", 1), (b"\0", b"zero", 2)])
    assert [ask(table, key) for key in (b"", b"\0")] == [b"empty", b"zero"]


def test_keys_of_the_greatest_length(tables: Tables) -> None:
    longest = [b"k" * (MAX_KEY_BYTES - 2) + b"%02d" % number for number in range(10)]
    table = tables.table([(key, key[-2:], 1) for key in longest])
    assert [ask(table, key) for key in longest] == [key[-2:] for key in longest]


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_values_much_larger_than_a_block(tables: Tables, compression: str) -> None:
    huge = [random.Random(number).randbytes(1 << 20) for number in range(3)]
    entries: list[Entry] = [(b"%d" % number, value, 1) for number, value in enumerate(huge)]
    table = tables.table(entries, compression=compression)
    assert [ask(table, key) for key, _, _ in entries] == huge


def test_a_block_is_closed_once_it_is_as_long_as_asked(tables: Tables) -> None:
    table = tables.table(numbered(2000, value=b"v" * 50), block_size_bytes=4096)
    entry_bytes = len(b"key00000000") + 50 + ENTRY_OVERHEAD_BYTES
    counts = [table.index.entry_count(number) for number in range(table.index.block_count - 1)]
    assert set(counts) == {-(-4096 // entry_bytes)}


def test_versions_of_one_key_may_fill_many_blocks(tables: Tables) -> None:
    entries: list[Entry] = [(b"a", b"first", 1)]
    entries += [(b"k", b"version %d" % seq, seq) for seq in range(500, 0, -1)]
    entries += [(b"z", b"last", 1)]
    table = tables.table(entries)
    assert table.index.block_count > 20
    found = [ask(table, b"k", seq) for seq in range(1, 501)]
    assert found == [b"version %d" % seq for seq in range(1, 501)]
    assert ask(table, b"k", 0) is ABSENT


def test_a_writer_without_entries_finishes_no_table(tables: Tables) -> None:
    with pytest.raises(ValueError, match="at least one entry"):
        tables.write([])


def test_an_abandoned_table_leaves_no_file(tables: Tables) -> None:
    form = TableFormat.from_options(Options(), 0.01)
    writer = TableWriter(tables.storage, tables.path(1), 1, form)
    for key, value, seq in numbered(100_000 // 20):
        writer.add(key, value, seq)
    writer.abandon()
    assert os.listdir(tables.directory) == []


def test_a_writer_replaces_no_file(tables: Tables) -> None:
    Path(tables.path(1)).write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        tables.write(numbered(1))
    assert Path(tables.path(1)).read_bytes() == b"mine"


# --- what a table says of itself ---


def test_meta_and_properties(tables: Tables) -> None:
    entries: list[Entry] = [(b"a", b"1", 9), (b"a", b"0", 4), (b"b", None, 7), (b"c", b"", 5)]
    table = tables.table(entries, error_rate=0.02, filter_key=FixedPrefix(2))
    meta, properties = table.meta, table.properties
    assert (meta.smallest, meta.largest) == (b"a", b"c")
    assert (meta.smallest_seq, meta.largest_seq) == (4, 9)
    assert (meta.entry_count, meta.tombstone_count) == (4, 1)
    assert meta.size_bytes == os.path.getsize(table.path)
    assert properties.has_versions
    assert properties.block_count == table.index.block_count == 1
    assert properties.raw_bytes == table.block_info(0).raw_length
    assert properties.filter_bytes == table.footer.filters_length
    assert (properties.error_rate, properties.filter_key) == (0.02, "fixed:2")
    assert properties.granularity == "block"
    assert properties.writer.startswith("lsmkv ")


def test_a_table_whose_keys_all_differ_says_so(tables: Tables) -> None:
    assert not tables.table(numbered(100)).properties.has_versions


def test_a_table_is_refused_that_is_not_the_one_described(tables: Tables) -> None:
    first, second = tables.write(numbered(10)), tables.write(numbered(11))
    os.replace(tables.path(second.number), tables.path(first.number))
    with pytest.raises(CorruptionError, match="not the table expected") as caught:
        tables.open(first)
    assert caught.value.expected == first


# --- filters ---


def test_each_block_has_a_filter_for_just_its_keys(tables: Tables) -> None:
    table = tables.table(numbered(300), error_rate=0.01)
    for number in range(table.index.block_count):
        info = table.block_info(number)
        assert info.filter_key_count == info.entry_count
        assert info.filter_bits == 8 * filter_bytes_for(info.entry_count, 0.01)
        assert info.probe_count == probes_for(info.filter_bits, info.entry_count)


def test_versions_of_a_key_count_once_in_its_filter(tables: Tables) -> None:
    entries: list[Entry] = [(b"k%d" % key, b"", seq) for key in range(5) for seq in (3, 2, 1)]
    info = tables.table(entries).block_info(0)
    assert (info.entry_count, info.filter_key_count) == (15, 5)


def test_the_filter_in_a_block_is_the_one_that_look_ups_ask(tables: Tables) -> None:
    table = tables.table(numbered(300))
    data = Path(table.path).read_bytes()
    footer = table.footer
    filters = data[footer.filters_offset : footer.index_offset]
    embedded = b""
    for number in range(table.index.block_count):
        low, high = table.index.offset(number), table.index.offset(number + 1)
        _, bits, trailer = decode_block_frame(data[low:high], table.path, table.meta.number, low)
        assert trailer.filter_scheme == SCHEME_BLOOM
        embedded += bits
    assert embedded == filters


@pytest.mark.parametrize("granularity", ["block", "table"])
@pytest.mark.parametrize("residency", ["resident", "cached"])
def test_a_no_of_the_filter_reads_no_block(
    tmp_path: Path, granularity: str, residency: str
) -> None:
    tables = Tables(tmp_path, CountingStorage())
    entries = numbered(500)
    table = tables.table(
        entries, residency=residency, error_rate=1e-6, filter_granularity=granularity
    )
    absent = absent_within(table, entries)
    for key in absent:
        assert ask(table, key) is ABSENT
    assert isinstance(tables.storage, CountingStorage)
    assert tables.storage.reads(ReadKind.DATA) == 0
    assert tables.stats.filter_negatives == len(absent)


def test_a_key_between_two_blocks_costs_neither_a_probe_nor_a_read(tables: Tables) -> None:
    table = tables.table(numbered(500))
    between = gaps(table)
    for key in between:
        assert ask(table, key) is ABSENT
    assert tables.stats.fence_negatives == len(between)
    assert tables.stats.block_reads == tables.stats.filter_negatives == 0


@pytest.mark.parametrize("granularity", ["block", "table"])
def test_every_look_up_is_counted_once_by_what_its_filter_said(
    tables: Tables, granularity: str
) -> None:
    entries = numbered(500)
    table = tables.table(entries, error_rate=0.2, filter_granularity=granularity)
    absent = absent_within(table, entries)
    for key in [key for key, _, _ in entries] + absent:
        ask(table, key)
    stats = tables.stats
    assert stats.filter_true_positives == len(entries)
    assert stats.filter_false_positives + stats.filter_negatives == len(absent)
    assert 0 < stats.filter_false_positives < len(absent)


def test_a_version_that_is_too_new_to_be_seen_is_no_false_positive(tables: Tables) -> None:
    table = tables.table([(b"a", b"", 1), (b"k", b"new", 9), (b"z", b"", 1)])
    assert ask(table, b"k", 5) is ABSENT
    assert tables.stats.filter_true_positives == 1
    assert tables.stats.filter_false_positives == 0


def test_a_look_up_reads_one_block_at_most(tmp_path: Path) -> None:
    storage = CountingStorage()
    tables = Tables(tmp_path, storage, cache_bytes=0)
    entries = numbered(500)
    table = tables.table(entries, error_rate=0.5)
    storage.reset()
    for key, _, _ in entries:
        before = storage.reads()
        ask(table, key)
        assert storage.reads() == before + 1
    for key in absent_within(table, entries):
        before = storage.reads()
        ask(table, key)
        assert storage.reads() <= before + 1


@pytest.mark.parametrize("granularity", ["block", "table"])
def test_answers_do_not_depend_on_where_filters_are_kept(tables: Tables, granularity: str) -> None:
    entries = numbered(300)
    meta = tables.write(entries, error_rate=0.1, filter_granularity=granularity)
    asked = [b"key%08d" % number for number in range(600)]
    answers = []
    for residency in RESIDENCIES:
        table = tables.open(meta, residency)
        answers.append([ask(table, key) for key in asked])
    assert answers[0] == answers[1] == answers[2]
    assert answers[0] == [expected(entries, key, MAX_SEQUENCE) for key in asked]


def test_with_filters_off_none_is_read_or_asked(tables: Tables) -> None:
    entries = numbered(300)
    table = tables.table(entries, residency="off")
    for key in absent_within(table, entries):
        ask(table, key)
    stats = tables.stats
    assert stats.filter_reads == stats.filter_negatives == stats.filter_false_positives == 0
    assert stats.unfiltered_probes == len(absent_within(table, entries))
    assert not table.filters.exist and table.filters.memory_bytes == 0


def test_filters_off_are_still_in_the_file(tables: Tables) -> None:
    meta = tables.write(numbered(300))
    assert not tables.open(meta, "off").filters.exist
    assert tables.open(meta, "resident").filters.per_block


def test_resident_filters_are_read_once_when_the_table_is_opened(tables: Tables) -> None:
    entries = numbered(300)
    table = tables.table(entries)
    assert tables.stats.filter_reads == 1
    assert table.filters.memory_bytes == table.footer.filters_length
    for key in absent_within(table, entries):
        ask(table, key)
    assert tables.stats.filter_reads == 1


def test_cached_filters_are_read_when_first_asked(tables: Tables) -> None:
    entries = numbered(300)
    table = tables.table(entries, residency="cached")
    assert tables.stats.filter_reads == 0 and table.filters.memory_bytes == 0
    for key in absent_within(table, entries):
        ask(table, key)
    assert tables.stats.filter_reads == table.index.chunk_count == 1


def test_cached_filters_are_read_again_when_the_cache_holds_nothing(tmp_path: Path) -> None:
    tables = Tables(tmp_path, cache_bytes=0)
    entries = numbered(300)
    table = tables.table(entries, residency="cached", error_rate=1e-9)
    absent = absent_within(table, entries)
    for key in absent:
        ask(table, key)
    assert tables.stats.filter_reads == len(absent)


def test_no_filter_is_written_for_an_error_rate_of_one(tables: Tables) -> None:
    entries = numbered(100)
    table = tables.table(entries, error_rate=1.0)
    for key in absent_within(table, entries):
        assert ask(table, key) is ABSENT
    assert not table.filters.exist
    assert tables.stats.unfiltered_probes == len(absent_within(table, entries))


@pytest.mark.parametrize("granularity", ["block", "table"])
def test_filters_of_prefixes_hold_each_prefix_once(tables: Tables, granularity: str) -> None:
    entries: list[Entry] = [
        (b"user%02d/%03d" % (user, item), b"", 1) for user in range(20) for item in range(50)
    ]
    table = tables.table(
        entries,
        filter_key=DelimitedPrefix(b"/"),
        filter_granularity=granularity,
        block_size_bytes=1 << 20,
    )
    count = table.block_info(0).filter_key_count or table.properties.filter_key_count
    assert count == 20


@pytest.mark.parametrize("granularity", ["block", "table"])
def test_filters_of_prefixes_answer_for_prefixes(tables: Tables, granularity: str) -> None:
    entries: list[Entry] = [(b"%04d/%d" % (number, number), b"", 1) for number in range(0, 500, 2)]
    table = tables.table(
        entries, filter_key=FixedPrefix(4), filter_granularity=granularity, error_rate=1e-6
    )
    for number in range(table.index.block_count):
        held = table.block(number, False).keys()
        assert all(table.filters.may_hold(number, hash_key(key[:4])) for key in held)
        assert not table.filters.may_hold(number, hash_key(b"%04d" % (2 * number + 1)))


# --- filters in chunks ---


def many_filters(tables: Tables) -> tuple[TableMeta, list[Entry]]:
    """A table whose filters fill several chunks."""
    entries = numbered(20_000, value=b"")
    return tables.write(entries, error_rate=1e-8, block_size_bytes=1024), entries


def test_a_look_up_reads_the_one_chunk_that_holds_its_filter(tables: Tables) -> None:
    meta, entries = many_filters(tables)
    table = tables.open(meta, "cached")
    assert table.index.chunk_count > 4
    key = absent_within(table, entries[:100])[0]
    ask(table, key)
    low, high = table.index.chunk_span(0)
    assert (tables.stats.filter_reads, tables.stats.filter_read_bytes) == (1, high - low)


def test_the_bytes_that_a_filter_would_take_to_ask_are_told(tables: Tables) -> None:
    meta, entries = many_filters(tables)
    table = tables.open(meta, "cached")
    low, high = table.index.chunk_span(0)
    assert table.filters.bytes_to_read(0) == high - low
    ask(table, absent_within(table, entries[:100])[0])
    assert table.filters.bytes_to_read(0) == 0
    assert tables.open(meta, "resident").filters.bytes_to_read(0) == 0


def test_chunked_filters_answer_as_resident_ones_do(tables: Tables) -> None:
    meta, entries = many_filters(tables)
    cached, resident = tables.open(meta, "cached"), tables.open(meta, "resident")
    for key in [key + b"!" for key, _, _ in entries[::37]] + [key for key, _, _ in entries[::91]]:
        assert ask(cached, key) == ask(resident, key)


def test_damage_to_a_chunk_is_noticed_by_look_ups_that_need_it_and_no_others(
    tables: Tables,
) -> None:
    meta, entries = many_filters(tables)
    table = tables.open(meta, "cached")
    low, _ = table.index.chunk_span(2)
    flip(table.path, table.footer.filters_offset + low + 5)
    outcomes: dict[int, set[bool]] = {}
    for key, _, _ in entries[::50]:
        chunk = table.index.chunk_of(table.index.find(key))
        try:
            ask(table, key)
            outcomes.setdefault(chunk, set()).add(True)
        except CorruptionError as error:
            assert error.offset == table.footer.filters_offset + low
            outcomes.setdefault(chunk, set()).add(False)
    assert outcomes == {chunk: {chunk != 2} for chunk in range(table.index.chunk_count)}


def test_damage_to_filters_is_noticed_when_they_are_made_resident(tables: Tables) -> None:
    meta, _ = many_filters(tables)
    footer = tables.open(meta, "off").footer
    flip(tables.path(meta.number), footer.index_offset - 1)
    with pytest.raises(CorruptionError, match="filter chunk") as caught:
        tables.open(meta, "resident")
    assert caught.value.path == tables.path(meta.number)


def test_damaged_filters_do_not_matter_with_filters_off(tables: Tables) -> None:
    meta, entries = many_filters(tables)
    flip(tables.path(meta.number), tables.open(meta, "off").footer.index_offset - 1)
    table = tables.open(meta, "off")
    assert ask(table, entries[-1][0]) == b""


# --- compression ---


def alike(count: int) -> list[Entry]:
    """Values that share most of their text, in no order that a small window would profit from."""
    chances = random.Random(7)
    return [
        (
            b"key%08d" % number,
            b'{"name": "user %d", "country": "%s", "plan": "%s", "balance": %d, "active": true}'
            % (
                chances.randrange(10**6),
                chances.choice([b"Norway", b"Kenya", b"Chile", b"Japan"]),
                chances.choice([b"free", b"trial", b"premium"]),
                chances.randrange(10**5),
            ),
            number + 1,
        )
        for number in range(count)
    ]


def test_zstd_makes_tables_smaller_that_answer_the_same(tables: Tables) -> None:
    entries = alike(1000)
    plain = tables.table(entries, block_size_bytes=4096)
    packed = tables.table(entries, block_size_bytes=4096, compression="zstd")
    assert packed.meta.size_bytes < 0.6 * plain.meta.size_bytes
    assert contents(packed) == contents(plain) == entries


def test_a_dictionary_makes_tables_of_small_blocks_smaller(tables: Tables) -> None:
    entries = alike(6000)
    form: dict[str, Any] = {"block_size_bytes": 512, "compression": "zstd"}
    without = tables.table(entries, **form)
    trained = tables.table(entries, **form, compression_dictionary_size_bytes=4096)
    assert 0 < trained.footer.dictionary_length <= 4096
    assert trained.footer.data_length < 0.75 * without.footer.data_length
    assert contents(trained) == entries


def test_a_dictionary_is_left_out_where_there_is_too_little_to_learn_from(tables: Tables) -> None:
    form: dict[str, Any] = {"compression": "zstd", "compression_dictionary_size_bytes": 4096}
    table = tables.table(numbered(3), **form)
    assert table.footer.dictionary_length == 0
    assert contents(table) == numbered(3)


def test_a_damaged_dictionary_is_noticed_when_the_table_is_opened(tables: Tables) -> None:
    form: dict[str, Any] = {"compression": "zstd", "compression_dictionary_size_bytes": 2048}
    meta = tables.write(alike(4000), **form)
    flip(tables.path(meta.number), tables.open(meta).footer.data_length + 100)
    with pytest.raises(CorruptionError, match="dictionary"):
        tables.open(meta)


def test_blocks_that_do_not_compress_are_stored_as_they_are(tables: Tables) -> None:
    noise: list[Entry] = [(b"a", random.Random(1).randbytes(2000), 1), (b"b", b"b" * 2000, 1)]
    table = tables.table(noise, compression="zstd")
    assert [table.block_info(number).codec for number in (0, 1)] == [CODEC_NONE, CODEC_ZSTD]


def test_without_compression_nothing_is_compressed(tables: Tables) -> None:
    table = tables.table(alike(100))
    codecs = {table.block_info(number).codec for number in range(table.index.block_count)}
    assert codecs == {CODEC_NONE}


# --- reading ---


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_direct_reads_give_the_same_answers(tmp_path: Path, compression: str) -> None:
    entries = numbered(2000)
    plain = Tables(tmp_path)
    meta = plain.write(entries, compression=compression)
    direct = Tables(tmp_path, Storage(direct_reads=True))
    try:
        table = direct.open(meta, "cached")
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        pytest.skip(f"the file system of {tmp_path} refuses direct reads")
    asked = [b"key%08d" % number for number in range(0, 4000, 7)]
    buffered = plain.open(meta, "cached")
    assert [ask(table, key) for key in asked] == [ask(buffered, key) for key in asked]
    assert contents(table) == entries


def test_a_block_in_the_cache_is_not_read_again(tables: Tables) -> None:
    table = tables.table(numbered(300))
    first = table.block(3, True)
    assert table.is_cached(3)
    assert table.block(3, True) is first
    assert tables.stats.block_reads == 1


def test_a_block_read_past_the_cache_is_not_kept(tables: Tables) -> None:
    table = tables.table(numbered(300))
    table.block(3, False)
    assert not table.is_cached(3)


def test_tables_do_not_mix_up_their_blocks_in_the_cache(tables: Tables) -> None:
    one = tables.table(numbered(300, value=b"one %d"))
    two = tables.table(numbered(300, value=b"two %d"))
    key = b"key%08d" % 10
    assert [ask(one, key), ask(two, key), ask(one, key)] == [b"one 10", b"two 10", b"one 10"]


orders = st.tuples(
    st.sets(st.integers(0, 39), min_size=1).map(sorted), st.booleans(), st.sampled_from([0, 1, 4])
)


@pytest.fixture(scope="module")
def forty_blocks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tables, TableMeta]:
    tables = Tables(tmp_path_factory.mktemp("blocks"))
    entries = numbered(2000)
    meta = tables.write(entries, block_size_bytes=1500)
    assert tables.open(meta).index.block_count >= 40
    return tables, meta


@given(orders, st.sets(st.integers(0, 39), max_size=8))
def test_blocks_read_ahead_are_the_blocks_read_one_by_one(
    forty_blocks: tuple[Tables, TableMeta],
    order: tuple[list[int], bool, int],
    cached: set[int],
) -> None:
    numbers, descending, cached_first = order
    numbers = numbers[::-1] if descending else numbers
    written, meta = forty_blocks
    tables = Tables(written.directory)
    table = tables.open(meta)
    for number in sorted(cached):
        table.block(number, True)
    blocks = table.blocks_ahead(numbers, ReadKind.DATA, cached_first=cached_first)
    found = [block.keys() for block in blocks]
    assert found == [table.block(number, False).keys() for number in numbers]


def reads_of(
    forty_blocks: tuple[Tables, TableMeta], numbers: Sequence[int], cached_first: int = 0
) -> tuple[int, int]:
    """System calls made to read blocks, and blocks counted."""
    storage = CountingStorage()
    tables = Tables(forty_blocks[0].directory, storage)
    table = tables.open(forty_blocks[1])
    storage.reset()
    for _ in table.blocks_ahead(numbers, ReadKind.COMPACTION, cached_first=cached_first):
        pass
    return storage.reads(), tables.stats.compaction_block_reads + tables.stats.block_reads


@pytest.mark.parametrize("numbers", [range(40), range(39, -1, -1)], ids=["up", "down"])
def test_neighbouring_blocks_are_read_together(
    forty_blocks: tuple[Tables, TableMeta], numbers: range
) -> None:
    assert reads_of(forty_blocks, numbers) == (1, 40)


@pytest.mark.parametrize("numbers", [[1, 2, 3, 10, 11, 20], [20, 11, 10, 3, 2, 1]])
def test_each_group_of_neighbours_is_one_read(
    forty_blocks: tuple[Tables, TableMeta], numbers: list[int]
) -> None:
    assert reads_of(forty_blocks, numbers) == (3, 6)


def test_a_scan_reads_one_by_one_and_then_ever_more_blocks_together(
    forty_blocks: tuple[Tables, TableMeta],
) -> None:
    # One by one through the cache: 4; then together 4, 8, 16, and the 8 that are left.
    assert reads_of(forty_blocks, range(40), cached_first=4) == (4 + 4, 40)


@pytest.mark.parametrize("wanted", [1, 3, 4, 5, 9, 17, 30, 40])
@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
def test_a_scan_that_stops_has_read_about_as_much_in_vain_as_it_needed_at_most(
    forty_blocks: tuple[Tables, TableMeta], wanted: int, descending: bool
) -> None:
    tables = Tables(forty_blocks[0].directory)
    table = tables.open(forty_blocks[1])
    numbers = range(39, -1, -1) if descending else range(40)
    blocks = table.blocks_ahead(numbers, ReadKind.DATA, cached_first=4)
    for _ in range(wanted):
        next(blocks)
    assert wanted <= tables.stats.block_reads <= max(4, 2 * wanted + 2)


def test_a_read_ahead_is_about_a_quarter_of_a_mebibyte(tmp_path: Path) -> None:
    storage = CountingStorage()
    tables = Tables(tmp_path, storage)
    entries: list[Entry] = [(b"%08d" % number, b"v" * 1000, 1) for number in range(2000)]
    table = tables.table(entries, block_size_bytes=4096)
    storage.reset()
    numbers = range(table.index.block_count)
    for _ in table.blocks_ahead(numbers, ReadKind.COMPACTION, cached_first=0):
        pass
    assert storage.reads() == -(-table.footer.data_length // (256 * 1024 + 4096 // 2))


def test_a_long_scan_leaves_the_cache_as_it_was(tables: Tables) -> None:
    table = tables.table(numbered(2000))
    numbers = range(table.index.block_count)
    for _ in table.blocks_ahead(numbers, ReadKind.DATA, cached_first=4):
        pass
    assert [number for number in numbers if table.is_cached(number)] == [0, 1, 2, 3]


def test_many_threads_may_read_one_table(tmp_path: Path) -> None:
    tables = Tables(tmp_path, cache_bytes=20_000)
    entries = alike(2000)
    table = tables.table(entries, residency="cached", compression="zstd", error_rate=0.1)
    wrong: list[bytes] = []

    def work(seed: int) -> None:
        chances = random.Random(seed)
        for _ in range(1500):
            key, value, _ = chances.choice(entries)
            if ask(table, key) != value or ask(table, key + b"!") is not ABSENT:
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- the file's life ---


def is_open(path: str) -> bool:
    directory = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
    for name in os.listdir(directory):
        try:
            if os.path.samefile(os.path.join(directory, name), path):
                return True
        except OSError:
            continue
    return False


def test_the_file_is_closed_with_the_last_reference(tables: Tables) -> None:
    table: TableReader | None = tables.table(numbered(10))
    path = tables.path(1)
    assert is_open(path)
    table = None
    gc.collect()
    assert table is None and not is_open(path)


def test_a_table_that_was_not_retired_keeps_its_file(tables: Tables) -> None:
    tables.table(numbered(10))
    gc.collect()
    assert os.path.exists(tables.path(1))


def test_a_retired_table_is_removed_with_the_last_reference(tables: Tables) -> None:
    table: TableReader | None = tables.table(numbered(10))
    assert table is not None
    table.retire(lambda: True)
    table = None
    gc.collect()
    assert table is None and os.listdir(tables.directory) == []


def test_a_retired_table_answers_as_long_as_it_is_referred_to(tables: Tables) -> None:
    entries = numbered(300)
    table = tables.table(entries)
    table.retire(lambda: True)
    assert [ask(table, key) for key, _, _ in entries] == [value for _, value, _ in entries]


def test_an_iterator_keeps_a_retired_table(tables: Tables) -> None:
    table: TableReader | None = tables.table(numbered(2000))
    assert table is not None
    blocks: Iterator[Any] = table.blocks_ahead(range(40), ReadKind.DATA, cached_first=0)
    next(blocks)
    table.retire(lambda: True)
    table = None
    gc.collect()
    assert os.path.exists(tables.path(1))
    assert len(list(blocks)) == 39
    del blocks
    gc.collect()
    assert not os.path.exists(tables.path(1))


def test_retiring_empties_the_cache_of_the_table_alone(tables: Tables) -> None:
    entries = numbered(100)
    kept, retired = (tables.table(entries, residency="cached") for _ in range(2))
    for key, _, _ in entries:
        ask(kept, key), ask(retired, key)
    used = tables.cache.used_bytes
    retired.retire(lambda: True)
    assert tables.cache.used_bytes == used // 2


# --- damage ---


def flip(path: str, offset: int, mask: int = 0x40) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ mask]))


def check_all(tables: Tables, meta: TableMeta) -> None:
    """Open the table and check every byte of it."""
    table = tables.open(meta)
    table.verify_tail()
    for number in range(table.index.block_count):
        table.verify_block(number)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_flip_of_any_byte_is_noticed(tables: Tables, compression: str) -> None:
    meta = tables.write(alike(12), compression=compression)
    check_all(tables, meta)
    path = tables.path(meta.number)
    for offset in range(meta.size_bytes):
        flip(path, offset)
        with pytest.raises(Error) as caught:
            check_all(tables, meta)
        assert path in str(caught.value)
        flip(path, offset)
    check_all(tables, meta)


def test_a_look_up_notices_a_flip_of_any_byte_of_the_block_it_reads(tables: Tables) -> None:
    meta = tables.write(numbered(30))
    table = tables.open(meta)
    for offset in range(table.index.offset(1)):
        flip(table.path, offset)
        with pytest.raises(CorruptionError) as caught:
            table.block(0, False)
        assert (caught.value.path, caught.value.offset) == (table.path, 0)
        assert (caught.value.expected is None) == (caught.value.got is None)
        flip(table.path, offset)


def test_every_cut_is_noticed(tables: Tables) -> None:
    meta = tables.write(numbered(20))
    path = Path(tables.path(meta.number))
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(CorruptionError):
            tables.open(meta)


def test_a_failed_checksum_tells_what_was_expected_and_got(tables: Tables) -> None:
    meta = tables.write(numbered(30))
    table = tables.open(meta)
    flip(table.path, 30)
    with pytest.raises(CorruptionError, match="payload") as caught:
        table.block(0, False)
    assert isinstance(caught.value.expected, int) and isinstance(caught.value.got, int)
    assert caught.value.expected != caught.value.got


def test_two_blocks_that_changed_places_are_noticed(tables: Tables) -> None:
    meta = tables.write(numbered(100, value=b"same"), filter_granularity="table")
    table = tables.open(meta)
    first, second, third = (table.index.offset(number) for number in (0, 1, 2))
    assert second - first == third - second
    path = Path(table.path)
    data = path.read_bytes()
    path.write_bytes(data[second:third] + data[first:second] + data[third:])
    with pytest.raises(CorruptionError, match="checksum"):
        table.block(0, False)


def test_a_block_of_another_table_at_the_same_offset_is_noticed(tables: Tables) -> None:
    one, other = (tables.write(numbered(100, value=b"same")) for _ in range(2))
    table, foreign = tables.open(one), tables.open(other)
    low, end = table.index.offset(1), table.index.offset(2)
    assert (foreign.index.offset(1), foreign.index.offset(2)) == (low, end)
    data, others = Path(table.path).read_bytes(), Path(foreign.path).read_bytes()
    Path(table.path).write_bytes(data[:low] + others[low:end] + data[end:])
    with pytest.raises(CorruptionError, match="checksum"):
        table.block(1, False)


def test_each_block_ends_in_a_trailer_with_its_magic(tables: Tables) -> None:
    table = tables.table(numbered(300))
    data = Path(table.path).read_bytes()
    for number in range(table.index.block_count):
        low, end = table.index.offset(number), table.index.offset(number + 1)
        fields = struct.unpack("<IIIIIBBHII", data[end - TRAILER_BYTES : end])
        payload_length, filter_length, magic = fields[0], fields[2], fields[7]
        assert magic == BLOCK_MAGIC
        assert low + payload_length + filter_length + TRAILER_BYTES == end


def test_trailer_checksums_are_seeded_with_the_trailer_and_the_place(tables: Tables) -> None:
    table = tables.table(numbered(300))
    data = Path(table.path).read_bytes()
    low, end = table.index.offset(1), table.index.offset(2)
    trailer = data[end - TRAILER_BYTES : end]
    (payload_length,) = struct.unpack_from("<I", trailer)
    seed = checksum(trailer[:24], (table.meta.number << 40) + low)
    payload = data[low : low + payload_length]
    bits = data[low + payload_length : end - TRAILER_BYTES]
    sums = [checksum(part, seed) & 0xFFFF_FFFF for part in (payload, bits)]
    assert list(struct.unpack_from("<II", trailer, 24)) == sums


def with_footer(table: TableReader, **changes: int) -> bytes:
    """The file's bytes with other values in its footer, the footer's checksum made right."""
    data = bytearray(Path(table.path).read_bytes())
    at = len(data) - FOOTER_BYTES
    for name, number in changes.items():
        offset, form = {"version": (56, "<I"), "filters_length": (16, "<Q")}[name]
        struct.pack_into(form, data, at + offset, number)
    struct.pack_into("<I", data, at + 60, checksum(bytes(data[at : at + 60]), 0) & 0xFFFF_FFFF)
    return bytes(data)


def test_a_table_of_a_later_format_is_refused_by_its_version(tables: Tables) -> None:
    meta = tables.write(numbered(10))
    Path(tables.path(1)).write_bytes(with_footer(tables.open(meta), version=2))
    with pytest.raises(UnsupportedFormatError, match="table format 2"):
        tables.open(meta)


def test_sections_that_do_not_fill_the_file_are_noticed(tables: Tables) -> None:
    meta = tables.write(numbered(10))
    Path(tables.path(1)).write_bytes(with_footer(tables.open(meta), filters_length=1 << 60))
    with pytest.raises(CorruptionError, match="sections"):
        tables.open(meta)


def test_another_file_is_no_table(tables: Tables) -> None:
    meta = tables.write(numbered(10))
    Path(tables.path(1)).write_bytes(b"something else, and long enough to hold a footer" * 10)
    with pytest.raises(CorruptionError, match="not a table file"):
        tables.open(meta)


def with_properties(table: TableReader, old: bytes, new: bytes) -> bytes:
    """The file's bytes with its properties changed, all checksums made right."""
    data = Path(table.path).read_bytes()
    footer = table.footer
    properties = data[footer.properties_offset : -FOOTER_BYTES]
    assert properties.count(old) == 1
    tail = data[footer.index_offset : footer.properties_offset] + properties.replace(old, new)
    head = struct.pack(
        "<QQQQQQQI",
        footer.data_length,
        footer.dictionary_length,
        footer.filters_length,
        footer.index_length,
        len(tail) - footer.index_length,
        footer.dictionary_checksum,
        checksum(tail, 0),
        1,
    )
    check = struct.pack("<I8s", checksum(head, 0) & 0xFFFF_FFFF, b"lsmkvSST")
    return data[: footer.index_offset] + tail + head + check


def test_filters_of_an_unknown_scheme_are_refused_and_not_asked(tables: Tables) -> None:
    table = tables.table(numbered(10))
    changed = with_properties(table, b'"filter_scheme":1', b'"filter_scheme":7')
    Path(table.path).write_bytes(changed)
    with pytest.raises(UnsupportedFormatError, match="filter scheme 7"):
        TableReader(
            tables.storage, table.path, tables.cache, meta=None, filter_residency="resident"
        )


def test_filters_of_an_unknown_part_of_the_key_are_refused(tables: Tables) -> None:
    table = tables.table(numbered(10))
    changed = with_properties(table, b'"filter_key":"whole"', b'"filter_key":"half"')
    Path(table.path).write_bytes(changed)
    with pytest.raises(CorruptionError, match="half"):
        TableReader(
            tables.storage, table.path, tables.cache, meta=None, filter_residency="resident"
        )


def test_properties_of_later_releases_are_passed_over(tables: Tables) -> None:
    table = tables.table(numbered(10))
    changed = with_properties(table, b'{"number"', b'{"later":[1,2],"number"')
    Path(table.path).write_bytes(changed)
    reopened = TableReader(
        tables.storage, table.path, tables.cache, meta=None, filter_residency="resident"
    )
    assert contents(reopened) == numbered(10)


# --- bytes ---


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table notes how long its filters took to build; here that is always nothing."""
    monkeypatch.setattr(time, "perf_counter_ns", lambda: 0)


@pytest.mark.usefixtures("stopped_clock")
@pytest.mark.parametrize("granularity", ["block", "table"])
def test_equal_entries_make_equal_files(tmp_path: Path, granularity: str) -> None:
    form: dict[str, Any] = {
        "compression": "zstd",
        "compression_dictionary_size_bytes": 2048,
        "filter_granularity": granularity,
    }
    files = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        tables = Tables(tmp_path / name)
        tables.write(alike(3000), **form)
        files.append(Path(tables.path(1)).read_bytes())
    assert files[0] == files[1]


def golden_entries() -> list[Entry]:
    entries = numbered(40)
    entries[3:4] = [(entries[3][0], b"newer", 90), (entries[3][0], None, 80), entries[3]]
    return [(b"", b"of the empty key", 70), *entries, (b"key9", None, 91)]


@pytest.mark.usefixtures("stopped_clock")
def test_golden_table_is_written_byte_for_byte(tables: Tables, golden: Golden) -> None:
    tables.write(golden_entries())
    golden.check("table_v1", {"000001.sst": Path(tables.path(1)).read_bytes()})


def test_golden_table_is_read(tables: Tables, golden: Golden) -> None:
    files = golden.load("table_v1")
    Path(tables.path(1)).write_bytes(files["000001.sst"])
    footer = decode_footer(
        files["000001.sst"][-FOOTER_BYTES:], tables.path(1), len(files["000001.sst"])
    )
    assert footer.filters_length > 0
    table = TableReader(
        tables.storage, tables.path(1), tables.cache, meta=None, filter_residency="resident"
    )
    assert contents(table) == golden_entries()
