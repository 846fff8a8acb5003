"""Compactions of a range as jobs in an executor."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import fill, number_key, open_small

import lsmkv
from damage import files, flip
from filter_kinds import OwnPolicy, own_registry
from gates import WAIT_S
from lsmkv.background.process import parallel, runner
from lsmkv.background.process.staged import Failed
from lsmkv.errors import CorruptionError
from lsmkv.filters.policy import register
from lsmkv.options import CompactionStyle
from lsmkv.salvage.repair import repair
from lsmkv.storage.file_names import UNFINISHED, new_staging_name
from lsmkv.storage.storage import Storage
from time_limits import join

MANY_JOBS: dict[str, Any] = {"process_job_size_bytes": 1024}


@pytest.fixture(scope="module")
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(3) as pool:
        yield pool


def processes() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


class Elsewhere(Executor):
    """Runs jobs at once, as another process would: from what can be pickled."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def write_randomly(db: lsmkv.DB, seed: int, count: int = 1500) -> None:
    chosen = random.Random(seed)
    for _ in range(count):
        key = number_key(chosen.randrange(600))
        if chosen.random() < 0.3:
            db.delete(key)
        else:
            db[key] = chosen.randbytes(20)


def staged(path: str) -> list[str]:
    return [name for name in os.listdir(path) if name.startswith("staging")]


def live(db: lsmkv.DB) -> set[str]:
    return {table.file_name for table in db.inspect().tables()}


@pytest.mark.parametrize(
    ("style", "executor"),
    [("leveled", "threads"), ("leveled", "elsewhere"), ("tiered", "elsewhere")],
)
def test_contents_and_snapshots_are_those_of_the_ordinary_compaction(
    tmp_path: Path, threads: Executor, style: CompactionStyle, executor: str
) -> None:
    found = []
    for name in ("ordinary", executor):
        options = {**MANY_JOBS, "compaction": style}
        with open_small(tmp_path / name, **options) as db:
            write_randomly(db, 1)
            snapshots = [db.snapshot()]
            write_randomly(db, 2, 300)
            snapshots.append(db.snapshot())
            write_randomly(db, 3, 300)
            pool = {"ordinary": None, "threads": threads, "elsewhere": Elsewhere()}[name]
            db.compact_range(executor=pool)
            info = db.inspect()
            assert sum(len(level.runs) for level in info.levels) == 1
            assert db.verify().ok
            entries = sum(table.entry_count for table in info.tables())
            deletions = sum(table.tombstone_count for table in info.tables())
            tables = len(list(info.tables()))
            reads = [list(source.items()) for source in (db, *snapshots)]
            found.append((entries, deletions, reads))
            for snapshot in snapshots:
                snapshot.close()
    assert found[0] == found[1]
    assert tables > 4


def test_deletions_go_and_boundaries_are_in_order(path: str, threads: Executor) -> None:
    with open_small(path, **MANY_JOBS) as db:
        write_randomly(db, 1)
        db.compact_range(executor=threads)
        tables = sorted(db.inspect().tables(), key=lambda table: table.smallest)
        assert sum(table.tombstone_count for table in tables) == 0
        assert sum(table.entry_count for table in tables) == len(db)
        assert all(left.largest < right.smallest for left, right in pairwise(tables))


def test_all_versions_of_a_key_stay_together(path: str, threads: Executor) -> None:
    with open_small(path, **MANY_JOBS) as db:
        fill(db, range(300))
        snapshots = []
        for number in range(60):  # several blocks of one key
            db[number_key(150)] = b"%030d" % number
            snapshots.append(db.snapshot())
        db.compact_range(executor=threads)
        for number, snapshot in enumerate(snapshots):
            assert snapshot[number_key(150)] == b"%030d" % number
            assert len(list(snapshot.items())) == 300
            snapshot.close()


def test_only_the_range_is_merged(path: str, threads: Executor) -> None:
    with open_small(path, **MANY_JOBS) as db:
        fill(db, range(1000))
        db.compact_range()
        before = {table.file_name: table.largest for table in db.inspect().tables()}
        db.compact_range(number_key(400), number_key(600), force=True, executor=threads)
        kept = live(db) & set(before)
        assert kept and kept != set(before)
        assert kept >= {name for name, largest in before.items() if largest < number_key(400)}


