"""The plan of new tables' filters: stretches of keys, and what counts of lookups tell."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lsmkv.compaction.budget import _asks, _Counted, _joined, _stretches

amounts = st.just(0.0) | st.floats(0.001, 1e6)


@st.composite
def counted(draw: st.DrawFn) -> list[_Counted]:
    """Stretches of which some have no keys, and some no counts."""
    firsts = draw(st.lists(st.binary(max_size=3), min_size=1, max_size=20, unique=True))
    return [
        _Counted(first, draw(amounts), draw(amounts), draw(amounts)) for first in sorted(firsts)
    ]


@given(counted(), st.floats(1, 1e7))
def test_stretches_have_all_keys_and_none_is_empty(parts: list[_Counted], count: float) -> None:
    keys = sum(each.keys for each in parts)
    assume(keys)
    found = _stretches(parts, count)
    assert found[0].first == b""
    assert [each.first for each in found] == sorted({each.first for each in found})
    assert sum(each.keys for each in found) == pytest.approx(keys)
    assert min(each.keys for each in found) > 0
    assert len(found) <= max(1, count / 128)


def test_where_nothing_was_counted_is_taken_to_be_as_elsewhere() -> None:
    joined = _joined([_Counted(b"a", 300), _Counted(b"b", 100, absent=10, lookups=50)])
    assert joined.absent / joined.lookups == pytest.approx(4 * 10 / 50)
    assert joined.lookups == pytest.approx(50 / 4)


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
