"""Tables that compaction has replaced are removed, or known without a manifest; and their order."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import lsmkv
from damage import files, flip, open_table, write_table
from lsmkv.options import Options
from lsmkv.salvage.order import stack, tangled_groups
from lsmkv.salvage.repair import repair
from lsmkv.sstable.format import TableMeta
from lsmkv.storage.storage import Storage
from lsmkv.tree.version_set import table_format
from made_trees import table
from repair_stores import content_of, lose_manifest
from storages import FaultyStorage
from torture.crash import lost_manifests
from torture.crash.workloads import Size
from torture.framework.part import Scale, Settings

OPTIONS = Options(
    level0_compaction_trigger=10, table_size_bytes=4096, block_size_bytes=512, compression="none"
)
KEYS = [b"key%04d" % number for number in range(300)]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def write(db: lsmkv.DB, value: bytes, keys: list[bytes]) -> None:
    for key in keys:
        db.put(key, value * 5)
    db.flush()


def tables(path: Path) -> set[str]:
    return {file.name for file in files(path, ".sst")}


@pytest.fixture
def replaced(store: Path) -> Iterator[dict[bytes, bytes]]:
    """A store without a manifest but with replaced tables; and its contents."""
    before = store.with_name("before")
    with lsmkv.open(store, OPTIONS) as db:
        write(db, b"old", KEYS)
        write(db, b"new", KEYS[:100])
        with db.snapshot():  # or the deletions would be merged with what they hide
            for key in KEYS[200:]:
                db.delete(key)
            db.flush()
            db.wait_until_settled()  # a log removed during the copy would fail it
            shutil.copytree(store, before)
        db.compact_range()
        db.wait_until_settled()
        content = dict(db)
    assert not tables(store) & tables(before)
    for name in tables(before):
        shutil.copyfile(before / name, store / name)
    lose_manifest(store)
    yield content


# --- what stays on disk ---


def test_replaced_tables_are_removed_even_if_readers_hold_them(store: Path) -> None:
    with lsmkv.open(store, OPTIONS) as db:
        write(db, b"old", KEYS)
        write(db, b"new", KEYS)
        before = tables(store)
        iterator = iter(db.items())
        first = next(iterator)
        with db.snapshot() as snapshot:
            db.compact_range()
            assert not before & tables(store)
            assert [first, *iterator] == [(key, b"new" * 5) for key in KEYS]
            assert len(snapshot) == len(KEYS)


class _Removals(Storage):
    """Notes removals of tables and syncs of directories, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    def remove(self, path: str) -> None:
        if path.endswith(".sst") and os.path.exists(path):
            self.done.append(os.path.basename(path))
        super().remove(path)

    def sync_directory(self, path: str) -> None:
        self.done.append("sync")
        super().sync_directory(path)


def _removals(store: Path, *, deleting: bool) -> tuple[list[str], list[str]]:
    """Tables by age, and a compaction's removals and directory syncs."""
    storage = _Removals()
    with lsmkv.open(store, level0_compaction_trigger=10, storage=storage) as db:
        by_age: list[str] = []
        for _ in range(3):
            for key in KEYS[:10]:
                db.put(key, b"v")
            db.flush()
            by_age += sorted(tables(store) - set(by_age))
        if deleting:
            with db.snapshot():  # or the deletions would be merged with what they hide
                db.clear()
                db.flush()
                db.wait_until_settled()
            by_age += sorted(tables(store) - set(by_age))
        storage.done.clear()
        db.compact_range()
        db.wait_until_settled()
        return by_age, storage.done


def test_the_oldest_replaced_table_is_removed_first(store: Path) -> None:
    by_age, done = _removals(store, deleting=False)
    assert [name for name in done if name != "sync"] == by_age


def test_where_no_table_notes_it_a_power_failure_keeps_to_the_order_of_removals(
    store: Path,
) -> None:
    by_age, done = _removals(store, deleting=True)
    assert done == [item for name in by_age for item in ("sync", name)] + ["sync"]


# --- what tables say of those that they replaced ---


def test_replaced_tables_are_passed_over_without_a_manifest(
    store: Path, output: Path, replaced: dict[bytes, bytes]
) -> None:
    report = repair(store, output)
    assert report.is_complete and not report.tables_uncertain
    assert report.tables_ignored == len(tables(store.with_name("before")))
    assert content_of(output) == replaced


def test_the_tables_of_a_compaction_that_lost_one_replace_nothing(
    store: Path, output: Path, replaced: dict[bytes, bytes]
) -> None:
    noted = [file for file in files(store, ".sst") if open_table(file).properties.replaces]
    (last,) = noted
    beside = open_table(last).properties.beside
    assert beside
    (store / f"{beside[0]:06}.sst").unlink()
    report = repair(store, output)
    assert report.tables_ignored == 0
    assert content_of(output) == replaced


def test_a_table_with_a_damaged_note_makes_the_result_uncertain(
    store: Path, output: Path, replaced: dict[bytes, bytes]
) -> None:
    (last,) = [file for file in files(store, ".sst") if open_table(file).properties.replaces]
    flip(last, last.stat().st_size - 80)
    report = repair(store, output)
    assert int(last.stem) in report.tables_uncertain
    assert not report.is_complete


def test_tables_of_an_older_release_are_uncertain_without_a_manifest(
    store: Path, output: Path
) -> None:
    form = table_format(Options(), 0.01)
    store.mkdir()
    write_table(store / "000003.sst", [(b"a", b"1", 3)], form, 3)
    write_table(store / "000005.sst", [(b"b", b"2", 5)], form, 5)
    report = repair(store, output)
    assert report.tables_uncertain == (3, 5)
    assert not report.is_complete
    assert "uncertain: tables 3, 5" in report.text()
    assert "nothing is lost" not in report.text()
    assert report.as_dict()["tables_uncertain"] == [3, 5]


