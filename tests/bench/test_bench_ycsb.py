"""YCSB's workloads: their operations, the timed loop, and agreement of the engines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy
import pytest
from scipy.stats import binomtest

import bench.engines  # noqa: F401 - registers the engines
from bench.engines import base
from bench.engines.base import KIB, Engine, Pairs, Settings, Store
from bench.experiments.ycsb.drive import drive
from bench.experiments.ycsb.experiment import EXPERIMENT
from bench.experiments.ycsb.keys import record_keys
from bench.experiments.ycsb.measure import measure_here
from bench.experiments.ycsb.rows import NOT_A_TIME, Row
from bench.experiments.ycsb.story import story
from bench.experiments.ycsb.tasks import Task
from bench.experiments.ycsb.workloads import (
    VALUE_BYTES,
    WORKLOADS,
    Kind,
    Operations,
    loading,
    most_inserts,
    operations_of,
)
from bench.harness import experiment
from bench.harness.experiment import Plan, parser_for
from bench.workloads.keys import Values

RECORDS = 1000
COUNT = 20_000
VALUES = Values(VALUE_BYTES, seed=1)
INSTALLED = [engine.name for engine in base.engines() if engine.is_installed()]
EVERY = "".join(WORKLOADS)


class DictStore(Store):
    """A dict that can scan."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}
        self.get = self.entries.get
        self.put = self.put_sync = self.entries.__setitem__

    def put_batch(self, pairs: Pairs, sync: bool = False) -> None:
        self.entries.update(pairs)

    def delete(self, key: bytes) -> None:
        del self.entries[key]

    def multi_get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        return [self.entries.get(key) for key in keys]

    def scan(self, start: bytes | None, limit: int | None, reverse: bool = False) -> int:
        assert start is not None and limit is not None and not reverse
        return min(limit, sum(key >= start for key in self.entries))

    def settle(self) -> None: ...

    def counters(self) -> dict[str, int]:
        return {"data_block_reads": len(self.entries)}

    def close(self) -> None: ...


class DictEngine(Engine):
    """Keeps its store between openings."""

    name: ClassVar[str] = "dict"
    distribution: ClassVar[str] = "none"
    module: ClassVar[str] = "builtins"

    def __init__(self) -> None:
        self.stores: dict[str, DictStore] = {}

    def open(self, directory: str, settings: Settings) -> Store:
        return self.stores.setdefault(directory, DictStore())


class ForgetfulEngine(DictEngine):
    """Loses every record whenever it is opened again."""

    def open(self, directory: str, settings: Settings) -> Store:
        return DictStore()


def operations(name: str, count: int = COUNT, seed: str = "1970/1") -> Operations:
    keys = record_keys(RECORDS + most_inserts(WORKLOADS[name], count))
    return operations_of(WORKLOADS[name], keys, RECORDS, count, VALUES, seed)


def task(engine: str, workloads: str = EVERY, is_counted: bool = False) -> Task:
    return Task(
        engine=engine,
        workloads=tuple(workloads),
        records=300,
        operations=200,
        seed=1970,
        settings=Settings(
            cache_size_bytes=64 * KIB, write_buffer_size_bytes=64 * KIB, count=is_counted
        ),
    )


# Operations


@pytest.mark.parametrize("name", EVERY)
def test_operations_have_the_mix_of_their_workload_and_ask_for_existing_records(name: str) -> None:
    made = operations(name)
    assert sum(made.count(kind) for kind in Kind) == len(made) == COUNT
    for kind, share in zip(Kind, WORKLOADS[name].mix, strict=True):
        if share in (0, 1):
            assert made.count(kind) == share * COUNT
        else:
            assert binomtest(made.count(kind), COUNT, share).pvalue > 0.001
    present = RECORDS
    for asked, number in zip(made.kinds, made.numbers.tolist(), strict=True):
        is_new = asked == Kind.INSERT
        assert number == present if is_new else 0 <= number < present
        present += is_new


# The loop


