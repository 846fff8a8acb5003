"""Background work in helper processes, or here where they cannot do it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import fill, number_key, open_small

import lsmkv
from damage import files
from filter_kinds import OwnPolicy, own_registry
from helper_processes import (
    MODES,
    helpers,
    is_running,
    live_tables,
    open_store,
    running,
    table_names,
)
from log_files import written_bytes
from lsmkv.background import background_thread
from lsmkv.background.process import jobs
from lsmkv.background.process import parent as process
from lsmkv.background.process.jobs import FlushJob, JobSpec, LogUnusableError, job_storage, run_job
from lsmkv.filters.policy import register
from lsmkv.sstable.format import TableMeta
from lsmkv.stats import Stats
from lsmkv.tree.version_set import table_format


def has_runners(db: lsmkv.DB) -> bool:
    return db._engine.background.flusher.runner is not None


# --- where work is done --------------------------------------------------------------------------


def test_flushes_and_compactions_run_each_in_a_process_of_their_own(path: str) -> None:
    with open_store(path) as db:
        assert [helper.pid for helper in helpers(db)] == [None, None]
        contents = fill(db, range(100))
        db.flush()
        flusher, compactor = helpers(db)
        assert flusher.pid is not None and compactor.pid is None
        db.compact_range(force=True)
        assert len({flusher.pid, compactor.pid, os.getpid(), None}) == 4
        assert dict(db.items()) == contents
        pids = [running(helper) for helper in helpers(db)]
    assert not any(map(is_running, pids))
    with open_small(path) as db:
        assert dict(db.items()) == contents and db.verify().ok


def test_no_process_is_started_for_little_work(path: str) -> None:
    with open_store(path, process_job_size_bytes=lsmkv.Options().process_job_size_bytes) as db:
        fill(db, range(1000))
        db.flush()
        db.compact_range(force=True)
        assert [helper.pid for helper in helpers(db)] == [None, None]


def test_counters_of_helpers_are_added_to_stats(path: str, tmp_path: Path) -> None:
    counted = []
    for mode in MODES:
        with open_store(tmp_path / mode, mode, write_buffer_size_bytes=1 << 20) as db:
            for seed in range(3):
                fill(db, range(500), seed=seed)
                db.flush()
            db.compact_range()
            counted.append(db.stats())
    thread, elsewhere = counted
    for name in (
        *("flushes", "flush_bytes", "compactions", "compaction_write_bytes"),
        *("compaction_block_reads", "compaction_read_bytes", "block_reads", "filter_read_bytes"),
    ):
        # A table contains its number.
        assert getattr(elsewhere, name) == pytest.approx(getattr(thread, name), abs=20), name
    assert elsewhere.filter_build_ns > 0
    assert elsewhere.log_read_bytes - thread.log_read_bytes >= 1500 * 40  # logs, which flushes read
    assert elsewhere.index_reads > thread.index_reads
    assert elsewhere.flush_us.count == thread.flush_us.count == 3


def test_a_snapshot_older_than_a_flush_sees_what_the_log_alone_holds(path: str) -> None:
    with open_store(path, write_buffer_size_bytes=1 << 20) as db:
        snapshots = []
        for turn in range(4):
            with db.write_batch() as batch:
                for number in range(50):
                    batch.put(number_key(number), b"batch %d" % turn)
                batch.delete(number_key(turn))
            db[b"single"] = b"%d" % turn
            snapshots.append((db.snapshot(), dict(db.items())))
        db[b"single"] = b"last"
        db.flush()
        for snapshot, contents in snapshots:
            assert dict(snapshot.items()) == contents
        assert db[b"single"] == b"last"
        for snapshot, _ in snapshots:
            snapshot.close()
        db.compact_range()
        assert db.inspect().entry_count == len(db) == 50


def test_a_flush_may_write_more_tables_than_expected(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "numbers_wanted", lambda *_: 1)
    with open_store(path, table_size_bytes=4096, write_buffer_size_bytes=1 << 20) as db:
        contents = fill(db, range(1000))
        db.flush()
        assert len(live_tables(db)) > 3
        assert live_tables(db) == table_names(path)
        assert dict(db.items()) == contents


def flush_of(db: lsmkv.DB, keys: int, known_keys: int | None) -> FlushJob:
    """A flush of a store's only log, which may write the tables 100 to 199."""
    db.sync()
    log = files(Path(db.path), ".log")[0]
    return FlushJob(
        spec=JobSpec(
            directory=os.fsencode(db.path),
            format=table_format(db.options, 0.01),
            table_size_bytes=db.options.table_size_bytes,
            direct_reads=False,
            file_mode=0o600,
            first_number=100,
            number_count=100,
            snapshots=[],
            drop_deletions=False,
            due_s=0,
            replaces=[],
        ),
        log_number=int(log.stem),
        log_bytes=written_bytes(log),
        first_seq=1,
        end_seq=keys + 1,
        key_count=known_keys,
    )


