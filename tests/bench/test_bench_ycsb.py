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
from bench.experiments.ycsb import keys as ycsb_keys
from bench.experiments.ycsb.drive import Dictionary, drive
from bench.experiments.ycsb.experiment import EXPERIMENT
from bench.experiments.ycsb.keys import absent_keys, record_keys
from bench.experiments.ycsb.measure import measure, measure_here
from bench.experiments.ycsb.rows import NOT_A_TIME, Row
from bench.experiments.ycsb.story import story
from bench.experiments.ycsb.tasks import Task
from bench.experiments.ycsb.workloads import (
    LOAD,
    VALUE_BYTES,
    WORKLOADS,
    Kind,
    Operations,
    loading,
    most_inserts,
    operations_of,
)
from bench.harness import experiment, records
from bench.harness.experiment import Plan, parser_for
from bench.harness.ratios import FEWEST
from bench.workloads.keys import Values

RECORDS = 1000
COUNT = 20_000
VALUES = Values(VALUE_BYTES, seed=1)
INSTALLED = [engine.name for engine in base.engines() if engine.is_installed()]
EVERY = "".join(WORKLOADS)


class DictStore(Store):
    """A dict that can scan; each write replaces its ``get``, as in LMDB."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}
        self.get = dict(self.entries).get
        self.put = self.put_sync = self._put

    def _put(self, key: bytes, value: bytes) -> None:
        self.entries[key] = value
        self.get = self.entries.copy().get if len(self.entries) < 10 else self.entries.get

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


def task(engine: str, workloads: str = EVERY, repetition: int = 1) -> Task:
    return Task(
        engine=engine,
        repetition=repetition,
        workloads=tuple(workloads),
        records=300,
        operations=200,
        seed=1970,
        settings=Settings(
            cache_size_bytes=64 * KIB, write_buffer_size_bytes=64 * KIB, count=repetition == 0
        ),
    )


# Keys


def test_keys_are_those_of_ycsb() -> None:
    assert record_keys(2) == [b"user6284781860667377211", b"user8517097267634966620"]


def test_keys_are_equally_long_and_all_different() -> None:
    keys = record_keys(50_000)
    assert {len(key) for key in keys} == {23}
    assert len(set(keys)) == 50_000


def test_records_with_the_same_key_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ycsb_keys, "fnv64", lambda numbers: numbers.astype(numpy.uint64) // 2)
    with pytest.raises(ValueError, match="two records have the same key"):
        record_keys(2)


def test_an_absent_key_follows_its_record_directly() -> None:
    keys = record_keys(5000)
    absent = absent_keys(numpy.arange(5000), 5000)
    assert not set(absent) & set(keys)
    ordered = sorted([*keys, *absent])
    assert all(
        ordered[at + 1] == beside
        for at, beside in zip(map(ordered.index, keys[:20]), absent, strict=False)
    )


def test_absent_keys_pass_over_those_of_other_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ycsb_keys, "fnv64", lambda numbers: numbers.astype(numpy.uint64))
    assert absent_keys(numpy.array([3, 9]), 10) == [b"user%019d" % 10] * 2


# Operations


@pytest.mark.parametrize("name", EVERY)
def test_operations_have_the_mix_of_their_workload(name: str) -> None:
    made = operations(name)
    assert sum(made.count(kind) for kind in Kind) == len(made) == COUNT
    for kind, share in zip(Kind, WORKLOADS[name].mix, strict=True):
        if share in (0, 1):
            assert made.count(kind) == share * COUNT
        else:
            assert binomtest(made.count(kind), COUNT, share).pvalue > 0.001


def test_mixes_are_ycsbs() -> None:
    mixes = {name: workload.mix for name, workload in WORKLOADS.items() if name != "N"}
    assert mixes == {
        "A": (0.5, 0.5, 0, 0, 0),
        "B": (0.95, 0.05, 0, 0, 0),
        "C": (1, 0, 0, 0, 0),
        "D": (0.95, 0, 0.05, 0, 0),
        "E": (0, 0, 0.05, 0.95, 0),
        "F": (0.5, 0, 0, 0, 0.5),
    }


def test_the_same_seed_makes_the_same_operations() -> None:
    made, again, other = operations("A"), operations("A"), operations("A", seed="1970/2")
    assert (made.kinds, made.keys, made.values) == (again.kinds, again.keys, again.values)
    assert made.keys != other.keys


def test_workloads_of_one_seed_ask_for_different_records() -> None:
    assert operations("B").keys != operations("C").keys


@pytest.mark.parametrize("name", EVERY)
def test_only_existing_records_are_requested(name: str) -> None:
    made = operations(name)
    present = RECORDS
    for kind, number in zip(made.kinds, made.numbers.tolist(), strict=True):
        if kind == Kind.INSERT:
            assert number == present
            present += 1
        else:
            assert 0 <= number < present


def test_writes_have_whole_records_and_reads_no_values() -> None:
    made = operations("F")
    for kind, value in zip(made.kinds, made.values, strict=True):
        assert len(value) == (VALUE_BYTES if kind == Kind.RMW else 0)


def test_zipfian_requests_are_as_skewed_as_ycsbs() -> None:
    """Less than a zipfian over the records: the far ranks of ten billion fall on all of them."""
    counts = numpy.sort(numpy.bincount(operations("C").numbers, minlength=RECORDS))[::-1]
    assert 0.037 < counts[0] / COUNT < 0.047
    assert 0.28 < counts[: RECORDS // 10].sum() / COUNT < 0.34


def test_d_reads_the_newest_most() -> None:
    made = operations("D")
    kinds = numpy.array(made.kinds)
    inserts = kinds == Kind.INSERT
    ages = RECORDS + numpy.cumsum(inserts) - 1 - made.numbers
    counts = numpy.bincount(ages[~inserts])
    assert counts[0] > counts[1] > counts[2] > counts[10] > counts[100]
    assert counts[:100].sum() > 0.5 * (~inserts).sum()


def test_e_scans_one_to_a_hundred_entries() -> None:
    made = operations("E")
    scans = [
        length for kind, length in zip(made.kinds, made.lengths, strict=True) if kind == Kind.SCAN
    ]
    assert set(scans) == set(range(1, 101))
    assert sum(made.lengths) == sum(scans)


def test_n_asks_only_for_absent_keys() -> None:
    assert not set(operations("N").keys) & set(record_keys(RECORDS))


def test_few_operations_never_insert_more_than_there_are_keys_for() -> None:
    for count in (1, 5, 50):
        for seed in range(50):
            assert operations("D", count, str(seed)).count(Kind.INSERT) <= most_inserts(
                WORKLOADS["D"], count
            )


def test_loading_inserts_every_record_once() -> None:
    keys = record_keys(10)
    made = loading(keys, VALUES)
    assert made.keys == keys
    assert made.kinds == [Kind.INSERT] * 10
    assert made.values == [VALUES.of(number) for number in range(10)]


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


def test_reads_after_a_write_go_to_the_stores_new_get() -> None:
    """An old ``get`` of the DictStore does not see later puts."""
    none = numpy.full(2, -1)
    made = Operations(
        [int(Kind.INSERT), int(Kind.READ)], [b"k", b"k"], [b"v", b""], [0, 0], none, none
    )
    assert drive(DictStore(), made).found == 1


def test_a_dictionary_stands_in_for_a_store() -> None:
    entries: dict[bytes, bytes] = {}
    assert drive(Dictionary(entries), loading(record_keys(3), VALUES)).found == 0
    assert entries == dict(zip(record_keys(3), map(VALUES.of, range(3)), strict=True))


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


def test_every_workload_gives_a_row(measured: list[Row]) -> None:
    for name in INSTALLED:
        assert [row.workload for row in measured if row.engine == name] == [LOAD, *EVERY]


def test_reads_of_n_find_nothing_and_all_others_something(measured: list[Row]) -> None:
    for found in measured:
        reads = found.read_count + found.rmw_count
        assert found.found_count == (0 if found.workload == "N" else reads)


def test_inserts_make_the_store_grow(measured: list[Row]) -> None:
    ours = {found.workload: found for found in measured if found.engine == "lsmkv"}
    assert ours[LOAD].present_records == 0
    assert ours["D"].present_records == 300
    assert ours["E"].present_records == 300 + ours["D"].insert_count > 300


def test_scans_walk_over_no_more_than_asked_for(measured: list[Row]) -> None:
    for found in measured:
        assert found.scan_count <= found.scanned_entries <= 100 * found.scan_count


def test_times_are_there_for_the_kinds_that_were_done(measured: list[Row]) -> None:
    for found in measured:
        assert found.operations_per_s > 0 and found.loop_us_per_operation > 0
        for name in ("read", "update", "insert", "scan", "rmw"):
            median = getattr(found, f"{name}_us_p50")
            assert (median > 0) == (getattr(found, f"{name}_count") > 0)


def test_counts_repeat_in_another_process(tmp_path: Path, measured: list[Row]) -> None:
    again = measure(task("lsmkv"), str(tmp_path))
    ours = [found for found in measured if found.engine == "lsmkv"]
    assert records.repeatable(again) == records.repeatable(ours)


def test_the_counting_pass_counts_and_is_not_timed(tmp_path: Path) -> None:
    found = measure_here(task("lsmkv", "CN", repetition=0), str(tmp_path))
    n = found[-1]
    assert n.data_block_reads is not None and n.filter_negatives is not None
    assert 0 <= n.data_block_reads + n.filter_negatives <= 2 * n.operations
    assert n.filter_negatives > 0
    assert all(numpy.isnan(getattr(n, name)) for name in NOT_A_TIME)


def test_an_engine_that_counts_nothing_has_no_counting_pass(tmp_path: Path) -> None:
    assert measure_here(task("sqlite", "C", repetition=0), str(tmp_path)) == []


def test_lost_writes_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(base._ENGINES, "dict", ForgetfulEngine())
    load, a = measure_here(task("dict", "A"), str(tmp_path))
    assert load.wrong_count == 0
    assert a.wrong_count > 0
    assert any("do not hold what was written" in failure for failure in story([a]).failures)


def test_the_last_write_of_each_record_must_be_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(base._ENGINES, "dict", DictEngine())
    rows = measure_here(task("dict"), str(tmp_path))
    assert [found.wrong_count for found in rows] == [0] * len(rows)


# The experiment


def planned(*arguments: str) -> list[Task]:
    given = parser_for(EXPERIMENT).parse_args(["--out", "unused", *arguments])
    return EXPERIMENT.tasks(Plan(given.quick, given.seed, given))


def test_e_runs_on_a_store_of_its_own() -> None:
    groups = list(dict.fromkeys(task.workloads for task in planned("--engines", "lsmkv")))
    assert groups == [("A", "B", "C", "N", "F", "D"), ("E",)]


def test_chosen_workloads_keep_their_order() -> None:
    found = planned("--engines", "lsmkv", "--workloads", "NDA", "--repetitions", "1")
    assert [task.workloads for task in found] == [("A", "N", "D")] * 2


def test_another_engine_begins_each_repetition() -> None:
    chosen = ["--engines", "lsmkv,sqlite", "--workloads", "C", "--repetitions", "2"]
    order = [(task.repetition, task.engine) for task in planned(*chosen)]
    assert order == [
        (0, "lsmkv"),
        (0, "sqlite"),
        (1, "sqlite"),
        (1, "lsmkv"),
        (2, "lsmkv"),
        (2, "sqlite"),
    ]


def test_only_the_counting_pass_has_engines_count() -> None:
    assert {(task.repetition == 0, task.settings.count) for task in planned()} == {
        (True, True),
        (False, False),
    }


def test_quick_is_small() -> None:
    assert {task.records for task in planned("--quick")} == {20_000}
    assert {task.records for task in planned()} == {1_000_000}
    assert {task.records for task in planned("--quick", "--records", "7")} == {7}


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


@pytest.mark.parametrize(
    "option",
    ["--records", "--operations", "--repetitions", "--cache-size-mib", "--write-buffer-size-mib"],
)
@pytest.mark.parametrize(("value", "said"), [("0", "0: must be 1 or more"), ("x", "invalid")])
def test_wrong_numbers_are_refused_by_name(
    option: str, value: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        planned(option, value)
    assert f"argument {option}: {said}" in capsys.readouterr().err


@pytest.mark.parametrize("quick", [[], pytest.param(["--quick"], marks=pytest.mark.slow)])
def test_every_option_reaches_the_measurement(tmp_path: Path, quick: list[str]) -> None:
    arguments = ["--records", "50", "--operations", "20", "--repetitions", "1", *quick]
    arguments += ["--cache-size-mib", "3", "--write-buffer-size-mib", "5", "--workloads", "C"]
    arguments += ["--out", str(tmp_path), "--work", str(tmp_path), "--engines", "sqlite"]
    rows = experiment.run(EXPERIMENT, arguments).rows
    assert {(row.cache_size_bytes, row.write_buffer_size_bytes) for row in rows} == {
        (3 * KIB * KIB, 5 * KIB * KIB)
    }
    assert {row.operations for row in rows if row.workload == "C"} == {20}


def test_there_are_as_many_repetitions_as_an_interval_needs() -> None:
    assert max(task.repetition for task in planned()) == FEWEST
    assert max(task.repetition for task in planned("--quick")) == FEWEST


def test_an_engine_that_is_not_installed_is_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    absent = DictEngine()
    monkeypatch.setattr(absent, "is_installed", lambda: False)
    monkeypatch.setitem(base._ENGINES, "dict", absent)
    assert "dict" in EXPERIMENT.missing()
    assert "dict" not in {task.engine for task in planned()}


PLUGIN = """
from bench.engines.base import register
from bench.engines.lsmkv_engine import Lsmkv

class Renamed(Lsmkv):
    name = "renamed"

register(Renamed())
"""


@pytest.mark.slow
def test_an_engine_of_a_plugin_is_measured_in_its_own_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_ENGINES", dict(base._ENGINES))
    plugin = tmp_path / "plugin.py"
    plugin.write_text(PLUGIN)
    sizes = ["--records", "50", "--operations", "20", "--repetitions", "1"]
    chosen = ["--engines", "renamed", "--workloads", "C", "--plugin", str(plugin)]
    results = experiment.run(EXPERIMENT, ["--out", str(tmp_path), *sizes, *chosen])
    assert {found.engine for found in results.rows} == {"renamed"}
    assert experiment.write(EXPERIMENT, results, str(tmp_path / "out"))