def test_tables_of_an_older_release_are_not_uncertain_where_the_manifest_is_whole(
    store: Path, output: Path
) -> None:
    with lsmkv.open(store) as db:
        write(db, b"v", KEYS[:5])
    assert repair(store, output).tables_uncertain == ()


def test_no_table_replaces_a_newer_one(store: Path, output: Path) -> None:
    form = table_format(Options(), 0.01)
    store.mkdir()
    for number, replaces in ((3, [3, 5]), (5, [])):
        write_table(
            store / f"00000{number}.sst", [(b"%d" % number, b"v", number)], form, number, replaces
        )
    report = repair(store, output)
    assert report.tables_ignored == 0 and report.is_complete
    assert content_of(output) == {b"3": b"v", b"5": b"v"}


def test_a_table_that_could_not_be_removed_is_noted_by_the_next_compaction(
    store: Path, output: Path
) -> None:
    storage = FaultyStorage()
    with lsmkv.open(store, level0_compaction_trigger=10, storage=storage) as db:
        write(db, b"old", KEYS[:10])
        write(db, b"middle", KEYS[:10])
        stuck = files(store, ".sst")[0]
        storage.fail("remove", error=errno.EIO, times=None, path_suffix=stuck.name)
        db.compact_range()
        write(db, b"new", KEYS[:5])
        db.compact_range()
        assert stuck.exists()
        db.wait_until_settled()
        shutil.copytree(store, store.with_name("killed"))
        content = dict(db)
        storage.heal()
    lose_manifest(store.with_name("killed"))
    report = repair(store.with_name("killed"), output)
    assert report.is_complete and report.tables_ignored == 1
    assert content_of(output) == content


def test_a_compaction_in_a_process_notes_what_it_replaced(store: Path) -> None:
    options = OPTIONS.replace(background="process", process_job_size_bytes=0)
    with lsmkv.open(store, options) as db:
        write(db, b"old", KEYS)
        write(db, b"new", KEYS)
        before = {int(name[:6]) for name in tables(store)}
        db.compact_range()
        newest = open_table(files(store, ".sst")[-1]).properties
        assert set(newest.replaces or ()) == before
        assert newest.beside == [int(name[:6]) for name in sorted(tables(store))[:-1]]


# --- all that a power failure may leave ---


def test_nothing_that_is_out_of_date_is_called_complete(tmp_path: Path) -> None:
    settings = Settings(Scale.CI, 3.0, 1, tmp_path)
    outcome = lost_manifests.run(settings, Size(operations=20, rounds=1, samples=2, share=0.05))
    assert not outcome.failures
    assert outcome.counts["complete"]


@pytest.mark.longest
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_nothing_that_is_out_of_date_is_ever_called_complete(seed: int, tmp_path: Path) -> None:
    settings = Settings(Scale.SHORT, 60.0, seed, tmp_path)
    outcome = lost_manifests.run(settings)
    assert not outcome.failures
    assert outcome.counts["complete"] and outcome.counts["with losses"]
    assert outcome.counts["tables ignored because others replaced them"]


@pytest.mark.parametrize("how", ["closed", "reopened", "written to"])
def test_a_replaced_table_that_cannot_be_removed_brings_no_deleted_key_back(
    tmp_path: Path, how: str
) -> None:
    path = tmp_path / "store"
    with lsmkv.open(path) as db:
        db[b"k"] = b"stale"
        db.flush()
    (table,) = path.glob("*.sst")
    stuck = FaultyStorage()
    stuck.fail("remove", error=errno.EBUSY, times=None, path_suffix=table.name)
    with lsmkv.open(path, storage=stuck) as db:
        db.delete(b"k")
        db.compact_range()
    if how != "closed":
        with lsmkv.open(path, storage=stuck) as db:
            if how == "written to":
                db[b"z"] = b"1"
                db.flush()
    lose_manifest(path)
    report = lsmkv.repair(path, tmp_path / "mended")
    with lsmkv.open(tmp_path / "mended") as db:
        assert b"k" not in db or not report.is_complete


def _meta(number: int, keys: str, low: int, high: int) -> TableMeta:
    return msgspec.structs.replace(table(number, *keys, seq=high), smallest_seq=low)


@pytest.mark.parametrize(
    ("tables", "groups"),
    [
        pytest.param([("az", 1, 5), ("az", 6, 9), ("bc", 10, 10)], [1, 1, 1], id="seqs apart"),
        pytest.param([("ac", 1, 9), ("df", 1, 9)], [1, 1], id="keys apart"),
        pytest.param([("ae", 1, 6), ("df", 5, 9), ("gh", 5, 9)], [1, 2], id="overlap in both"),
        # The third stands between the others in sequence numbers, and overlaps one in keys.
        pytest.param([("ae", 1, 3), ("df", 3, 9), ("ab", 5, 6)], [3], id="overlap the group"),
    ],
)
def test_tables_that_overlap_in_keys_and_sequence_numbers_are_merged(
    tables: list[tuple[str, int, int]], groups: list[int]
) -> None:
    found = tangled_groups([_meta(number, *each) for number, each in enumerate(tables)])
    assert sorted(map(len, found)) == groups


def test_newer_tables_are_stacked_above_older_ones() -> None:
    tables = [_meta(1, "ac", 1, 1), _meta(2, "bd", 2, 2), _meta(3, "ef", 1, 1)]
    runs = [[each.number for each in run] for run in stack(tables)]
    assert runs == [[2, 3], [1]]