@pytest.mark.parametrize("known_keys", [200, None])
def test_a_job_is_a_plain_function_of_files(path: str, known_keys: int | None) -> None:
    with open_small(path, write_buffer_size_bytes=1 << 20) as db:
        fill(db, range(200))
        job, stats = flush_of(db, 200, known_keys), Stats()
        written = run_job(job, job_storage(job.spec, stats), path, lambda: False)
        assert [meta.number for meta in written] == list(range(100, 100 + len(written)))
        assert sum(meta.entry_count for meta in written) == 200
        assert stats.log_reads == 1


def test_a_flush_of_a_log_wants_the_keys_that_the_memtable_counted(path: str) -> None:
    with open_small(path, write_buffer_size_bytes=1 << 20) as db:
        fill(db, range(200))
        job = flush_of(db, 200, 201)
        with pytest.raises(LogUnusableError, match="does not hold"):
            run_job(job, job_storage(job.spec, Stats()), path, lambda: False)


def test_a_flush_of_batches_runs_in_a_process_whether_or_not_they_were_read(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flushed_here(*_: object) -> list[TableMeta]:
        raise OSError("flushed in this process")

    monkeypatch.setattr(background_thread, "write_tables", flushed_here)
    with open_store(path, write_buffer_size_bytes=1 << 20) as db:
        contents = {}
        for value in (b"1", b"2", b"3", b"4"):
            with db.write_batch() as batch:
                for number in range(500):  # keys of the batch before
                    batch[number_key(number)] = contents[number_key(number)] = value
            if value in (b"2", b"4"):
                if value == b"4":
                    assert db[number_key(0)] == b"4"
                db.flush()
        assert db.stats().log_reads == 2
        assert dict(db.items()) == contents


# --- where it cannot be done ---------------------------------------------------------------------


def test_a_registered_filter_policy_keeps_the_work_in_this_process(path: str) -> None:
    with own_registry():
        register(OwnPolicy())
        for policy in ("own-bloom", "bloom"):  # the second opening only reads its tables
            with (
                pytest.warns(RuntimeWarning, match="'own-bloom' is registered in this process"),
                open_store(path, filter_policy=policy) as db,
            ):
                contents = fill(db, range(500))
                db.flush()
                assert not has_runners(db) and dict(db.items()) == contents
                db.compact_range(force=True)
        with open_store(path) as db:  # nothing is left of that policy
            assert has_runners(db)


@pytest.mark.parametrize(
    "program",
    [
        "raise SystemExit(4)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "print('x' * 4000, flush=True); input()",
        "from lsmkv.nowhere import main",
    ],
)
def test_a_process_that_does_not_start_is_warned_of_once_and_the_work_done_here(
    path: str, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(process, "_PROGRAM", program)
    if "input" in program:  # it never answers, so the wait is shortened
        monkeypatch.setattr(process, "_START_LIMIT_S", 0.5)
    with (
        pytest.warns(RuntimeWarning, match="goes on in a thread") as warned,
        open_store(path) as db,
    ):
        contents = fill(db, range(1000))
        db.flush()
        db.wait_until_settled()
        assert dict(db.items()) == contents
        assert db.stats().flushes > 3
    assert len(warned) <= 2  # one for each kind of work
    if "SIGKILL" in program:
        assert str(warned[0].message) == (
            "background work goes on in a thread: "
            "the helper process was killed by signal 9 before it was ready"
        )
