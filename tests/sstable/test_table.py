"""One table file: its entries, its properties, its lifetime and its golden bytes."""

from __future__ import annotations

import gc
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lsmkv
from lsmkv.encoding.entries import MAX_KEY_BYTES, MAX_SEQUENCE
from lsmkv.errors import CorruptionError
from lsmkv.filters.keys import DelimitedPrefix, FixedPrefix
from lsmkv.options import Options
from lsmkv.sstable.block.block import ENTRY_OVERHEAD_BYTES
from lsmkv.sstable.format import FOOTER_BYTES, decode_footer
from lsmkv.sstable.read_ahead import read_ahead
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.writer import TableWriter
from lsmkv.tree.version_set import table_format
from table_files import RESIDENCIES, Entry, Tables, alike, ask, contents, expected, numbered

if TYPE_CHECKING:
    from golden_support import Golden


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
def test_entries_round_trip_in_a_table_that_verifies(
    entries: list[Entry], form: dict[str, Any]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        table = Tables(directory).table(entries, **form)
        assert contents(table) == entries
        table.verify_sections()
        for number in range(table.index.block_count):
            table.verify_block(number)


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


def test_keys_of_the_greatest_length(tables: Tables) -> None:
    longest = [b"k" * (MAX_KEY_BYTES - 2) + b"%02d" % number for number in range(10)]
    table = tables.table([(key, key[-2:], 1) for key in longest])
    assert [ask(table, key) for key in longest] == [key[-2:] for key in longest]


def test_without_fit_pages_a_block_is_closed_once_it_is_as_long_as_asked(tables: Tables) -> None:
    table = tables.table(numbered(2000, value=b"v" * 50), block_size_bytes=4096, fit_pages=False)
    entry_bytes = len(b"key00000000") + 50 + ENTRY_OVERHEAD_BYTES
    counts = [table.index.entry_count(number) for number in range(table.index.block_count - 1)]
    assert set(counts) == {-(-4096 // entry_bytes)}


def test_a_writer_without_entries_finishes_no_table(tables: Tables) -> None:
    with pytest.raises(ValueError, match="at least one entry"):
        tables.write([])


def test_an_abandoned_table_leaves_no_file(tables: Tables) -> None:
    form = table_format(Options(), 0.01)
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
    assert properties.raw_bytes == table.read_past_cache(0)[1].raw_length
    assert properties.filter_bytes == table.footer.filters_length
    assert (properties.error_rate, properties.filter_key) == (0.02, "fixed:2")
    assert properties.granularity == "block"
    assert properties.writer.startswith("lsmkv ")


@pytest.fixture
def twins(tmp_path: Path) -> tuple[Path, Path]:
    """The tables of two stores, alike but for their values."""
    for name, value in (("ours", b"old"), ("twin", b"new")):
        with lsmkv.open(tmp_path / name, compression="none") as db:
            for key, _, _ in numbered(10):
                db.put(key, value)
            db.flush()
    (ours,) = (tmp_path / "ours").glob("*.sst")
    (twin,) = (tmp_path / "twin").glob("*.sst")
    assert (ours.name, ours.stat().st_size) == (twin.name, twin.stat().st_size)
    return ours, twin


def test_a_twin_stores_table_in_place_of_ours_is_refused(twins: tuple[Path, Path]) -> None:
    ours, twin = twins
    os.replace(twin, ours)
    with pytest.raises(CorruptionError, match="not the table expected") as caught:
        lsmkv.open(ours.parent)
    assert caught.value.path == str(ours)


def test_verify_notices_blocks_of_a_twin_under_our_index(twins: tuple[Path, Path]) -> None:
    ours, twin = twins
    with lsmkv.open(ours.parent, read_only=True) as db:
        (table,) = db._engine.state.require_open().version.tables()
        data_length = table.footer.data_length
        ours.write_bytes(twin.read_bytes()[:data_length] + ours.read_bytes()[data_length:])
        (problem,) = db.verify().problems
    assert problem.path == str(ours)
    assert "blocks_checksum" in problem.reason


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


def test_a_retired_table_answers_as_long_as_it_is_referred_to(tables: Tables) -> None:
    entries = numbered(300)
    table = tables.table(entries)
    table.leave_cache()
    assert [ask(table, key) for key, _, _ in entries] == [value for _, value, _ in entries]


def test_an_iterator_reads_on_after_its_tables_file_is_removed(tables: Tables) -> None:
    table: TableReader | None = tables.table(numbered(2000))
    assert table is not None
    blocks: Iterator[Any] = read_ahead(table, range(40), 1 << 20)
    next(blocks)
    table.leave_cache()
    os.remove(tables.path(1))
    table = None
    gc.collect()
    assert len(list(blocks)) == 39


def test_retiring_empties_the_cache_of_the_table_alone(tables: Tables) -> None:
    entries = numbered(100)
    kept, retired = (tables.table(entries, residency="cached") for _ in range(2))
    for key, _, _ in entries:
        ask(kept, key), ask(retired, key)
    used = tables.cache.used_bytes
    retired.leave_cache()
    assert tables.cache.used_bytes == used // 2


# --- bytes ---


@pytest.fixture
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make tables state a build time of 0 for filters."""
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
    tables.write(golden_entries(), fit_pages=False)
    golden.check("table_v2", {"000001.sst": Path(tables.path(1)).read_bytes()})


def test_golden_table_is_read(tables: Tables, golden: Golden) -> None:
    files = golden.load("table_v2")
    Path(tables.path(1)).write_bytes(files["000001.sst"])
    footer = decode_footer(
        files["000001.sst"][-FOOTER_BYTES:], tables.path(1), len(files["000001.sst"])
    )
    assert footer.filters_length > 0
    table = TableReader(
        tables.storage, tables.path(1), tables.cache, meta=None, filter_residency="resident"
    )
    assert contents(table) == golden_entries()
