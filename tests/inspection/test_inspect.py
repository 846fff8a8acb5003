"""Inspection, and tables to look into: their figures match the files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import pytest

import lsmkv
from damage import entries_of, files, footer_of, open_table, write_table
from lsmkv.filters.maths.sizing import exact_rate
from lsmkv.inspection.store_info import (
    LevelInfo,
    StoreInfo,
    TableInfo,
    block_infos,
    expected_error_rate,
    inspect_store,
)
from lsmkv.memtable.memtable import Memtable
from lsmkv.options import Options
from lsmkv.read.view import SuperVersion
from lsmkv.tree.levels import Levels
from lsmkv.tree.version import Run, Version
from lsmkv.tree.version_set import table_format

KEYS = [b"key%04d" % number for number in range(500)]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[lsmkv.DB]:
    """A store with tables on two levels and three unflushed keys."""
    with lsmkv.open(tmp_path / "db", block_size_bytes=512) as db:
        for half in (KEYS[::2], KEYS[1::2]):
            for key in half:
                db.put(key, b"value of " + key)
            db.flush()
        db.compact_range()
        for key in KEYS[:100]:
            db.delete(key)
        db.flush()
        for key in KEYS[:3]:
            db.put(key, b"")
        yield db


def _table(path: Path, options: Options, rate: float = 0.01, versions: int = 1) -> Path:
    entries = [(key, b"v" * 20, seq) for key in KEYS for seq in range(versions, 0, -1)]
    file = path / "000001.sst"
    write_table(file, entries, table_format(options, rate))
    return file


def _info(path: Path) -> TableInfo:
    version = Version(Levels(), {})
    version.runs = [Run(0, 1, [open_table(path)])]
    version.levels = Levels(((),))
    (table,) = inspect_store(SuperVersion(Memtable(1, 1), (), version), "").tables()
    return table


def test_levels_runs_and_tables_are_those_of_the_tree(db: lsmkv.DB) -> None:
    info = db.inspect()
    assert info.memtable_key_counts == (3,)
    assert [level.number for level in info.levels] == [0, 1]
    assert [len(level.runs) for level in info.levels] == [1, 1]
    assert [table.entry_count for table in info.tables()] == [100, 500]
    assert [table.tombstone_count for table in info.tables()] == [100, 0]


def test_sizes_are_those_of_the_files(db: lsmkv.DB) -> None:
    info = db.inspect()
    for table in info.tables():
        path = Path(db.path) / table.file_name
        footer = footer_of(path)
        assert table.size_bytes == path.stat().st_size
        assert table.stored_bytes == footer.data_length
        assert table.filter_bytes == footer.filters_length
        assert table.index_bytes == footer.index_length
    assert info.size_bytes == sum(path.stat().st_size for path in files(Path(db.path), ".sst"))


def test_index_and_filters_stand_side_by_side_by_key_and_by_block(db: lsmkv.DB) -> None:
    info = db.inspect()
    tables = list(info.tables())
    assert info.index_bytes == sum(table.index_bytes for table in tables)
    assert info.block_count == sum(table.block_count for table in tables)
    parts: list[StoreInfo | LevelInfo | TableInfo] = [info, *info.levels, *tables]
    for part in parts:
        assert part.index_bytes_per_key == part.index_bytes / part.entry_count
        assert part.filter_bytes_per_key == part.filter_bytes / part.entry_count
        assert part.index_bits_per_block == 8 * part.index_bytes / part.block_count
        assert part.filter_bits_per_block == 8 * part.filter_bytes_per_block
    told = info.as_dict()
    assert told["index_bytes_per_block"] == info.index_bytes_per_block
    assert f"{info.index_bytes_per_key:.2f} bytes a key" in info.text()
    assert f"({info.filter_bits_per_block:,.0f} bits) a block" in info.text()


def test_an_empty_store_has_no_index(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        info = db.inspect()
    assert (info.index_bytes_per_key, info.filter_bits_per_block) == (0, 0)


def test_key_and_sequence_ranges_are_those_of_the_entries(db: lsmkv.DB) -> None:
    for table in db.inspect().tables():
        entries = [e for block in entries_of(Path(db.path) / table.file_name) for e in block]
        assert (table.smallest, table.largest) == (entries[0][0], entries[-1][0])
        assert table.smallest_seq == min(entry[2] for entry in entries)
        assert table.largest_seq == max(entry[2] for entry in entries)


def test_the_expected_rate_is_the_mean_over_the_blocks(tmp_path: Path) -> None:
    path = _table(tmp_path, Options(block_size_bytes=512))
    table = open_table(path)
    rates = [block.expected_rate for block in block_infos(table)]
    assert len(rates) > 10
    assert expected_error_rate(table) == pytest.approx(fmean(rates), rel=1e-12)
    assert 0.005 < fmean(rates) < 0.0125


def test_the_expected_rate_of_prefix_filters_needs_the_blocks(tmp_path: Path) -> None:
    options = Options(block_size_bytes=512, filter_key=lsmkv.FixedPrefix(6))
    path = _table(tmp_path, options)
    assert _info(path).expected_rate is None
    rates = [block.expected_rate for block in block_infos(open_table(path))]
    assert len(rates) > 10
    assert 0 < fmean(rates) < 0.0125


def test_the_expected_rate_with_old_versions_counts_keys_and_not_entries(tmp_path: Path) -> None:
    path = _table(tmp_path, Options(block_size_bytes=4096), versions=5)
    assert _info(path).expected_rate is None
    table = open_table(path)
    counts = [len({key for key, _, _ in block}) for block in entries_of(path)]
    assert [block.key_count for block in block_infos(table)] == counts
    assert 0.005 < fmean(block.expected_rate for block in block_infos(table)) < 0.0125


def test_the_expected_rate_of_one_filter_for_the_table_is_its_own(tmp_path: Path) -> None:
    path = _table(tmp_path, Options(filter_granularity="table", filter_policy="bloom"))
    table = open_table(path)
    said = table.properties
    assert expected_error_rate(table) == exact_rate(
        footer_of(path).filters_length * 8, len(KEYS), said.probe_count
    )


def test_a_table_without_filters_lets_everything_pass(tmp_path: Path) -> None:
    path = _table(tmp_path, Options(), rate=1.0)
    info = _info(path)
    assert (info.filter_kind, info.filter_bytes, info.expected_rate) == ("none", 0, 1.0)
    assert [block.expected_rate for block in block_infos(open_table(path))] == [
        1.0
    ] * info.block_count


def test_blocks_tile_the_table(tmp_path: Path) -> None:
    path = _table(tmp_path, Options(block_size_bytes=512))
    blocks = list(block_infos(open_table(path)))
    assert [block.number for block in blocks] == list(range(len(blocks)))
    end = 0
    for block in blocks:
        assert block.offset == end
        end += block.length_bytes
    assert end == footer_of(path).data_length
    assert sum(block.entry_count for block in blocks) == len(KEYS)


def test_reports_are_json_safe(db: lsmkv.DB) -> None:
    shown = json.loads(json.dumps(db.inspect().as_dict()))
    table = shown["levels"][1]["runs"][0]["tables"][0]
    assert bytes.fromhex(table["smallest_hex"]) == KEYS[0]
    assert shown["entry_count"] == 600
    block = next(block_infos(open_table(Path(db.path) / table["file_name"])))
    assert bytes.fromhex(json.loads(json.dumps(block.as_dict()))["first_key_hex"]) == KEYS[0]


STOCK = [b"key%04d" % number for number in range(300)]


@pytest.fixture(params=["block", "table"])
def stocked(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[lsmkv.DB]:
    """A store of two runs, the newer one of deletions, and three keys in memory."""
    with lsmkv.open(
        tmp_path / "db", block_size_bytes=512, filter_granularity=request.param
    ) as opened:
        opened.update((key, b"value of " + key) for key in STOCK)
        opened.flush()
        with opened.snapshot():  # or the deletions would be merged with what they hide
            for key in STOCK[:100]:
                opened.delete(key)
            opened.flush()
            opened.update((key, b"") for key in STOCK[:3])
            yield opened


def test_tables_are_those_that_inspect_describes(stocked: lsmkv.DB) -> None:
    info = stocked.inspect()
    assert [table.info() for table in stocked.tables()] == list(info.tables())
    assert stocked.memtable_key_counts == info.memtable_key_counts == (3,)
    for table, described in zip(stocked.tables(), info.tables(), strict=True):
        assert (table.number, table.size_bytes) == (described.number, described.size_bytes)
        assert (table.smallest, table.largest) == (described.smallest, described.largest)
        assert (table.entry_count, table.block_count) == (
            described.entry_count,
            described.block_count,
        )
    assert [(table.level, table.run) for table in stocked.tables()] == [
        (level.number, run.number) for level in info.levels for run in level.runs
    ]


def test_blocks_are_those_that_blocks_describes(stocked: lsmkv.DB) -> None:
    for table in stocked.tables():
        described = list(stocked.blocks(table.number))
        assert [table.block(number) for number in range(table.block_count)] == described
        for block in described:
            number = block.number
            keys = table.keys(number)
            assert (block.first_key, block.last_key) == (keys[0], keys[-1])
            before = table.keys(number - 1)[-1] if number else b""
            assert before < table.separator(number) <= keys[0]
            assert (table.length_bytes(number), table.entries(number)) == (
                block.length_bytes,
                len(keys),
            )
            if table.filter(number).scope == "block":
                filter = table.filter(number)
                assert (filter.key_count, filter.bit_count) == (block.key_count, block.bit_count)
                assert filter.expected_rate == block.expected_rate
            assert 8 * len(table.filter_bits(number)) == table.filter(number).bit_count


def test_a_filter_never_denies_a_key_and_mostly_denies_others(stocked: lsmkv.DB) -> None:
    newest, oldest = stocked.tables()
    assert all(map(oldest.may_contain, STOCK))
    assert not newest.may_contain(STOCK[200]) and not newest.may_contain(b"")
    passed = sum(oldest.may_contain(key + b"x") for key in STOCK[:-1])
    assert passed < 20


def test_looking_leaves_the_block_cache_alone(stocked: lsmkv.DB) -> None:
    for table in stocked.tables():
        table.keys(0)
        table.block(0)
        assert not table.is_cached(0)
    assert stocked.get(STOCK[250]) is not None
    oldest = stocked.tables()[1]
    assert [oldest.is_cached(number) for number in range(oldest.block_count)].count(True) == 1


def test_filters_of_prefixes_have_a_rate_only_where_n_is_known(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", filter_key=lsmkv.FixedPrefix(5)) as db:
        db.bulk_load((key, b"") for key in STOCK)
        (table,) = db.tables()
        assert table.filter_key == lsmkv.FixedPrefix(5)
        assert (table.filter(0).key_count, table.filter(0).expected_rate) == (None, None)


@pytest.mark.parametrize("block", [-1, 10_000])
def test_a_block_that_is_not_there_is_an_error(stocked: lsmkv.DB, block: int) -> None:
    table = stocked.tables()[0]
    for look in (table.separator, table.keys, table.filter, table.filter_bits, table.is_cached):
        with pytest.raises(ValueError, match=f"block={block}: table {table.number} has blocks 0"):
            look(block)


def test_a_table_that_was_replaced_stays_readable(stocked: lsmkv.DB) -> None:
    before = stocked.tables()
    stocked.compact_range()
    assert {table.number for table in stocked.tables()}.isdisjoint(
        {table.number for table in before}
    )
    assert before[1].keys(0)[0] == STOCK[0]


def test_an_explanation_names_the_block_that_filters_spared(stocked: lsmkv.DB) -> None:
    oldest = stocked.tables()[1]
    for key in STOCK[100:200]:
        step = stocked.explain(key + b"x").runs[-1]
        if step.outcome != "filtered":
            continue
        assert step.spanning is not None and step.table == oldest.number
        number = step.spanning.number
        assert oldest.separator(number) <= key + b"x" < oldest.separator(number + 1)
        assert step.spanning.length_bytes == oldest.length_bytes(number)
        return
    pytest.fail("no filter denied a key")


def test_the_changes_of_the_tree_are_its_flushes_and_compactions(stocked: lsmkv.DB) -> None:
    before = stocked.tree_changes()
    first, *flushes = before
    assert first.is_whole and first.added == () == first.removed
    added = [table for change in flushes for table in change.added]
    assert {table.number for table in added} >= {table.number for table in stocked.tables()}
    stocked.compact_range()
    *_, merged = stocked.tree_changes(after=before[-1])
    assert not merged.is_whole and merged.removed
    live: set[int] = set()
    for change in stocked.tree_changes():
        live -= set(change.removed)
        live |= {table.number for table in change.added}
    assert live == {table.number for table in stocked.tables()}
    assert stocked.tree_changes(after=merged) == []


def test_a_manifest_that_was_begun_anew_is_told_from_its_start(stocked: lsmkv.DB) -> None:
    *_, last = stocked.tree_changes()
    stocked._engine.tables.manifest.rewrite()
    (whole,) = stocked.tree_changes(after=last)
    assert whole.is_whole
    assert {table.number for table in whole.added} == {table.number for table in stocked.tables()}


def test_a_published_store_records_no_changes(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/bucket"
    with lsmkv.open(tmp_path / "db") as db:
        db[b"key"] = b"value"
        db.publish(url)
    with lsmkv.open(url, read_only=True) as published:
        assert published.tree_changes() == []
        assert published.tables()[0].keys(0) == [b"key"]


def test_a_learnt_absent_key_is_not_contained(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "learning", error_rate=0.5, adaptive_filters=True) as store:
        for number in range(0, 400, 2):
            store[b"%05d" % number] = b"v"
        store.flush()
        (table,) = store.tables()
        absent = [key for n in range(1, 399, 2) if table.may_contain(key := b"%05d" % n)]
        assert absent
        for key in absent:
            assert store.get(key) is None
        assert not any(map(table.may_contain, absent))


def test_expiries_are_counted_in_each_table_and_in_all(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", clock=lambda: 100.0) as db:
        db.bulk_load([(b"a", b"", 150), (b"b", b"", 170), (b"c", b"", None)])
        db.bulk_load([(b"d", b"", 900), (b"e", b"", None), (b"f", b"", None)])
        assert [table.expiry for table in db.inspect().tables()] == [
            lsmkv.ExpiryInfo(2, 150, 170, 170),
            lsmkv.ExpiryInfo(1, 900, None, 900),
        ]
        db.put(b"g", b"", ttl_s=20)
        info = db.inspect()
    assert info.expiry == lsmkv.ExpiryInfo(4, 120, 900, 900)  # 4 of 7
    assert "4 entries expire, the first 1970-01-01 00:02:00 UTC, half of all" in info.text()
