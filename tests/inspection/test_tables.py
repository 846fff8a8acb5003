"""Tables to look into: what ``DB.tables`` and ``DB.tree_changes`` tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lsmkv
from lsmkv.inspection.tree_changes import tree_changes
from lsmkv.storage.storage import Storage

KEYS = [b"key%04d" % number for number in range(300)]


@pytest.fixture(params=["block", "table"])
def db(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[lsmkv.DB]:
    """A store of two runs, the newer one of deletions, and three keys in memory."""
    with lsmkv.open(
        tmp_path / "db", block_size_bytes=512, filter_granularity=request.param
    ) as opened:
        opened.update((key, b"value of " + key) for key in KEYS)
        opened.flush()
        for key in KEYS[:100]:
            opened.delete(key)
        opened.flush()
        opened.update((key, b"") for key in KEYS[:3])
        yield opened


def test_tables_are_those_that_inspect_describes(db: lsmkv.DB) -> None:
    info = db.inspect()
    assert [table.info() for table in db.tables()] == list(info.tables())
    assert db.memtable_key_counts == info.memtable_key_counts == (3,)
    for table, described in zip(db.tables(), info.tables(), strict=True):
        assert (table.number, table.size_bytes) == (described.number, described.size_bytes)
        assert (table.smallest, table.largest) == (described.smallest, described.largest)
        assert (table.entry_count, table.block_count) == (
            described.entry_count,
            described.block_count,
        )
    assert [(table.level, table.run) for table in db.tables()] == [
        (level.number, run.number) for level in info.levels for run in level.runs
    ]


def test_blocks_are_those_that_blocks_describes(db: lsmkv.DB) -> None:
    for table in db.tables():
        described = list(db.blocks(table.number))
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


def test_a_filter_never_denies_a_key_and_mostly_denies_others(db: lsmkv.DB) -> None:
    newest, oldest = db.tables()
    assert all(map(oldest.may_contain, KEYS))
    assert not newest.may_contain(KEYS[200]) and not newest.may_contain(b"")
    passed = sum(oldest.may_contain(key + b"x") for key in KEYS[:-1])
    assert passed < 20


def test_looking_leaves_the_block_cache_alone(db: lsmkv.DB) -> None:
    for table in db.tables():
        table.keys(0)
        table.block(0)
        assert not table.is_cached(0)
    assert db.get(KEYS[250]) is not None
    oldest = db.tables()[1]
    assert [oldest.is_cached(number) for number in range(oldest.block_count)].count(True) == 1


def test_without_filters_every_spanned_key_may_be_there(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", filter_policy="none") as db:
        db.bulk_load((key, b"") for key in KEYS)
        (table,) = db.tables()
        assert not table.asks_filters
        assert table.may_contain(KEYS[5] + b"x")
        assert table.filter(0).bit_count == 0 and table.filter(0).expected_rate == 1.0


def test_filters_of_prefixes_have_a_rate_only_where_n_is_known(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", filter_key=lsmkv.FixedPrefix(5)) as db:
        db.bulk_load((key, b"") for key in KEYS)
        (table,) = db.tables()
        assert table.filter_key == lsmkv.FixedPrefix(5)
        assert (table.filter(0).key_count, table.filter(0).expected_rate) == (None, None)


@pytest.mark.parametrize("block", [-1, 10_000])
def test_a_block_that_is_not_there_is_an_error(db: lsmkv.DB, block: int) -> None:
    table = db.tables()[0]
    for look in (table.separator, table.keys, table.filter, table.filter_bits, table.is_cached):
        with pytest.raises(ValueError, match=f"block={block}: table {table.number} has blocks 0"):
            look(block)


def test_a_table_that_was_replaced_stays_readable(db: lsmkv.DB) -> None:
    before = db.tables()
    db.compact_range()
    assert {table.number for table in db.tables()}.isdisjoint({table.number for table in before})
    assert before[1].keys(0)[0] == KEYS[0]


def test_an_explanation_names_the_block_that_filters_spared(db: lsmkv.DB) -> None:
    oldest = db.tables()[1]
    for key in KEYS[100:200]:
        step = db.explain(key + b"x").runs[-1]
        if step.outcome != "filtered":
            continue
        assert step.spanning is not None and step.table == oldest.number
        number = step.spanning.number
        assert oldest.separator(number) <= key + b"x" < oldest.separator(number + 1)
        assert step.spanning.length_bytes == oldest.length_bytes(number)
        return
    pytest.fail("no filter denied a key")


def test_the_changes_of_the_tree_are_its_flushes_and_compactions(db: lsmkv.DB) -> None:
    before = db.tree_changes()
    first, *flushes = before
    assert first.is_whole and first.added == () == first.removed
    added = [table for change in flushes for table in change.added]
    assert {table.number for table in added} >= {table.number for table in db.tables()}
    db.compact_range()
    *_, merged = db.tree_changes(after=before[-1])
    assert not merged.is_whole and merged.removed
    live: set[int] = set()
    for change in db.tree_changes():
        live -= set(change.removed)
        live |= {table.number for table in change.added}
    assert live == {table.number for table in db.tables()}
    assert db.tree_changes(after=merged) == []


def test_a_manifest_that_was_begun_anew_is_told_from_its_start(db: lsmkv.DB) -> None:
    *_, last = db.tree_changes()
    db._engine.tables.manifest.rewrite()
    (whole,) = db.tree_changes(after=last)
    assert whole.is_whole
    assert {table.number for table in whole.added} == {table.number for table in db.tables()}


def test_the_changes_of_no_store_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(lsmkv.NotAStoreError):
        tree_changes(Storage(), str(tmp_path), None)


def test_a_damaged_record_of_the_manifest_is_named(db: lsmkv.DB) -> None:
    import lsmkv.tree.manifest as manifest

    with pytest.raises(lsmkv.CorruptionError, match="bad manifest record"):
        manifest.decode_edit(b"{", "MANIFEST-000002", 40)


def test_a_published_store_records_no_changes(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/bucket"
    with lsmkv.open(tmp_path / "db") as db:
        db[b"key"] = b"value"
        db.publish(url)
    with lsmkv.open(url, read_only=True) as published:
        assert published.tree_changes() == []
        assert published.tables()[0].keys(0) == [b"key"]


@pytest.mark.parametrize("block", ["0", 0.0, None])
def test_a_block_that_is_no_number_is_a_type_error(db: lsmkv.DB, block: Any) -> None:
    with pytest.raises(TypeError, match="give the number of a block"):
        db.tables()[0].keys(block)


def test_a_key_that_is_text_is_a_type_error_of_may_contain(db: lsmkv.DB) -> None:
    with pytest.raises(TypeError, match="encode it"):
        db.tables()[0].may_contain("a")  # type: ignore[arg-type]


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
