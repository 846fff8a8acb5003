"""Uses of the store's objects that must not crash the interpreter.

They hold in both builds; in the compiled one a mistake here corrupts memory.
"""

from __future__ import annotations

import ast
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest
from conftest import open_small

import lsmkv
from gates import WAIT_S, GatedStorage
from lsmkv.storage.file_names import UNFINISHED
from lsmkv.storage.storage import RandomFile, Storage
from time_limits import join

ROOT: Final = Path(__file__).parents[2]
COUNT: Final = 300
DROPPED_DEEP: Final = """
import lsmkv, sys

class Found(Exception):
    pass

def walk(db, depth):
    for key, value in db.items(start=b"%05d" % depth):
        if depth == 70:
            raise Found
        walk(db, depth + 1)

with lsmkv.open(sys.argv[1], block_size_bytes=256) as db:
    for number in range(500):
        db[b"%05d" % number] = b"v" * 20
    db.flush()
    for number in range(0, 500, 3):
        db[b"%05d" % number] = b"w" * 20
    for view in (db.items(), db.keys(), db.values(), db.items(reverse=True)):
        for depth in range(40, 60):
            nested = iter(view)
            next(nested)
            for _ in range(depth):
                nested = [nested]
            del nested
    for _ in range(20):
        try:
            walk(db, 0)
        except Found:
            pass
    print(len(list(db.items())))
"""


class WatchedFile(RandomFile):
    """A file that reports reads and its end to the storage."""

    storage: WatchedStorage
    end: Any = None

    def _pread(self, *arguments: Any) -> Any:
        self.storage.on_read()
        return super()._pread(*arguments)


class _End:
    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def __del__(self) -> None:
        self._call()


class WatchedStorage(Storage):
    """Calls ``on_read`` before reads of tables, ``on_end`` when a file goes."""

    on_read: Callable[[], None] = staticmethod(lambda: None)
    on_end: Callable[[], None] = staticmethod(lambda: None)

    def _random_file(self, path: str, descriptor: int, size: int, direct: bool) -> RandomFile:
        file = WatchedFile(path, descriptor, size, self.stats, direct)
        file.storage = self
        file.end = _End(lambda: self.on_end())
        return file


@pytest.fixture
def storage() -> WatchedStorage:
    return WatchedStorage()


@pytest.fixture
def db(tmp_path: Path, storage: WatchedStorage) -> Iterator[lsmkv.DB]:
    with open_small(tmp_path / "store", storage=storage, block_cache_size_bytes=0) as db:
        for number in range(COUNT):
            db[b"%05d" % number] = b"v" * 20
        db.compact_range()
        yield db


def expected() -> list[tuple[bytes, bytes]]:
    return [(b"%05d" % number, b"v" * 20) for number in range(COUNT)]


class Held:
    """A thread that takes one step, and blocks in its read."""

    def __init__(self, storage: WatchedStorage, step: Callable[[], object]) -> None:
        self._reading, self._go_on = threading.Event(), threading.Event()
        self.found: list[object] = []
        storage.on_read = self._hold_up
        self._thread = threading.Thread(target=lambda: self.found.append(step()))
        self._thread.start()
        assert self._reading.wait(WAIT_S)
        storage.on_read = lambda: None

    def _hold_up(self) -> None:
        if threading.current_thread() is self._thread:
            self._reading.set()
            assert self._go_on.wait(WAIT_S)

    def let_go_on(self) -> None:
        self._go_on.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()


def test_iterators_may_be_dropped_deep_inside_other_objects(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DROPPED_DEEP, str(tmp_path / "store")],
        env={**os.environ, "PYTHONMALLOC": "debug"},
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert (done.returncode, done.stdout) == (0, "500\n"), done.stderr[-2000:]


def test_a_second_thread_that_advances_an_iterator_gets_an_error_and_the_first_continues(
    db: lsmkv.DB, storage: WatchedStorage
) -> None:
    walk = iter(db.items())
    first = Held(storage, lambda: next(walk))
    with pytest.raises(ValueError, match="being advanced already"):
        next(walk)
    first.let_go_on()
    assert [*first.found, *walk] == expected()


def test_advancing_an_iterator_from_inside_its_own_step_is_an_error_and_it_continues(
    db: lsmkv.DB, storage: WatchedStorage
) -> None:
    walk = iter(db.items())
    errors: list[str] = []

    def advance() -> None:
        storage.on_read = lambda: None
        with pytest.raises(ValueError) as caught:
            next(walk)
        errors.append(str(caught.value))

    storage.on_read = advance
    assert list(walk) == expected()
    assert len(errors) == 1


def test_a_second_thread_that_moves_a_cursor_gets_an_error_and_the_first_continues(
    db: lsmkv.DB, storage: WatchedStorage
) -> None:
    cursor = db.cursor()
    held = Held(storage, cursor.first)
    for use in (
        cursor.next,
        cursor.prev,
        cursor.last,
        lambda: cursor.seek(b""),
        lambda: cursor.key,
    ):
        with pytest.raises(ValueError, match="being moved already"):
            use()
    held.let_go_on()
    assert held.found == [True]
    assert cursor.key == b"00000"


