"""Read-only handles in other processes: pickled, forked, in pools and in preforking servers."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from conftest import SMALL, fill, number_key, open_small

import lsmkv
from gates import WAIT_S
from lsmkv.background import handles
from other_processes import HANG_S, line_of, process, run

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

METHODS: Final = [
    method if method == "fork" else pytest.param(method, marks=pytest.mark.slow)
    for method in multiprocessing.get_all_start_methods()
]
"""How multiprocessing starts processes; those that import everything anew take seconds."""


@pytest.fixture
def store(path: str) -> dict[bytes, bytes]:
    """What the store at ``path`` holds, in tables and a log."""
    with open_small(path) as db:
        contents = fill(db, range(200))
        db.flush()
        contents.update(fill(db, range(200, 250)))
    return contents


# Pickled


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_handle_reads_the_same_store_with_the_same_options(
    path: str, store: dict[bytes, bytes], protocol: int
) -> None:
    options = SMALL.replace(filter_key=lsmkv.FixedPrefix(4), block_cache_size_bytes=12_345)
    with lsmkv.open(path, options, read_only=True, refresh_every_s=50) as db:
        data = pickle.dumps(db, protocol)
    with pickle.loads(data) as again:
        assert (again.path, again.options, again.read_only) == (path, options, True)
        assert again._engine.refresh_every_s == 50
        assert dict(again.items()) == store


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
def test_a_copy_is_a_handle_of_its_own(path: str, store: dict[bytes, bytes], way: Any) -> None:
    with open_small(path, read_only=True) as db:
        with way(db) as again:
            assert again is not db
            assert dict(again.items()) == store
        assert dict(db.items()) == store


def test_an_unpickled_handle_sees_what_was_written_before_its_first_use(path: str) -> None:
    with open_small(path) as writer, open_small(path, read_only=True) as db:
        again = pickle.loads(pickle.dumps(db))
        writer[b"key"] = b"value"
        assert b"key" not in db
        assert again[b"key"] == b"value"
        assert again.refresh() is False
        again.close()


def test_a_handle_for_writing_names_its_path_and_the_way_to_read_it(db: lsmkv.DB) -> None:
    with pytest.raises(TypeError) as caught:
        pickle.dumps(db)
    assert f"lsmkv.open({db.path!r}, read_only=True)" in str(caught.value)


def test_a_closed_handle_is_not_pickled(path: str, store: dict[bytes, bytes]) -> None:
    db = open_small(path, read_only=True)
    db.close()
    with pytest.raises(TypeError, match="closed"):
        pickle.dumps(db)


def test_unpickling_opens_nothing_and_use_raises_what_opening_does(
    path: str, store: dict[bytes, bytes]
) -> None:
    with open_small(path, read_only=True) as db:
        data = pickle.dumps(db)
    lsmkv.destroy(path)
    db = pickle.loads(data)
    assert not db.closed
    for _ in range(2):
        with pytest.raises(lsmkv.NotAStoreError):
            db.get(b"key")
    with open_small(path) as writer:
        writer[b"key"] = b"value"
    assert db[b"key"] == b"value"
    db.close()


USES: Final[dict[str, Any]] = {
    "get": lambda db: db.get(number_key(7)) is not None,
    "in": lambda db: number_key(7) in db,
    "multi_get": lambda db: None not in db.multi_get([number_key(7)]),
    "scan": lambda db: len(list(db.items())) == 250,
    "len": lambda db: len(db) == 250,
    "bool": bool,
    "cursor": lambda db: db.cursor().first(),
    "snapshot": lambda db: len(db.snapshot()) == 250,
    "explain": lambda db: db.explain(number_key(7)).value is not None,
    "inspect": lambda db: db.inspect().levels,
    "stats": lambda db: db.stats() is not None,
    "verify": lambda db: db.verify().ok,
    "refresh": lambda db: db.refresh() is False,
    "generation": lambda db: db.generation is None,
    "memory_usage": lambda db: db.memory_usage() is not None,
    "approximate_count": lambda db: db.approximate_count() == 250,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_any_use_opens_an_unpickled_handle(path: str, store: dict[bytes, bytes], use: Any) -> None:
    with open_small(path, read_only=True) as db:
        data = pickle.dumps(db)
    with pickle.loads(data) as again:
        assert use(again)


def test_an_unpickled_handle_refuses_writes_without_opening(
    path: str, store: dict[bytes, bytes]
) -> None:
    with open_small(path, read_only=True) as db:
        again = pickle.loads(pickle.dumps(db))
    for write in (lambda: again.put(b"k", b"v"), again.write_batch, again.flush, again.clear):
        with pytest.raises(lsmkv.ReadOnlyError):
            write()
    assert again._engine.opens_on_use
    again.close()
    assert again.closed
    with pytest.raises(lsmkv.ClosedError):
        again.get(b"key")


def test_an_unpickled_handle_may_be_dropped_used_or_not(
    path: str, store: dict[bytes, bytes]
) -> None:
    with open_small(path, read_only=True) as db:
        data = pickle.dumps(db)
    gc.collect()
    watched = len(handles._watched)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unused, used = pickle.loads(data), pickle.loads(data)
        assert used.get(number_key(1)) is not None
        del unused, used
        gc.collect()
    assert len(handles._watched) == watched


def test_threads_that_use_an_unpickled_handle_at_once_open_it_once(
    path: str, store: dict[bytes, bytes]
) -> None:
    with open_small(path, read_only=True) as db:
        data = pickle.dumps(db)
    with pickle.loads(data) as again:
        found: list[dict[bytes, bytes]] = []
        threads = [
            threading.Thread(target=lambda: found.append(dict(again.items()))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        assert found == [store] * 8


# Forked


def in_child(job: Any) -> Any:
    """The result of ``job`` in a forked child, or the error that it raised."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            answer = job()
        except BaseException as error:
            answer = error
        os.write(writer, pickle.dumps(answer))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pickle.load(pipe)
    os.waitpid(child, 0)
    return answer


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_read_only_handle_goes_on_in_the_child_of_a_fork(
    path: str, store: dict[bytes, bytes], use: Any
) -> None:
    with open_small(path, read_only=True) as db:
        assert in_child(lambda: bool(use(db))) is True
        assert use(db)


