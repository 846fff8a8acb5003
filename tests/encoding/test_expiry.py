"""Times to live and times of expiry: what is taken, and when an entry is due."""

from __future__ import annotations

import math

import pytest

from clocks import SetClock
from lsmkv.encoding.expiry import (
    EXPIRY_BYTES,
    MAX_EXPIRY_S,
    Clock,
    Expiring,
    Moment,
    expiring_in,
)


@pytest.mark.parametrize("wrong", [True, "60", b"60", [60], 1j])
@pytest.mark.parametrize("name", ["ttl_s", "expires_at"])
def test_what_is_no_number_of_seconds_is_refused_by_name(name: str, wrong: object) -> None:
    given = {"ttl_s": None, "expires_at": None, name: wrong}
    with pytest.raises(TypeError, match=f"{name} is a number of seconds"):
        Clock().expiry_s(**given)


@pytest.mark.parametrize("wrong", [0, 0.0, -1, -math.inf, math.nan])
@pytest.mark.parametrize("name", ["ttl_s", "expires_at"])
def test_no_seconds_and_fewer_are_refused(name: str, wrong: float) -> None:
    given = {"ttl_s": None, "expires_at": None, name: wrong}
    with pytest.raises(ValueError, match=f"{name}={wrong!r}: give more than 0"):
        Clock().expiry_s(**given)


@pytest.mark.parametrize("wrong", [MAX_EXPIRY_S + 1, 1e300, 10**400])
@pytest.mark.parametrize("name", ["ttl_s", "expires_at"])
def test_what_is_due_beyond_the_limit_is_refused(name: str, wrong: float) -> None:
    given = {"ttl_s": None, "expires_at": None, name: wrong}
    with pytest.raises(ValueError, match=r"beyond the limit of .* math\.inf is never"):
        Clock().expiry_s(**given)


def test_a_time_to_live_and_a_time_of_expiry_are_one_too_many() -> None:
    with pytest.raises(ValueError, match="ttl_s=5 and expires_at=6: give one"):
        Clock().expiry_s(5, 6)


def test_the_latest_expiry_is_stored_as_it_is() -> None:
    held = Expiring(b"v", MAX_EXPIRY_S)
    found = expiring_in(b"x" + held.stored(), 1, 1 + EXPIRY_BYTES + 1)
    assert (found.value, found.expires_at_s) == (b"v", MAX_EXPIRY_S)


@pytest.mark.parametrize(
    ("ttl_s", "expires_at", "due_s"),
    [(0.4, None, 1000), (0.6, None, 1001), (60, None, 1060), (None, 1060.9, 1060)],
)
def test_fractions_of_a_second_are_left_out(
    ttl_s: float | None, expires_at: float | None, due_s: int
) -> None:
    assert Clock(SetClock(1000.5)).expiry_s(ttl_s, expires_at) == due_s


@pytest.mark.parametrize(("ttl_s", "due_s"), [(None, 1030), (5, 1005), (math.inf, None)])
def test_the_default_time_to_live_counts_where_none_is_given(
    ttl_s: float | None, due_s: int | None
) -> None:
    assert Clock(SetClock(), 30).expiry_s(ttl_s, None) == due_s


def test_an_entry_is_there_until_the_second_in_which_it_is_due() -> None:
    clock = SetClock(1059.999)
    held = Expiring(b"v", 1060)
    assert Moment(Clock(clock)).value_of(held) == b"v"
    clock.now_s = 1060.0
    assert Moment(Clock(clock)).value_of(held) is None


def test_a_moment_reads_the_clock_once_and_only_for_what_expires() -> None:
    readings: list[float] = []

    def read() -> float:
        readings.append(1000.0 + len(readings))
        return readings[-1]

    moment = Moment(Clock(read))
    assert moment.value_of(b"v") == b"v"
    assert readings == []
    assert [moment.value_of(Expiring(b"v", 1001)) for _ in range(2)] == [b"v", b"v"]
    assert readings == [1000.0]


def test_no_reading_is_before_what_was_dropped() -> None:
    clock = Clock(SetClock(1000.0))
    clock.dropped_to_s = 1060
    assert clock.now_s() == 1060
    assert clock.expiry_s(5, None) == 1065
