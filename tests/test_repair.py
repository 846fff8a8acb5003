"""Repair: exactly what still checks out is kept, and exactly the rest is reported."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lsmkv
from damage import Entry, cut, entries_of, files, flip, footer_of, sections, write_table
from lsmkv.batch import encode_batch
from lsmkv.encoding import checksum
from lsmkv.errors import CorruptionError, LockedError, NotAStoreError, UnsupportedFormatError
from lsmkv.log import HEADER_BYTES, LogWriter, read_log
from lsmkv.options import Options
from lsmkv.repair import RepairReport, repair
from lsmkv.repair.logs import salvage_logs
from lsmkv.repair.order import stack, tangled_groups
from lsmkv.sstable.block import Block
from lsmkv.sstable.layout import FOOTER_BYTES, TableMeta
from lsmkv.sstable.salvage import LostBlock, TableSalvage
from lsmkv.sstable.writer import TableFormat
from lsmkv.stats import Stats
from lsmkv.storage import RandomFile, Storage

KEYS = [b"key%05d" % number for number in range(600)]
Content = dict[bytes, bytes]


def _build(path: Path, **options: object) -> Content:
    """A closed store: two runs of tables of several blocks, deletions, and writes in the log."""
    chosen = Options(block_size_bytes=512, **options)  # type: ignore[arg-type]
    with lsmkv.open(path, chosen) as db:
        for key in KEYS[::2]:
            db.put(key, b"old " + key * 3)
        db.flush()
        for key in KEYS[::3]:
            db.put(key, b"new " + key * 3)
        for key in KEYS[::10]:
            db.delete(key)
        db.flush()
        for key in KEYS[5:20]:
            db.put(key, b"newest", sync=True)
        return dict(db.items())


def _content(path: Path) -> Content:
    """Everything in a store, which must be whole."""
    with lsmkv.open(path, create_if_missing=False) as db:
        assert db.verify().ok
        return dict(db.items())


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output"


def _manifests(path: Path) -> list[Path]:
    return sorted(file for file in path.iterdir() if file.name.startswith("MANIFEST"))


def _lose_manifest(path: Path) -> None:
    for manifest in _manifests(path):
        manifest.unlink()
    (path / "CURRENT").unlink()


def _snapshot(path: Path) -> dict[str, bytes]:
    """Every file of a folder but the lock."""
    return {
        file.name: file.read_bytes()
        for file in path.iterdir()
        if file.is_file() and file.name != "LOCK"
    }


# --- what repair promises of its arguments and of the originals ---


def test_a_whole_store_keeps_everything(store: Path, output: Path) -> None:
    content = _build(store)
    report = repair(store, output)
    assert report.is_complete and report.problems == ()
    assert (report.tables_kept, report.tables_salvaged, report.tables_lost) == (2, 0, 0)
    assert report.log_operations_kept == 15
    assert _content(output) == content


def test_repair_into_another_folder_leaves_the_original_alone(store: Path, output: Path) -> None:
    _build(store)
    flip(files(store, ".sst")[0], 3)
    before = _snapshot(store)
    repair(store, output)
    assert _snapshot(store) == before


def test_whole_tables_are_copied_byte_by_byte(store: Path, output: Path) -> None:
    _build(store)
    repair(store, output)
    for path in files(store, ".sst"):
        assert (output / path.name).read_bytes() == path.read_bytes()


def test_repair_in_place_keeps_the_originals_in_a_folder(store: Path) -> None:
    content = _build(store)
    damaged = files(store, ".sst")[0]
    flip(damaged, 3)
    before = _snapshot(store)
    report = repair(store, in_place=True)
    after = _snapshot(store)
    lost = _snapshot(store / "lost")
    for name, data in before.items():
        assert data in (after.get(name), lost.get(name))
    assert damaged.name in report.moved and damaged.name in lost
    assert set(_content(store)) <= set(content) | set(KEYS)


def test_repair_in_place_of_a_whole_store_loses_nothing(store: Path) -> None:
    content = _build(store)
    repair(store, in_place=True)
    assert _content(store) == content
    repair(store, in_place=True)
    assert _content(store) == content


def test_files_moved_twice_get_names_of_their_own(store: Path) -> None:
    _build(store)
    repair(store, in_place=True)
    repair(store, in_place=True)
    names = set(os.listdir(store / "lost"))
    assert {"CURRENT", "CURRENT.1"} <= names


def test_a_repaired_store_takes_writes(store: Path, output: Path) -> None:
    content = _build(store)
    repair(store, output)
    with lsmkv.open(output) as db:
        db.put(b"after", b"repair")
        db.flush()
        db.put(KEYS[0], b"again")
        db.compact_range()
    assert _content(output) == {**content, b"after": b"repair", KEYS[0]: b"again"}


def test_exactly_one_of_output_and_in_place_is_wanted(store: Path, output: Path) -> None:
    _build(store)
    with pytest.raises(ValueError, match="either"):
        repair(store)
    with pytest.raises(ValueError, match="either"):
        repair(store, output, in_place=True)
    assert not output.exists()


def test_an_output_that_is_not_empty_is_refused(store: Path, output: Path) -> None:
    _build(store)
    output.mkdir()
    (output / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError):
        repair(store, output)
    assert os.listdir(output) == ["notes.txt"]


def test_an_empty_output_folder_is_used(store: Path, output: Path) -> None:
    content = _build(store)
    output.mkdir()
    repair(store, output)
    assert _content(output) == content


def test_a_store_that_is_open_is_refused(store: Path, output: Path) -> None:
    with lsmkv.open(store), pytest.raises(LockedError):
        repair(store, output)
    assert not output.exists()


@pytest.mark.parametrize("present", [True, False])
def test_a_folder_without_a_store_is_refused(tmp_path: Path, present: bool) -> None:
    path = tmp_path / "folder"
    if present:
        path.mkdir()
        (path / "notes.txt").write_text("mine")
    with pytest.raises(NotAStoreError):
        repair(path, tmp_path / "output")
    assert path.exists() == present
    assert not (tmp_path / "output").exists()


def test_progress_ends_at_all_bytes_of_tables(store: Path, output: Path) -> None:
    _build(store)
    flip(files(store, ".sst")[0], 3)
    seen: list[tuple[int, int]] = []
    repair(store, output, progress=lambda done, total: seen.append((done, total)))
    total = sum(path.stat().st_size for path in files(store, ".sst"))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (total, total)


def test_a_repair_that_fails_leaves_no_new_files(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _build(store)
    flip(files(store, ".sst")[0], 3)
    before = _snapshot(store)

    def fail(directory: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        repair(store, in_place=True)
    assert _snapshot(store) == before


def test_a_crash_before_the_switch_leaves_the_store_as_it_was(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = _build(store)

    def crash(source: str, target: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", crash)
        repair(store, in_place=True)
    assert _content(store) == content
    assert repair(store, in_place=True).is_complete
    assert _content(store) == content


def test_a_crash_after_the_switch_has_every_original_in_the_folder(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _build(store)
    damaged = files(store, ".sst")[0]
    flip(damaged, 3)
    before = _snapshot(store)
    remove = os.unlink

    def crash(path: str) -> None:
        if path.endswith(".sst"):
            raise KeyboardInterrupt
        remove(path)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "unlink", crash)
        repair(store, in_place=True)
    _content(store)  # opening removes what the new manifest does not name
    lost = _snapshot(store / "lost")
    assert lost[damaged.name] == before[damaged.name]
    assert not damaged.exists()


def test_a_file_that_may_not_be_read_is_not_called_lost(
    store: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _build(store)
    real = os.open

    def refuse(path: str, flags: int, mode: int = 0o777) -> int:
        if path.endswith(".sst"):
            raise PermissionError(errno.EACCES, "not allowed", path)
        return real(path, flags, mode)

    with monkeypatch.context() as patch, pytest.raises(PermissionError):
        patch.setattr(os, "open", refuse)
        repair(store, output)


def test_a_table_of_a_newer_format_is_refused(store: Path, output: Path) -> None:
    _build(store)
    path = files(store, ".sst")[0]
    data = bytearray(path.read_bytes())
    data[-16:-12] = (2).to_bytes(4, "little")
    data[-12:-8] = (checksum(bytes(data[-72:-12]), 0) & 0xFFFF_FFFF).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(UnsupportedFormatError):
        repair(store, output)


# --- one damaged table ---


def _expected(path: Path, lost: Callable[[int, list[Entry]], bool]) -> set[Entry]:
    """The entries of a table's blocks that are not lost."""
    blocks = entries_of(path)
    return {
        entry for number, block in enumerate(blocks) if not lost(number, block) for entry in block
    }


