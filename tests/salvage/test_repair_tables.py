"""Repair of damaged tables: sound blocks are kept, all others are reported."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import lsmkv
from damage import Entry, cut, entries_of, files, flip, footer_of, open_table, sections, write_table
from lsmkv.options import Options
from lsmkv.salvage.damaged_table import LostBlock, TableSalvage
from lsmkv.salvage.repair import repair
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.format import FOOTER_BYTES
from lsmkv.stats import Stats
from lsmkv.storage.storage import RandomFile, Storage
from lsmkv.tree.version_set import table_format
from repair_stores import KEYS, build_store, content_of, lose_manifest
from torture.fuzz.crafting import replace_table, take_apart


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def _expected(path: Path, lost: Callable[[int, list[Entry]], bool]) -> set[Entry]:
    blocks = entries_of(path)
    return {
        entry for number, block in enumerate(blocks) if not lost(number, block) for entry in block
    }


@pytest.mark.parametrize("part", ["payload", "trailer"])
@pytest.mark.parametrize("manifest", ["kept", "lost"])
def test_a_damaged_block_is_lost_and_nothing_else(
    store: Path, output: Path, part: str, manifest: str
) -> None:
    build_store(store)
    for log in files(store, ".log"):
        if manifest == "lost":
            log.unlink()
    path = files(store, ".sst")[0]
    expected = _expected(path, lambda number, _: number == 1)
    lost, index = entries_of(path)[1], open_table(path).index
    flip(path, sum(sections(path)[part]) // 2)
    if manifest == "lost":
        lose_manifest(store)
    report = repair(store, output)
    assert (report.tables_kept, report.tables_salvaged, report.tables_lost) == (1, 1, 0)
    assert (report.blocks_lost, report.entries_lost) == (1, len(lost))
    (missing,) = report.lost_ranges
    assert (missing.first, missing.last) == (index.separator(1), index.separator(2))
    assert index.separator(1) <= lost[0][0] <= lost[-1][0] < index.separator(2)
    assert missing.entry_count == len(lost)
    kept = {file.name for file in files(store, ".sst")[1:]}
    tables = [file for file in files(output, ".sst") if file.name not in kept]
    assert expected == {e for block in entries_of(tables[0]) for e in block}
    content_of(output)


@pytest.mark.parametrize("part", ["block filter", "filters", "index", "properties", "footer"])
@pytest.mark.parametrize("manifest", ["kept", "lost"])
def test_damage_outside_the_payloads_loses_no_entry(
    store: Path, output: Path, part: str, manifest: str
) -> None:
    content = build_store(store)
    path = files(store, ".sst")[0]
    flip(path, sum(sections(path)[part]) // 2)
    if manifest == "lost":
        lose_manifest(store)
    report = repair(store, output)
    assert (report.tables_salvaged, report.tables_lost) == (1, 0)
    tells_its_end = (manifest, part) != ("lost", "footer")
    assert report.entries_lost == report.blocks_lost == (0 if tells_its_end else None)
    assert any(problem.path == str(path) for problem in report.problems)
    assert content_of(output) == content


def test_without_its_dictionary_a_table_keeps_the_blocks_that_need_none(
    store: Path, output: Path
) -> None:
    chooser = random.Random(3)
    words = [b"%032x" % chooser.getrandbits(128) for _ in range(10)]
    with lsmkv.open(store, block_size_bytes=512, compression_dictionary_size_bytes=1024) as db:
        for number in range(400):
            db.put(b"a%04d" % number, b" ".join(chooser.choices(words, k=4)))
        for number in range(40):
            db.put(b"b%04d" % number, chooser.randbytes(200))
        db.flush()
    (path,) = files(store, ".sst")
    spans = sections(path)
    flip(path, sum(spans["dictionary"]) // 2)
    salvage = TableSalvage(Storage(), str(path), int(path.stem))
    lost = [item for _, item in salvage.blocks() if isinstance(item, LostBlock)]
    kept = [item for _, item in salvage.blocks() if isinstance(item, Block)]
    assert lost and kept
    assert all("dictionary" in item.reason for item in lost)
    report = repair(store, output)
    assert report.entries_lost == sum(item.entry_count or 0 for item in lost)
    assert len(content_of(output)) == sum(int(item.count) for item in kept)


def test_every_flipped_byte_costs_its_own_block_at_most(tmp_path: Path) -> None:
    path = tmp_path / "000001.sst"
    form = table_format(Options(block_size_bytes=256), 0.01)
    meta = write_table(path, [(key, b"value", 5) for key in KEYS[:90]], form)
    blocks = entries_of(path)
    ends = [sections(path)["payload"][0]]
    footer = footer_of(path)
    bounds = _block_bounds(path)
    assert len(bounds) > 3 and ends[0] == bounds[1][0]
    for offset in range(meta.size_bytes):
        flip(path, offset, 0x10)
        kept = _salvaged(path)
        flip(path, offset, 0x10)
        hit = next((n for n, (low, high) in enumerate(bounds) if low <= offset < high), None)
        missing = [n for n, block in enumerate(blocks) if block not in kept]
        assert all(block in blocks for block in kept)
        assert missing in ([], [hit]), offset
        if offset >= footer.data_length:
            assert missing == []


def _block_bounds(path: Path) -> list[tuple[int, int]]:
    salvage = TableSalvage(Storage(), str(path), int(path.stem))
    starts = [offset for offset, _ in salvage.blocks()]
    return list(zip(starts, [*starts[1:], footer_of(path).data_length], strict=True))


def _salvaged(path: Path) -> list[list[Entry]]:
    return [
        list(zip(item.keys(), item.values(), item.seqs(), strict=True))
        for _, item in TableSalvage(Storage(), str(path), int(path.stem)).blocks()
        if isinstance(item, Block)
    ]


def test_a_table_cut_anywhere_keeps_every_block_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "000001.sst"
    form = table_format(Options(block_size_bytes=256), 0.01)
    meta = write_table(path, [(key, b"value", 5) for key in KEYS[:60]], form)
    whole = path.read_bytes()
    blocks = entries_of(path)
    bounds = _block_bounds(path)
    for length in range(0, meta.size_bytes, 7):
        path.write_bytes(whole[:length])
        expected = [
            block for block, (_, stop) in zip(blocks, bounds, strict=True) if stop <= length
        ]
        assert _salvaged(path) == expected


class _BadSector(Storage):
    """A disk with 16 bytes that cannot be read."""

    def __init__(self, offset: int) -> None:
        super().__init__()
        self.offset = offset

    def _random_file(self, path: str, descriptor: int, size: int, direct: bool) -> RandomFile:
        return _BadFile(path, descriptor, size, self.stats, direct, self.offset)


class _BadFile(RandomFile):
    __slots__ = ("_bad",)

    def __init__(
        self, path: str, descriptor: int, size: int, stats: Stats, direct: bool, bad: int
    ) -> None:
        super().__init__(path, descriptor, size, stats, direct)
        self._bad = bad

    def _pread(self, length: int, offset: int) -> bytes:
        if offset < self._bad + 16 and self._bad < offset + length:
            raise OSError(errno.EIO, "bad sector")
        return super()._pread(length, offset)


@pytest.mark.parametrize("index", ["whole", "lost"])
def test_a_place_that_the_disk_cannot_read_costs_its_blocks_alone(
    tmp_path: Path, index: str
) -> None:
    path = tmp_path / "000001.sst"
    form = table_format(Options(block_size_bytes=16_384, compression="none"), 0.01)
    write_table(path, [(key, key * 30, 5) for key in KEYS], form)
    blocks = entries_of(path)
    bounds = _block_bounds(path)
    assert len(blocks) > 4
    if index == "lost":
        flip(path, sections(path)["index"][0])
    salvage = TableSalvage(_BadSector(bounds[2][0] + 1000), str(path), 1)
    kept = [
        list(zip(item.keys(), item.values(), item.seqs(), strict=True))
        for _, item in salvage.blocks()
        if isinstance(item, Block)
    ]
    assert kept == blocks[:2] + blocks[3:]


def test_a_truncated_table_reports_the_keys_that_are_lost(store: Path, output: Path) -> None:
    build_store(store)
    path = files(store, ".sst")[0]
    blocks = entries_of(path)
    bounds = _block_bounds(path)
    cut(path, bounds[3][0] + 5)
    report = repair(store, output)
    (missing,) = report.lost_ranges
    assert (missing.first, missing.last) == (blocks[2][-1][0], blocks[-1][-1][0])
    assert report.entries_lost == missing.entry_count == sum(map(len, blocks[3:]))
    content_of(output)


def test_the_blocks_of_a_truncated_table_are_not_known(store: Path, output: Path) -> None:
    build_store(store)
    path = files(store, ".sst")[0]
    cut(path, _block_bounds(path)[3][0] + 5)
    report = repair(store, output)
    assert (report.blocks_lost, report.as_dict()["blocks_lost"]) == (None, None)
    assert f"blocks: {report.blocks_kept} kept, an unknown number lost" in str(report)


@pytest.mark.parametrize("manifest", ["kept", "lost"])
def test_the_blocks_of_a_table_that_keeps_only_its_end_are_known(
    store: Path, output: Path, manifest: str
) -> None:
    build_store(store)
    path = files(store, ".sst")[0]
    blocks = entries_of(path)
    data = path.read_bytes()
    length = footer_of(path).data_length
    path.write_bytes(bytes(length) + data[length:])
    if manifest == "lost":
        lose_manifest(store)
    report = repair(store, output)
    assert (report.blocks_lost, report.entries_lost) == (len(blocks), sum(map(len, blocks)))


def test_without_manifest_and_index_lost_entries_are_not_known(store: Path, output: Path) -> None:
    build_store(store)
    path = files(store, ".sst")[0]
    cut(path, _block_bounds(path)[3][0] + 5)
    lose_manifest(store)
    report = repair(store, output)
    assert (report.blocks_lost, report.entries_lost) == (None, None)
    assert f"entries: {report.entries_kept} kept, an unknown number lost" in str(report)


def test_a_block_inside_a_value_is_not_salvaged(tmp_path: Path) -> None:
    path = tmp_path / "000001.sst"
    form = table_format(Options(block_size_bytes=256, compression="none"), 0.01)
    write_table(path, [(b"forged%d" % number, b"x" * 20, 9) for number in range(8)], form)
    block = path.read_bytes()[: _block_bounds(path)[0][1]]
    path.unlink()
    entries: list[Entry] = [(b"real", b"x" * 57 + block, 1), (b"tail", b"y", 1)]
    write_table(path, entries, form)
    flip(path, path.stat().st_size - FOOTER_BYTES)
    assert _salvaged(path) == [entries[:1], entries[1:]]


def test_a_table_of_which_nothing_is_left_is_lost(store: Path, output: Path) -> None:
    build_store(store)
    path = files(store, ".sst")[0]
    entries = entries_of(path)
    path.write_bytes(bytes(path.stat().st_size))
    report = repair(store, output)
    assert (report.tables_kept, report.tables_lost) == (1, 1)
    (missing,) = report.lost_ranges
    assert (missing.first, missing.last) == (entries[0][0][0], entries[-1][-1][0])
    assert report.entries_lost == missing.entry_count == sum(map(len, entries))
    assert not report.is_complete
    content_of(output)


def test_a_missing_table_is_lost(store: Path, output: Path) -> None:
    build_store(store)
    path = files(store, ".sst")[0]
    path.unlink()
    report = repair(store, output)
    assert (report.tables_lost, report.blocks_lost) == (1, None)
    (missing,) = report.lost_ranges
    assert report.entries_lost == missing.entry_count
    assert str(path) in {problem.path for problem in report.problems}
    content_of(output)


def test_another_table_under_the_name_of_one_is_not_used(store: Path, output: Path) -> None:
    build_store(store)
    first, second = files(store, ".sst")
    shutil.copyfile(second, first)
    report = repair(store, output)
    assert (report.tables_kept, report.tables_lost) == (1, 1)
    content_of(output)


def test_a_salvaged_table_has_the_form_of_the_damaged_one(store: Path, output: Path) -> None:
    filters = {"filter_key": lsmkv.FixedPrefix(6), "filter_granularity": "table"}
    build_store(store, **filters, error_rate=0.05, filter_allocation="uniform")
    path = files(store, ".sst")[0]
    flip(path, 3)
    repair(store, output)
    with lsmkv.open(output) as db:
        tables = list(db.inspect().tables())
    assert {table.filter_key for table in tables} == {"fixed:6"}
    assert {table.granularity for table in tables} == {"table"}
    assert {table.requested_rate for table in tables} == {0.05}


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("named", ["nothing", "x" * 300, f"fixed:{9 * 10**19}", "delimited:zz:1"])
def test_a_table_with_an_unknown_filter_key_is_reported_and_rebuilt(
    store: Path, output: Path, named: str, in_place: bool
) -> None:
    with lsmkv.open(store, block_size_bytes=512) as db:
        for key in KEYS:
            db.put(key, b"value")
        db.flush()
    table = take_apart(files(store, ".sst")[0].read_bytes())
    table.properties["filter_key"] = named
    replace_table(store, table)
    report = repair(store, None if in_place else output, in_place=in_place)
    assert any("filter key" in problem.reason for problem in report.problems)
    assert set(content_of(store if in_place else output)) == set(KEYS)


def test_a_salvaged_table_stays_on_its_level(store: Path, output: Path) -> None:
    with lsmkv.open(store, block_size_bytes=512) as db:
        for part in (KEYS[::2], KEYS[1::2]):
            for key in part:
                db.put(key, b"deep " + key)
            db.flush()
        db.compact_range()
        for key in KEYS[::5]:
            db.put(key, b"upper")
        db.flush()
        content = dict(db.items())
    deep = min(files(store, ".sst"), key=lambda path: -path.stat().st_size)
    flip(deep, sections(deep)["filters"][0])
    repair(store, output)
    with lsmkv.open(output) as db:
        assert [len(level.runs) for level in db.inspect().levels] == [1, 1]
        assert dict(db.items()) == content