def test_an_empty_store_and_an_empty_range_need_no_job(path: str, threads: Executor) -> None:
    with open_small(path) as db:
        db.compact_range(executor=threads)
        fill(db, range(10))
        db.compact_range(b"x", b"y", executor=threads)
        db.compact_range(b"y", b"x", executor=threads)
        assert len(db) == 10


def test_everything_deleted_leaves_no_table(path: str, threads: Executor) -> None:
    with open_small(path, **MANY_JOBS) as db:
        fill(db, range(500))
        db.flush()
        db.clear()
        db.compact_range(executor=threads)
        assert live(db) == set() and files(Path(path), ".sst") == []


def test_the_result_survives_reopening_and_repair_without_a_manifest(
    path: str, threads: Executor
) -> None:
    with open_small(path, **MANY_JOBS) as db:
        write_randomly(db, 1)
        db.compact_range(executor=threads)
        contents = dict(db.items())
    with open_small(path) as db:
        assert dict(db.items()) == contents
    (Path(path) / "CURRENT").unlink()
    repair(path, in_place=True)
    with open_small(path) as db:
        assert dict(db.items()) == contents


@pytest.mark.parametrize("executor", [None, Elsewhere()], ids=["threads", "elsewhere"])
def test_a_failed_job_changes_nothing_and_writes_go_on(
    path: str, threads: Executor, executor: Executor | None
) -> None:
    with open_small(path, **MANY_JOBS) as db:
        write_randomly(db, 1)
        db.flush()
        db.wait_until_settled()
        before = live(db)
    flip(Path(path) / max(before), 100)
    with open_small(path, **MANY_JOBS) as db:
        assert live(db) == before
        with pytest.raises(CorruptionError):
            db.compact_range(force=True, executor=executor or threads)
        assert live(db) == before == {file.name for file in files(Path(path), ".sst")}
        assert staged(path) == []
        db[b"more"] = b"written"


class Deadly(ProcessPoolExecutor):
    """Its worker is killed at the second job."""

    jobs = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.jobs += 1
        if self.jobs == 2:
            return super().submit(os._exit, 9)
        return super().submit(fn, *args, **kwargs)


def test_a_killed_worker_changes_nothing(path: str) -> None:
    with open_small(path, **MANY_JOBS) as db:
        contents = fill(db, range(300))
        db.flush()
        db.wait_until_settled()
        before = live(db)
        said = "the store is as it was: BrokenProcessPool"
        with (
            Deadly(1, mp_context=multiprocessing.get_context("spawn")) as pool,
            pytest.raises(lsmkv.WorkerError, match=said),
        ):
            db.compact_range(force=True, executor=pool)
        assert live(db) == before == {file.name for file in files(Path(path), ".sst")}
        assert staged(path) == []
        db[b"more"] = b"written"
        del db[b"more"]
        assert dict(db.items()) == contents
        with processes() as pool:
            db.compact_range(force=True, executor=pool)
        assert dict(db.items()) == contents and live(db).isdisjoint(before)


