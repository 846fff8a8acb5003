"""The part ``metamorphic``, small, and planted defects that it must find."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import lsmkv
from lsmkv.api.snapshot import RangeItems
from torture.framework import compiled_build
from torture.framework.compiled_build import VARIABLE, compiled_tree
from torture.framework.part import Failure, Outcome, Scale, Settings
from torture.framework.shrinking import shortest
from torture.metamorphic import part as metamorphic
from torture.metamorphic.other_build import Request, differences
from torture.metamorphic.part import PART
from torture.metamorphic.programs import Operation, program, shown
from torture.metamorphic.rounds import CHAINS, Size, names, session
from torture.metamorphic.sessions import Session, Shrinking, Tally, compare, model_digest

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


def test_a_failure_that_does_not_recur_is_reported_as_such(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = iter([False])
    really = lsmkv.DB.__bool__
    monkeypatch.setattr(
        lsmkv.DB, "__bool__", lambda self: really(self) if next(outcomes, True) else None
    )
    asked = [Operation("put", (b"k", b"v", False)), Operation("has_any")]
    wanted = Session(asked, [{}], is_ordered=True)
    found = compare(wanted, directory / "store", Tally())
    assert found is not None
    assert not Shrinking(wanted, found, directory / "store").shrink(time.monotonic() + 5)


def test_an_unknown_session_name_is_an_error(directory: Path) -> None:
    for name in ("x", "1", f"1/{CHAINS}", "compiled/x"):
        assert "is not a ROUND/CHAIN" in run(directory, name).failures[0].what


# --- programs ---


def test_the_same_seed_makes_the_same_sessions() -> None:
    for name in names(5):
        assert session(name, 1, 100, True) == session(name, 1, 100, True)
    assert session("5/1", 1, 100, True) != session("5/1", 2, 100, True)


def test_sessions_of_a_round_do_the_same_under_other_options() -> None:
    default, *others = [session(name, 1, 100, True) for name in names(3)]
    assert default.sets == [{}]
    assert all(other.operations == default.operations for other in others)
    assert all(any(other.sets) for other in others)


def test_programs_have_every_operation_and_every_kind_of_key() -> None:
    written = [step for number in range(20) for step in program(str(number), 500)]
    assert len({step.kind for step in written}) == 28
    puts = [step.arguments for step in written if step.kind == "put"]
    assert any(key == b"" for key, _, _ in puts)
    assert any(value == b"" for _, value, _ in puts)
    assert any(len(value) > 10_000 for _, value, _ in puts)
    assert any(len(key) > 1000 for key, _, _ in puts)


def test_direct_reads_are_left_out_where_there_are_none() -> None:
    drawn = [session(f"{number}/2", 1, 50, True).sets for number in range(20)]
    kept = [session(f"{number}/2", 1, 50, False).sets for number in range(20)]
    assert any("direct_reads" in one for sets in drawn for one in sets)
    assert not any("direct_reads" in one for sets in kept for one in sets)


def test_long_values_are_shown_short() -> None:
    assert shown(b"7:" + b"v" * 100) == "b'7:' + b'v' * 100"
    assert shown([(b"k", None)]) == "[(b'k', None)]"
    assert len(shown(bytes(range(256)) * 9)) < 120
    assert shown(list(range(100))).endswith("7, ... 100 in all]")


# --- shrinking ---


def test_shrinking_leaves_what_the_failure_needs_in_order() -> None:
    found = shortest(range(200), lambda some: {3, 77, 150} <= set(some), time.monotonic() + 60)
    assert found == [3, 77, 150]


def test_shrinking_ends_at_its_deadline() -> None:
    assert shortest(range(9), lambda _: True, time.monotonic()) == list(range(9))


def test_arguments_of_operations_are_shrunk_too(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lsmkv.DB, "multi_get", lambda self, keys: [b"v"] * len(keys))
    changes = [(b"%d" % number, b"w") for number in range(20)]
    asked = [Operation("batch", (changes, True)), Operation("multi_get", ([b"3", b"5", b"7"],))]
    wanted = Session(asked, [{"compaction": "tiered"}], is_ordered=True)
    found = compare(wanted, directory / "store", Tally())
    assert found is not None
    smallest = Shrinking(wanted, found, directory / "store")
    assert smallest.shrink(time.monotonic() + 20)
    assert smallest.session.described() == "open(); multi_get([b'7'])"


# --- another build ---


def request(directory: Path) -> Request:
    return Request(
        round_number=1, seed=1, operations=80, directs=False, shrinking_s=4.0,
        directory=str(directory),
    )  # fmt: skip


def test_the_digest_of_right_answers_is_the_store_s(directory: Path) -> None:
    wanted, tally = session("1/1", 1, 80, False), Tally(digests=True)
    assert compare(wanted, directory / "store", tally) is None
    assert tally.digest == model_digest(wanted)


def test_another_build_with_a_defect_is_found_out(directory: Path) -> None:
    tree = directory / "tree"
    shutil.copytree(ROOT / "lsmkv", tree / "lsmkv", ignore=shutil.ignore_patterns("*.so"))
    assert differences(tree, request(directory)) == []
    reads = tree / "lsmkv" / "api" / "snapshot.py"
    reads.write_text(reads.read_text() + "\nStoreReader.multi_get = lambda self, keys: []\n")
    found = differences(tree, request(directory))
    assert len(found) == CHAINS
    assert "multi_get(" in found[0]


def test_without_a_compiled_build_the_reason_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if list((ROOT / "lsmkv").glob("**/*.so")):
        assert "what runs here already" in compiled_tree()[1]
        return
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert compiled_tree() == (
        None,
        f"compiled build: none in the folder of {VARIABLE} (make build/compiled, or set {VARIABLE})",
    )
    (tmp_path / "lsmkv").mkdir()
    (tmp_path / "lsmkv" / "log.so").touch()
    assert "was made from another lsmkv/__init__.py" in compiled_tree()[1]
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr(compiled_build, "_DEFAULT", ROOT / "build" / "nowhere")
    assert "none in build/nowhere" in compiled_tree()[1]
