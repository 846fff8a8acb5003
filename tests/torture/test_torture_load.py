"""The part ``load``, small, and planted defects that it must find."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lsmkv
from time_limits import join
from torture.framework.part import Outcome, Scale, Settings, UnsoundError
from torture.framework.store_checks import Traces
from torture.load import part as load
from torture.load.clients import Reader, Writer, new_ledger
from torture.load.held_views import Held, check_held
from torture.load.ledger import Ledger, value_of
from torture.load.part import PART
from torture.load.scenario import SMALL, Job, check_tidy

pytestmark = pytest.mark.slow  # `make test` tests the store, not its testers

A, B, C = b"a", b"b", b"c"


def settings(directory: Path, replay: str | None = None) -> Settings:
    return Settings(Scale.CI, 6.0, 1, directory, replay)


def played(directory: Path, name: str) -> Outcome:
    return PART.run(settings(directory, name))


# --- the store ---


@pytest.mark.parametrize("name", [name for name, (at_ci, _, _) in load.SECONDS.items() if at_ci])
def test_a_run_of_each_variant_finds_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(load.SECONDS, name, (0.3, 0.0, 0.0))
    outcome = played(tmp_path, f"{name}/1")
    assert not outcome.failures
    scenario = name.partition("/")[0]
    assert outcome.counts[f"{scenario}: runs"] == 1
    assert len(outcome.counts) > 1
    assert not list(tmp_path.iterdir())


# --- runs that go wrong ---


def _hang(job: Job) -> None:
    threading.Thread(target=_wait_for_nothing, daemon=True).start()
    time.sleep(60)


def _wait_for_nothing() -> None:
    threading.Event().wait(60)


def test_a_hanging_run_is_reported_with_its_threads_stacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(load.SCENARIOS, "held", _hang)
    monkeypatch.setattr(load, "_PATIENCE_S", 0.5)
    monkeypatch.setitem(load.SECONDS, "held/thread", (0.0, 0.0, 0.0))
    (failure,) = played(tmp_path, "held/thread/1").failures
    assert "_hang" in failure.what and "_wait_for_nothing" in failure.what
    assert failure.replay == "held/thread/1"


def test_a_scenarios_finding_is_a_failure_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(job: Job) -> None:
        raise UnsoundError("found")

    def stumble(job: Job) -> None:
        raise lsmkv.CorruptionError("file", 3, "damaged")

    for scenario, said in ((find, "UnsoundError: found"), (stumble, "file at offset 3")):
        monkeypatch.setitem(load.SCENARIOS, "held", scenario)
        (failure,) = played(tmp_path, "held/thread/1").failures
        assert said in failure.what


# --- the ledger ---


@pytest.fixture
def ledger() -> Ledger:
    """A ledger of four writes.

    Write 1 sets all, 2 sets a and b, 3 deletes b, 4 sets a.
    """
    made = Ledger([A, B, C])
    for puts, deletions in (([A, B, C], []), ([A, B], []), ([], [B]), ([A], [])):
        made.begin(puts, deletions)
        made.acknowledge()
    return made


def history(**numbers: int) -> dict[bytes, bytes]:
    """Entries by key, each with the value of that write."""
    return {key.encode(): value_of(key.encode(), number) for key, number in numbers.items()}


TORN = [
    history(a=1, b=2, c=1),  # half a batch
    history(a=2, b=1, c=1),
    history(a=1, c=1),  # a deletion, without the batch before it
    history(a=4, b=2, c=1),  # a put, without the deletion before it
    history(a=4),  # without the first write's entries
    history(a=1),
]


@pytest.mark.parametrize("found", TORN)
def test_a_torn_batch_or_a_hole_is_found(ledger: Ledger, found: dict[bytes, bytes]) -> None:
    with pytest.raises(UnsoundError):
        ledger.check_cut(found, 0, 4)


# --- readers on stores that are not sound ---


@pytest.fixture
def db(tmp_path: Path) -> Iterator[lsmkv.DB]:
    with lsmkv.open(tmp_path / "store", SMALL) as opened:
        yield opened


def read_for_long(db: Any, ledgers: list[Ledger]) -> None:
    reader = Reader(db, ledgers, random.Random(1))
    for _ in range(300):
        reader.step()
    reader.end()


def test_a_reader_finds_that_an_acknowledged_write_is_lost(db: lsmkv.DB) -> None:
    ledger = new_ledger(0, 30)
    Writer(db, ledger, random.Random(1)).fill()
    db.delete(ledger.keys[7])
    with pytest.raises(UnsoundError):
        read_for_long(db, [ledger])


def test_a_reader_finds_that_a_batch_is_torn(db: lsmkv.DB) -> None:
    ledger = new_ledger(0, 30)
    Writer(db, ledger, random.Random(1)).fill()
    number = ledger.begin(ledger.keys)  # and is not acknowledged
    for key in ledger.keys[::2]:
        db.put(key, value_of(key, number))
    with pytest.raises(UnsoundError):
        read_for_long(db, [ledger])


# --- the other checkers ---


def test_a_view_that_shows_something_else_later_is_found() -> None:
    ledger = new_ledger(0, 2)
    ledger.begin(ledger.keys)
    items = sorted(ledger.state(1).items())
    check_held(Held("views", 1, lambda: items), ledger)
    for wrong in (items[:1], items[::-1], []):
        with pytest.raises(UnsoundError, match="one of the views"):
            check_held(Held("views", 1, lambda wrong=wrong: wrong), ledger)  # type: ignore[misc]


def test_leftover_files_threads_and_descriptors_are_found(db: lsmkv.DB) -> None:
    traces = Traces()
    traces.check()
    with Path("/dev/null").open(), pytest.raises(UnsoundError, match="descriptors"):
        traces.check()
    ending = threading.Event()
    thread = threading.Thread(target=ending.wait)
    thread.start()
    with pytest.raises(UnsoundError, match="threads"):
        traces.check()
    ending.set()
    join(thread)
    check_tidy(db)
    Path(db.path, "000099.sst").write_bytes(b"")
    with pytest.raises(UnsoundError, match=r"000099\.sst"):
        check_tidy(db)