def test_an_iterator_may_be_dropped_by_its_consumer_while_a_thread_is_inside_it(
    db: lsmkv.DB, storage: WatchedStorage
) -> None:
    for make in (db.items, db.keys, db.values):
        few = islice(iter(make()), COUNT)
        held = Held(storage, lambda few=few: next(few))  # type: ignore[misc]
        with pytest.raises(ValueError, match="being advanced already"):
            next(few)  # then islice no longer refers to the iterator
        del few
        gc.collect()
        held.let_go_on()
        assert held.found == [next(iter(make()))]


def test_a_finalizer_of_a_replaced_view_may_read_the_store(
    tmp_path: Path, storage: WatchedStorage
) -> None:
    found: list[bytes | None] = []
    with open_small(tmp_path / "store") as writer:
        writer[b"key"] = b"value"
        writer.flush()
        with open_small(tmp_path / "store", read_only=True, storage=storage) as reader:
            assert reader[b"key"] == b"value"
            storage.on_end = lambda: found.append(reader.get(b"key"))
            writer[b"other"] = b"value"
            writer.compact_range(force=True)
            reader.refresh()
            storage.on_end = lambda: None
            assert reader[b"other"] == b"value"
    assert found and set(found) == {b"value"}


def test_no_class_uses_unsafe_options_of_mypyc_attr() -> None:
    # acyclic: objects without the header that deep deallocation writes to.  free_list_len: objects
    # that are given out again while they are being emptied.
    for path in sorted((ROOT / "lsmkv").rglob("*.py")):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text if "mypyc_attr(" in text else "")):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mypyc_attr"):
                names = {keyword.arg for keyword in node.keywords}
                assert names <= {"allow_interpreted_subclasses"}, f"{path}: {names}"


def test_a_put_during_a_commit_of_the_batch_leaves_the_record_whole(tmp_path: Path) -> None:
    storage = GatedStorage(".log")
    with lsmkv.open(tmp_path / "store", storage=storage) as db:
        batch = db.write_batch()
        for number in range(20):
            batch[b"%02d" % number] = b"v"
        operations = batch._operations
        assert operations is not None
        storage.shut()
        commit = threading.Thread(target=batch.commit)
        commit.start()
        assert storage.held_up.wait(WAIT_S)
        operations.append((b"late", b"v"))  # as a put does that began before the commit
        storage.open_up()
        commit.join(WAIT_S)
        assert len(db) == 20
    with lsmkv.open(tmp_path / "store") as db:
        assert len(db) == 20


@pytest.mark.parametrize(
    "use",
    [
        lambda db: db.put(b"k", b"v"),
        lambda db: db.items(),
        lambda db: db.snapshot(),
        lambda db: db.sync(),
    ],
)
def test_a_call_that_would_wait_for_its_own_threads_lock_is_refused(
    db: lsmkv.DB, use: Callable[[lsmkv.DB], object]
) -> None:
    # As a finalizer or signal handler inside of a call.
    state = db._state
    thread = state.entering()
    with state.mutex:
        state.owner = thread
        with pytest.raises(RuntimeError, match="already inside a call"):
            use(db)
        assert db[b"00007"] == b"v" * 20
    use(db)


@pytest.mark.parametrize("call", ["bulk_load", "ingest", "compact_range"])
def test_a_call_whose_thread_would_wait_for_its_callers_lock_is_refused(
    db: lsmkv.DB, tmp_path: Path, call: str
) -> None:
    with lsmkv.TableWriter(tmp_path / "table") as table:
        table.add(b"k", b"v")
    calls: dict[str, Callable[[], object]] = {
        "bulk_load": lambda: db.bulk_load([(b"k", b"v")]),
        "ingest": lambda: db.ingest([tmp_path / "table"]),
        "compact_range": lambda: db.compact_range(force=True),
    }
    errors: list[BaseException] = []
    state = db._state

    def interrupted() -> None:
        thread = state.entering()
        state.mutex.acquire()
        state.owner = thread
        try:
            calls[call]()
        except RuntimeError as error:
            errors.append(error)
        state.mutex.release()

    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    thread.join(5)
    if thread.is_alive():
        state.mutex.release()  # lets the test end
        join(thread)
    assert [str(error) for error in errors if "already inside a call" in str(error)]
    assert not [name for name in os.listdir(db.path) if name.endswith(UNFINISHED)]
    calls[call]()


def test_a_lookup_during_another_that_loads_a_table_is_answered(
    tmp_path: Path, storage: WatchedStorage
) -> None:
    with open_small(tmp_path / "store") as db:
        db[b"key"] = b"value"
    found: list[bytes | None] = []
    with open_small(tmp_path / "store") as db:
        db.flush()
    with open_small(tmp_path / "store", storage=storage) as db:

        def look_up() -> None:
            storage.on_read = lambda: None
            found.append(db.get(b"key"))

        storage.on_read = look_up
        assert db.get(b"key") == b"value"
        assert db.get(b"key") == b"value"
    assert found == [b"value"]


def test_a_lookup_while_the_memtable_indexes_batches_is_refused_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    with lsmkv.open(tmp_path / "store") as db:
        for start in (0, 100):
            with db.write_batch() as batch:
                for number in range(start, start + 100):
                    batch[b"%03d" % number] = b"v"
        memtable: Any = db._state.require_open().memtable
        with memtable._lock:
            memtable._is_moving = True
            with pytest.raises(RuntimeError, match="already inside a call"):
                db.get(b"007")
            memtable._is_moving = False
        assert db[b"007"] == b"v"
        assert len(db) == 200
