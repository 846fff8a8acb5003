"""The part ``fuzz``, small, kept inputs, and planted defects."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import lsmkv
from torture.framework.part import Scale, Settings, UnsoundError
from torture.fuzz import hostile_stores
from torture.fuzz import part as fuzz
from torture.fuzz.mutation import mutated
from torture.fuzz.part import PART, TARGETS, trial
from torture.fuzz.target import DOCUMENTED, Target, execute, execute_measured

pytestmark = pytest.mark.slow  # `make test` tests the store, not its testers


def settings(directory: Path, replay: str | None = None) -> Settings:
    return Settings(Scale.CI, 20.0, 1, directory, replay)


# --- the decoders ---


def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    outcome = PART.run(settings(tmp_path))
    assert not outcome.failures
    assert all(outcome.counts[f"{name}: tried"] for name in TARGETS)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_seeds_and_inputs_that_once_went_wrong_are_taken_as_they_should_be(
    name: str, tmp_path: Path
) -> None:
    counts, failures = trial(f"{name}/kept", tmp_path)
    assert not failures
    assert counts[f"{name}: decoded"] > 0


@pytest.mark.parametrize("name", ["frame", "log", "table", "saved-filter"])
def test_sealing_gets_mutations_behind_the_checksums(name: str) -> None:
    """Otherwise only the checksum tests would be tried."""
    target = TARGETS[name]
    seed = target.seeds()[0]
    dice = random.Random(1)
    inputs = [mutated([seed], (), dice) for _ in range(300)]
    decoded = [sum(execute(target, data)[0] for data in inputs)]
    decoded.append(sum(execute(target, target.seal(data))[0] for data in inputs))
    assert decoded[1] > decoded[0] + 5


# --- the checker ---


def broken(data: bytes) -> None:
    """A decoder with several defects, each behind a byte or two."""
    if data[0] == 1:
        raise IndexError("out of range")
    if data[:2] == b"\x02\x02":
        bytearray(64 << 20)
    if data[:1] == b"\x03":
        raise UnsoundError("two and two are five")
    if data[:1] == b"\x04":
        raise DOCUMENTED[0]("path", 0, "as documented")


BROKEN = Target("broken", broken, lambda: [b"\x05\x05\x05\x05"])


def test_errors_that_are_not_documented_are_failures() -> None:
    assert "IndexError" in str(execute(BROKEN, b"\x01")[1])
    assert "two and two" in str(execute(BROKEN, b"\x03")[1])
    assert execute(BROKEN, b"\x04") == (False, None)
    assert execute(BROKEN, b"\x05") == (True, None)


def test_memory_out_of_proportion_is_a_failure() -> None:
    assert "bytes of memory" in str(execute_measured(BROKEN, b"\x02\x02")[1])
    assert execute_measured(BROKEN, b"\x02")[1] is None


def test_a_defect_is_found_cut_short_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "TARGETS", {"broken": BROKEN})
    (tmp_path / "run").mkdir()
    failures = PART.run(settings(tmp_path / "run")).failures
    index_errors = [failure for failure in failures if "IndexError" in failure.what]
    assert index_errors
    replay = index_errors[0].replay
    assert replay in ("broken/hex:01", "broken/hex:")  # an empty input has no first byte
    assert PART.run(settings(tmp_path, replay)).failures


# --- whole stores ---


def test_stores_with_wrong_fields_are_answered_or_refused(tmp_path: Path) -> None:
    counts, failures = trial("store/tests/6", tmp_path)
    assert failures == []
    assert counts["store: some call refused"] > 0


def test_an_undocumented_error_is_found_and_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_db: lsmkv.DB) -> None:
        raise IndexError("out of range")

    monkeypatch.setattr(hostile_stores, "_moved_cursor", fails)
    failure, *_ = trial("store/tests/6", tmp_path)[1]
    assert "cursor: IndexError is not a documented error" in failure
    replay = failure.rpartition("[")[2].rstrip("]")
    assert trial(replay, tmp_path)[1] == [failure]
