"""Metrics of stores in the OpenMetrics format."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import lsmkv
import lsmkv.metrics
from gates import WAIT_S
from lsmkv.cache import Cache
from lsmkv.metrics import CONTENT_TYPE, StoreCollector, openmetrics


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


def test_two_collectors_of_one_registry_clash(db: lsmkv.DB) -> None:
    registry = CollectorRegistry(auto_describe=True)
    registry.register(StoreCollector([db]))
    with pytest.raises(ValueError, match="lsmkv_gets"):
        registry.register(StoreCollector([db]))


def test_one_store_may_come_without_a_list(db: lsmkv.DB) -> None:
    assert openmetrics(db).count("lsmkv_gets_total{") == 1


@pytest.mark.parametrize("wrong", [{"s": 1}, [{}]], ids=repr)
def test_what_is_no_store_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="a store is a DB"):
        openmetrics(wrong)


def test_a_cache_is_refused_and_has_a_store_that_is_not(path: str) -> None:
    with Cache(path) as cache:
        cache["key"] = "value"
        with pytest.raises(
            TypeError, match=r"a Cache is no DB; give openmetrics its store, Cache\.db"
        ):
            openmetrics(cache)
        assert "lsmkv_writes_total" in openmetrics(cache.db)


@pytest.mark.parametrize("wrong", ["store.db", b"store.db", 1], ids=repr)
def test_what_holds_no_stores_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"not {type(wrong).__name__}"):
        openmetrics(wrong)


def test_the_content_type_is_that_of_openmetrics() -> None:
    assert CONTENT_TYPE.startswith("application/openmetrics-text")


def test_without_prometheus_client_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "try:\n    import lsmkv.metrics\n"
        "except Exception as error:\n    print(type(error).__name__, error)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=WAIT_S,
    )
    assert run.stdout.startswith("MissingExtraError") and "lsmkv[metrics]" in run.stdout