def _rewritten(output: Path, known: set[str]) -> set[Entry]:
    """The entries of the tables that repair wrote anew."""
    return {
        entry
        for path in files(output, ".sst")
        if path.name not in known
        for block in entries_of(path)
        for entry in block
    }


@pytest.mark.parametrize("part", ["payload", "trailer"])
@pytest.mark.parametrize("manifest", ["kept", "lost"])
def test_a_damaged_block_is_lost_and_nothing_else(
    store: Path, output: Path, part: str, manifest: str
) -> None:
    _build(store)
    for log in files(store, ".log"):
        if manifest == "lost":
            log.unlink()
    path = files(store, ".sst")[0]
    expected = _expected(path, lambda number, _: number == 1)
    lost = entries_of(path)[1]
    flip(path, sum(sections(path)[part]) // 2)
    if manifest == "lost":
        _lose_manifest(store)
    report = repair(store, output)
    assert (report.tables_kept, report.tables_salvaged, report.tables_lost) == (1, 1, 0)
    assert (report.blocks_lost, report.entries_lost) == (1, len(lost))
    (missing,) = report.lost_ranges
    assert (missing.first, missing.last) == (lost[0][0], lost[-1][0])
    assert missing.entry_count == len(lost)
    kept = {file.name for file in files(store, ".sst")[1:]}
    tables = [file for file in files(output, ".sst") if file.name not in kept]
    assert expected == {e for block in entries_of(tables[0]) for e in block}
    _content(output)


@pytest.mark.parametrize("part", ["block filter", "filters", "index", "properties", "footer"])
@pytest.mark.parametrize("manifest", ["kept", "lost"])
def test_damage_outside_the_payloads_loses_no_entry(
    store: Path, output: Path, part: str, manifest: str
) -> None:
    content = _build(store)
    path = files(store, ".sst")[0]
    flip(path, sum(sections(path)[part]) // 2)
    if manifest == "lost":
        _lose_manifest(store)
    report = repair(store, output)
    assert (report.tables_salvaged, report.tables_lost) == (1, 0)
    assert report.entries_lost == 0
    assert any(problem.path == str(path) for problem in report.problems)
    assert _content(output) == content


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
    assert len(_content(output)) == sum(int(item.count) for item in kept)


def test_every_flipped_byte_costs_its_own_block_at_most(tmp_path: Path) -> None:
    path = tmp_path / "000001.sst"
    form = TableFormat.from_options(Options(block_size_bytes=256), 0.01)
    meta = write_table(path, [(key, b"value", 5) for key in KEYS[:60]], form)
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
    form = TableFormat.from_options(Options(block_size_bytes=256), 0.01)
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
    form = TableFormat.from_options(Options(block_size_bytes=16_384, compression="none"), 0.01)
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
    _build(store)
    path = files(store, ".sst")[0]
    blocks = entries_of(path)
    bounds = _block_bounds(path)
    cut(path, bounds[3][0] + 5)
    report = repair(store, output)
    (missing,) = report.lost_ranges
    assert (missing.first, missing.last) == (blocks[2][-1][0], blocks[-1][-1][0])
    assert report.entries_lost == sum(map(len, blocks[3:]))
    _content(output)


def test_a_block_copied_inside_a_value_is_not_taken_for_one(tmp_path: Path) -> None:
    path = tmp_path / "000001.sst"
    form = TableFormat.from_options(Options(block_size_bytes=256, compression="none"), 0.01)
    write_table(path, [(b"forged%d" % number, b"x" * 20, 9) for number in range(8)], form)
    block = path.read_bytes()[: _block_bounds(path)[0][1]]
    path.unlink()
    entries: list[Entry] = [(b"real", b"x" * 57 + block, 1), (b"tail", b"y", 1)]
    write_table(path, entries, form)
    flip(path, path.stat().st_size - FOOTER_BYTES)
    assert _salvaged(path) == [entries[:1], entries[1:]]


def test_a_table_of_which_nothing_is_left_is_lost(store: Path, output: Path) -> None:
    _build(store)
    path = files(store, ".sst")[0]
    entries = entries_of(path)
    path.write_bytes(bytes(path.stat().st_size))
    report = repair(store, output)
    assert (report.tables_kept, report.tables_lost) == (1, 1)
    (missing,) = report.lost_ranges
    assert (missing.first, missing.last) == (entries[0][0][0], entries[-1][-1][0])
    assert report.entries_lost == missing.entry_count == sum(map(len, entries))
    assert not report.is_complete
    _content(output)


def test_a_missing_table_is_lost(store: Path, output: Path) -> None:
    _build(store)
    path = files(store, ".sst")[0]
    path.unlink()
    report = repair(store, output)
    assert report.tables_lost == 1
    assert str(path) in {problem.path for problem in report.problems}
    _content(output)


def test_an_empty_table_file_is_lost(store: Path, output: Path) -> None:
    _build(store)
    cut(files(store, ".sst")[0], 0)
    assert repair(store, output).tables_lost == 1
    _content(output)


def test_another_table_under_the_name_of_one_is_not_used(store: Path, output: Path) -> None:
    _build(store)
    first, second = files(store, ".sst")
    shutil.copyfile(second, first)
    report = repair(store, output)
    assert (report.tables_kept, report.tables_lost) == (1, 1)
    _content(output)


def test_damage_in_several_tables_and_the_log_is_all_reported(store: Path, output: Path) -> None:
    _build(store)
    for path in files(store, ".sst"):
        flip(path, sections(path)["payload"][0])
    log = files(store, ".log")[-1]
    flip(log, log.stat().st_size // 2)
    report = repair(store, output)
    assert report.tables_salvaged == 2
    assert {problem.path for problem in report.problems} == {
        str(path) for path in [*files(store, ".sst"), log]
    }
    _content(output)


def test_a_salvaged_table_has_the_form_of_the_damaged_one(store: Path, output: Path) -> None:
    _build(store, filter_key=lsmkv.FixedPrefix(6), filter_granularity="table", error_rate=0.05)
    path = files(store, ".sst")[0]
    flip(path, 3)
    repair(store, output)
    with lsmkv.open(output) as db:
        tables = list(db.inspect().tables())
    assert {table.filter_key for table in tables} == {"fixed:6"}
    assert {table.granularity for table in tables} == {"table"}
    assert {table.requested_rate for table in tables} == {0.05}


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


# --- manifest and CURRENT ---


def test_without_current_the_newest_manifest_is_used(store: Path, output: Path) -> None:
    content = _build(store)
    (store / "CURRENT").unlink()
    report = repair(store, output)
    assert report.manifest == _manifests(store)[-1].name
    assert any("CURRENT" in note for note in report.notes)
    assert _content(output) == content


def test_a_damaged_current_is_as_good_as_none(store: Path, output: Path) -> None:
    content = _build(store)
    flip(store / "CURRENT", 3)
    report = repair(store, output)
    assert report.manifest is not None
    assert str(store / "CURRENT") in {problem.path for problem in report.problems}
    assert _content(output) == content


def test_without_a_manifest_every_table_is_used(store: Path, output: Path) -> None:
    content = _build(store)
    _lose_manifest(store)
    report = repair(store, output)
    assert report.manifest is None
    assert any("may reappear" in note for note in report.notes)
    assert _content(output) == content


def test_a_damaged_manifest_is_not_used(store: Path, output: Path) -> None:
    content = _build(store)
    (manifest,) = _manifests(store)
    flip(manifest, HEADER_BYTES + 12)
    report = repair(store, output)
    assert report.manifest is None
    assert str(manifest) in {problem.path for problem in report.problems}
    assert _content(output) == content


def test_a_manifest_older_than_the_tables_is_not_used_without_current(
    store: Path, output: Path
) -> None:
    content = _build(store)
    (manifest,) = _manifests(store)
    first = read_log(Storage(), str(manifest), int(manifest.name[9:]), "manifest")
    assert first is not None
    second_record = list(first.records())[1][0]
    cut(manifest, second_record)
    (store / "CURRENT").unlink()
    report = repair(store, output)
    assert report.manifest is None
    assert _content(output) == content


def test_tables_that_the_manifest_does_not_name_are_ignored(store: Path, output: Path) -> None:
    content = _build(store)
    shutil.copyfile(files(store, ".sst")[0], store / "000099.sst")
    report = repair(store, output)
    assert report.tables_ignored == 1
    assert not (output / "000099.sst").exists()
    assert _content(output) == content


def test_deleted_keys_stay_deleted_while_the_manifest_is_whole(store: Path, output: Path) -> None:
    _build(store)
    repair(store, output)
    gone = [key for key in KEYS[::10] if key not in KEYS[5:20]]
    assert not set(gone) & set(_content(output))


@pytest.mark.parametrize("style", ["leveled", "tiered", "lazy-leveled"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_without_a_manifest_a_compacted_store_keeps_its_newest_values(
    store: Path, output: Path, style: str, seed: int
) -> None:
    chooser = random.Random(seed)
    options = Options(
        block_size_bytes=256,
        compaction=style,  # type: ignore[arg-type]
        write_buffer_size_bytes=4096,
        table_size_bytes=4096,
        level1_size_bytes=8192,
        level0_compaction_trigger=2,
        size_ratio=3,
    )
    expected: Content = {}
    with lsmkv.open(store, options) as db:
        for _ in range(3000):
            key = b"%04d" % int(chooser.paretovariate(0.3) % 700)
            value = b"%d" % chooser.getrandbits(40)
            db.put(key, value)
            expected[key] = value
        db.wait_until_settled()
        assert len(db.inspect().levels) > 1
    _lose_manifest(store)
    report = repair(store, output)
    assert report.is_complete
    assert _content(output) == expected


def test_an_old_copy_of_the_manifest_is_not_gone_by(store: Path, output: Path) -> None:
    with lsmkv.open(store) as db:
        db[b"a"] = b"old"
    (manifest,) = store.glob("MANIFEST-*")
    old = manifest.read_bytes()
    with lsmkv.open(store) as db:
        db[b"a"] = b"new"
        db.flush()
        db[b"b"] = b"in the log"
    assert manifest.exists()  # it was gone on with
    manifest.write_bytes(old)
    report = repair(store, output)
    assert report.manifest is None
    assert _content(output) == {b"a": b"new", b"b": b"in the log"}


def test_a_manifest_that_lost_whole_edits_at_its_end_is_not_gone_by(
    store: Path, output: Path
) -> None:
    with lsmkv.open(store, level0_compaction_trigger=10) as db:
        for number in range(3):
            db[b"%d" % number] = b"v"
            db.flush()
        shorter = _manifests(store)[0].read_bytes()
        db.compact_range()
        db[b"in"] = b"the log"
        db.sync()
        shutil.copytree(store, store.with_name("killed"))
    killed = store.with_name("killed")
    _manifests(killed)[0].write_bytes(shorter)
    report = repair(killed, output)
    assert report.manifest is None
    assert _content(output) == {b"0": b"v", b"1": b"v", b"2": b"v", b"in": b"the log"}


def test_the_manifest_of_another_store_is_not_gone_by(
    store: Path, output: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    for path, value in ((store, b"own"), (other, b"another's")):
        with lsmkv.open(path) as db:
            db[b"a"] = value
            db.flush()
            if path == store:
                shutil.copytree(store, tmp_path / "killed")
    (own,) = (tmp_path / "killed").glob("MANIFEST-*")
    (others,) = other.glob("MANIFEST-*")
    own.write_bytes(others.read_bytes())
    report = repair(tmp_path / "killed", output)
    assert report.manifest is None
    assert any("of another store" in str(problem) for problem in report.problems)
    assert _content(output) == {b"a": b"own"}


def test_tables_that_changed_places_do_not_make_the_manifest_another_stores(
    store: Path, output: Path
) -> None:
    with lsmkv.open(store, level0_compaction_trigger=10) as db:
        for key in (b"a", b"b"):
            db[key] = b"v"
            db.flush()
    one, two = sorted(store.glob("*.sst"))
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    report = repair(store, output)
    assert report.manifest is not None
    assert {(lost.first, lost.last) for lost in report.lost_ranges} == {(b"a", b"a"), (b"b", b"b")}


def test_without_a_manifest_each_key_gets_its_highest_sequence_number(
    store: Path, output: Path
) -> None:
    # Compaction can leave this: the deeper table 1 has the highest number, and the older "c".
    form = TableFormat.from_options(Options(), 0.01)
    store.mkdir()
    write_table(store / "000001.sst", [(b"c", b"old", 3), (b"d", b"1", 100)], form, 1)
    write_table(store / "000002.sst", [(b"c", b"new", 5), (b"e", b"2", 6)], form, 2)
    write_table(store / "000003.sst", [(b"a", b"3", 7), (b"f", None, 8)], form, 3)
    write_table(store / "000004.sst", [(b"e", b"4", 101), (b"f", b"0", 101)], form, 4)
    report = repair(store, output)
    assert report.tables_merged == 3
    assert _content(output) == {b"a": b"3", b"c": b"new", b"d": b"1", b"e": b"4", b"f": b"0"}


def test_a_left_over_log_does_not_hide_newer_tables(store: Path, output: Path) -> None:
    with lsmkv.open(store) as db:
        db.put(b"key", b"old")
        (log,) = files(store, ".log")
        old = (log.name, log.read_bytes())
        db.flush()
        db.put(b"key", b"new")
        db.flush()
    (store / old[0]).write_bytes(old[1])
    _lose_manifest(store)
    repair(store, output)
    assert _content(output) == {b"key": b"new"}


# --- logs ---


def _logged(path: Path, count: int = 20) -> Path:
    """A closed store with all its writes in one log, each synced."""
    with lsmkv.open(path) as db:
        for number in range(count):
            db.put(b"%03d" % number, b"value", sync=True)
    (log,) = files(path, ".log")
    return log


def _record_offsets(log: Path) -> list[int]:
    contents = read_log(Storage(), str(log), int(log.name[:6]), "log")
    assert contents is not None
    return [offset for offset, _ in contents.records()]


def test_records_before_damage_in_a_log_are_kept(store: Path, output: Path) -> None:
    log = _logged(store)
    offsets = _record_offsets(log)
    size = log.stat().st_size
    flip(log, offsets[12] + 10)
    report = repair(store, output)
    assert report.log_records_kept == report.log_operations_kept == 12
    assert report.log_bytes_lost == size - offsets[12]
    (problem,) = report.problems
    assert (problem.path, problem.offset) == (str(log), offsets[12])
    assert _content(output) == {b"%03d" % number: b"value" for number in range(12)}


def test_a_log_cut_short_after_it_was_closed_is_reported(store: Path, output: Path) -> None:
    log = _logged(store)
    offsets = _record_offsets(log)
    closed_end = log.stat().st_size - 17  # the mark that closes a log is written after that
    cut(log, offsets[12] + 5)
    report = repair(store, output)
    assert report.log_records_kept == 12
    assert report.log_bytes_lost == closed_end - offsets[12]
    assert str(log) in {problem.path for problem in report.problems}
    assert _content(output) == {b"%03d" % number: b"value" for number in range(12)}


def test_a_torn_tail_is_dropped_and_reported(store: Path, output: Path) -> None:
    log = _logged(store)
    size = log.stat().st_size
    with log.open("ab") as file:
        file.write(b"half a rec")
    report = repair(store, output)
    assert report.log_records_kept == 20
    assert report.log_bytes_lost == 10
    assert [(problem.path, problem.offset) for problem in report.problems] == [(str(log), size)]


def test_a_log_with_a_damaged_header_is_lost(store: Path, output: Path) -> None:
    log = _logged(store)
    flip(log, 20)
    report = repair(store, output)
    assert (report.log_records_kept, report.log_bytes_lost) == (0, log.stat().st_size)
    assert _content(output) == {}


def test_a_missing_log_is_reported(store: Path, output: Path) -> None:
    log = _logged(store)
    log.unlink()
    report = repair(store, output)
    assert [problem.path for problem in report.problems] == [str(log)]
    assert _content(output) == {}


def test_deletions_in_the_log_hide_what_tables_hold(store: Path, output: Path) -> None:
    with lsmkv.open(store) as db:
        db.put(b"a", b"1")
        db.put(b"b", b"2")
        db.flush()
        db.delete(b"a")
    repair(store, output)
    assert _content(output) == {b"b": b"2"}


def _chain(directory: Path, logs: list[list[int]]) -> list[Path]:
    """Logs that follow each other; each has records that write these sequence numbers."""
    storage = Storage()
    before: LogWriter | None = None
    paths = []
    for number, seqs in enumerate(logs, 1):
        path = directory / f"{number:06}.log"
        writer = LogWriter.create(storage, str(path), number, "log", before)
        for seq in seqs:
            writer.append(encode_batch(seq, [(b"%d" % seq, b"v")]))
            writer.sync_through(writer.end)
        paths.append(path)
        before = writer
    return paths


def _written_bytes(log: Path) -> int:
    """Its length without room for more; no record here ends with a zero."""
    return len(log.read_bytes().rstrip(b"\0"))


def test_logs_behind_a_damaged_one_are_not_applied(tmp_path: Path) -> None:
    paths = _chain(tmp_path, [[1, 2, 3], [4, 5, 6], [7]])
    flip(paths[1], _record_offsets(paths[1])[1] + 9)
    logs = salvage_logs(Storage(), str(tmp_path), [1, 2, 3], None)
    assert sorted(logs.newest) == [b"1", b"2", b"3", b"4"]
    assert logs.last_seq == 4
    damaged_at = logs.problems[0].offset
    assert damaged_at is not None
    assert logs.lost_bytes == _written_bytes(paths[1]) - damaged_at + _written_bytes(paths[2])


def test_logs_behind_one_that_lost_its_end_are_not_applied(tmp_path: Path) -> None:
    paths = _chain(tmp_path, [[1, 2, 3], [4]])
    whole, kept = _written_bytes(paths[0]), _record_offsets(paths[0])[2]
    cut(paths[0], kept)
    logs = salvage_logs(Storage(), str(tmp_path), [1, 2], None)
    assert sorted(logs.newest) == [b"1", b"2"]
    assert logs.lost_bytes == whole - kept + _written_bytes(paths[1])


def test_logs_before_a_missing_one_are_not_needed(tmp_path: Path) -> None:
    paths = _chain(tmp_path, [[1], [2], [3], [4]])
    paths[1].unlink()
    logs = salvage_logs(Storage(), str(tmp_path), [1, 3, 4], None)
    assert (sorted(logs.newest), logs.ignored) == ([b"3", b"4"], [1])
    assert logs.lost_bytes == 0


def test_a_log_that_was_given_up_is_passed_over(tmp_path: Path) -> None:
    storage = Storage()
    paths = _chain(tmp_path, [[1], [2], []])
    second = read_log(storage, str(paths[1]), 2, "log")
    assert second is not None
    before = LogWriter.reopen(storage, second)
    writer = LogWriter.create(storage, str(tmp_path / "000004.log"), 4, "log", before)
    writer.append(encode_batch(3, [(b"3", b"")]))
    logs = salvage_logs(storage, str(tmp_path), [1, 2, 3, 4], None)
    assert (sorted(logs.newest), logs.problems) == ([b"1", b"2", b"3"], [])


def test_a_log_whose_making_was_cut_short_is_passed_over(tmp_path: Path) -> None:
    paths = _chain(tmp_path, [[1], [2]])
    (tmp_path / "000003.log").write_bytes(paths[0].read_bytes()[:30])
    logs = salvage_logs(Storage(), str(tmp_path), [1, 2, 3], None)
    assert (sorted(logs.newest), logs.problems, logs.lost_bytes) == ([b"1", b"2"], [], 0)


def test_the_log_that_the_store_was_closed_with_is_missed(store: Path, output: Path) -> None:
    log = _logged(store)
    cut(log, 30)
    report = repair(store, output)
    assert [problem.path for problem in report.problems] == [str(log)]
    assert report.log_bytes_lost > 30
    assert not report.is_complete


def test_a_record_with_the_wrong_sequence_number_ends_the_replay(tmp_path: Path) -> None:
    (path,) = _chain(tmp_path, [[1, 2, 4, 5]])
    logs = salvage_logs(Storage(), str(tmp_path), [1], None)
    assert logs.last_seq == 2
    assert logs.lost_bytes == _written_bytes(path) - _record_offsets(path)[2]


# --- order by sequence numbers ---


def _meta(number: int, keys: bytes, low: int, high: int) -> TableMeta:
    return TableMeta(
        number=number,
        size_bytes=1000,
        smallest=keys[:1],
        largest=keys[1:],
        smallest_seq=low,
        largest_seq=high,
        entry_count=2,
        tombstone_count=0,
    )


def test_tables_with_sequence_numbers_apart_need_no_merging() -> None:
    tables = [_meta(1, b"az", 1, 5), _meta(2, b"az", 6, 9), _meta(3, b"bc", 10, 10)]
    assert sorted(map(len, tangled_groups(tables))) == [1, 1, 1]


def test_tables_with_keys_apart_need_no_merging() -> None:
    tables = [_meta(1, b"ac", 1, 9), _meta(2, b"df", 1, 9)]
    assert sorted(map(len, tangled_groups(tables))) == [1, 1]


def test_tables_that_overlap_in_both_are_merged() -> None:
    tables = [_meta(1, b"ae", 1, 6), _meta(2, b"df", 5, 9), _meta(3, b"gh", 5, 9)]
    assert sorted(map(len, tangled_groups(tables))) == [1, 2]


def test_what_a_merged_group_comes_to_overlap_joins_it() -> None:
    # 3 and 4 stand between 1 and 2 in sequence numbers, and overlap one of them in keys.
    tables = [_meta(1, b"ae", 1, 3), _meta(2, b"df", 3, 9), _meta(3, b"ab", 5, 6)]
    assert [len(group) for group in tangled_groups(tables)] == [3]


def test_newer_tables_are_stacked_above_older_ones() -> None:
    tables = [_meta(1, b"ac", 1, 1), _meta(2, b"bd", 2, 2), _meta(3, b"ef", 1, 1)]
    runs = [[table.number for table in run] for run in stack(tables)]
    assert runs == [[2, 3], [1]]


# --- the report ---


@pytest.fixture
def report(store: Path, output: Path) -> Iterator[RepairReport]:
    _build(store)
    flip(files(store, ".sst")[0], 3)
    log = files(store, ".log")[-1]
    flip(log, log.stat().st_size - 60)
    yield repair(store, output)


def test_the_report_is_json_safe(report: RepairReport) -> None:
    shown = json.loads(json.dumps(report.as_dict()))
    assert shown["is_complete"] is False
    assert bytes.fromhex(shown["lost_ranges"][0]["first_hex"]) == KEYS[0]
    assert shown["problems"][0]["offset"] == 0


def test_the_report_prints_problems_and_lost_keys(report: RepairReport) -> None:
    text = str(report)
    assert "1 salvaged" in text and "at offset 0" in text
    assert repr(KEYS[0]) in text
    assert f"{report.log_bytes_lost} bytes lost" in text


def test_every_entry_is_either_kept_or_lost(report: RepairReport, store: Path) -> None:
    whole = 0
    for path in files(store, ".sst"):
        flip(path, 3) if path == files(store, ".sst")[0] else None
        whole += sum(map(len, entries_of(path)))
    assert report.entries_kept + report.entries_lost == whole


def test_damage_that_open_refuses_is_repaired(store: Path, output: Path) -> None:
    _build(store)
    flip(files(store, ".sst")[0], files(store, ".sst")[0].stat().st_size - 5)
    with pytest.raises(CorruptionError):
        lsmkv.open(store)
    repair(store, output)
    _content(output)