def test_the_child_sees_what_was_written_since_and_the_parent_does_not(path: str) -> None:
    with open_small(path) as writer, open_small(path, read_only=True) as db:
        writer[b"key"] = b"value"
        assert in_child(lambda: (db.refresh(), db.get(b"key"), db.refresh())) == (
            True,
            b"value",
            False,
        )
        assert b"key" not in db


def test_methods_taken_before_the_fork_work_in_the_child(
    path: str, store: dict[bytes, bytes]
) -> None:
    with open_small(path, read_only=True) as db:
        get, items = db.get, db.items
        assert in_child(lambda: get(number_key(7))) == store[number_key(7)]
        assert in_child(lambda: dict(items())) == store


def test_what_was_made_of_a_read_only_handle_before_the_fork_is_refused_with_advice(
    path: str, store: dict[bytes, bytes]
) -> None:
    with open_small(path, read_only=True) as db:
        snapshot, cursor, view, rest = db.snapshot(), db.cursor(), db.items(), iter(db.items())
        assert cursor.seek(number_key(5))
        next(rest)
        uses: list[Any] = [
            lambda: snapshot.get(number_key(5)),
            lambda: list(snapshot.items()),
            lambda: cursor.next(),
            lambda: cursor.item,
            lambda: list(rest),
            lambda: list(view),
            lambda: (number_key(5), store[number_key(5)]) in view,
        ]
        for use in uses:
            # Also once the child's own engine is open.
            for before in (lambda: None, lambda: db.get(b"key")):
                error = in_child(lambda use=use, before=before: (before(), use()))
                assert isinstance(error, lsmkv.ForkedError)
                assert path in str(error) and "make another in the child" in str(error)
        assert snapshot.get(number_key(5)) and cursor.next() and len(list(rest)) == 249


def test_a_handle_reopens_in_the_child_of_a_child(path: str, store: dict[bytes, bytes]) -> None:
    with open_small(path, read_only=True) as db:

        def child(depth: int, uses_it: bool) -> Any:
            if uses_it:
                assert len(db) == 250
            return in_child(lambda: child(depth - 1, uses_it)) if depth else len(db)

        assert in_child(lambda: child(2, True)) == 250
        assert in_child(lambda: child(2, False)) == 250


def test_a_child_may_close_its_handle_and_the_parent_keeps_its_own(
    path: str, store: dict[bytes, bytes]
) -> None:
    with open_small(path, read_only=True) as db:

        def child() -> bytes | None:
            db.close()
            assert db.closed
            return db.get(b"key")

        assert isinstance(in_child(child), lsmkv.ClosedError)
        assert dict(db.items()) == store


