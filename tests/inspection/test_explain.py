"""Explained lookups: each step and number is that of the real lookup."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lsmkv
from damage import Entry, flip, footer_of, open_table, write_table
from lsmkv.encoding.expiry import Clock, Moment
from lsmkv.filters.family.strategies import product_probes
from lsmkv.filters.maths.sizing import exact_rate
from lsmkv.inspection.explain import (
    BlockStep,
    Explanation,
    FilterStep,
    MemtableStep,
    RunStep,
    explain_lookup,
)
from lsmkv.memtable.memtable import Memtable
from lsmkv.options import FilterResidency, Options
from lsmkv.read.view import SuperVersion
from lsmkv.tree.levels import Levels
from lsmkv.tree.version import Run, Version
from lsmkv.tree.version_set import table_format

KEYS = [b"key%05d" % number for number in range(0, 2000, 2)]
ABSENT_KEYS = [b"key%05d" % number for number in range(1, 1999, 2)]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[lsmkv.DB]:
    """A store with one table of many blocks, and an empty memtable."""
    with lsmkv.open(tmp_path / "db", block_size_bytes=512) as db:
        _fill(db)
        yield db


def _fill(db: lsmkv.DB) -> None:
    for key in KEYS:
        db.put(key, b"value of " + key)
    db.flush()


def _only_run(explanation: Explanation) -> RunStep:
    (step,) = explanation.runs
    return step


def _first(db: lsmkv.DB, wanted: Callable[[RunStep], bool]) -> Explanation:
    """The explanation of the first absent key with the wanted run step."""
    return next(
        explanation
        for explanation in map(db.explain, ABSENT_KEYS)
        if wanted(_only_run(explanation))
    )


def _view(*tables: list[Entry], path: Path, **options: object) -> SuperVersion:
    """A view of one run for each list of entries, newest first."""
    form = table_format(Options(**options), 0.01)  # type: ignore[arg-type]
    version = Version(Levels(), {})
    for number, entries in enumerate(tables, 1):
        file = path / f"{number:06}.sst"
        table = open_table(file, write_table(file, entries, form, number))
        version.runs.append(Run(0, 100 - number, [table]))
    return SuperVersion(Memtable(1000, 9), (), version)


# --- memtables ---


@pytest.mark.parametrize(("value", "outcome"), [(b"newer", "found"), (None, "deleted")])
def test_an_entry_in_the_memtable_ends_the_lookup(
    db: lsmkv.DB, value: bytes | None, outcome: str
) -> None:
    if value is None:
        db.delete(KEYS[0])
    else:
        db.put(KEYS[0], value)
    explanation = db.explain(KEYS[0])
    assert (explanation.outcome, explanation.value) == (outcome, value)
    assert [step.outcome for step in explanation.memtables] == [outcome]
    assert explanation.runs == ()


@pytest.mark.parametrize("is_flushed", [False, True])
def test_an_entry_that_expires_is_found_until_it_is_due(tmp_path: Path, is_flushed: bool) -> None:
    now_s = 0.0
    with lsmkv.open(tmp_path / "db", clock=lambda: now_s) as db:
        db.put(b"a", b"1", expires_at=60)
        if is_flushed:
            db.flush()
        for at_s, outcome, value, told in (
            (59.0, "found", b"1", "found, a value of 1 byte, until 1970-01-01 00:01:00 UTC; "),
            (60.0, "expired", None, "expired, due since 1970-01-01 00:01:00 UTC; "),
        ):
            now_s = at_s
            found = db.explain(b"a")
            assert (found.outcome, found.value, found.expires_at_s) == (outcome, value, 60)
            last = found.runs[-1] if is_flushed else found.memtables[-1]
            assert last.outcome == outcome and str(last).startswith("+") and outcome in str(last)
            assert found.text().splitlines()[-1].startswith(told)
            assert told.split(", ")[-1].removesuffix("; ") in found._repr_html_()


def test_memtables_are_asked_the_active_one_first(tmp_path: Path) -> None:
    flushing, active = Memtable(1, 4), Memtable(2, 5)
    flushing.put(b"a", b"old", 1, False)
    view = SuperVersion(active, (flushing,), Version(Levels(), {}))
    steps = explain_lookup(view, b"a", 9, Moment(Clock())).memtables
    assert [(step.role, step.log_number, step.outcome) for step in steps] == [
        ("active", 5, "absent"),
        ("flushing", 4, "found"),
    ]


# --- tables ---


def test_a_key_outside_every_table_needs_nothing(db: lsmkv.DB) -> None:
    explanation = db.explain(b"zebra")
    step = _only_run(explanation)
    assert (step.outcome, step.table, step.filter, step.blocks) == ("no table", None, None, ())
    assert (explanation.outcome, explanation.blocks_read) == ("absent", 0)


def test_a_filter_that_errs_is_called_a_false_positive(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", block_size_bytes=512, error_rate=0.3) as db:
        _fill(db)
        explanation = _first(db, lambda step: step.outcome == "absent")
    step = _only_run(explanation)
    assert step.filter is not None and step.filter.verdict == "maybe"
    assert step.is_false_positive and explanation.false_positives == 1
    assert explanation.outcome == "absent"
    assert len(step.blocks) == 1


def test_the_newest_run_that_knows_the_key_ends_the_lookup(tmp_path: Path) -> None:
    runs: list[list[Entry]] = [[(b"b", b"x", 8)], [(b"a", b"new", 6), (b"c", None, 7)]]
    view = _view(*runs, [(b"a", b"old", 4), (b"c", b"1", 3)], path=tmp_path)
    explanation = explain_lookup(view, b"a", 9, Moment(Clock()))
    assert [step.outcome for step in explanation.runs] == ["no table", "found"]
    assert (explanation.value, explanation.runs[1].seq) == (b"new", 6)
    assert (explanation.runs[1].level, explanation.runs[1].file_name) == (0, "000002.sst")
    explanation = explain_lookup(view, b"c", 9, Moment(Clock()))
    assert [step.outcome for step in explanation.runs] == ["no table", "deleted"]
    assert (explanation.outcome, explanation.value) == ("deleted", None)
    assert explain_lookup(view, b"b", 7, Moment(Clock())).outcome == "absent"


def test_a_block_is_read_once_and_then_cached(db: lsmkv.DB) -> None:
    (first,) = _only_run(db.explain(KEYS[0])).blocks
    (second,) = _only_run(db.explain(KEYS[0])).blocks
    assert not first.was_cached and first.read_bytes == first.length_bytes > 0
    assert second.was_cached and second.read_bytes == 0


def test_an_older_version_is_found_as_of_its_sequence_number(tmp_path: Path) -> None:
    versions: list[Entry] = [(b"a", b"%0100d" % seq, seq) for seq in range(40, 0, -1)]
    view = _view(versions, path=tmp_path, block_size_bytes=256)
    explanation = explain_lookup(view, b"a", 3, Moment(Clock()))
    step = _only_run(explanation)
    assert (explanation.value, step.seq) == (b"%0100d" % 3, 3)
    assert [block.number for block in step.blocks] == list(range(len(step.blocks)))
    assert len(step.blocks) > 5


# --- filters ---


def test_a_filters_numbers_are_those_of_its_block(db: lsmkv.DB) -> None:
    explanation = _first(db, lambda step: step.outcome == "filtered")
    step = _only_run(explanation)
    assert step.filter is not None and step.block is not None
    file = Path(db.path) / str(step.file_name)
    info = open_table(file).read_past_cache(step.block)[1]
    assert step.filter.scope == "block"
    assert step.filter.key_count == info.filter_key_count
    assert step.filter.bit_count == info.filter_length * 8
    assert step.filter.probe_count == info.probe_count
    assert step.filter.expected_rate == exact_rate(
        info.filter_length * 8, info.filter_key_count, info.probe_count
    )


def test_one_filter_for_the_table_is_asked_before_the_index(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", block_size_bytes=512, filter_granularity="table") as db:
        _fill(db)
        step = _only_run(_first(db, lambda step: step.outcome == "filtered"))
    assert step.block is None
    assert step.filter is not None
    assert (step.filter.scope, step.filter.key_count) == ("table", len(KEYS))
    assert step.filter.expected_rate is not None and 0 < step.filter.expected_rate < 0.02


def test_filters_that_are_off_are_not_asked(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", block_size_bytes=512, filter_residency="off") as db:
        _fill(db)
        explanation = _first(db, lambda step: step.outcome == "absent")
    step = _only_run(explanation)
    assert step.filter is not None and step.filter.verdict == "off"
    assert step.filter.expected_rate is not None
    assert not step.is_false_positive
    assert (explanation.filters_asked, explanation.blocks_searched) == (0, 1)


def test_a_block_without_a_filter_is_searched(tmp_path: Path) -> None:
    form = table_format(Options(), 1.0)
    path = tmp_path / "000001.sst"
    version = Version(Levels(), {})
    table = open_table(path, write_table(path, [(b"a", b"", 1), (b"c", b"", 1)], form))
    version.runs = [Run(0, 1, [table])]
    step = _only_run(
        explain_lookup(SuperVersion(Memtable(5, 1), (), version), b"b", 9, Moment(Clock()))
    )
    assert step.filter is not None and step.filter.verdict == "none"
    assert (step.outcome, len(step.blocks)) == ("absent", 1)


def test_a_filter_fetched_on_demand_says_what_was_read(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", block_size_bytes=512, filter_residency="cached") as db:
        _fill(db)
        before = db.stats()
        first = _first(db, lambda step: step.outcome == "filtered")
        delta = db.stats() - before
        again = db.explain(first.key)
    step = _only_run(first)
    assert step.filter is not None
    assert step.filter.read_bytes == delta.filter_read_bytes == first.read_bytes > 0
    assert again.read_bytes == 0


def test_n_of_a_prefix_filter_is_counted_in_the_block_that_is_read(tmp_path: Path) -> None:
    entries: list[Entry] = [
        (b"%d/%d" % (row, column), b"", 1) for row in range(5) for column in range(5)
    ]
    form = {"filter_key": lsmkv.DelimitedPrefix(b"/"), "filter_policy": "bloom"}
    view = _view(entries, path=tmp_path, **form)
    found = _only_run(explain_lookup(view, b"1/1", 9, Moment(Clock()))).filter
    denied = _only_run(explain_lookup(view, b"1x", 9, Moment(Clock()))).filter
    assert found is not None and found.key_count == 5
    assert found.expected_rate == exact_rate(found.bit_count, 5, found.probe_count)
    assert denied is not None and denied.verdict == "no"
    assert denied.key_count is None and denied.expected_rate is None


# --- as a whole ---


def test_explaining_reads_the_blocks_that_get_reads(tmp_path: Path) -> None:
    chooser = random.Random(12)
    keys = chooser.sample(KEYS, 300) + chooser.sample(ABSENT_KEYS, 300)
    with lsmkv.open(
        tmp_path / "db", block_size_bytes=256, error_rate=0.2, block_cache_size_bytes=0
    ) as db:
        for part in (KEYS[::3], KEYS[1::3], KEYS[::2]):
            for key in part:
                db.put(key, key)
            db.flush()
        db.wait_until_settled()
        before = db.stats()
        explained = [db.explain(key) for key in keys]
        by_explain = db.stats() - before
        before = db.stats()
        for key in keys:
            db.get(key)
        by_get = db.stats() - before
    assert (
        sum(item.blocks_read for item in explained) == by_explain.block_reads == by_get.block_reads
    )
    assert by_explain.block_read_bytes == by_get.block_read_bytes
    assert sum(item.read_bytes for item in explained) == by_get.block_read_bytes
    assert sum(item.filter_negatives for item in explained) == by_get.filter_negatives
    assert sum(item.false_positives for item in explained) == by_get.filter_false_positives
    assert by_explain.gets == by_explain.filter_negatives == 0


def test_the_explanation_is_json_safe(db: lsmkv.DB) -> None:
    shown = json.loads(json.dumps(db.explain(KEYS[3]).as_dict()))
    assert bytes.fromhex(shown["key_hex"]) == KEYS[3]
    assert bytes.fromhex(shown["value_hex"]) == b"value of " + KEYS[3]
    assert shown["runs"][0]["filter"]["verdict"] == "maybe"
    assert shown["blocks_read"] == 1


def test_each_step_tells_the_index_beside_the_filters_of_its_table(db: lsmkv.DB) -> None:
    explanation, (table, *_) = db.explain(KEYS[3]), db.inspect().tables()
    step = _only_run(explanation)
    assert step.index_bytes_per_block == table.index_bytes_per_block > 0
    assert step.as_dict()["filter_bytes_per_key"] == table.filter_bytes_per_key > 0
    more = " ".join(line.strip() for line in explanation.lines(with_filters=True))
    assert table.index_and_filters() in more


@settings(max_examples=25)
@given(key=st.binary(max_size=400), seq=st.integers(0, 2**64 - 1))
def test_the_text_fits_80_columns(key: bytes, seq: int) -> None:
    asked = FilterStep(
        "maybe", "bloom", "block", 9999, 999999, 30, 0.01, 0, tuple(range(900000, 900030))
    )
    block = BlockStep(99999, 1 << 40, (1 << 20) - 1, False)
    widest = RunStep(0, 999999, 1, "999999.sst", 99999, asked, (block,), "absent", None, block)
    memtables = (MemtableStep("flushing", 123456, 123456789, "deleted", 1),)
    value = bytes(1000)
    learnt = replace(asked, verdict="no", was_learnt=True)
    denied = replace(widest, filter=learnt, blocks=(), outcome="filtered")
    explanation = Explanation(key, seq, memtables, (widest, denied) * 6, "found", value)
    assert max(map(len, explanation.lines(with_filters=True))) <= 80


def test_a_block_in_the_cache_is_no_read_saved(db: lsmkv.DB) -> None:
    first = _first(db, lambda step: step.outcome == "filtered" and bool(step.spanning))
    assert first.reads_saved == 1
    assert str(first).endswith("; filters saved 1 of 1 read")
    number = _only_run(first).block
    present = next(key for key in KEYS if _only_run(db.explain(key)).block == number)
    db.get(present)
    assert db.explain(first.key).filter_negatives == 1
    again = db.explain(first.key)
    assert again.reads_saved == 0
    assert str(_only_run(again)).endswith("filter says no: in the cache")
    assert _only_run(again).row()[1:] == ("aside", "the filter said no: in the cache")


# --- the filter's bits ---


@pytest.mark.parametrize("granularity", ["block", "table"])
@pytest.mark.parametrize("residency", ["resident", "cached"])
def test_a_bloom_filter_says_no_exactly_where_a_bit_of_the_key_is_not_set(
    tmp_path: Path, granularity: str, residency: FilterResidency
) -> None:
    options: Any = {"filter_granularity": granularity, "error_rate": 0.3}
    with lsmkv.open(tmp_path, block_size_bytes=512, filter_residency=residency, **options) as db:
        _fill(db)
        answers = set()
        for key in [*KEYS[::9], *ABSENT_KEYS[::9]]:
            asked = _only_run(db.explain(key)).filter
            assert asked is not None
            assert (asked.verdict == "maybe") == (asked.unset_probes == ())
            assert set(asked.unset_probes) <= set(asked.probes) <= set(range(asked.bit_count))
            assert 1 <= len(asked.probes) <= asked.probe_count
            answers.add(asked.verdict)
        assert answers == {"no", "maybe"}


def test_the_bits_are_those_that_the_product_s_probes_name(db: lsmkv.DB) -> None:
    explanation = _first(db, lambda step: step.outcome == "filtered")
    asked = _only_run(explanation).filter
    assert asked is not None
    named = product_probes(explanation.key, asked.bit_count, asked.probe_count)
    assert asked.probes == tuple(sorted(set(named)))


@pytest.mark.parametrize(("policy", "parameter"), [("ribbon", "r=7"), ("grafite", "l=7")])
def test_other_filters_have_no_bits_of_a_key_and_a_parameter_of_their_own(
    tmp_path: Path, policy: str, parameter: str
) -> None:
    with lsmkv.open(tmp_path, filter_policy=policy, error_rate=2**-7) as db:
        _fill(db)
        asked = _only_run(db.explain(KEYS[5])).filter
        assert asked is not None and asked.probes == ()
        assert parameter in str(asked)


def test_a_filter_without_a_whole_copy_is_called_lost(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path, filter_granularity="table") as db:
        _fill(db)
    (table,) = tmp_path.glob("*.sst")
    flip(table, footer_of(table).filters_offset)
    with lsmkv.open(tmp_path) as db:
        explanation = db.explain(ABSENT_KEYS[7])
        asked = _only_run(explanation).filter
        assert asked is not None and asked.verdict == "lost"
        assert "  filter lost: " in explanation.text()
        assert "table filter lost: damaged in every copy" in str(asked)
        assert (explanation.filters_asked, explanation.blocks_searched) == (0, 1)
