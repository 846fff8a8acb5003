"""A table's filters: their keys, the costs of lookups, and residency."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lsmkv.encoding.entries import ABSENT
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.keys import DelimitedPrefix, FixedPrefix
from lsmkv.filters.maths.sizing import filter_bytes_for, probes_for
from lsmkv.filters.policy import SCHEME_BLOOM
from lsmkv.inspection.store_info import block_infos
from lsmkv.sstable.block.trailer import decode_block_frame
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.reader import TableReader
from lsmkv.storage.storage import ReadKind
from storages import CountingStorage
from table_files import RESIDENCIES, Entry, Tables, absent_between, ask, flip, last_key, numbered

Many = tuple[TableMeta, list[Entry]]


def gaps(table: TableReader) -> list[bytes]:
    """A key between every two neighbouring blocks."""
    return [last_key(table, number) + b"!" for number in range(table.index.block_count - 1)]


# --- filters ---


def test_each_block_has_a_filter_for_just_its_keys(tables: Tables) -> None:
    table = tables.table(numbered(300), error_rate=0.01)
    for number in range(table.index.block_count):
        info = table.read_past_cache(number)[1]
        assert info.filter_key_count == info.entry_count
        assert info.filter_length == filter_bytes_for(info.entry_count, 0.01)
        assert info.probe_count == probes_for(info.filter_length * 8, info.entry_count)


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("policy", ["bloom", "ribbon", "grafite"])
def test_a_block_of_one_key_has_a_filter_that_denies_other_keys(
    tables: Tables, policy: str, compression: str
) -> None:
    keys = [b"key%08d" % number for number in range(0, 40, 2)]
    entries: list[Entry] = [(key, b"v" * 300, seq) for key in keys for seq in (2, 1)]
    table = tables.table(entries, filter_policy=policy, compression=compression)
    assert all(table.filters.asks_for(number) for number in range(table.index.block_count))
    assert {block.key_count for block in block_infos(table)} == {1}
    assert all(ask(table, key) == b"v" * 300 for key in keys)
    absent = [key + end for key in keys[:-1] for end in (b"\0", b"!", b"x")]
    assert all(ask(table, key) is ABSENT for key in absent)
    assert tables.stats.filter_negatives > 0.8 * len(absent)


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


@pytest.mark.parametrize("residency", RESIDENCIES)
@pytest.mark.parametrize("granularity", ["block", "table"])
@pytest.mark.parametrize("rate", [0.01, 1.0])
def test_prefetching_a_filter_reads_nothing(
    tmp_path: Path, rate: float, granularity: str, residency: str
) -> None:
    storage = CountingStorage()
    table = Tables(tmp_path, storage).table(
        numbered(300), residency=residency, error_rate=rate, filter_granularity=granularity
    )
    filters = table.filters
    before = storage.stats.copy()
    for number in range(table.index.block_count):
        filters.prefetch(number)
    assert storage.stats == before


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
    absent = absent_between(entries)
    for key in absent:
        assert ask(table, key) is ABSENT
    assert isinstance(tables.storage, CountingStorage)
    assert tables.storage.reads(ReadKind.DATA) == 0
    assert tables.stats.filter_negatives == len(absent)


def test_a_key_between_two_blocks_asks_the_filter_of_the_lower_one(tables: Tables) -> None:
    table = tables.table(numbered(500), error_rate=0.2)
    between = gaps(table)
    allowed = [table.filters.may_hold(number, hash_key(key)) for number, key in enumerate(between)]
    for key in between:
        assert ask(table, key) is ABSENT
    assert 0 < sum(allowed) < len(between)
    assert tables.stats.filter_false_positives == sum(allowed)
    assert tables.stats.filter_negatives == len(between) - sum(allowed)


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
    for key in absent_between(entries):
        before = storage.reads()
        ask(table, key)
        assert storage.reads() <= before + 1


def test_with_filters_off_none_is_read_or_asked(tables: Tables) -> None:
    entries = numbered(300)
    table = tables.table(entries, residency="off")
    for key in absent_between(entries):
        ask(table, key)
    stats = tables.stats
    assert stats.filter_reads == stats.filter_negatives == stats.filter_false_positives == 0
    assert stats.unfiltered_probes == len(absent_between(entries))
    assert not table.filters.exist and table.filters.memory_bytes == 0


def test_resident_filters_are_read_once_when_the_table_is_opened(tables: Tables) -> None:
    entries = numbered(300)
    table = tables.table(entries)
    assert tables.stats.filter_reads == 1
    assert table.filters.memory_bytes == table.footer.filters_length
    for key in absent_between(entries):
        ask(table, key)
    assert tables.stats.filter_reads == 1


def test_cached_filters_are_read_when_first_asked(tables: Tables) -> None:
    entries = numbered(300)
    table = tables.table(entries, residency="cached")
    assert tables.stats.filter_reads == 0 and table.filters.memory_bytes == 0
    for key in absent_between(entries):
        ask(table, key)
    assert tables.stats.filter_reads == table.index.chunk_count == 1


def test_cached_filters_are_read_again_when_the_cache_holds_nothing(tmp_path: Path) -> None:
    tables = Tables(tmp_path, cache_bytes=0)
    entries = numbered(300)
    table = tables.table(entries, residency="cached", error_rate=1e-9)
    absent = absent_between(entries)
    for key in absent:
        ask(table, key)
    assert tables.stats.filter_reads == len(absent)


def test_no_filter_is_written_for_an_error_rate_of_one(tables: Tables) -> None:
    entries = numbered(100)
    table = tables.table(entries, error_rate=1.0)
    for key in absent_between(entries):
        assert ask(table, key) is ABSENT
    assert not table.filters.exist
    assert tables.stats.unfiltered_probes == len(absent_between(entries))


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
    count = table.read_past_cache(0)[1].filter_key_count or table.properties.filter_key_count
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


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, TableMeta, list[Entry]]:
    """A table whose filters fill several chunks."""
    tables, entries = Tables(tmp_path_factory.mktemp("many")), numbered(20_000, value=b"")
    meta = tables.write(entries, error_rate=1e-8, block_size_bytes=1024)
    return tables.path(meta.number), meta, entries


@pytest.fixture
def many(tables: Tables, written: tuple[str, TableMeta, list[Entry]]) -> Many:
    shutil.copy(written[0], tables.path(written[1].number))
    return written[1:]


def test_a_look_up_reads_the_one_chunk_that_holds_its_filter(tables: Tables, many: Many) -> None:
    meta, entries = many
    table = tables.open(meta, "cached")
    assert table.index.chunk_count > 4
    key = absent_between(entries[:100])[0]
    ask(table, key)
    low, high = table.index.chunk_span(0)
    assert (tables.stats.filter_reads, tables.stats.filter_read_bytes) == (1, high - low)


def test_the_read_bytes_of_asking_a_filter_are_known(tables: Tables, many: Many) -> None:
    meta, entries = many
    table = tables.open(meta, "cached")
    low, high = table.index.chunk_span(0)
    assert table.filters.bytes_to_read(0) == high - low
    ask(table, absent_between(entries[:100])[0])
    assert table.filters.bytes_to_read(0) == 0
    assert tables.open(meta, "resident").filters.bytes_to_read(0) == 0


def test_chunked_filters_answer_as_resident_ones_do(tables: Tables, many: Many) -> None:
    meta, entries = many
    cached, resident = tables.open(meta, "cached"), tables.open(meta, "resident")
    for key in [key + b"!" for key, _, _ in entries[::37]] + [key for key, _, _ in entries[::91]]:
        assert ask(cached, key) == ask(resident, key)


def test_damaged_filters_do_not_matter_with_filters_off(tables: Tables, many: Many) -> None:
    meta, entries = many
    flip(tables.path(meta.number), tables.open(meta, "off").footer.index_offset - 1)
    table = tables.open(meta, "off")
    assert ask(table, entries[-1][0]) == b""
