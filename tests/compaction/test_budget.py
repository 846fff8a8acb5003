"""What counts of lookups tell of new tables' filters."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lsmkv.compaction.budget import _asks


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
