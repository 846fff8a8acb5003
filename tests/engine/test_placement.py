"""Places of adopted tables: as deep as they fit, and never below anything that they overlap."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lsmkv.engine.placement import places
from lsmkv.options import MIB, CompactionStyle, Options
from lsmkv.sstable.format import TableMeta
from lsmkv.tree.levels import Levels, PlacedTable

LEVELED = Options(level1_size_bytes=10 * MIB)


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
