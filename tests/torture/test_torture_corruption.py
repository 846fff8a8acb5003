"""The part ``corruption``, small, and planted defects that it must find."""

from __future__ import annotations

import dataclasses
import os
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from lsmkv.encoding.words import COMPILED
from lsmkv.salvage.repair import repair
from lsmkv.salvage.report import RepairReport
from lsmkv.sstable.block import trailer
from torture.corruption import part as corruption
from torture.corruption.part import PART, Trials, names
from torture.corruption.samples import Sample, make_samples
from torture.framework.child_trials import Limits, Verdict, attempt, run_trials
from torture.framework.part import Outcome, Scale, Settings

pytestmark = pytest.mark.slow  # `make test` tests the store, not its testers


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sample]:
    return make_samples(tmp_path_factory.mktemp("made"), 1)


def settings(directory: Path, replay: str | None = None, time_limit_s: float = 60.0) -> Settings:
    return Settings(Scale.CI, time_limit_s, 1, directory, replay)


def replayed(directory: Path, name: str) -> Outcome:
    return PART.run(settings(directory, name))


# --- the store ---


def test_a_part_of_all_damage_does_no_harm(samples: dict[str, Sample], tmp_path: Path) -> None:
    trials = Trials(samples)
    tried = 0
    for name in islice(names(samples, settings(tmp_path)), 7, None, 40):
        counts, failures = attempt(trials, name, tmp_path)
        assert not failures, name
        tried += counts.get("trials", 0)
    assert tried > 400


def test_the_part_runs_in_processes_of_its_own(tmp_path: Path) -> None:
    for limit_s in (2.0, 8.0, 32.0):  # a busy machine tries few in a short time
        outcome = PART.run(settings(tmp_path, time_limit_s=limit_s))
        assert not outcome.failures
        if outcome.counts["trials"] > 20:
            break
    assert outcome.counts["trials"] > 20


# --- the checker ---


@pytest.mark.skipif(COMPILED, reason="this build is compiled: its checksums cannot be replaced")
def test_a_store_without_block_checksums_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trailer, "short_checksum", lambda _data, _seed: 0)
    made = make_samples(tmp_path / "made", 1)
    file, table = next(iter(made["closed"].tables.items()))
    trials = Trials(made)
    wanted = {"nothing allowed holds", "neither reading nor verify noticed"}
    for at in range(table.blocks[0].filter_start):
        said = "; ".join(attempt(trials, f"closed/read/flip:{file}:{at}:0", tmp_path)[1])
        wanted -= {words for words in wanted if words in said}
        if not wanted:
            break
    assert wanted == set()


def test_a_report_of_repair_that_is_off_by_one_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*arguments: Any, **named: Any) -> RepairReport:
        report = repair(*arguments, **named)
        return dataclasses.replace(report, entries_kept=report.entries_kept + 1)

    name = "closed/repair/flip:000005.sst:30:0"
    assert not replayed(tmp_path / "a", name).failures
    monkeypatch.setattr(corruption, "repair", wrong)
    (failure,) = replayed(tmp_path / "b", name).failures
    assert "entries reported kept" in failure.what
    assert failure.replay == name


def test_a_repair_that_loses_what_is_whole_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(store: Path, output: Path | None, *, in_place: bool) -> RepairReport:
        os.remove(store / "000011.sst")
        return repair(store, output, in_place=in_place)

    monkeypatch.setattr(corruption, "repair", forgetful)
    (failure,) = replayed(tmp_path, "closed/repair/flip:000005.sst:30:0").failures
    assert "the repaired store: " in failure.what and " have a wrong value" in failure.what


# --- isolation ---


def misbehave(name: str, _directory: Path) -> Verdict:
    if name == "hang":
        time.sleep(60)
    elif name == "crash":
        os._exit(9)
    elif name == "devour":
        bytearray(4 << 30)
    elif name == "raise":
        raise LookupError("nobody expected this")
    return {"trials": 1}, []


def test_hangs_crashes_and_excessive_memory_are_failures_of_their_trials(tmp_path: Path) -> None:
    wanted = ["good", "hang", "good 2", "crash", "devour", "raise", "good 3"]
    limits = Limits(time_s=0.5, memory_bytes=256 << 20)
    found = dict(run_trials(misbehave, wanted, tmp_path, limits, time.monotonic() + 60))
    assert list(found) == wanted
    assert {name for name, (_, failures) in found.items() if not failures} == {
        "good", "good 2", "good 3",
    }  # fmt: skip
    assert "did not end" in found["hang"][1][0]
    assert "died" in found["crash"][1][0]
    assert "MemoryError" in found["devour"][1][0]
    assert "LookupError" in found["raise"][1][0]
