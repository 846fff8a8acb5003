"""Plug-ins that add engines, workloads or filter policies; the example plug-ins."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

import lsmkv
from bench.engines import base
from bench.engines.base import Settings, Store, engine_named
from bench.experiments.saved_io import datasets
from bench.experiments.ycsb import workloads
from bench.experiments.ycsb.experiment import EXPERIMENT
from bench.harness import experiment, plugins
from bench.harness.sweep import sweep
from bench.traces import base as traces
from bench.traces.base import Operation
from filter_kinds import own_registry
from lsmkv.filters import policies

FOLDER = Path(plugins.__file__).parent.parent / "examples"
POLICY = str(FOLDER / "partitioned_policy.py")
ENGINE = str(FOLDER / "log_engine.py")
WORKLOAD = str(FOLDER / "scan_workload.py")


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Undo the registrations of plug-ins after each test."""
    engines = dict(base._ENGINES)
    known = dict(workloads.WORKLOADS)
    made = dict(datasets._DATA_SETS)
    forms = dict(traces._FORMATS)
    base._ENGINES.pop("log", None)
    with own_registry():
        yield
    base._ENGINES.clear()
    base._ENGINES.update(engines)
    workloads.WORKLOADS.clear()
    workloads.WORKLOADS.update(known)
    datasets._DATA_SETS.clear()
    datasets._DATA_SETS.update(made)
    datasets.content.cache_clear()
    traces._FORMATS.clear()
    traces._FORMATS.update(forms)
    for name in [name for name in sys.modules if name.startswith("bench_plugin_")]:
        del sys.modules[name]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    plugins.load([ENGINE])
    opened = engine_named("log").open(str(tmp_path), Settings())
    yield opened
    opened.close()


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda file: file.stem)
def test_every_example_plug_in_adds_something_and_shows_its_option(file: Path) -> None:
    def known() -> int:
        return (
            len(policies())
            + len(base.engines())
            + len(workloads.WORKLOADS)
            + len(datasets.data_sets())
            + len(traces.formats())
        )

    before = known()
    plugins.load([str(file)])
    assert known() == before + 1
    assert f"--plugin bench/examples/{file.name}" in file.read_text()


@pytest.mark.slow
def test_the_workload_is_run_with_the_others() -> None:
    arguments = ["--quick", "--out", "unused", "--workloads", "CS", "--engines", "lsmkv"]
    arguments += ["--records", "200", "--operations", "100", "--repetitions", "1"]
    found = experiment.run(EXPERIMENT, [*arguments, "--plugin", WORKLOAD])
    assert {row.workload for row in found.rows} == {"load", "C", "S"}
    assert all(row.scan_count > 20 for row in found.rows if row.workload == "S")


@pytest.mark.parametrize(
    ("name", "mix", "reason"),
    [
        ("A", (1, 0, 0, 0, 0), "none of A"),
        ("XY", (1, 0, 0, 0, 0), "one letter"),
        ("X", (1, 1, 0, 0, 0), "add up to 1"),
        ("X", (2, -1, 0, 0, 0), "not be negative"),
    ],
)
def test_a_workload_that_cannot_be_is_refused(
    name: str, mix: tuple[float, float, float, float, float], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        workloads.register(workloads.Workload(name, "wrong", mix))


def test_a_plug_in_is_loaded_once() -> None:
    plugins.load([POLICY, POLICY])
    plugins.load([POLICY])
    assert [policy.name for policy in policies()].count("partitioned") == 1


def test_a_file_that_is_missing_is_named() -> None:
    with pytest.raises(SystemExit, match=r"nowhere\.py: no such Python file"):
        plugins.load(["nowhere.py"])


# The policy


def policy_of(name: str, directory: str) -> str:
    """The policy that a new table written with ``name`` states."""
    with lsmkv.open(directory, filter_policy=name) as db:
        db.put(b"key", b"value")
        db.flush()
        return next(db.inspect().tables()).filter_kind


@pytest.mark.slow
def test_plug_ins_are_loaded_in_measuring_processes() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        found = sweep(policy_of, ["partitioned", "bloom"], executor, plugin_files=[POLICY])
    assert found == ["partitioned", "bloom"]


# The engine


def test_the_engine_keeps_the_contract_of_engines(store: Store) -> None:
    store.put(b"b", b"2")
    store.put_sync(b"a", b"1")
    store.put_batch([(b"c", b"3"), (b"d", b""), (b"a", b"one")], sync=True)
    store.delete(b"b")
    store.settle()
    assert store.multi_get([b"a", b"b", b"c", b"d", b"e"]) == [b"one", None, b"3", b"", None]
    assert store.get(b"a") == b"one"
    assert [store.scan(None, None), store.scan(b"b", None), store.scan(None, 2)] == [3, 2, 2]
    assert store.scan(b"c", None, reverse=True) == 2
    assert store.counters() == {}


def test_the_engine_keeps_whole_batches_and_no_part_of_one(store: Store, tmp_path: Path) -> None:
    store.put(b"kept", b"1")
    store.put_batch([(b"torn", b"1"), (b"kept", b"2")])
    log = tmp_path / "entries.log"
    log.write_bytes(log.read_bytes()[:-1])
    again = engine_named("log").open(str(tmp_path), Settings())
    assert (again.get(b"kept"), again.get(b"torn")) == (b"1", None)
    again.put(b"next", b"3")
    again.close()
    last = engine_named("log").open(str(tmp_path), Settings())
    assert last.multi_get([b"kept", b"torn", b"next"]) == [b"1", None, b"3"]
    last.close()


# The data set


def test_the_data_set_reads_the_keys_and_the_lookups_of_a_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("0,a,1,30,9,set,60\n1,b,1,5,9,add,60\n2,a,1,0,9,get,0\n3,c,1,0,9,gets,0\n")
    monkeypatch.setenv("TWITTER_TRACE", str(path))
    plugins.load([str(FOLDER / "twitter_trace.py")])
    found = datasets.content("twitter", 100, 1)
    assert [(key, len(value)) for key, value in found.entries] == [(b"a", 30), (b"b", 5)]
    assert found.trace == [b"a", b"c"]
    path.write_text("0,a,1\n")
    with pytest.raises(ValueError, match="line 1: not of the format twitter"):
        datasets.content("twitter", 101, 1)


# The form of traces


def test_the_form_is_told_by_its_lines_and_read(tmp_path: Path) -> None:
    path = tmp_path / "commands"
    path.write_text('OK\n7.1 [0 [::1]:6] "SET" "a b" "\\"12"\n8.0 [0 lua] "MGET" "a b" "c"\n')
    plugins.load([str(FOLDER / "trace_format.py")])
    found = traces.format_named("auto", str(path))
    assert list(traces.read_trace(str(path), found)) == [
        Operation("put", (b"a b",), 3, time_s=7),
        Operation("multi-get", (b"a b", b"c"), time_s=8),
    ]