def test_a_fork_in_the_middle_of_a_refresh_leaves_a_handle_that_works(path: str) -> None:
    with open_small(path) as writer, open_small(path, read_only=True) as db:
        fill(writer, range(50))
        engine = db._engine
        with engine._tables.lock, engine._mutex:  # as another thread may hold them
            assert in_child(lambda: len(db)) == 50


def test_a_closed_handle_stays_closed_in_the_child(path: str, store: dict[bytes, bytes]) -> None:
    db = open_small(path, read_only=True)
    db.close()
    assert isinstance(in_child(lambda: db.get(b"key")), lsmkv.ClosedError)


# Pools, data loaders and servers


class Dataset:
    """Entries of a store by number, as data loaders want them."""

    def __init__(self, path: str) -> None:
        self._db = open_small(path, read_only=True)

    def __getitem__(self, number: int) -> bytes:
        return self._db[number_key(number)]

    def close(self) -> None:
        self._db.close()


def load(dataset: Dataset, numbers: Any, found: Any) -> None:
    """A worker of a data loader: fetches what it is asked for until it is told to end."""
    for number in iter(numbers.get, None):
        found.put((number, dataset[number]))


@pytest.mark.parametrize("method", METHODS)
def test_workers_of_a_data_loader_read_beside_a_writer(path: str, method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    with open_small(path) as writer:
        contents = fill(writer, range(300))
        dataset = Dataset(path)
        assert dataset[3] == contents[number_key(3)]  # in the parent first
        numbers, found = context.Queue(), context.Queue()
        workers = [context.Process(target=load, args=(dataset, numbers, found)) for _ in range(2)]
        for worker in workers:
            worker.start()
        for number in range(100):
            numbers.put(number)
            writer.put(b"more%d" % number, b"value")
        got = dict(found.get(timeout=WAIT_S) for _ in range(100))
        for _ in workers:
            numbers.put(None)
        for worker in workers:
            worker.join(WAIT_S)
        assert [worker.exitcode for worker in workers] == [0, 0]
        assert got == {number: contents[number_key(number)] for number in range(100)}
        dataset.close()


def value_of(db: lsmkv.DB, key: bytes) -> bytes | None:
    return db.get(key)


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_takes_handles_as_arguments(
    path: str, store: dict[bytes, bytes], method: str
) -> None:
    with (
        open_small(path, read_only=True) as db,
        multiprocessing.get_context(method).Pool(2) as pool,
    ):
        keys = [number_key(number) for number in range(0, 300, 10)]
        found = pool.starmap_async(value_of, [(db, key) for key in keys]).get(WAIT_S)
        assert found == [store.get(key) for key in keys]


POOL = """
import multiprocessing, time

def write(path):
    with lsmkv.open(path, wait_s=0.2) as db:
        db[b"key"] = b"value"

def outcomes(pool, path):
    for result in [pool.apply_async(write, (path,)) for _ in range(4)]:
        try:
            result.get(30)
            yield "written"
        except lsmkv.LockedError as error:
            yield f"locked by {error.pid == os.getpid()}"

if __name__ == "__main__":
    path, method = sys.argv[1:]
    with lsmkv.open(path) as db, multiprocessing.get_context(method).Pool(2) as pool:
        print(set(outcomes(pool, path)))
        pool.close()
        pool.join()
"""
"""A program whose workers meet the lock that it holds itself."""


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_whose_workers_meet_a_lock_ends(path: str, tmp_path: Path, method: str) -> None:
    program = tmp_path / "pool.py"  # a file: spawned workers import it
    program.write_text(f"import os, sys, lsmkv\n{POOL}")
    # Killed, as a program that hangs, after far more time than it needs.
    command = [sys.executable, str(program), path, method]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert ended.stdout == "{'locked by True'}\n", ended.stderr


PREFORK = """
import signal, socket
path, workers = sys.argv[1], int(sys.argv[2])
db = lsmkv.open(path, read_only=True)
assert db[b"round"] == b"0"
listener = socket.create_server(("127.0.0.1", 0))
children = []
for _ in range(workers):
    child = os.fork()
    if not child:
        signal.alarm(60)
        while True:
            connection, _ = listener.accept()
            with connection:
                db.refresh()
                connection.sendall(b"%d %s" % (os.getpid(), db[b"round"]))
    children.append(child)
print(listener.getsockname()[1], flush=True)
sys.stdin.readline()
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
assert db[b"round"] == b"0"
db.close()
"""


def test_workers_of_a_preforking_server_read_beside_a_writer(path: str) -> None:
    with open_small(path) as writer:
        writer[b"round"] = b"0"
        with process(PREFORK, path, 3) as server:
            port = int(line_of(server))
            for number in range(1, 21):
                fill(writer, range(number))
                writer[b"round"] = b"%d" % number
                with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection:
                    pid, found = connection.recv(100).split()
                assert int(pid) != server.pid
                assert found == b"%d" % number
            _, errors = server.communicate("\n")
            assert server.returncode == 0, errors


# Following by itself


def wait_for(happened: Any) -> None:
    deadline = time.monotonic() + WAIT_S
    while not happened():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.002)


