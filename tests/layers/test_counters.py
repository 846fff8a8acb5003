"""Counters of a program, published beside its store, and metrics in the OpenMetrics format."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import lsmkv
import lsmkv.metrics
from lsmkv import counters
from lsmkv.cache import Cache
from lsmkv.metrics import StoreCollector, openmetrics
from other_processes import run
from threaded_stores import wait_until


def published(path: Path) -> counters.Counters:
    found = counters.read(path)
    assert found is not None
    return found


def write(path: Path, **changes: Any) -> None:
    whole = {
        "format": 1,
        "pid": 7,
        "published_at_s": 9.0,
        "interval_s": 1.0,
        "stats": {},
        "tables": [],
        "levels": [],
    }
    Path(counters.path_beside(path)).write_text(json.dumps(whole | changes))


def test_counters_stand_beside_the_store_while_the_block_runs(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        db[b"a"] = b""
        files = sorted(os.listdir(tmp_path / "db"))
        with counters.publish(db) as path:
            assert path == str(tmp_path / "db.counters.json")
            assert sorted(os.listdir(tmp_path)) == ["db", "db.counters.json"]
            assert sorted(os.listdir(tmp_path / "db")) == files
            found = published(tmp_path / "db")
            assert (found.pid, found.stats["writes"], found.is_old) == (os.getpid(), 1, False)
        assert os.listdir(tmp_path) == ["db"]
        assert counters.read(tmp_path / "db") is None


def test_they_are_published_anew(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db, counters.publish(db, interval_s=0.1):
        db[b"a"] = b""
        wait_until(lambda: published(tmp_path / "db").stats["writes"] == 1)


def test_what_filters_answer_is_told_by_level_and_table(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", error_rate=0.3, level0_compaction_trigger=10) as db:
        for step in (2, 4):
            db.update({b"%06d" % number: b"" for number in range(0, 2000, step)})
            db.compact_range() if step == 2 else db.flush()
        for number in range(1, 1990, 2):
            db.get(b"%06d" % number)
        with counters.publish(db):
            found = published(tmp_path / "db")
        tables, stats = list(db.tables()), db.stats()
    assert [(each.level, each.tables) for each in found.levels] == [
        (table.level, 1) for table in tables
    ]
    for name in ("false_positives", "filter_negatives"):
        by_table = {table.number: getattr(table, name) for table in tables}
        assert {each.table: getattr(each, name) for each in found.tables} == by_table
        assert [getattr(each, name) for each in found.levels] == list(by_table.values())
    assert sum(each.filter_negatives for each in found.levels) == stats.filter_negatives > 0
    assert sum(each.false_positives for each in found.levels) == stats.filter_false_positives > 100


def test_a_closed_store_ends_the_publishing(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db, counters.publish(db, interval_s=0.1):
        db.close()
    assert counters.read(tmp_path / "db") is None


def test_a_failure_after_the_first_publication_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "there").mkdir()
    named = tmp_path / "there" / "c.json"
    with lsmkv.open(tmp_path / "db") as db, counters.publish(db, named, interval_s=0.1):
        shutil.rmtree(tmp_path / "there")
        wait_until(lambda: "counters are not published" in caplog.text)
        time.sleep(0.3)
    assert caplog.text.count("counters are not published") == 1


def test_the_first_failure_is_the_caller_s(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db, pytest.raises(FileNotFoundError):
        counters.publish(db, tmp_path / "nowhere" / "c.json").__enter__()


@pytest.mark.parametrize(
    ("interval_s", "error"),
    [(0.01, ValueError), (61, ValueError), ("1", TypeError), (True, TypeError)],
)
def test_wrong_intervals_are_refused(
    tmp_path: Path, interval_s: Any, error: type[Exception]
) -> None:
    with lsmkv.open(tmp_path / "db") as db, pytest.raises(error, match="interval_s"):
        counters.publish(db, interval_s=interval_s).__enter__()


def test_old_counters_are_called_old(tmp_path: Path) -> None:
    write(tmp_path / "db")
    assert not published(tmp_path / "db").is_old
    for at_s in (time.time() - 60, time.time() + 60):
        os.utime(counters.path_beside(tmp_path / "db"), (at_s, at_s))
        assert published(tmp_path / "db").is_old


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"pid": -1},
        {"pid": "7"},
        {"interval_s": 1e9},
        {"stats": {"<script>": 1}},
        {"stats": {"gets": "many"}},
        {"stats": {"gets": 1 << 70}},
        {"tables": [{"table": 1}]},
        {"more": 1},
    ],
)
def test_other_content_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    write(tmp_path / "db", **changes)
    with pytest.raises(ValueError, match="is no file of counters"):
        counters.read(tmp_path / "db")


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000, b" " * 300_000])
def test_no_json_is_refused(tmp_path: Path, data: bytes) -> None:
    Path(counters.path_beside(tmp_path / "db")).write_bytes(data)
    with pytest.raises(ValueError, match="is no file of counters"):
        counters.read(tmp_path / "db")


def test_what_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    path = Path(counters.path_beside(tmp_path / "db"))
    os.mkfifo(path)
    with pytest.raises(ValueError, match="no plain file"):
        counters.read(tmp_path / "db")
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match="no plain file"):
        counters.read(tmp_path / "db")
    path.unlink()
    path.mkdir()
    with pytest.raises((ValueError, OSError)):
        counters.read(tmp_path / "db")


def test_a_link_to_the_store_has_the_same_counters(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "db")
    with lsmkv.open(tmp_path / "db") as db, counters.publish(db):
        assert published(tmp_path / "link").pid == os.getpid()


@pytest.fixture
def db(tmp_path: Path) -> Iterator[lsmkv.DB]:
    with lsmkv.open(tmp_path / "store") as opened:
        opened.put(b"a", b"1", sync=True)
        opened[b"b"] = b"2"
        opened.get(b"a"), opened.get(b"c")
        opened.flush()
        yield opened


_parsed: Callable[[str], Iterable[Any]] = text_string_to_metric_families


def families(stores: Mapping[str, lsmkv.DB] | Iterable[lsmkv.DB]) -> dict[str, Any]:
    """By name; the parser refuses what is not OpenMetrics."""
    return {found.name: found for found in _parsed(openmetrics(stores))}


def value(found: dict[str, Any], family: str, sample: str, **labels: str) -> float:
    (result,) = [
        each.value
        for each in found[family].samples
        if each.name == sample and labels.items() <= each.labels.items()
    ]
    assert isinstance(result, float)
    return result


def test_counters_have_the_standards_names_and_the_values_of_stats(db: lsmkv.DB) -> None:
    stats, found = db.stats(), families({"fruit": db})
    for field, family, factor in (
        ("gets", "lsmkv_gets", 1),
        ("log_bytes", "lsmkv_log_bytes", 1),
        ("filter_build_ns", "lsmkv_filter_build_seconds", 1e-9),
        ("write_stop_s", "lsmkv_write_stop_seconds", 1),
    ):
        assert found[family].type == "counter"
        got = value(found, family, f"{family}_total", store="fruit")
        assert got == pytest.approx(getattr(stats, field) * factor)
    assert found["lsmkv_log_bytes"].unit == "bytes"
    assert found["lsmkv_write_stop_seconds"].unit == "seconds"


FIELDS = [field.name for field in dataclasses.fields(lsmkv.Stats)]


def test_every_field_of_stats_is_there_with_what_its_docstring_says(db: lsmkv.DB) -> None:
    told = [found.documentation for found in families([db]).values()][: len(FIELDS)]
    assert len(set(told)) == len(FIELDS)
    assert not [text for text in told if "Stats." in text or "``" in text or "second" in text]
    found = {name: each.documentation for name, each in families([db]).items()}
    assert found["lsmkv_get_hits"] == "lookups that found a value."
    assert found["lsmkv_flush_seconds"] == "how long flushes took."
    assert found["lsmkv_filter_losses"] == (
        "damaged chunks of filters without a whole copy. Their filters allow every key, which counts "
        "as a filter's maybe."
    )


def test_without_docstrings_the_names_of_fields_are_told(
    db: lsmkv.DB, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lsmkv.metrics, "_HELP", {})
    told = {found.documentation for found in families([db]).values()}
    assert {f"lsmkv.Stats.{name}" for name in FIELDS} <= told


def test_histograms_are_cumulative_and_in_seconds(db: lsmkv.DB) -> None:
    name, found = "lsmkv_flush_seconds", families({"s": db})
    assert found[name].type == "histogram"
    counts = [each.value for each in found[name].samples if each.name.endswith("_bucket")]
    assert counts == sorted(counts) and counts[-1] == 1
    total = value(found, name, f"{name}_sum")
    assert total == pytest.approx(db.stats().flush_us.total / 1e6)
    bounds = [
        float(each.labels["le"]) for each in found[name].samples if each.name.endswith("_bucket")
    ]
    first = next(bound for bound, count in zip(bounds, counts, strict=True) if count)
    assert total <= first and (first == bounds[0] or total >= first / 2)


def test_a_bucket_of_whole_numbers_includes_its_bound(db: lsmkv.DB) -> None:
    db._state.stats.group_commit_size = sizes = lsmkv.Histogram()
    for size in (1, 2, 3, 4):
        sizes.add(size)
    found = families([db])["lsmkv_group_commit_size"].samples
    counts = {
        float(each.labels["le"]): each.value for each in found if each.name.endswith("_bucket")
    }
    assert (counts[1.0], counts[3.0], counts[7.0]) == (1, 3, 4)


def test_memory_is_told_by_purpose(db: lsmkv.DB) -> None:
    usage, found = db.memory_usage(), families([db])
    for purpose in ("memtable", "block_cache", "index", "filter"):
        got = value(found, "lsmkv_memory_bytes", "lsmkv_memory_bytes", purpose=purpose)
        assert got == getattr(usage, f"{purpose}_bytes")
    assert value(found, "lsmkv_approximate_keys", "lsmkv_approximate_keys") == 2
    assert openmetrics(db).count("lsmkv_gets_total{") == 1


def test_stores_are_told_apart_by_name_or_path(db: lsmkv.DB, tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / 'with "quotes"\n') as other:
        found = families([db, other])
        assert value(found, "lsmkv_writes", "lsmkv_writes_total", store=db.path) == 2
        assert value(found, "lsmkv_writes", "lsmkv_writes_total", store=other.path) == 0


@pytest.mark.parametrize("by_name", [True, False], ids=["name", "path"])
def test_a_name_that_is_not_utf_8_is_escaped(db: lsmkv.DB, tmp_path: Path, by_name: bool) -> None:
    name = os.fsdecode(b"caf\xe9")
    with lsmkv.open(tmp_path / name) as cafe:
        stores = {name: cafe, db.path: db} if by_name else [cafe, db]
        found = families(stores)
    label = r"caf\udce9" if by_name else rf"{tmp_path}{os.sep}caf\udce9"
    assert value(found, "lsmkv_writes", "lsmkv_writes_total", store=label) == 0
    assert value(found, "lsmkv_writes", "lsmkv_writes_total", store=db.path) == 2


def test_a_registry_collects_until_a_store_is_closed_or_dropped(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    db = lsmkv.open(tmp_path / "store")
    registry.register(StoreCollector({"s": db}))
    assert registry.get_sample_value("lsmkv_writes_total", {"store": "s"}) == 0
    db[b"a"] = b"1"
    assert registry.get_sample_value("lsmkv_writes_total", {"store": "s"}) == 1
    db.close()
    assert registry.get_sample_value("lsmkv_writes_total", {"store": "s"}) is None
    del db
    assert registry.get_sample_value("lsmkv_writes_total", {"store": "s"}) is None


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"s": 1}, "a store is a DB"),
        ([{}], "a store is a DB"),
        *((wrong, f"not {type(wrong).__name__}") for wrong in ("store.db", b"store.db", 1)),
    ],
)
def test_what_is_no_store_is_refused(wrong: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        openmetrics(wrong)


def test_a_cache_is_refused_and_has_a_store_that_is_not(path: str) -> None:
    with Cache(path) as cache:
        cache["key"] = "value"
        with pytest.raises(
            TypeError, match=r"a Cache is no DB; give openmetrics its store, Cache\.db"
        ):
            openmetrics(cache)
        assert "lsmkv_writes_total" in openmetrics(cache.db)


def test_without_prometheus_client_the_error_names_the_extra() -> None:
    program = """
sys.modules["prometheus_client"] = None
try:
    import lsmkv.metrics
except Exception as error:
    print(type(error).__name__, error)
"""
    told = run(program)
    assert told.startswith("MissingExtraError") and "lsmkv[metrics]" in told