class Never(Executor):
    """Takes jobs and runs none."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []
        self.has_job = threading.Event()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.futures.append(future)
        self.has_job.set()
        return future


def test_closing_the_store_cancels_the_jobs(path: str) -> None:
    errors: list[BaseException] = []
    executor = Never()
    with open_small(path, **MANY_JOBS) as db:
        fill(db, range(300))

        def compact() -> None:
            try:
                db.compact_range(force=True, executor=executor)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=compact)
        thread.start()
        assert executor.has_job.wait(WAIT_S)
    join(thread)
    assert [type(error) for error in errors] == [lsmkv.ClosedError]
    assert all(future.cancelled() for future in executor.futures)
    assert staged(path) == []


def test_a_job_that_outlives_the_store_writes_nothing(path: str) -> None:
    jobs: list[tuple[Any, ...]] = []

    class Kept(Executor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            jobs.append((fn, *args))
            raise RuntimeError("full")

    with open_small(path, **MANY_JOBS) as db:
        fill(db, range(300))
        with pytest.raises(lsmkv.WorkerError, match="takes no job: RuntimeError: full"):
            db.compact_range(force=True, executor=Kept())
        before = sorted(os.listdir(path))
        run, *arguments = jobs[0]
        reply = parallel._REPLY.decode(run(*arguments))
        assert isinstance(reply, Failed)
        assert reply.failure.kind == "FileNotFoundError"
        assert sorted(os.listdir(path)) == before


def test_an_opening_removes_what_a_dead_process_staged(path: str) -> None:
    with open_small(path) as db:
        fill(db, range(10))
    for name in (new_staging_name(), new_staging_name() + UNFINISHED):
        folder = Path(path, name, "attempt")
        folder.mkdir(parents=True)
        (folder / "000007.sst").write_bytes(b"half")
    with open_small(path) as db:
        assert len(db) == 10
    assert staged(path) == []


def test_destroy_removes_what_a_dead_process_staged(path: str) -> None:
    open_small(path).close()
    Path(path, new_staging_name(), "attempt").mkdir(parents=True)
    lsmkv.destroy(path)
    assert not os.path.exists(path)


def test_a_job_without_enough_numbers_gets_more(
    path: str, threads: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "numbers_wanted", lambda *_: 1)
    with open_small(path, process_job_size_bytes=1 << 20) as db:  # one job
        contents = fill(db, range(2000))
        db.compact_range(force=True, executor=threads)
        assert len(live(db)) > 2
        assert dict(db.items()) == contents


def test_what_is_no_executor_is_refused_before_anything_is_done(path: str) -> None:
    with open_small(path) as db:
        db[b"key"] = b"value"
        with pytest.raises(TypeError, match=r"not str \(a Dask client gives one"):
            db.compact_range(executor="threads")  # type: ignore[arg-type]
        assert live(db) == set()


class OwnStorage(Storage):
    """A storage that only this process has."""


def test_a_storage_of_this_process_alone_needs_a_thread_pool(path: str, threads: Executor) -> None:
    with open_small(path, storage=OwnStorage(), **MANY_JOBS) as db:
        contents = fill(db, range(300))
        with pytest.raises(ValueError, match=r"storage is one that only .* ThreadPoolExecutor"):
            db.compact_range(executor=Elsewhere())
        db.compact_range(executor=threads)
        assert dict(db.items()) == contents


def test_a_filter_policy_of_this_process_alone_needs_a_thread_pool(
    path: str, threads: Executor
) -> None:
    with own_registry():
        register(OwnPolicy())
        with open_small(path, filter_policy="own-bloom", **MANY_JOBS) as db:
            contents = fill(db, range(300))
            with pytest.raises(ValueError, match="'own-bloom' is registered in this process alone"):
                db.compact_range(executor=Elsewhere())
            db.compact_range(executor=threads)
            assert dict(db.items()) == contents


def test_a_copy_of_a_store_is_compacted_by_dask(path: str, tmp_path: Path) -> None:
    distributed: Any = pytest.importorskip("distributed")
    with open_small(path, **MANY_JOBS) as db:
        write_randomly(db, 1)
    shutil.copytree(path, tmp_path / "copy")
    with open_small(path) as db:
        db.compact_range(force=True)
        contents = list(db.items())
    with (
        distributed.Client(processes=False, n_workers=1, dashboard_address=":0") as client,
        open_small(tmp_path / "copy", **MANY_JOBS) as db,
    ):
        db.compact_range(force=True, executor=client.get_executor())
        assert list(db.items()) == contents


class Cancelling(Executor):
    """Cancels jobs that wait, as ``shutdown(cancel_futures=True)`` of a pool does meanwhile."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.cancel()
        return future


class ReturningNothing(Executor):
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return None


@pytest.mark.parametrize("executor", [Cancelling(), ReturningNothing()])
def test_a_job_that_will_never_run_is_an_error(path: str, executor: Executor) -> None:
    errors: list[BaseException] = []

    def compact(db: lsmkv.DB) -> None:
        try:
            db.compact_range(executor=executor)
        except (lsmkv.Error, AttributeError) as error:
            errors.append(error)

    with open_small(path, **MANY_JOBS) as db:
        fill(db, range(300))
        thread = threading.Thread(target=compact, args=(db,), daemon=True)
        thread.start()
        thread.join(5)
        assert [type(error) for error in errors] == [lsmkv.WorkerError]
        assert staged(path) == []
        assert len(db) == 300 and db.verify().ok
