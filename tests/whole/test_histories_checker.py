"""The checker of histories finds each anomaly in a history that has it, and none elsewhere."""

from __future__ import annotations

import pytest

from histories import Done, List, anomalies

X, Y = b"x", b"y"

History = tuple[list[Done], dict[bytes, List]]

SOUND: dict[str, History] = {
    "nothing": ([], {}),
    "one after the other": (
        [
            Done(1, 0, 1, gets={X: ()}, appends=[(X, 1)]),
            Done(2, 2, 3, gets={X: (1,)}, appends=[(X, 2)]),
            Done(3, 4, 5, gets={X: (1, 2)}, scans={Y: ()}),
        ],
        {X: (1, 2)},
    ),
    "at the same time, of different keys": (
        [Done(1, 0, 9, appends=[(X, 1)]), Done(2, 0, 9, appends=[(Y, 2)])],
        {X: (1,), Y: (2,)},
    ),
    "a discarded one": ([Done(1, 0, 1, committed=False, appends=[(X, 1)])], {}),
    "a reader of the past": (
        [Done(1, 0, 5, gets={X: ()}), Done(2, 1, 2, appends=[(X, 1)])],
        {X: (1,)},
    ),
}

BROKEN: dict[str, History] = {
    "G0": (
        [Done(1, 0, 9, appends=[(X, 1), (Y, 2)]), Done(2, 0, 9, appends=[(X, 3), (Y, 4)])],
        {X: (1, 3), Y: (4, 2)},
    ),
    "G1a": (
        [Done(1, 0, 9, committed=False, appends=[(X, 1)]), Done(2, 0, 9, gets={X: (1,)})],
        {},
    ),
    "G1c": (  # each read what the other wrote
        [
            Done(1, 0, 9, gets={Y: (2,)}, appends=[(X, 1)]),
            Done(2, 0, 9, gets={X: (1,)}, appends=[(Y, 2)]),
        ],
        {X: (1,), Y: (2,)},
    ),
    "lost update": (
        [
            Done(1, 0, 9, gets={X: ()}, appends=[(X, 1)]),
            Done(2, 0, 9, gets={X: ()}, appends=[(X, 2)]),
        ],
        {X: (2,)},
    ),
    "read skew": (
        [
            Done(1, 0, 9, appends=[(X, 1), (Y, 2)]),
            Done(2, 0, 9, gets={X: (1,), Y: ()}),
        ],
        {X: (1,), Y: (2,)},
    ),
    "write skew": (
        [
            Done(1, 0, 9, gets={X: (), Y: ()}, appends=[(X, 1)]),
            Done(2, 0, 9, gets={X: (), Y: ()}, appends=[(Y, 2)]),
        ],
        {X: (1,), Y: (2,)},
    ),
    "G2": (
        [
            Done(1, 0, 9, gets={X: ()}, appends=[(Y, 1)]),
            Done(2, 0, 9, gets={Y: ()}, appends=[(b"z", 2)]),
            Done(3, 0, 9, gets={b"z": ()}, appends=[(X, 3)]),
        ],
        {X: (3,), Y: (1,), b"z": (2,)},
    ),
    "phantom": (
        [
            Done(1, 0, 9, scans={X: (), Y: ()}, appends=[(X, 1)]),
            Done(2, 0, 9, scans={X: (), Y: ()}, appends=[(Y, 2)]),
        ],
        {X: (1,), Y: (2,)},
    ),
    "other order": ([Done(1, 0, 9, gets={X: (2, 1)})], {X: (1, 2)}),
    "repeated": ([Done(1, 0, 9, appends=[(X, 1)])], {X: (1, 1)}),
    "not in real time": (
        [Done(1, 0, 1, appends=[(X, 1)]), Done(2, 2, 3, gets={X: ()})],
        {X: (1,)},
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_history_has_no_anomaly(name: str) -> None:
    assert anomalies(*SOUND[name]) == []


@pytest.mark.parametrize("kind", BROKEN)
def test_an_anomaly_is_found_by_its_name(kind: str) -> None:
    assert kind in {found.kind for found in anomalies(*BROKEN[kind])}


def test_a_part_of_what_another_appended_is_found() -> None:  # G1b
    history = [Done(1, 0, 9, appends=[(X, 1), (X, 2)]), Done(2, 0, 9, gets={X: (1,)})]
    assert "G1c" in {found.kind for found in anomalies(history, {X: (1, 2)})}
