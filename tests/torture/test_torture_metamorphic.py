"""The part ``metamorphic``, small, and planted defects that it must find."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import lsmkv
from lsmkv.api.snapshot import RangeItems
from torture.framework.part import Failure, Outcome, Scale, Settings
from torture.metamorphic import part as metamorphic
from torture.metamorphic.other_build import Request, differences
from torture.metamorphic.part import PART
from torture.metamorphic.programs import program
from torture.metamorphic.rounds import CHAINS, Size

pytestmark = pytest.mark.slow  # `make test` tests the store, not its testers

ROOT = Path(__file__).parents[2]
TINY = Size(rounds=3, operations=250, compiled_every=3, shrinking_s=5.0)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metamorphic, "SIZES", {Scale.CI: TINY})


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A directory for stores, in memory if possible.

    Hundreds of stores are made there, and each syncs often.
    """
    memory = Path("/dev/shm")
    within = memory if memory.is_dir() and os.access(memory, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(prefix="lsmkv-test-", dir=within) as path:
        yield Path(path)


def run(directory: Path, replay: str | None = None) -> Outcome:
    return PART.run(Settings(Scale.CI, 60.0, 1, directory, replay))


# --- the store ---


def test_a_short_run_finds_nothing(directory: Path) -> None:
    outcome = run(directory)
    assert not outcome.failures
    assert outcome.counts["sessions"] == TINY.rounds * CHAINS
    assert outcome.counts["answers compared"] > 1000
    assert outcome.counts["compactions"] > 10


# --- the checker ---


def finds_and_replays(directory: Path) -> Failure:
    """The first failure, after it was replayed."""
    failure = run(directory).failures[0]
    again = run(directory, failure.replay)
    assert [found.replay for found in again.failures] == [failure.replay]
    return failure


def test_a_wrong_answer_under_some_option_is_found_made_small_and_replayed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = lsmkv.DB.get

    def wrong(self: lsmkv.DB, key: bytes, default: Any = None) -> Any:
        value = really(self, key, default)
        return None if self.options.compaction == "tiered" else value

    monkeypatch.setattr(lsmkv.DB, "get", wrong)
    failure = finds_and_replays(directory)
    assert "gave None instead of b'" in failure.what
    assert " operations and 1 options after" in failure.what
    left = failure.what.partition("; shrunk to ")[2]
    assert int(left.split()[0]) <= 3
    assert "compaction='tiered'" in failure.what.partition(" tries: ")[2]


def test_a_wrong_order_is_found_whatever_the_options(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = RangeItems.__iter__
    monkeypatch.setattr(RangeItems, "__iter__", lambda self: iter(list(really(self))[::-1]))
    failure = finds_and_replays(directory)
    assert failure.replay == "0/0"
    assert " 0 options after" in failure.what


def test_a_snapshot_that_shows_the_present_is_found(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def present(self: lsmkv.Snapshot, key: bytes) -> bytes | None:
        return cast(lsmkv.DB, self._owner).get(key)

    monkeypatch.setattr(lsmkv.Snapshot, "_lookup", present)
    what = finds_and_replays(directory).what
    assert "take_snapshot(" in what.partition(" tries: ")[2]


def test_an_error_is_a_wrong_answer(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: lsmkv.DB, key: object) -> bool:
        raise OSError("the disk is gone")

    monkeypatch.setattr(lsmkv.DB, "__contains__", broken)
    assert "gave OSError: the disk is gone instead of" in finds_and_replays(directory).what


# --- programs ---


def test_programs_have_every_operation_and_every_kind_of_key() -> None:
    written = [step for number in range(20) for step in program(str(number), 500)]
    assert len({step.kind for step in written}) == 29
    puts = [step.arguments for step in written if step.kind == "put"]
    assert any(key == b"" for key, _, _ in puts)
    assert any(value == b"" for _, value, _ in puts)
    assert any(len(value) > 10_000 for _, value, _ in puts)
    assert any(len(key) > 1000 for key, _, _ in puts)


# --- another build ---


def request(directory: Path) -> Request:
    return Request(
        round_number=1, seed=1, operations=80, directs=False, shrinking_s=4.0,
        directory=str(directory),
    )  # fmt: skip


def test_another_build_with_a_defect_is_found_out(directory: Path) -> None:
    tree = directory / "tree"
    shutil.copytree(ROOT / "lsmkv", tree / "lsmkv", ignore=shutil.ignore_patterns("*.so"))
    assert differences(tree, request(directory)) == []
    reads = tree / "lsmkv" / "api" / "snapshot.py"
    reads.write_text(reads.read_text() + "\nStoreReader.multi_get = lambda self, keys: []\n")
    found = differences(tree, request(directory))
    assert len(found) == CHAINS
    assert "multi_get(" in found[0]