def test_the_loop_counts_what_it_finds_and_scans() -> None:
    store = DictStore()
    drive(store, loading(record_keys(4), VALUES))
    none = numpy.full(4, -1)
    first, gone = min(store.entries), b"gone"
    kinds = [int(kind) for kind in (Kind.READ, Kind.READ, Kind.SCAN, Kind.RMW)]
    made = Operations(
        kinds, [first, gone, first, first], [b"", b"", b"", b"new"], [0, 0, 3, 0], none, none
    )
    driven = drive(store, made)
    assert (driven.found, driven.scanned) == (2, 3)
    assert store.entries[first] == b"new"
    assert len(driven.took_ns) == 4 and driven.took_ns.sum() <= driven.elapsed_ns


# Measuring


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """Every installed engine through every workload."""
    return [
        found
        for name in INSTALLED
        for found in measure_here(task(name), str(tmp_path_factory.mktemp(name)))
    ]


def test_engines_agree_in_every_count_and_on_every_value(measured: list[Row]) -> None:
    assert {found.engine for found in measured} == set(INSTALLED)
    assert story(measured).failures == []


def test_reads_of_n_find_nothing_and_all_others_something(measured: list[Row]) -> None:
    for found in measured:
        reads = found.read_count + found.rmw_count
        assert found.found_count == (0 if found.workload == "N" else reads)


def test_the_counting_pass_counts_and_is_not_timed(tmp_path: Path) -> None:
    found = measure_here(task("lsmkv", "CN", is_counted=True), str(tmp_path))
    n = found[-1]
    assert n.data_block_reads is not None and n.filter_negatives is not None
    assert 0 <= n.data_block_reads + n.filter_negatives <= 2 * n.operations
    assert n.filter_negatives > 0
    assert all(numpy.isnan(getattr(n, name)) for name in NOT_A_TIME)


def test_lost_writes_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(base._ENGINES, "dict", ForgetfulEngine())
    load, a = measure_here(task("dict", "A"), str(tmp_path))
    assert load.wrong_count == 0
    assert a.wrong_count > 0
    assert any("do not hold what was written" in failure for failure in story([a]).failures)


# The experiment


def planned(*arguments: str) -> list[Task]:
    given = parser_for(EXPERIMENT).parse_args(["--out", "unused", *arguments])
    return EXPERIMENT.tasks(Plan(given.quick, given.seed, given))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--engines", "nothing"], "engine 'nothing': must be one of lsmkv, rocksdb"),
        (["--workloads", "AX"], "workloads 'AX': must be letters of ABC"),
        (["--workloads", ""], "workloads '': must be letters of ABC"),
    ],
)
def test_unknown_names_are_refused(arguments: list[str], said: str) -> None:
    with pytest.raises(SystemExit, match=f"bench: {said}"):
        planned(*arguments)


@pytest.mark.slow
@pytest.mark.parametrize("quick", [[], ["--quick"]])
def test_every_option_reaches_the_measurement(tmp_path: Path, quick: list[str]) -> None:
    arguments = ["--records", "50", "--operations", "20", "--repetitions", "1", *quick]
    arguments += ["--cache-size-mib", "3", "--write-buffer-size-mib", "5", "--workloads", "C"]
    arguments += ["--out", str(tmp_path), "--work", str(tmp_path), "--engines", "sqlite"]
    rows = experiment.run(EXPERIMENT, arguments).rows
    assert {(row.cache_size_bytes, row.write_buffer_size_bytes) for row in rows} == {
        (3 * KIB * KIB, 5 * KIB * KIB)
    }
    assert {row.operations for row in rows if row.workload == "C"} == {20}


def test_an_engine_that_is_not_installed_is_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    absent = DictEngine()
    monkeypatch.setattr(absent, "is_installed", lambda: False)
    monkeypatch.setitem(base._ENGINES, "dict", absent)
    assert "dict" in EXPERIMENT.missing()
    assert "dict" not in {task.engine for task in planned()}
