"""Range deletes of one moment: what covers a key, and what is left between them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lsmkv.encoding.range_deletes import RangeDelete, RangeDeletes

KEYS = [b"", b"a", b"a\0", b"b", b"c", b"d", b"\xff"]
bounds = st.sampled_from(KEYS)
stops = st.none() | bounds
deletes = st.lists(
    st.tuples(bounds, stops, st.integers(1, 9)).filter(
        lambda each: each[1] is None or each[0] < each[1]
    ),
    min_size=1,
    max_size=8,
)


def covers(each: RangeDelete, key: bytes) -> bool:
    return each[0] <= key and (each[1] is None or key < each[1])


@given(deletes, st.integers(0, 10))
def test_the_newest_range_over_a_key_is_found_as_of_each_moment(
    ranges: list[RangeDelete], moment: int
) -> None:
    known = RangeDeletes(tuple(ranges))
    for key in KEYS:
        seqs = [each[2] for each in ranges if covers(each, key) and each[2] <= moment]
        assert known.newest_over(key, moment) == max(seqs, default=0)
    older = known.as_of(moment)
    left = [each for each in ranges if each[2] <= moment]
    assert ([] if older is None else list(older.ranges)) == left


@given(deletes, deletes, deletes)
def test_ranges_that_are_added_count_as_if_all_had_been_there(
    first: list[RangeDelete], more: list[RangeDelete], last: list[RangeDelete]
) -> None:
    ranges = [
        (start, stop, number // 2 + 1)  # some in one batch
        for number, (start, stop, _) in enumerate([*first, *more, *last])
    ]
    known = RangeDeletes(tuple(ranges[: len(first)]))
    known.followed_by(tuple(ranges[len(first) : len(first) + len(more)]))
    known.followed_by(((b"a", None, 99),))  # another reader's
    known.followed_by(tuple(ranges[len(first) : len(first) + len(more)]))
    grown, whole = known.followed_by(tuple(ranges[len(first) :])), RangeDeletes(tuple(ranges))
    assert grown.ranges == whole.ranges
    for above in range(len(ranges)):
        assert grown.gaps(None, None, above) == whole.gaps(None, None, above)
    for key in KEYS:
        assert grown.newest_over(key, 99) == whole.newest_over(key, 99)


def test_adding_to_many_ranges_sorts_nothing_anew() -> None:
    known = RangeDeletes(tuple([(b"%05d" % n, b"%05d!" % n, n + 1) for n in range(2000)]))
    assert known.newest_over(b"00007", 2000) == 8
    newer: tuple[RangeDelete, ...] = ()
    for number in range(100):
        newer += ((b"%05d" % number, b"%05d!" % number, 2001 + number),)
        grown = known.followed_by(newer)
        assert len(grown._borders) >= 4000, "they are made already"
    assert grown.newest_over(b"00007", 9999) == 2008


@given(deletes, st.none() | bounds, stops, st.integers(0, 9))
def test_gaps_are_what_no_newer_range_covers(
    ranges: list[RangeDelete], start: bytes | None, stop: bytes | None, above: int
) -> None:
    known = RangeDeletes(tuple(ranges))
    gaps = known.gaps(start, stop, above)
    inside = [key for key in KEYS if key >= (start or b"") and (stop is None or key < stop)]
    for key in inside:
        is_covered = any(covers(each, key) for each in ranges if each[2] > above)
        assert sum(low <= key and (high is None or key < high) for low, high in gaps) == (
            not is_covered
        )
    ends = [key for gap in gaps for key in gap if key is not None]
    assert ends == sorted(set(ends)), "they ascend, and do not touch"
    if inside:
        assert known.touches(start, stop, above) == (gaps != [(start or b"", stop)])
