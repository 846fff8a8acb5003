"""The part ``objects``, small, and planted defects that it must find."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import lsmkv
from lsmkv.api.snapshot import RangeItems, RangeKeys, RangeValues
from torture.framework.part import Scale, Settings, UnsoundError
from torture.objects import copied, cycles, reentered, shared
from torture.objects import part as objects
from torture.objects.families import FAMILIES
from torture.objects.ground import LIVE, Bystander, Ground
from torture.objects.meddling import Meddler
from torture.objects.part import PART, examined
from torture.objects.trial import ObjectTrial

pytestmark = pytest.mark.slow  # `make test` tests the store, not its testers

_SECONDS: Final = 0.2
OPEN: Final = {
    "reentered/traced": "a trace function may come between taking a lock and naming its owner"
}
"""What fails still, and why: it is not run here, since it may take long to fail."""


def variants() -> Iterator[Any]:
    for family, names in FAMILIES.items():
        for variant in names:
            name = f"{family}/{variant}"
            marks = pytest.mark.xfail(reason=OPEN[name], run=False) if name in OPEN else ()
            yield pytest.param(name, marks=marks)


# --- the store ---


@pytest.mark.parametrize("name", list(variants()))
def test_a_short_run_of_each_variant_finds_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(objects.SECONDS, Scale.CI, _SECONDS)
    outcome = PART.run(Settings(Scale.CI, 60.0, 1, tmp_path, f"{name}/1"))
    assert [failure.what for failure in outcome.failures] == []
    family = name.partition("/")[0]
    assert outcome.counts[f"{family}: trials"] == 1
    assert len(outcome.counts) > 1
    assert not list(tmp_path.rglob("*.sst"))


# --- the process of a trial ---


def ending(program: str, directory: Path, limit_s: float = 60.0) -> str:
    """The only failure of a trial whose process runs ``program``."""
    command = [sys.executable, "-X", "faulthandler", "-c", program]
    counts, (failure,) = examined(command, dict(os.environ), directory, limit_s)
    assert not counts
    return failure


def test_a_hang_is_reported_with_its_stack(tmp_path: Path) -> None:
    program = (
        "import faulthandler, threading\n"
        "faulthandler.dump_traceback_later(0.2, exit=True)\n"
        "def here(): threading.Lock().acquire() and threading.Event().wait()\nhere()"
    )
    what = ending(program, tmp_path)
    assert what.startswith("the process hung") and "in here" in what


# --- the checkers ---


@pytest.fixture
def trial(tmp_path: Path) -> ObjectTrial:
    return ObjectTrial("planted", 1, tmp_path, 1.0)


@pytest.fixture
def ground(trial: ObjectTrial) -> Iterator[Ground]:
    made = trial.ground()
    yield made
    made.db.close()


def test_a_store_with_wrong_entries_is_found(ground: Ground) -> None:
    ground.check()
    ground.db.delete(next(iter(ground.model)))
    with pytest.raises(UnsoundError, match="a new scan gives"):
        ground.check()


def test_an_iterator_with_wrong_entries_is_found(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = RangeItems.__iter__
    monkeypatch.setattr(
        RangeItems, "__iter__", lambda self: itertools.islice(really(self), 1, None)
    )
    bystander = Bystander(ground)
    with pytest.raises(UnsoundError, match="an iterator nobody touched"):
        for _ in range(50):
            bystander.step()


def test_a_wrong_answer_to_the_meddler_is_found(
    trial: ObjectTrial, ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lsmkv.DB, "get", lambda self, key: b"another")
    meddler = Meddler(trial, ground)
    while not trial.failures and meddler.times < 1000:
        meddler.meddle()
    assert "get gives b'another'" in trial.failures[0]


class Twice:
    def __init__(self, iterator: Iterator[Any]) -> None:
        self._iterator = iterator
        self._again: list[Any] = []
        self._lock = threading.Lock()  # the layers below are not tested here

    def __iter__(self) -> Twice:
        return self

    def __next__(self) -> Any:
        with self._lock:
            if self._again:
                return self._again.pop()
            item = next(self._iterator)
            self._again.append(item)
            return item


def test_a_shared_iterator_that_gives_an_entry_to_two_threads_is_found(
    trial: ObjectTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torture.objects.trial.Bystander", NoBystander)
    for view in (RangeKeys, RangeItems, RangeValues):
        for name in ("__iter__", "__reversed__"):
            really = getattr(view, name)
            monkeypatch.setattr(view, name, lambda self, really=really: Twice(really(self)))
    with pytest.raises(UnsoundError, match=r"to two threads|refused"):
        shared.share_iterators(trial)


class NoBystander:
    """Stands in for the bystander, which would find the defect first."""

    def __init__(self, ground: object) -> None: ...

    def step(self) -> None: ...


def test_a_copy_that_can_be_made_is_found(
    trial: ObjectTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lsmkv.Cursor, "__copy__", lambda self: self, raising=False)
    cursors = [specimen for specimen in LIVE if specimen.name == "cursor"]
    monkeypatch.setattr(copied, "LIVE", cursors)
    copied.copy_live(trial)
    assert "copy.copy of a cursor succeeded" in trial.failures


def test_a_copied_snapshot_that_shows_what_came_later_is_found(
    trial: ObjectTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_anew(self: lsmkv.Snapshot) -> lsmkv.Snapshot:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    monkeypatch.setattr(lsmkv.Snapshot, "__copy__", made_anew, raising=False)
    copied.copy_snapshots(trial)
    assert trial.failures == ["copy of a snapshot shows a later write"]


def test_a_buffer_that_is_not_copied_is_found(
    trial: ObjectTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = lsmkv.DB.put
    monkeypatch.setattr(lsmkv.DB, "put", lambda self, key, value: really(self, key, b"another"))
    with pytest.raises(UnsoundError, match="something else is stored"):
        reentered.give_buffers(trial)


def test_a_resurrected_iterator_that_starts_again_is_found(
    trial: ObjectTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Restarting:
        def __init__(self, view: RangeItems) -> None:
            self._view = view
            self._iterator = really(view)

        def __iter__(self) -> Iterator[Any]:
            return really(self._view)

        def __next__(self) -> Any:
            return next(self._iterator)

    really = RangeItems.__iter__
    monkeypatch.setattr("torture.objects.trial.Bystander", NoBystander)
    monkeypatch.setattr(RangeItems, "__iter__", lambda self: Restarting(self))
    with pytest.raises(UnsoundError, match="a resurrected iterator"):
        cycles.resurrect(trial)
    gc.collect()
