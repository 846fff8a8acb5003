"""Lookups on the page: they are those of the store, and count what filters spare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import lsmkv
from explored_stores import make_store
from lsmkv.explore import exploration
from lsmkv.explore.exploration import Detail, Exploration
from lsmkv.explore.keys import KeyAxis
from lsmkv.explore.lookups import Explorer
from lsmkv.explore.samples import KeySampler
from lsmkv.explore.what_if import RATES


@pytest.fixture(scope="module", params=["block", pytest.param("table", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("looked_up") / "db"
    make_store(path, error_rate=0.1, filter_granularity=request.param)
    return path


def sampled(path: Path) -> list[bytes]:
    with lsmkv.open(path, read_only=True) as db:
        sampler = KeySampler(db, 3)
        return sampler.present(60) + sampler.absent(60) + [b"", b"zzz", b"key", b"L" * 65_535]


def opened(path: Path, **options: Any) -> lsmkv.DB:
    return lsmkv.open(path, read_only=True, block_cache_size_bytes=0, read_around=False, **options)


def test_each_step_is_that_of_explain(store: Path) -> None:
    axis = KeyAxis([])
    with opened(store) as db:
        explorer = Explorer(db, db)
        for key in sampled(store):
            found = explorer.look_up(key, "typed", axis)
            expected = db.explain(key)
            assert [step.outcome for step in found.runs] == [step.outcome for step in expected.runs]
            for name in (
                *("seq", "outcome", "blocks_searched", "blocks_read", "read_bytes"),
                *("filters_asked", "filter_negatives", "false_positives"),
            ):
                assert getattr(found, name) == getattr(expected, name)
            for step, other in zip(found.runs, expected.runs, strict=True):
                for name in ("level", "run", "table", "file_name", "block", "seq"):
                    assert getattr(step, name) == getattr(other, name)
                assert step.is_false_positive == other.is_false_positive
                if other.filter is not None:
                    asked = msgspec.to_builtins(step.filter)
                    del asked["part"], asked["holds_part"]  # of filters of prefixes alone
                    assert {
                        name: tuple(v) if isinstance(v, list) else v for name, v in asked.items()
                    } == {name: getattr(other.filter, name) for name in asked}


def test_an_entry_that_is_due_is_expired(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", clock=lambda: 0.0) as db:
        db.bulk_load([(b"due", b"1", 60), (b"late", b"2", 9e9)])
    with opened(tmp_path / "db") as db:
        explorer = Explorer(db, db)
        due, late = (explorer.look_up(key, "typed", KeyAxis([])) for key in (b"due", b"late"))
    assert (due.outcome, due.expires_at_s, due.value_text) == ("expired", 60, None)
    assert [step.outcome for step in due.runs] == ["expired"]
    assert (late.outcome, late.expires_at_s, late.value_text) == ("found", 9_000_000_000, "2")


def test_reads_without_filters_are_those_of_a_store_opened_without(store: Path) -> None:
    axis = KeyAxis([])
    with opened(store) as db, opened(store, filter_residency="off") as unfiltered:
        explorer = Explorer(db, db)
        spared = 0
        for key in sampled(store):
            found = explorer.look_up(key, "typed", axis)
            expected = unfiltered.explain(key)
            assert found.reads_without_filters == expected.blocks_read
            assert found.read_bytes_without_filters == expected.read_bytes
            spared += found.reads_without_filters - found.blocks_read
        assert spared > 20  # how many depends on when runs were merged


def test_filters_built_anew_deny_what_those_of_the_store_deny(tmp_path: Path) -> None:
    path = tmp_path / "db"
    make_store(path, error_rate=0.1, filter_allocation="uniform", filter_policy="bloom")
    at = RATES.index(0.1)
    asked = 0
    with opened(path) as db:
        explorer, axis = Explorer(db, db), KeyAxis([])
        for key in sampled(path):
            found = explorer.look_up(key, "typed", axis)
            spanned = [i for i, run in enumerate(found.runs) if run.spanning_block is not None]
            passed = [i for i in spanned if found.runs[i].outcome != "filtered"]
            assert found.rebuilt[at] == passed
            assert all(set(passing) <= set(spanned) for passing in found.rebuilt)
            asked += len(spanned)
    assert asked > 20


def test_a_filter_of_prefixes_tells_which_prefix_it_was_asked_for(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", filter_key=lsmkv.DelimitedPrefix(b"/")) as db:
        for number in range(100):
            db.put(b"u%02d/a" % number, b"")
        db.flush()
    with opened(tmp_path / "db") as db:
        explorer, axis = Explorer(db, db), KeyAxis([])
        present = explorer.look_up(b"u42/b", "typed", axis).runs[0].filter
        absent = explorer.look_up(b"u4x/b", "typed", axis).runs[0].filter
        assert present is not None and absent is not None
        assert (present.part, present.verdict, present.holds_part) == ("u42/", "maybe", True)
        assert (absent.part, absent.holds_part) == ("u4x/", False)


def test_absent_prefixes_are_sampled_too(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", filter_key=lsmkv.FixedPrefix(4)) as db:
        for number in range(0, 900, 2):
            db.put(b"p%03d-item" % number, b"")
        db.flush()
        keys = KeySampler(db, 3).absent(60)
        there = [next(iter(db.keys(prefix=key[:4])), None) is not None for key in keys]
    assert len(keys) == 60
    assert 10 < sum(there) < 50


def test_absent_keys_beside_text_are_text(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        db.update((f"ключ{number:02}本".encode(), b"") for number in range(0, 100, 2))
        db.flush()
        keys = KeySampler(db, 3).absent(40)
    assert len(keys) == 40
    assert all(key.decode("utf-8", "replace").encode() == key for key in keys)


def test_no_cache_answers_a_lookup_of_the_page(store: Path) -> None:
    with Exploration(str(store)) as exploration:
        made = exploration.page(Detail(present=5, absent=5, false_positives=0))
        key = bytes.fromhex(next(one for one in made.lookups if one.blocks_read).key.hex)
        replies = [exploration.look_up(key) for _ in range(4)]
    assert len({reply.lookup.blocks_read for reply in replies}) == 1
    assert replies[0].lookup.blocks_read > 0
    assert (replies[-1].stats["entry_cache_hits"], replies[-1].stats["block_cache_hits"]) == (0, 0)


def test_recorded_lookups_are_of_the_kinds_picked(store: Path) -> None:
    with Exploration(str(store)) as exploration:
        made = exploration.page(Detail(present=7, absent=8, false_positives=3))
    kinds = [lookup.kind for lookup in made.lookups]
    assert kinds == ["present"] * 7 + ["absent"] * 8 + ["false positive"] * 3
    assert all(lookup.outcome == "found" for lookup in made.lookups[:7])
    assert all(lookup.outcome != "found" for lookup in made.lookups[7:])
    assert all(lookup.false_positives for lookup in made.lookups[15:])


def test_a_block_is_as_inspection_has_it(store: Path) -> None:
    with lsmkv.open(store, read_only=True) as db, Exploration(str(store)) as exploration:
        number = next(db.inspect().tables()).number
        expected = list(db.blocks(number))[1]
        found = exploration.block(number, 1)
        assert found is not None
        for name in ("offset", "length_bytes", "raw_bytes", "codec", "entry_count"):
            assert getattr(found, name) == getattr(expected, name)
        assert exploration.block(number, 10_000) is None
        assert exploration.block(999_999, 0) is None
        assert exploration.pulse().stats["compaction_block_reads"] == 0  # it is no lookup


def test_a_store_that_is_all_deleted_is_scanned_twice_at_most(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", block_size_bytes=256) as db:
        for number in range(500):
            db.put(b"%05d" % number, b"")
        db.flush()
        for number in range(500):
            db.delete(b"%05d" % number)
        db.flush()
        block_count = sum(table.block_count for table in db.inspect().tables())
    with opened(tmp_path / "db") as db:
        assert KeySampler(db, 3).present(10) == []
        assert db.stats().block_reads <= 2 * block_count


def test_a_deleted_key_counts_as_no_absent_one(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        kept = [number for number in range(1000) if number % 5]
        db.update((b"%03d" % number, b"") for number in kept)
        db.flush()
        for number in kept[::2]:
            db.delete(b"%03d" % number)
        db.flush()
    with Exploration(str(tmp_path / "db")) as explored:
        made = explored.page(Detail())
    absent = [lookup for lookup in made.lookups if lookup.kind == "absent"]
    assert absent and {lookup.outcome for lookup in absent} == {"absent"}


def test_a_key_before_many_deleted_ones_is_drawn(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", block_size_bytes=256) as db:
        for number in range(500):
            db.put(b"%05d" % number, b"")
        db.put(b"", b"the only one")
        db.flush()
        for number in range(500):
            db.delete(b"%05d" % number)
        db.flush()
    with opened(tmp_path / "db") as db:
        assert KeySampler(db, 3).present(10) == [b""]


def test_drawing_ends_when_its_time_is_up(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploration, "_DRAWING_S", 0.0)
    with Exploration(str(store)) as explored:
        made = explored.page(Detail())
    assert made.lookups == [] and made.lookups_tried == 0
