"""Inspection: its figures of tables, blocks and filters match the files."""

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
    assert [level.number for level in info.levels] == [0, 1]
    assert [len(level.runs) for level in info.levels] == [1, 1]
    assert [table.entry_count for table in info.tables()] == [100, 500]
    assert [table.tombstone_count for table in info.tables()] == [100, 0]


def test_keys_of_memtables_are_counted(db: lsmkv.DB) -> None:
    assert db.inspect().memtable_key_counts == (3,)


def test_an_empty_store_has_no_levels(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        info = db.inspect()
    assert (info.levels, info.size_bytes, info.entry_count) == ((), 0, 0)


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


def test_inspecting_reads_nothing_but_what_was_not_used_before(db: lsmkv.DB) -> None:
    db.inspect()
    before = db.stats()
    db.inspect()
    delta = db.stats() - before
    assert (delta.block_reads, delta.filter_reads, delta.index_reads) == (0, 0, 0)


def test_resident_filters_are_memory_and_others_are_not(tmp_path: Path) -> None:
    for residency in ("resident", "cached", "off"):
        with lsmkv.open(tmp_path / residency, filter_residency=residency) as db:
            db[b"a"] = db[b"b"] = b"1"
            db.flush()
            info = db.inspect()
        assert info.filter_bytes > 0
        assert info.filter_memory_bytes == (info.filter_bytes if residency == "resident" else 0)


def test_the_expected_rate_is_the_mean_over_the_blocks(tmp_path: Path) -> None:
    path = _table(tmp_path, Options(block_size_bytes=512))
    table = open_table(path)
    rates = [block.expected_rate for block in block_infos(table)]
    assert len(rates) > 10
    assert expected_error_rate(table) == pytest.approx(fmean(rates), rel=1e-12)
    assert 0.005 < fmean(rates) < 0.0125


def test_the_expected_rate_of_whole_keys_reads_no_block(tmp_path: Path) -> None:
    info = _info(_table(tmp_path, Options(block_size_bytes=512)))
    assert info.expected_rate is not None
    assert info.requested_rate == 0.01


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
    path = _table(tmp_path, Options(block_size_bytes=512, filter_granularity="table"))
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


def test_the_expected_rate_does_not_depend_on_residency(tmp_path: Path) -> None:
    path = _table(tmp_path, Options(block_size_bytes=512))
    rates = {
        expected_error_rate(open_table(path, residency=residency))
        for residency in ("resident", "cached", "off")
    }
    assert len(rates) == 1


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


def test_blocks_say_how_they_are_stored(tmp_path: Path) -> None:
    (packed, plain) = (tmp_path / "zstd", tmp_path / "none")
    codecs = {}
    for path in (packed, plain):
        path.mkdir()
        options = Options(block_size_bytes=4096, compression=path.name)  # type: ignore[arg-type]
        codecs[path.name] = {
            block.codec for block in block_infos(open_table(_table(path, options)))
        }
    assert codecs == {"zstd": {"zstd"}, "none": {"none"}}


def test_reports_are_json_safe(db: lsmkv.DB) -> None:
    shown = json.loads(json.dumps(db.inspect().as_dict()))
    table = shown["levels"][1]["runs"][0]["tables"][0]
    assert bytes.fromhex(table["smallest_hex"]) == KEYS[0]
    assert shown["entry_count"] == 600
    block = next(block_infos(open_table(Path(db.path) / table["file_name"])))
    assert bytes.fromhex(json.loads(json.dumps(block.as_dict()))["first_key_hex"]) == KEYS[0]


def test_the_text_has_a_line_for_each_level_run_and_table(db: lsmkv.DB) -> None:
    head, *lines = str(db.inspect()).splitlines()
    assert head == f"store {db.inspect().store_id}"
    assert lines[0] == "memtables: 3 keys"
    assert [line.strip().split(":")[0] for line in lines if ".sst" not in line] == [
        "memtables",
        "level 0",
        lines[2].strip().split(":")[0],
        "level 1",
        "run 0",
        "in all",
    ]
    assert sum(".sst" in line for line in lines) == 2


def test_a_block_prints_its_filter(tmp_path: Path) -> None:
    block = next(block_infos(open_table(_table(tmp_path, Options()))))
    assert f"n={block.key_count} m={block.bit_count} k={block.probe_count}" in str(block)