@pytest.fixture
def followed(path: str) -> Iterator[tuple[lsmkv.DB, lsmkv.DB]]:
    """A writer, and a read-only handle that refreshes itself."""
    with (
        open_small(path) as writer,
        lsmkv.open(path, SMALL, read_only=True, refresh_every_s=0.005) as reader,
    ):
        yield writer, reader


def follower_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "lsmkv-refresh"]


def test_a_handle_may_follow_by_itself(followed: tuple[lsmkv.DB, lsmkv.DB]) -> None:
    writer, reader = followed
    for number in range(3):
        writer[b"key"] = b"%d" % number
        wait_for(lambda number=number: reader.get(b"key") == b"%d" % number)
        assert reader.refresh() is True  # since the last call
        assert reader.refresh() is False


def test_close_ends_the_thread_that_follows(path: str, store: dict[bytes, bytes]) -> None:
    with lsmkv.open(path, read_only=True, refresh_every_s=1000):
        wait_for(lambda: len(follower_threads()) == 1)
    assert follower_threads() == []


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_dropped_handle_follows_no_more(path: str, store: dict[bytes, bytes]) -> None:
    db = lsmkv.open(path, read_only=True, refresh_every_s=0.001)
    assert len(db) == 250
    del db
    gc.collect()
    wait_for(lambda: follower_threads() == [])


def test_an_error_of_following_is_logged_once_and_shown_by_refresh(
    path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_small(path) as writer:
        writer[b"key"] = b"value"
    with lsmkv.open(path, read_only=True, refresh_every_s=0.002) as reader:
        os.rename(path, tmp_path / "aside")
        refresher = reader._engine._refresher
        assert refresher is not None
        for _ in range(3):
            refresher._error = None
            wait_for(lambda: refresher._error is not None)
        os.rename(tmp_path / "aside", path)
        wait_for(lambda: refresher._logged == "")
        with pytest.raises((lsmkv.Error, OSError)):
            reader.refresh()
        assert reader.refresh() is False
        assert reader[b"key"] == b"value"
    messages = [record.getMessage() for record in caplog.records if record.name == "lsmkv"]
    assert 1 <= len(messages) <= 2  # the directory may be missed at one of two moments
    assert all(path in message for message in messages)


def test_a_handle_follows_in_the_child_of_a_fork_too(
    followed: tuple[lsmkv.DB, lsmkv.DB],
) -> None:
    writer, reader = followed

    def child() -> bytes | None:
        assert len(follower_threads()) == 0
        assert b"late" not in reader
        os.write(asking, b"?")
        wait_for(lambda: b"late" in reader)
        return reader.get(b"late")

    asked, asking = os.pipe()
    answers: list[Any] = []
    forking = threading.Thread(target=lambda: answers.append(in_child(child)))
    forking.start()
    assert os.read(asked, 1) == b"?"
    writer[b"late"] = b"value"
    forking.join(WAIT_S)
    assert answers == [b"value"]
    os.close(asked)
    os.close(asking)


def test_a_program_may_end_while_a_handle_follows(path: str, store: dict[bytes, bytes]) -> None:
    script = "db = lsmkv.open(sys.argv[1], read_only=True, refresh_every_s=0.001); print(len(db))"
    assert run(script, path) == "250\n"


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), True, "1"])
def test_a_wrong_interval_is_refused(path: str, seconds: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="refresh_every_s"):
        lsmkv.open(path, read_only=True, refresh_every_s=seconds)


def test_a_writer_has_nothing_to_follow(path: str) -> None:
    with pytest.raises(ValueError, match="read_only=True"):
        lsmkv.open(path, refresh_every_s=1.0)
    assert not Path(path).exists()
