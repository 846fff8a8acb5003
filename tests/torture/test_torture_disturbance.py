"""Disturbances of torture runs, and the scenario ``refresh`` of the part ``load``."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from pathlib import Path

import pytest

from torture.framework import cli
from torture.framework.disturbance import KINDS, SHORTEST_SWITCH_INTERVAL_S, disturbed
from torture.framework.part import Scale, Settings, UnsoundError
from torture.load import part as load
from torture.load.refresh import GROUPS, KEYS, Checker, group_key, group_value
from torture.metamorphic import part as metamorphic
from torture.metamorphic.rounds import Size

pytestmark = pytest.mark.slow  # `make test` tests the store, not its testers

# --- disturbances ---


def test_disturbances_end_with_the_block() -> None:
    before = sys.getswitchinterval(), gc.get_threshold()
    threads = threading.active_count()
    with disturbed(tuple(KINDS), 1):
        assert sys.getswitchinterval() == pytest.approx(SHORTEST_SWITCH_INTERVAL_S)
        assert threading.active_count() == threads + 2
    assert (sys.getswitchinterval(), gc.get_threshold()) == before
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN  # a thread may take one late
    assert threading.active_count() == threads


def test_load_runs_disturbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "threads/thread"
    monkeypatch.setitem(load.SECONDS, name, (0.5, 0.0, 0.0))
    disturb = tuple(KINDS)
    outcome = load.PART.run(Settings(Scale.CI, 6.0, 1, tmp_path, f"{name}/1", disturb))
    assert not outcome.failures
    assert outcome.counts["threads: runs"] == 1


def test_metamorphic_runs_disturbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = Size(rounds=1, operations=150, compiled_every=3, shrinking_s=5.0)
    monkeypatch.setattr(metamorphic, "SIZES", {Scale.CI: size})
    outcome = metamorphic.PART.run(Settings(Scale.CI, 60.0, 1, tmp_path, "0/1", tuple(KINDS)))
    assert not outcome.failures
    assert outcome.counts["sessions"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["load", "--disturb", "noise"], "there are gc, switch, signal"),
        (["fuzz", "--disturb", "gc"], "fuzz cannot be, only metamorphic, load can"),
    ],
)
def test_a_disturbance_that_would_do_nothing_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


# --- what readers of a handle that is refreshed may find ---


def found_after(group: int, number: int) -> dict[bytes, bytes]:
    """The entries of a group after write ``number``."""
    values = ((group_key(group, at), group_value(group, at, number)) for at in range(KEYS))
    return {key: value for key, value in values if value is not None}


@pytest.fixture
def checker() -> Checker:
    """A checker with writes up to 10 done and 20 begun."""
    return Checker([10] * GROUPS, [20] * GROUPS)


def test_a_group_that_is_stale_or_from_the_future_is_found(checker: Checker) -> None:
    for number in (0, 9, 21):
        with pytest.raises(UnsoundError, match="group 3 matches no write from 10 to 20"):
            checker.see_group(3, found_after(3, number), checker.floor(3))


def test_a_batch_in_part_is_found(checker: Checker) -> None:
    torn = found_after(3, 12)
    torn |= {key: found_after(3, 13)[key] for key in list(found_after(3, 13))[:2]}
    missing = dict(list(found_after(3, 12).items())[1:])
    for found in (torn, missing, {}):
        with pytest.raises(UnsoundError, match="group 3"):
            checker.see_group(3, found, checker.floor(3))
