"""A page follows a store that changes: its parts are of one state, and its memory is bounded."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import cast

import pytest

import event_loops
import lsmkv
from explored_stores import MANUAL, put_and_flush
from lsmkv.explore import contract, messages, server
from lsmkv.explore import exploration as exploring
from lsmkv.explore.exploration import Detail, Exploration
from lsmkv.explore.history import HistoryReader
from lsmkv.explore.server import Pulses

FEW = Detail(present=3, absent=3, false_positives=0)


def test_a_page_made_before_a_change_was_seen_is_made_anew(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", MANUAL) as db:
        put_and_flush(db, 0)
        with Exploration(str(tmp_path / "db"), is_live=True) as exploration:
            put_and_flush(db, 100)
            exploration._refresh_due_s = math.inf
            made = exploration.page(FEW)  # a request, before the next pulse
            assert made.map.table_count == 1
            exploration._refresh_due_s = 0.0
            pulse = exploration.pulse()
            assert pulse.table_count == 2
            assert pulse.revision > made.revision


def test_the_history_ends_with_the_tables_of_the_map(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", MANUAL) as db:
        put_and_flush(db, 0)
        put_and_flush(db, 50)
        with Exploration(str(tmp_path / "db")) as exploration:
            put_and_flush(db, 100)
            db.compact_range()
            made = exploration.page(FEW)
    assert [step.kind for step in made.history.steps] == ["flush", "flush"]
    assert made.history.steps[-1].live_bytes == made.map.size_bytes
    assert made.history.steps[-1].live_entries == made.map.entry_count


def test_a_history_that_could_not_be_read_is_read_for_the_next_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lsmkv.open(tmp_path / "db", MANUAL) as db:
        put_and_flush(db, 0)
        with Exploration(str(tmp_path / "db"), is_live=True) as exploration:
            exploration.page(FEW)
            put_and_flush(db, 100)
            exploration._refresh_due_s = 0.0
            with monkeypatch.context() as failing:
                failing.setattr(exploration, "_follow_history", _fails)
                assert exploration.pulse().failure == "the manifest is missing"
            exploration._refresh_due_s = math.inf
            made = exploration.page(FEW)
    assert made.map.table_count == 2
    assert made.history.steps[-1].live_bytes == made.map.size_bytes


def _fails() -> None:
    raise lsmkv.NotAStoreError("the manifest is missing")


def test_a_history_whose_steps_are_all_too_new_is_empty(tmp_path: Path) -> None:
    with (
        lsmkv.open(tmp_path / "db", MANUAL) as db,
        Exploration(str(tmp_path / "db")) as exploration,
    ):
        put_and_flush(db, 0)
        made = exploration.page(FEW)
    assert made.map.table_count == 0 and made.history.steps == []


def test_keys_that_changed_after_they_were_picked_are_what_was_found(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", MANUAL) as db:
        put_and_flush(db, 0)
        with Exploration(str(tmp_path / "db")) as exploration:
            for number in range(50):
                db.delete(b"%06d" % number)
                db.put(b"new%03d" % number, b"")
            exploration._samples.refresh()  # keys are picked in a state that is newer
            made = exploration.page(Detail())
    assert len(made.lookups) > 100
    for lookup in made.lookups:
        assert (lookup.kind == "present") == (lookup.outcome == "found")


def test_a_live_page_forgets_old_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploring, "_MOST_STEPS", 4)
    with (
        lsmkv.open(tmp_path / "db", MANUAL) as db,
        Exploration(str(tmp_path / "db"), is_live=True) as exploration,
    ):
        for start in range(0, 300, 50):
            put_and_flush(db, start)
            exploration.pulse()
            exploration._refresh_due_s = 0.0
        exploration.pulse()
        made = exploration.page(FEW)
        assert len(exploration._steps) == 4
    assert len(made.history.steps) == 4 and made.history.skipped == 2


def test_wasted_reads_of_tables_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", MANUAL) as db:
        put_and_flush(db, 0)
        put_and_flush(db, 100)
        unfiltered = Exploration(str(tmp_path / "db"), is_live=True, filter_residency="off")
        with unfiltered as exploration:
            exploration.page(FEW)
            assert exploration._explorer.wasted
            db.compact_range()
            exploration.pulse()
            assert not exploration._explorer.wasted


def test_a_store_made_anew_has_a_history_of_its_own(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", MANUAL) as db:
        put_and_flush(db, 0)
        put_and_flush(db, 50)
    with lsmkv.open(tmp_path / "db", read_only=True) as followed:
        reader = HistoryReader(followed, is_recording=True)
        reader.poll()
        lsmkv.destroy(tmp_path / "db")
        with lsmkv.open(tmp_path / "db", MANUAL) as db:
            put_and_flush(db, 0, 5)
            steps = reader.poll()
            size_bytes = db.inspect().size_bytes
    assert [step.kind for step in steps] == ["state", "flush"]
    assert len(steps[0].removed) == 2 and steps[0].live_bytes == 0
    assert steps[1].live_bytes == size_bytes and steps[1].live_entries == 5


class _Changing:
    """Stands in for an exploration: each pulse has a revision of its own."""

    def __init__(self) -> None:
        self.revision = 0

    def pulse(self) -> messages.Pulse:
        self.revision += 1
        return messages.Pulse(
            version=contract.VERSION,
            revision=self.revision,
            memtable_key_counts=[],
            size_bytes=0,
            entry_count=0,
            table_count=0,
            stats={},
            failure=None,
            program=None,
        )


def test_a_listener_that_reads_late_gets_the_newest_pulse_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "_PULSE_S", 0.0)

    async def heard_late() -> int:
        changing = _Changing()
        pulses = Pulses(cast(Exploration, changing))
        stream = pulses.heard()
        await anext(stream)
        beating = asyncio.create_task(pulses.beat())
        await anext(stream)  # its first pulse; later ones wait for it
        while changing.revision < 100:
            await asyncio.sleep(0)
        heard = await anext(stream)
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        return int(json.loads(heard.partition(b"data: ")[2])["revision"])

    assert event_loops.run(heard_late()) >= 50
