"""Compactions copy stretches of blocks that nothing overlaps, as they are stored."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lsmkv
from columns import as_rows
from lsmkv.compaction.merge import compact_tables, merge_tables
from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.encoding.entry_batch import Entry, EntryBatch, batches_of
from lsmkv.filters.hashing import hash_key
from lsmkv.options import Options
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.format import TableFormat
from lsmkv.sstable.multi_writer import TableJob, write_tables
from lsmkv.sstable.pages import PAGE_BYTES
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.stored_blocks import StoredBlocks
from lsmkv.sstable.writer import NO_LIMIT, TableWriter
from lsmkv.storage.file_names import table_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.version_set import table_format
from table_files import first_key, last_key

OPTIONS = Options(block_size_bytes=256, fit_pages=False)
FORM = table_format(OPTIONS, 0.01)


class Compacting:
    def __init__(
        self, directory: str, form: TableFormat = FORM, table_bytes: int = 1 << 20
    ) -> None:
        self.storage = Storage()
        self.directory = directory
        self.job = TableJob(
            self.storage, directory, form, table_bytes, count(1).__next__, lambda: False
        )

    def run(self, entries: list[Entry]) -> list[TableReader]:
        return self.written(batches_of(iter(entries)))

    def written(self, merged: Iterator[EntryBatch | StoredBlocks]) -> list[TableReader]:
        return [self.opened(meta.number) for meta in write_tables(merged, self.job)]

    def opened(self, number: int) -> TableReader:
        cache = BlockCache(0, self.storage.stats)
        path = table_path(self.directory, number)
        return TableReader(self.storage, path, cache, None, "resident")


def key(number: int) -> bytes:
    return b"%08d" % number


def entries(numbers: range, seq: int = 0) -> list[Entry]:
    """Values that do not compress, the same each time."""
    return [(key(number), random.Random(number).randbytes(20), seq) for number in numbers]


def contents(tables: list[TableReader]) -> list[Entry]:
    """Every entry; each block is verified, and each key looked up."""
    found: list[Entry] = []
    for table in tables:
        table.verify_sections()
        for number in range(int(table.index.block_count)):
            block, _ = table.verify_block(number)
            for name, value, seq in zip(block.keys(), block.values(), block.seqs(), strict=True):
                assert table.get(name, hash_key(name), MAX_SEQUENCE) == value
                assert value is not None
                found.append((name, value, seq))
    return found


def copied(
    runs: list[list[TableReader]],
    snapshots: list[int] | None = None,
    drop_deletions: bool = True,
    form: TableFormat | None = FORM,
) -> list[tuple[int, bytes, bytes]]:
    """The stretches: number of blocks, first key, last key."""
    found: list[tuple[int, bytes, bytes]] = []
    for part in compact_tables(runs, snapshots or [], drop_deletions, form):
        if isinstance(part, StoredBlocks):
            table = part.table
            found.append((part.count, first_key(table, part.first), last_key(table, part.end - 1)))
    return found


def test_blocks_that_no_other_run_overlaps_are_copied(tmp_path: Path) -> None:
    compacting = Compacting(str(tmp_path))
    older = compacting.run(entries(range(3000)))
    newer = compacting.run([(key(1500), b"new", 9)])
    merged = compact_tables([newer, older], [], True, FORM)
    tables = compacting.written(merged)
    expected = {name: (value, seq) for name, value, seq in entries(range(3000))}
    expected[key(1500)] = (b"new", 0)
    assert contents(tables) == [(name, *rest) for name, rest in sorted(expected.items())]
    stretches = copied([newer, older])
    blocks = int(older[0].index.block_count)
    assert sum(stretch[0] for stretch in stretches) > 0.9 * blocks
    assert not any(first <= key(1500) <= last for _, first, last in stretches)


def above(table: TableReader, number: int) -> bytes:
    """A key in the gap before a block, above the shortest separator that it could have."""
    return first_key(table, number)[:-1]


def below(table: TableReader, number: int) -> bytes:
    """A key in the gap before a block, just above the last key of the one before it."""
    return last_key(table, number - 1) + b"!"


@pytest.mark.parametrize("fit_pages", [False, True])
@pytest.mark.parametrize("gap", [above, below])
def test_a_stretch_that_follows_a_key_in_the_gap_before_it_has_right_separators(
    tmp_path: Path, gap: Callable[[TableReader, int], bytes], fit_pages: bool
) -> None:
    form = replace(FORM, fit_pages=fit_pages)
    compacting = Compacting(str(tmp_path), form)
    held = entries(range(0, 6000, 10))
    (table,) = older = compacting.run(held)
    for number in range(1, 12, 4):
        name = gap(table, number)
        assert last_key(table, number - 1) < name < first_key(table, number)
        writer = TableWriter(compacting.storage, table_path(str(tmp_path), 900 + number), 9, form)
        writer.add(b"!", b"first", 0)
        writer.add(name, b"new", 0)
        assert writer.copy(StoredBlocks(table, number, number + 20), 0, NO_LIMIT) == 20
        writer.add(b"z", b"last", 0)
        writer.finish()
        merged = compact_tables([compacting.run([(name, b"new", 0)]), older], [], True, form)
        for written in (compacting.opened(900 + number), *compacting.written(merged)):
            assert (name, b"new", 0) in contents([written])
            for at in range(1, int(written.index.block_count)):
                made = written.index.separator(at)
                assert last_key(written, at - 1) < made <= first_key(written, at)


@given(st.data())
def test_copied_and_merged_blocks_hold_what_a_merge_of_all_holds(data: st.DataObject) -> None:
    starts = st.integers(0, 3000)
    ranges = st.builds(
        lambda start, n, step: range(start, start + n * step, step),
        starts,
        st.integers(1, 900),
        st.sampled_from([1, 7, 100]),
    )
    chosen = data.draw(st.lists(ranges, min_size=1, max_size=4))
    drop_deletions = data.draw(st.booleans())
    form = replace(FORM, fit_pages=data.draw(st.booleans()))
    with tempfile.TemporaryDirectory() as directory:
        compacting = Compacting(directory, form, data.draw(st.sampled_from([4096, 1 << 20])))
        runs = [
            compacting.run(entries(numbers, 0 if drop_deletions else len(chosen) - age))
            for age, numbers in enumerate(chosen)
        ]
        tables = compacting.written(compact_tables(runs, [], drop_deletions, form))
        held = [contents([table]) for table in tables]
        assert [row for rows in held for row in rows] == as_rows(
            merge_tables(runs, [], drop_deletions)
        )
        for table, rows in zip(tables, held, strict=True):
            numbers = [seq for _, _, seq in rows]
            properties = table.properties
            assert (properties.smallest_seq, properties.largest_seq) == (min(numbers), max(numbers))
            assert properties.entry_count == len(numbers)


def test_a_stretch_is_split_where_a_table_ends(tmp_path: Path) -> None:
    compacting = Compacting(str(tmp_path), table_bytes=8192)
    run = compacting.run(entries(range(2000)))
    tables = compacting.written(compact_tables([run], [], True, FORM))
    assert len(tables) > 5
    assert max(os.path.getsize(table.path) for table in tables) < 3 * 8192
    assert contents(tables) == entries(range(2000))


def test_a_table_that_is_full_knows_nothing_of_blocks_for_the_next_one(tmp_path: Path) -> None:
    compacting = Compacting(str(tmp_path))
    (stored,) = compacting.run(entries(range(2000), seq=3))
    writer = TableWriter(compacting.storage, table_path(str(tmp_path), 99), 99, FORM)
    writer.add_from(
        EntryBatch.of([b"!"], [random.Random(1).randbytes(5000)], [7], may_repeat=False),
        0,
        NO_LIMIT,
    )
    assert writer.copy(StoredBlocks(stored, 0, 20), 0, 100) == 0
    writer.finish()
    properties = compacting.opened(99).properties
    assert (properties.smallest_seq, properties.largest_seq) == (7, 7)


def test_large_blocks_are_copied_in_pieces(tmp_path: Path) -> None:
    compacting = Compacting(str(tmp_path), table_bytes=1 << 24)
    large: list[Entry] = [
        (key(number), random.Random(number).randbytes(100_000), 0) for number in range(40)
    ]
    run = compacting.run(large)
    pieces = [count for count, _, _ in copied([run])]
    assert sum(pieces) == 40
    assert max(pieces) <= 3  # some 256 KiB
    assert contents(compacting.written(compact_tables([run], [], True, FORM))) == large


def test_copied_blocks_stand_in_their_pages_as_before(tmp_path: Path) -> None:
    form = replace(FORM, block_size_bytes=4096, fit_pages=True)
    compacting = Compacting(str(tmp_path), form, 1 << 24)
    older = compacting.run(entries(range(0, 40_000, 2)))
    newer = compacting.run([(key(20_001), b"new", 0)])
    (table,) = compacting.written(compact_tables([newer, older], [], True, form))
    offsets = [table.index.offset(number) for number in range(int(table.index.block_count))]
    before = [older[0].index.offset(number) for number in range(int(older[0].index.block_count))]
    straddling = [sum(at % PAGE_BYTES != 0 for at in each) for each in (before, offsets)]
    assert straddling[1] <= straddling[0] + 2  # where the new key came in
    assert copied([newer, older], form=form)


def test_entries_that_a_merge_would_change_are_not_copied(tmp_path: Path) -> None:
    compacting = Compacting(str(tmp_path))
    numbered = compacting.run(entries(range(2000), seq=7))
    assert not copied([numbered])  # their numbers become 0
    assert copied([numbered], drop_deletions=False)  # here they stay
    several = compacting.run(entries(range(1000), 3) + entries(range(1000, 2000), 4))
    assert not copied([several], drop_deletions=False)
    deleted = compacting.run([*entries(range(2000)), (key(5000), None, 0)])
    assert not copied([deleted])


@pytest.mark.parametrize(
    "other",
    [
        {"error_rate": 0.021},
        {"error_rate": 0.0049},
        {"filter_policy": "ribbon"},
        {"filter_granularity": "table"},
        {"filter_key": lsmkv.FixedPrefix(4)},
        {"compression": "none"},
        {"compression_dictionary_size_bytes": 1024},
    ],
)
def test_blocks_of_another_format_are_not_copied(tmp_path: Path, other: dict[str, object]) -> None:
    compacting = Compacting(str(tmp_path))
    run = compacting.run(entries(range(2000)))
    changed = OPTIONS.replace(**other)  # type: ignore[arg-type]
    form = table_format(changed, changed.error_rate)
    assert copied([run])
    assert not copied([run], form=form)
    there = Compacting(str(tmp_path / "there"), form)
    os.mkdir(there.directory)
    assert not copied([there.run(entries(range(2000)))])


@pytest.mark.parametrize("error_rate", [0.0051, 0.019])
def test_blocks_whose_filters_have_nearly_the_rate_wanted_are_copied(
    tmp_path: Path, error_rate: float
) -> None:
    run = Compacting(str(tmp_path)).run(entries(range(2000)))
    assert copied([run], form=table_format(OPTIONS, error_rate))


def test_a_damaged_block_is_not_copied(tmp_path: Path) -> None:
    compacting = Compacting(str(tmp_path))
    (table,) = compacting.run(entries(range(3000)))
    offset = table.index.offset(50)
    with open(table.path, "r+b") as file:
        file.seek(offset + 5)
        byte = file.read(1)
        file.seek(offset + 5)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(lsmkv.CorruptionError) as caught:
        compacting.written(compact_tables([[table]], [], True, FORM))
    assert (caught.value.path, caught.value.offset) == (table.path, offset)
    assert sorted(os.listdir(tmp_path)) == [os.path.basename(table.path)]


# In a store


def late_writes(db: lsmkv.DB) -> dict[bytes, bytes]:
    """Writes in the order of time, of which one in twenty comes late."""
    draw = random.Random(5)
    model: dict[bytes, bytes] = {}
    for now in range(8000):
        at = now if draw.random() > 0.05 else max(0, now - draw.randrange(1000))
        name = b"%012d" % (10 * at + draw.randrange(10))
        if draw.random() < 0.02:
            db.delete(name)
            model.pop(name, None)
        else:
            model[name] = db[name] = draw.randbytes(40)
    return model


SMALL = lsmkv.Options(
    write_buffer_size_bytes=1 << 17,
    level1_size_bytes=1 << 19,
    table_size_bytes=1 << 17,
    block_size_bytes=1024,
    process_job_size_bytes=0,
)


@pytest.mark.parametrize("background", ["thread", "process"])
def test_a_store_whose_compactions_copy_holds_what_was_written(
    tmp_path: Path, background: lsmkv.options.Background
) -> None:
    with lsmkv.open(tmp_path / "store", SMALL.replace(background=background)) as db:
        model = late_writes(db)
        db.flush()
        db.wait_until_settled()
        assert dict(db.items()) == model
        db.compact_range()
        assert not db.verify().problems
        assert dict(db.items()) == model
        assert db.multi_get(sorted(model)) == [model[name] for name in sorted(model)]


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_blocks_do_not_grow_by_being_copied_again(
    tmp_path: Path, compression: lsmkv.options.Compression
) -> None:
    draw = random.Random(1)
    options = lsmkv.Options(background="thread", compression=compression, filter_policy="bloom")
    with lsmkv.open(tmp_path / "store", options) as db:
        for number in range(10_000):
            db[key(number)] = draw.randbytes(20) + bytes(60)
        db.compact_range()
        for _ in range(20):
            for number in range(0, 10_000, 2500):
                db[key(number)] = draw.randbytes(draw.randrange(200))
            db.compact_range()
        (table,) = db.tables()
        longest = max(table.length_bytes(number) for number in range(table.block_count))
        assert longest < 3 * PAGE_BYTES
        copied_size = table.size_bytes
        db.compact_range(force=True)
        (table,) = db.tables()
        assert copied_size < table.size_bytes + 4 * 2 * PAGE_BYTES
