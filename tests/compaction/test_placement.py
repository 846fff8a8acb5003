"""Places of adopted tables: as deep as they fit, and never below anything that they overlap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lsmkv.compaction.picker import LEVELED_RUN
from lsmkv.compaction.placement import places
from lsmkv.options import MIB, Options
from lsmkv.sstable.format import TableMeta
from lsmkv.tree.levels import Levels, PlacedTable

LEVELED = Options(level1_size_bytes=10 * MIB)
TIERED = LEVELED.replace(compaction="tiered")


def table(number: int, low: int, high: int, size_bytes: int = MIB) -> TableMeta:
    return TableMeta(
        number=number,
        size_bytes=size_bytes,
        smallest=b"%03d" % low,
        largest=b"%03d" % high,
        smallest_seq=0,
        largest_seq=0,
        entry_count=1,
        tombstone_count=0,
    )


def tree(*placed: tuple[int, int, TableMeta]) -> Levels:
    return Levels().changed([PlacedTable(*each) for each in placed], [])


def test_an_empty_tree_takes_tables_on_level_1() -> None:
    new = [table(1, 0, 9), table(2, 10, 19)]
    assert places(Levels(), LEVELED, new) == [(1, LEVELED_RUN)] * 2
    assert places(Levels(), TIERED, new) == [(1, None)] * 2


def test_more_than_level_1_should_hold_goes_deeper() -> None:
    new = [table(number, number, number, 6 * MIB) for number in range(3)]
    assert places(Levels(), LEVELED, new) == [(2, LEVELED_RUN)] * 3


def test_a_table_stays_above_what_it_overlaps() -> None:
    levels = tree((1, 0, table(1, 0, 9)), (3, 0, table(2, 0, 99)))
    assert places(levels, LEVELED, [table(9, 50, 60)]) == [(2, LEVELED_RUN)]
    assert places(levels, LEVELED, [table(9, 5, 6)]) == [(0, None)]
    assert places(levels, LEVELED, [table(9, 100, 101)]) == [(3, LEVELED_RUN)]


def test_level_0_counts_too() -> None:
    levels = tree((0, 7, table(1, 0, 9)), (1, 0, table(2, 20, 29)))
    assert places(levels, LEVELED, [table(9, 5, 12), table(8, 13, 14)]) == [(0, None), (1, 0)]


def test_a_tiered_tree_takes_a_table_into_the_oldest_run_that_it_fits_into() -> None:
    levels = tree((1, 9, table(1, 0, 9)), (1, 5, table(2, 20, 29)), (2, 3, table(3, 40, 49)))
    assert places(levels, TIERED, [table(9, 30, 31)]) == [(2, 3)]
    assert places(levels, TIERED, [table(9, 40, 41)]) == [(1, 5)]
    assert places(levels, TIERED, [table(9, 20, 21)]) == [(1, 9)]
    assert places(levels, TIERED, [table(9, 0, 1)]) == [(0, None)]


tables = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 40), st.integers(0, 5)),
    max_size=10,
)


@given(tables, st.integers(0, 40), st.integers(0, 5), st.sampled_from(["leveled", "tiered"]))
def test_nothing_at_or_above_a_place_overlaps(
    drawn: list[tuple[int, int, int, int]], low: int, length: int, style: str
) -> None:
    levels = Levels()
    for number, (level, run, at, width) in enumerate(drawn, 1):
        own = run if style == "tiered" else 0
        placed = PlacedTable(level, own, table(number, at, at + width))
        try:
            levels = levels.changed([placed], [])
        except ValueError:  # it overlaps one of its run
            continue
    options = LEVELED.replace(compaction=style)
    new = table(99, low, low + length)
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
