"""The tables that compactions write, and rules for all picks and places."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count, groupby
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from columns import as_columns, as_rows
from lsmkv.compaction.budget import _asks
from lsmkv.compaction.picker import PickState, output_error_rate, pick, pick_range
from lsmkv.encoding.entry_batch import EntryBatch
from lsmkv.engine.placement import places
from lsmkv.filters import monkey_error_rates
from lsmkv.options import MIB, CompactionStyle, Options
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.multi_writer import CancelledError, TableJob, write_tables
from lsmkv.sstable.reader import TableReader
from lsmkv.storage.storage import Storage
from lsmkv.tree.levels import Levels, PlacedTable
from lsmkv.tree.version_set import table_format
from made_trees import LAZY, LEVELED, TIERED, level0, table, tree

# --- error rates of what is written ---


def test_a_uniform_rate_is_given_to_every_table() -> None:
    uniform = LEVELED.replace(filter_allocation="uniform")
    assert output_error_rate(tree(level0(2)), (), 1000, uniform) == uniform.error_rate


MONKEY = LEVELED.replace(filter_allocation="monkey")


def test_monkey_gives_a_run_the_rate_of_its_size_among_all_runs() -> None:
    placed = {
        (0, 9): [table(9, "a", "z", entries=100)],
        (1, 0): [table(1, "a", "b", entries=600), table(2, "c", "d", entries=400)],
    }
    rate = output_error_rate(tree(placed), (), 10, MONKEY)
    assert rate == monkey_error_rates([10, 100, 1000], MONKEY.error_rate)[0]


def test_monkey_leaves_out_the_tables_that_are_replaced() -> None:
    placed = {(0, 9): [table(9, "a", "z", entries=100)], (1, 0): [table(1, "a", "b", entries=600)]}
    rate = output_error_rate(tree(placed), [9], 100, MONKEY)
    assert rate == monkey_error_rates([100, 600], MONKEY.error_rate)[0]


def test_monkey_counts_the_whole_run_that_new_tables_become_part_of() -> None:
    placed = {
        (1, 0): [table(1, "a", "b", entries=50)],
        (2, 0): [table(2, "a", "b", entries=60), table(3, "c", "d", entries=900)],
    }
    rate = output_error_rate(tree(placed), [1, 2], 110, MONKEY, (2, 0))
    assert rate == monkey_error_rates([1010], MONKEY.error_rate)[0]


# --- writing tables ---


def job(
    directory: Path, table_size_bytes: int, is_cancelled: Callable[[], bool] = lambda: False
) -> TableJob:
    form = table_format(Options(block_size_bytes=512, compression="none"), 0.01)
    return TableJob(
        Storage(), str(directory), form, table_size_bytes, count(1).__next__, is_cancelled
    )


def versions_of(sizes: list[tuple[int, int]], value: bytes) -> Iterator[EntryBatch]:
    for number, version_count in sizes:
        yield as_columns([(b"key%06d" % number, value, seq) for seq in range(version_count, 0, -1)])


def test_a_new_table_starts_at_the_table_size(tmp_path: Path) -> None:
    metas = write_tables(
        versions_of([(n, 1) for n in range(2000)], b"v" * 90), job(tmp_path, 16_384)
    )
    assert len(metas) > 5
    assert all(16_384 <= meta.size_bytes < 20_000 for meta in metas[:-1])


def test_tables_follow_each_other_and_hold_everything(tmp_path: Path) -> None:
    metas = write_tables(versions_of([(n, 1) for n in range(500)], b"v" * 90), job(tmp_path, 8192))
    cache = BlockCache(0, Storage().stats)
    found: list[bytes] = []
    for meta in metas:
        path = str(tmp_path / f"{meta.number:06}.sst")
        reader = TableReader(Storage(), path, cache, meta=meta, filter_residency="resident")
        for number in range(reader.index.block_count):
            found += reader.block(number, False).keys()
    assert found == [b"key%06d" % n for n in range(500)]


def test_a_new_table_starts_only_at_a_new_key(tmp_path: Path) -> None:
    sizes = [(1, 5), (2, 400), (3, 1), (4, 400), (5, 400)]
    metas = write_tables(versions_of(sizes, b"v" * 90), job(tmp_path, 4096))
    ranges = [(meta.smallest[-1:], meta.largest[-1:]) for meta in metas]
    assert ranges == [(b"1", b"2"), (b"3", b"4"), (b"5", b"5")]


@pytest.mark.parametrize("batch_keys", [1, 7, 2000])
def test_tables_do_not_depend_on_the_batches_of_their_entries(
    tmp_path: Path, batch_keys: int
) -> None:
    rows = as_rows(versions_of([(n, 1 + n % 3) for n in range(600)], b"v" * 90))
    keys = [list(group) for _, group in groupby(rows, key=lambda row: row[0])]
    batches = [
        as_columns([row for group in keys[at : at + batch_keys] for row in group])
        for at in range(0, len(keys), batch_keys)
    ]
    expected, found = tmp_path / "expected", tmp_path / "found"
    for directory, versions in ((expected, map(as_columns, keys)), (found, iter(batches))):
        directory.mkdir()
        write_tables(versions, job(directory, 8192))
    names = sorted(os.listdir(expected))
    assert len(names) > 5
    assert [(found / name).read_bytes() for name in sorted(os.listdir(found))] == [
        (expected / name).read_bytes() for name in names
    ]


def test_nothing_to_write_makes_no_table(tmp_path: Path) -> None:
    assert write_tables(iter(()), job(tmp_path, 4096)) == []
    assert os.listdir(tmp_path) == []


def test_a_cancelled_job_removes_what_it_wrote(tmp_path: Path) -> None:
    calls = count()
    with pytest.raises(CancelledError):
        write_tables(
            versions_of([(n, 1) for n in range(2000)], b"v" * 90),
            job(tmp_path, 8192, lambda: next(calls) > 10),
        )
    assert os.listdir(tmp_path) == []


def test_a_job_asks_before_each_stretch_whether_it_is_cancelled(tmp_path: Path) -> None:
    taken = count()

    def versions() -> Iterator[EntryBatch]:
        for batch in versions_of([(n, 1) for n in range(2000)], b"v" * 16_384):
            next(taken)
            yield batch

    calls = count()
    with pytest.raises(CancelledError):
        write_tables(versions(), job(tmp_path, 1 << 20, lambda: next(calls) > 0))
    assert next(taken) == 2


def test_an_error_while_merging_removes_what_was_written(tmp_path: Path) -> None:
    def versions() -> Iterator[EntryBatch]:
        yield from versions_of([(n, 1) for n in range(2000)], b"v" * 90)
        raise RuntimeError("a block is damaged")

    with pytest.raises(RuntimeError):
        write_tables(versions(), job(tmp_path, 8192))
    assert os.listdir(tmp_path) == []


@st.composite
def trees(draw: st.DrawFn) -> Levels:
    placed: dict[tuple[int, int], list[TableMeta]] = {}
    fresh = count(1)
    for level in range(draw(st.integers(1, 4))):
        for run in range(draw(st.integers(0, 3))):
            bounds = sorted(draw(st.sets(st.integers(10, 99), max_size=8)))
            metas = [
                table(next(fresh), str(low), str(high))
                for low, high in zip(bounds[::2], bounds[1::2], strict=False)
            ]
            if metas:
                placed[level, run + 1] = metas
    return tree(placed)


keys = st.none() | st.integers(10, 99).map(lambda number: str(number).encode())


@given(trees(), keys, keys)
def test_no_table_outside_a_picked_range_overlaps_it(
    any_tree: Levels, start: bytes | None, stop: bytes | None
) -> None:
    found = pick_range(any_tree, TIERED, start, stop)
    if found is None:
        return
    taken = found.tables()
    low = min(meta.smallest for meta in taken)
    high = max(meta.largest for meta in taken)
    overlapping = [meta for run in any_tree.runs() for meta in run.overlapping(low, high)]
    assert sorted(meta.number for meta in overlapping) == sorted(meta.number for meta in taken)


@given(trees(), st.sampled_from([LEVELED, TIERED, LAZY]))
def test_every_pick_leaves_newer_data_above_older(any_tree: Levels, options: Options) -> None:
    found = pick(any_tree, options, PickState())
    if found is None:
        return
    taken = {meta.number for meta in found.tables()}
    age = {meta.number: at for at, meta in enumerate(any_tree.tables())}  # 0 is the newest
    level_of = {placed.meta.number: placed.level for placed in any_tree.placed()}
    low = min(meta.smallest for meta in found.tables())
    high = max(meta.largest for meta in found.tables())
    for run in any_tree.runs():
        for meta in run.overlapping(low, high):
            if meta.number in taken:
                continue
            # A remaining table must not lie between the merged data and its new place.
            newest, oldest = min(age[n] for n in taken), max(age[n] for n in taken)
            if age[meta.number] > newest:
                assert level_of[meta.number] >= found.output_level
            if found.drop_deletions:
                assert age[meta.number] < oldest


def test_without_counts_a_part_is_asked_by_its_share_of_the_run() -> None:
    assert _asks(0.25, 0, 0) == pytest.approx(0.25)


@given(st.floats(0.001, 1), st.floats(1e5, 1e9))
def test_what_nobody_asked_counts_for_a_seventeenth_of_its_share(
    share: float, lookups: float
) -> None:
    assume(share * lookups > 128)
    assert _asks(share, 0, lookups) == pytest.approx(share / 17)


@given(st.floats(0.01, 1), st.floats(0.1, 10))
def test_many_counts_outweigh_the_prior(share: float, skew: float) -> None:
    lookups = 1e9
    assert _asks(share, share * skew * lookups, lookups) == pytest.approx(
        share * (16 * skew + 1) / 17
    )


def spanning(number: int, low: int, length: int) -> TableMeta:
    return table(number, f"{low:03}", f"{low + length:03}", size_bytes=MIB)


tables = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 40), st.integers(0, 5)),
    max_size=10,
)


@given(tables, st.integers(0, 40), st.integers(0, 5), st.sampled_from(["leveled", "tiered"]))
def test_nothing_at_or_above_a_place_overlaps(
    drawn: list[tuple[int, int, int, int]], low: int, length: int, style: CompactionStyle
) -> None:
    levels = Levels()
    for number, (level, run, at, width) in enumerate(drawn, 1):
        own = run if style == "tiered" else 0
        placed = PlacedTable(level, own, spanning(number, at, width))
        try:
            levels = levels.changed([placed], [])
        except ValueError:  # it overlaps one of its run
            continue
    options = Options(level1_size_bytes=10 * MIB, compaction=style)
    new = spanning(99, low, length)
    ((level, joined),) = places(levels, options, [new])
    if joined is None and level == 0:
        return
    for depth, runs in enumerate(levels.by_depth[: level + 1]):
        for each in runs:
            older = (
                depth == level and style == "tiered" and joined is not None and each.number < joined
            )
            assert older or not each.overlapping(new.smallest, new.largest)
    number = 100 if joined is None else joined
    levels.changed([PlacedTable(level, number, new)], [])  # raises if the run would overlap
