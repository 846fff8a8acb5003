"""Phases of ``peers`` one by one: dropped pages, two windows, threads, deletions and compactions."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.engines.base import engine_named
from bench.experiments.peers.beside import beside
from bench.experiments.peers.experiment import EXPERIMENT
from bench.experiments.peers.outcome import Outcome
from bench.experiments.peers.phases import PHASES
from bench.experiments.peers.rows import Row
from bench.experiments.peers.stores import STRETCH, Stores
from bench.experiments.peers.tasks import Task
from bench.harness import page_cache
from bench.harness.experiment import Results, run
from bench.harness.memory_group import why_no_memory_group
from bench.harness.process_meter import os_read_bytes
from lsmkv.options import MIB

pytestmark = pytest.mark.slow  # real stores of every configuration

ENGINES = ("lsmkv", "rocksdb", "leveldb", "lmdb", "sqlite")
ENTRIES = 2000

on_a_disk = pytest.mark.skipif(
    page_cache.why_not_dropped(tempfile.gettempdir()) is not None,
    reason="pages of files in the temporary directory cannot be dropped",
)


def stores_of(engine: str, path: Path, entries: int = ENTRIES) -> Stores:
    if not engine_named(engine).is_installed():
        pytest.skip(f"{engine} is not installed")
    path.mkdir(exist_ok=True)
    task = Task(
        number=0,
        engines=(engine,),
        phases=(),
        entries=entries,
        seed=1,
        bits_per_key=10.0,
        cache_size_bytes=MIB,
        compression="none",
    )
    return Stores(task, engine, str(path), direct_reads=False)


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    made = stores_of("lsmkv", tmp_path)
    yield made
    made.close()


def passes(stores: Stores, phase: str, count: int = 1) -> list[Outcome]:
    running = PHASES[phase].outcomes(stores)
    try:
        return [next(running) for _ in range(count)]
    finally:
        running.close()


# The page cache


@on_a_disk
def test_dropped_pages_are_gone_and_read_again(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(os.urandom(MIB))
    assert page_cache.resident_bytes(str(tmp_path)) == MIB
    assert page_cache.drop(str(tmp_path)) == 0
    before = os_read_bytes() or 0
    (tmp_path / "file").read_bytes()
    assert (os_read_bytes() or 0) - before >= MIB
    assert page_cache.resident_bytes(str(tmp_path)) == MIB


# Cold lookups


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("keys", ["readrandom", "readmissing"])
def test_windows_and_threads_find_the_same(engine: str, keys: str, tmp_path: Path) -> None:
    stores = stores_of(engine, tmp_path, entries=600)
    found = [passes(stores, f"{keys}_cold{form}")[0] for form in ("_open", "", "_8")]
    stores.close()
    expected = 500 if keys == "readrandom" else 0
    assert [outcome.result_count for outcome in found] == [expected] * 3
    assert found[0].result_checksum == found[1].result_checksum


@on_a_disk
def test_the_window_with_opening_contains_what_is_loaded(stores: Stores) -> None:
    ((opened,), (alone,)) = (passes(stores, f"readmissing_cold{form}") for form in ("_open", ""))
    assert (opened.os_read_bytes_timed or 0) > (alone.os_read_bytes_timed or 0)
    assert opened.page_cache_bytes_before == alone.page_cache_bytes_before == 0


@on_a_disk
def test_each_cold_pass_reads_again(stores: Stores) -> None:
    first, second = passes(stores, "readrandom_cold", 2)
    assert (first.os_read_bytes_timed or 0) > 0
    assert (second.os_read_bytes_timed or 0) > (first.os_read_bytes_timed or 0) // 2
    assert first.data_block_reads is not None
    assert second.data_block_reads is None  # counted once


# Less page cache than data


def limited_run(tmp_path: Path, *more: str) -> Results[Row]:
    arguments = ["--out", "unused", "--work", str(tmp_path), "--repetitions", "1", "--passes", "1"]
    arguments += ["--entries", "12000", "--engines", "sqlite", "--memory-mib", "1", *more]
    return run(EXPERIMENT, arguments)


@on_a_disk
def test_the_page_cache_is_limited(tmp_path: Path) -> None:
    rows = limited_run(tmp_path, "--phases", "readrandom_limited,readmissing_limited").rows
    assert {row.page_cache_limit_bytes for row in rows} == {MIB}
    for row in rows:
        assert (row.os_read_bytes_timed or 0) > MIB
        assert MIB // 2 < (row.page_cache_bytes_most or 0) < 1.5 * MIB


@on_a_disk
def test_a_control_group_limits_cache_and_page_cache_together(tmp_path: Path) -> None:
    if why_no_memory_group() is not None:
        pytest.skip(str(why_no_memory_group()))
    stores = stores_of("sqlite", tmp_path, entries=200_000)
    (outcome,) = passes(stores, "readrandom_group")
    stores.close()
    assert stores.group_limit_bytes() == 16 * MIB
    assert (outcome.os_read_bytes_timed or 0) > MIB
    assert 0 < (outcome.page_cache_bytes_most or 0) <= 16 * MIB


def test_a_limit_that_holds_all_of_the_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"1,048,576 bytes hold all of the data \(34,800 bytes\)"):
        limited_run(tmp_path, "--entries", "300")


def test_pages_that_stay_during_the_phase_end_it(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_cache, "drop", lambda directory, tries=1: 1 << 30)
    with pytest.raises(RuntimeError, match=r"bytes of .* stay in the page cache: .*--work"):
        passes(stores, "readrandom_limited")


# Deletions, overwrites and compactions


@pytest.mark.parametrize("engine", ENGINES)
def test_lookups_and_scans_beside_deletions_agree(engine: str, tmp_path: Path) -> None:
    stores = stores_of(engine, tmp_path, entries=1000)
    (got,), (scanned,) = (passes(stores, phase) for phase in ("readdeleted", "scandeleted"))
    stores.close()
    ours = stores_of("lsmkv", tmp_path / "ours", entries=1000)
    (our_got,), (our_scanned,) = (passes(ours, phase) for phase in ("readdeleted", "scandeleted"))
    ours.close()
    assert (got.result_count, got.result_checksum) == (500, our_got.result_checksum)
    assert scanned.result_count == our_scanned.result_count > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_lookups_beside_compactions_find_every_other_key(engine: str, tmp_path: Path) -> None:
    stores = stores_of(engine, tmp_path)
    first, second = passes(stores, "readcompacting", 2)
    assert first.result_count == second.result_count == first.operations // 2
    assert first.compacting_share is not None and 0.0 <= first.compacting_share <= 1.0
    assert os.listdir(stores.path("compacting")) == []  # the store is gone


def test_an_error_beside_lookups_is_raised() -> None:
    def fail(begun: threading.Event, stop: threading.Event) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"), beside(fail):
        pass


# Every phase by itself


@pytest.mark.parametrize("phase", [name for name in PHASES if name.startswith(("read", "open"))])
def test_a_reading_phase_alone_fills_its_store_itself(phase: str, tmp_path: Path) -> None:
    stores = stores_of("lsmkv", tmp_path, entries=300)
    (found,) = passes(stores, phase)
    stores.close()
    absent = phase.startswith("readmissing")
    half = {"readcompacting": found.operations // 2, "readdeleted": STRETCH}
    assert found.result_count == half.get(phase, 0 if absent else found.operations)
