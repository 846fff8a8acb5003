"""More than one process: the lock, readers beside a writer, forks."""

from __future__ import annotations

import functools
import gc
import hashlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

import lsmkv
from gates import WAIT_S, GatedStorage
from lsmkv.storage import Storage

HANG_S: Final = 60  # only ends a process that would hang
CHILD_HANG_S: Final = 20

SMALL: Final[dict[str, Any]] = {
    "write_buffer_size_bytes": 8192,
    "block_size_bytes": 512,
    "table_size_bytes": 16_384,
    "level1_size_bytes": 32_768,
    "size_ratio": 4,
    "level0_compaction_trigger": 2,
}


def open_store(path: str | Path, **options: Any) -> lsmkv.DB:
    return lsmkv.open(path, **{**SMALL, **options})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@contextmanager
def process(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Another Python process, with pipes; killed at the end if it still runs."""
    running = subprocess.Popen(
        [sys.executable, "-c", f"import sys, lsmkv, gc, os\n{script}", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(HANG_S, running.kill)
    watchdog.start()
    try:
        yield running
    finally:
        watchdog.cancel()
        running.kill()
        running.communicate()


def run(script: str, *arguments: object) -> str:
    """What another Python process prints; an error if it fails."""
    with process(script, *arguments) as running:
        output, errors = running.communicate()
        assert running.returncode == 0, errors
        return output


def line_of(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    line = running.stdout.readline()
    if not line:
        _, errors = running.communicate()
        pytest.fail(f"the other process ended early: {errors}")
    return line.strip()


def tell(running: subprocess.Popen[str], line: str) -> str:
    """Send a line, and return the one that answers it."""
    assert running.stdin is not None
    running.stdin.write(line + "\n")
    running.stdin.flush()
    return line_of(running)


HOLDER = """
with lsmkv.open(sys.argv[1]) as db:
    db[b"key"] = b"value"
    print("open", flush=True)
    sys.stdin.readline()
"""


# --- the lock ---


def test_a_second_process_may_not_write_and_is_told_who_does(path: Path) -> None:
    with process(HOLDER, path) as holder:
        assert line_of(holder) == "open"
        with pytest.raises(lsmkv.LockedError) as caught:
            lsmkv.open(path)
        assert (caught.value.path, caught.value.pid) == (str(path), holder.pid)
        assert str(path) in str(caught.value) and str(holder.pid) in str(caught.value)


def test_the_same_process_may_not_open_a_store_twice_for_writing(path: Path) -> None:
    with lsmkv.open(path), pytest.raises(lsmkv.LockedError) as caught:
        lsmkv.open(path)
    assert caught.value.pid == os.getpid()


def test_a_refused_opening_does_not_disturb_the_one_that_has_the_store(path: Path) -> None:
    with lsmkv.open(path) as db:
        for _ in range(3):
            with pytest.raises(lsmkv.LockedError):
                lsmkv.open(path)
            gc.collect()
        db[b"key"] = b"value"
        assert run(REFUSED, path) == "LockedError\n"
    with lsmkv.open(path) as db:
        assert db[b"key"] == b"value"


REFUSED = """
try:
    lsmkv.open(sys.argv[1])
except lsmkv.Error as error:
    print(type(error).__name__)
"""


def test_a_store_is_free_once_it_is_closed(path: Path) -> None:
    lsmkv.open(path).close()
    assert run("lsmkv.open(sys.argv[1]).close(); print('opened')", path) == "opened\n"


def test_a_store_is_free_once_its_process_is_dead(path: Path) -> None:
    with process(HOLDER, path) as holder:
        assert line_of(holder) == "open"
        holder.kill()
        holder.wait()
        with lsmkv.open(path) as db:
            assert db[b"key"] == b"value"


def test_destroy_is_refused_while_a_store_is_open(path: Path) -> None:
    with lsmkv.open(path) as db:
        with pytest.raises(lsmkv.LockedError):
            lsmkv.destroy(path)
        db[b"key"] = b"value"
        assert db[b"key"] == b"value"


# --- reading beside a writer ---


@contextmanager
def writer_and_reader(path: Path) -> Iterator[tuple[lsmkv.DB, lsmkv.DB]]:
    with open_store(path) as writer, open_store(path, read_only=True) as reader:
        yield writer, reader


def test_a_reader_opens_beside_a_writer_in_another_process(path: Path) -> None:
    with process(HOLDER, path) as holder:
        assert line_of(holder) == "open"
        with lsmkv.open(path, read_only=True) as reader:
            assert reader[b"key"] == b"value"


def test_a_reader_sees_new_writes_after_refresh_and_not_before(path: Path) -> None:
    with writer_and_reader(path) as (writer, reader):
        writer[b"key"] = b"value"
        assert b"key" not in reader
        reader.refresh()
        assert reader[b"key"] == b"value"


def test_a_reader_sees_deletions_after_refresh(path: Path) -> None:
    with writer_and_reader(path) as (writer, reader):
        writer[b"key"] = b"value"
        reader.refresh()
        del writer[b"key"]
        assert b"key" in reader
        reader.refresh()
        assert b"key" not in reader


def overwrite(db: lsmkv.DB, value: bytes, count: int = 300) -> None:
    for number in range(count):
        db.put(b"key%05d" % (number * 7919 % count), value + b"%d" % number)


def flush(db: lsmkv.DB) -> None:
    overwrite(db, b"flushed ", 50)
    db.flush()


def rotate(db: lsmkv.DB) -> None:
    overwrite(db, b"rotated ", 1000)


def compact(db: lsmkv.DB) -> None:
    overwrite(db, b"compacted ")
    db.compact_range()


def sync(db: lsmkv.DB) -> None:
    db.put(b"synced", b"value", sync=True)


@pytest.mark.parametrize("change", [flush, rotate, compact, sync])
def test_a_reader_follows_its_writer(path: Path, change: Callable[[lsmkv.DB], None]) -> None:
    with writer_and_reader(path) as (writer, reader):
        for round_number in range(4):
            change(writer)
            writer.put(b"round", b"%d" % round_number)
            before = dict(reader)
            reader.refresh()
            assert dict(reader) == dict(writer) != before


def test_a_reader_follows_over_a_new_manifest(path: Path) -> None:
    with open_store(path) as writer:
        overwrite(writer, b"first ")
    with open_store(path, read_only=True) as reader:
        for round_number in range(3):
            before = {file.name for file in path.glob("MANIFEST-*")}
            with open_store(path) as writer:
                with writer._engine._tables.lock:
                    writer._engine._tables.manifest.rewrite()
                writer[b"round"] = b"%d" % round_number
                expected = dict(writer)
            assert {file.name for file in path.glob("MANIFEST-*")} != before
            reader.refresh()
            assert dict(reader) == expected


def test_what_a_reader_has_begun_to_read_stays_over_refresh(path: Path) -> None:
    with writer_and_reader(path) as (writer, reader):
        overwrite(writer, b"first ")
        writer.flush()
        reader.refresh()
        expected = list(reader.items())
        items, snapshot = iter(reader.items()), reader.snapshot()
        found = [next(items) for _ in range(10)]
        compact(writer)
        reader.refresh()
        assert found + list(items) == expected
        assert list(snapshot.items()) == expected
        assert list(reader.items()) == list(writer.items()) != expected


def test_a_reader_reads_on_when_its_writer_has_removed_the_files(path: Path) -> None:
    with writer_and_reader(path) as (writer, reader):
        overwrite(writer, b"first ")
        writer.compact_range()
        reader.refresh()
        expected = dict(writer)
        compact(writer)
        assert dict(reader) == expected


def test_a_reader_goes_on_after_its_writer_has_closed(path: Path) -> None:
    with open_store(path) as writer:
        writer[b"key"] = b"value"
        reader = open_store(path, read_only=True)
    with reader:
        assert reader[b"key"] == b"value"
        reader.refresh()
        assert reader[b"key"] == b"value"


BUSY_WRITER = """
import random
options = eval(sys.argv[2])
with lsmkv.open(sys.argv[1], **options) as db:
    db.put(b"first", b"%09d" % 0)
    db.put(b"second", b"%09d" % 0)
    print("open", flush=True)
    number = 0
    while True:
        number += 1
        db.put(b"first", b"%09d" % number)
        db.put(b"filler%06d" % random.randrange(3000), b"v" * 100)
        db.put(b"second", b"%09d" % number)
"""


def test_a_reader_beside_a_busy_writer_always_sees_a_prefix_of_its_writes(path: Path) -> None:
    with process(BUSY_WRITER, path, SMALL) as writer:
        assert line_of(writer) == "open"
        last = 0
        with open_store(path, read_only=True) as reader:
            for _ in range(150):
                reader.refresh()
                first, second = int(reader[b"first"]), int(reader[b"second"])
                assert last <= second <= first <= second + 1
                assert all(key.startswith((b"f", b"s")) for key in reader)
                last = second
        assert writer.poll() is None, "the writer died"
        assert last > 100


def test_readers_open_beside_a_busy_writer_again_and_again(path: Path) -> None:
    with process(BUSY_WRITER, path, SMALL) as writer:
        assert line_of(writer) == "open"
        for _ in range(40):
            with open_store(path, read_only=True) as reader:
                first, second = int(reader[b"first"]), int(reader[b"second"])
                assert second <= first <= second + 1
        assert writer.poll() is None, "the writer died"


# --- read-only handles change nothing ---


def put(db: lsmkv.DB) -> None:
    db.put(b"key", b"value")


def put_item(db: lsmkv.DB) -> None:
    db[b"key"] = b"value"


def delete_item(db: lsmkv.DB) -> None:
    del db[b"key00001"]


def commit_batch(db: lsmkv.DB) -> None:
    with db.write_batch() as batch:
        batch.put(b"key", b"value")


WRITES: Final[list[Callable[[lsmkv.DB], object]]] = [
    put,
    put_item,
    delete_item,
    commit_batch,
    lambda db: db.delete(b"key"),
    lambda db: db.update({b"key": b"value"}),
    lambda db: db.pop(b"key00001"),
    lambda db: db.setdefault(b"new", b"value"),
    lambda db: db.clear(),
    lambda db: db.flush(),
    lambda db: db.compact_range(),
    lambda db: db.sync(),
]


def mixed_store(path: Path) -> dict[bytes, bytes]:
    """Tables on two levels, a full log; closed."""
    with open_store(path) as db:
        overwrite(db, b"old ")
        db.compact_range()
        overwrite(db, b"new ", 20)
        db.flush()
        db.put(b"logged", b"value")
        return dict(db)


def digest(path: Path) -> dict[str, tuple[str, int]]:
    """Hash and time of change of every file."""
    return {
        file.name: (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in sorted(path.iterdir())
    }


@pytest.mark.parametrize("write", WRITES)
def test_a_read_only_handle_refuses_to_write(
    path: Path, write: Callable[[lsmkv.DB], object]
) -> None:
    mixed_store(path)
    before = digest(path)
    with open_store(path, read_only=True) as db:
        with pytest.raises(lsmkv.ReadOnlyError) as caught:
            write(db)
        assert str(path) in str(caught.value)
    assert digest(path) == before


def read_everything(db: lsmkv.DB) -> dict[bytes, bytes]:
    assert db.read_only and not db.closed
    for key in list(db)[::10]:
        assert db.get(key) is not None and key in db
    with db.snapshot() as snapshot, db.cursor() as cursor:
        assert cursor.first() and len(snapshot) == len(db)
    db.explain(b"key00001")
    db.inspect()
    db.stats()
    db.memory_usage()
    assert db.verify().ok
    db.refresh()
    return dict(db)


def test_a_read_only_handle_reads_everything_and_changes_no_file(path: Path) -> None:
    expected = mixed_store(path)
    before = digest(path)
    with open_store(path, read_only=True) as db:
        assert read_everything(db) == expected
    gc.collect()
    assert digest(path) == before


def test_a_read_only_handle_leaves_a_torn_log_and_orphans_as_they_are(path: Path) -> None:
    with open_store(path) as db:
        db.put(b"key", b"value")
        copy = path.with_name("crashed")
        shutil.copytree(path, copy)
    log = next(copy.glob("*.log"))
    log.write_bytes(log.read_bytes() + b"torn")
    (copy / "000099.sst").write_bytes(b"an unfinished table")
    (copy / "000098.log").write_bytes(b"")
    before = digest(copy)
    with open_store(copy, read_only=True) as db:
        assert dict(db) == {b"key": b"value"}
    assert digest(copy) == before


def test_a_read_only_handle_makes_no_store(path: Path) -> None:
    with pytest.raises(lsmkv.NotAStoreError):
        lsmkv.open(path, read_only=True)
    assert not path.exists()


@pytest.fixture
def read_only_directory(path: Path) -> Iterator[Callable[[], None]]:
    """Makes the store's directory one that nothing can be written to."""
    if os.geteuid() != 0:
        path.mkdir()
        yield lambda: path.chmod(0o555)
        path.chmod(0o755)
        return
    # No permission stops root; a read-only mount does.
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(path)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("run as root, and root may not mount a file system here")

    def freeze() -> None:
        subprocess.run(["mount", "-o", "remount,ro", str(path)], check=True)

    yield freeze
    gc.collect()
    subprocess.run(["umount", "-l", str(path)], check=True)  # lazily: a failed test may hold files


def test_a_read_only_handle_works_on_a_directory_that_cannot_be_written(
    path: Path, read_only_directory: Callable[[], None]
) -> None:
    expected = mixed_store(path)
    read_only_directory()
    with pytest.raises(OSError):
        (path / "probe").write_bytes(b"")
    with open_store(path, read_only=True) as db:
        assert read_everything(db) == expected


# --- forks ---


def in_child(job: Callable[[], object]) -> str:
    """Fork, run ``job`` in the child, and return its result, or the name of the error it raised."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(CHILD_HANG_S)  # a child that hangs is killed
        try:
            answer = repr(job())
        except BaseException as error:
            answer = type(error).__name__
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    assert not os.WIFSIGNALED(status), f"the child was killed by signal {os.WTERMSIG(status)}"
    return answer


@contextmanager
def sleeping_child() -> Iterator[None]:
    """A forked child that lives meanwhile and does nothing."""
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(HANG_S)
        while True:
            signal.pause()
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

USES: Final[dict[str, Callable[[lsmkv.DB], object]]] = {
    "get": lambda db: db.get(b"key00001"),
    "contains": lambda db: b"key00001" in db,
    "put": put,
    "put synced": lambda db: db.put(b"key", b"value", sync=True),
    "delete": lambda db: db.delete(b"key"),
    "batch": commit_batch,
    "scan": lambda db: list(db.items()),
    "length": len,
    "snapshot": lambda db: db.snapshot(),
    "cursor": lambda db: db.cursor(),
    "flush": lambda db: db.flush(),
    "compact": lambda db: db.compact_range(),
    "settle": lambda db: db.wait_until_settled(),
    "sync": lambda db: db.sync(),
    "refresh": lambda db: db.refresh(),
    "resume": lambda db: db.resume(),
    "inspect": lambda db: db.inspect(),
    "explain": lambda db: db.explain(b"key00001"),
    "stats": lambda db: db.stats(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_handle_from_before_the_fork_is_refused_in_the_child(
    path: Path, use: Callable[[lsmkv.DB], object]
) -> None:
    with open_store(path) as db:
        overwrite(db, b"old ")
        assert in_child(lambda: use(db)) == "ForkedError"


def test_what_was_made_of_a_handle_before_the_fork_is_refused_in_the_child(path: Path) -> None:
    with open_store(path) as db:
        overwrite(db, b"old ")
        db.flush()
        overwrite(db, b"new ", 100)
        snapshot, cursor, batch = db.snapshot(), db.cursor(), db.write_batch()
        view, iterator = db.items(), iter(db.items())
        assert cursor.seek(b"key00050")
        batch.put(b"key", b"value")
        next(iterator)
        uses: list[Callable[[], object]] = [
            lambda: snapshot.get(b"key00001"),
            lambda: list(snapshot.items()),
            lambda: cursor.next(),
            lambda: cursor.item,
            lambda: cursor.seek(b"key00001"),
            lambda: list(iterator),
            lambda: list(view),
            lambda: len(view),
            lambda: batch.commit(),
        ]
        assert [in_child(use) for use in uses] == ["ForkedError"] * len(uses)
        # None of it is lost to the parent.
        assert snapshot[b"key00001"] and cursor.next() and len(list(iterator)) == len(view) - 1
        batch.commit()
        assert db[b"key"] == b"value"


def test_the_error_in_the_child_says_what_to_do(path: Path) -> None:
    def message() -> str:
        with pytest.raises(lsmkv.ForkedError) as caught:
            db.get(b"key")
        return str(caught.value)

    with open_store(path) as db:
        answer = in_child(message)
    assert str(path) in answer and "open it anew" in answer


def test_closing_the_handle_in_the_child_is_harmless(path: Path) -> None:
    with open_store(path) as db:
        assert in_child(db.close) == "None"
        db[b"key"] = b"value"
        assert run(REFUSED, path) == "LockedError\n"


def test_a_child_is_refused_even_when_it_was_forked_in_the_middle_of_a_write(path: Path) -> None:
    storage = GatedStorage(suffix=".log")
    with open_store(path, storage=storage) as db:
        storage.shut()
        writing = threading.Thread(target=lambda: db.put(b"key", b"value"))
        writing.start()
        assert storage.held_up.wait(WAIT_S)
        uses = [USES[name] for name in ("put", "snapshot", "scan", "flush")]
        try:
            answers = [in_child(functools.partial(use, db)) for use in uses]
        finally:
            storage.open_up()
        writing.join(WAIT_S)
        assert answers == ["ForkedError"] * len(uses)
        assert db[b"key"] == b"value"


def test_the_parent_goes_on_while_and_after_children_live(path: Path) -> None:
    with open_store(path) as db:
        overwrite(db, b"old ")
        with sleeping_child():
            compact(db)
            expected = dict(db)
        assert run(REFUSED, path) == "LockedError\n"
        assert dict(db) == expected
    with open_store(path) as db:
        assert dict(db) == expected


def test_a_store_is_free_once_the_parent_closes_it_though_a_child_lives(path: Path) -> None:
    db = open_store(path)
    with sleeping_child():
        db.close()
        open_store(path).close()


def test_a_child_may_open_the_store_read_only(path: Path) -> None:
    with open_store(path) as db:
        overwrite(db, b"old ")
        expected = dict(db)

        def read() -> int:
            with open_store(path, read_only=True) as mine:
                assert dict(mine) == expected
                return len(mine)

        assert in_child(read) == repr(len(expected))


def test_a_child_may_open_the_store_for_writing_once_the_parent_has_closed_it(path: Path) -> None:
    def write() -> None:
        with open_store(path) as mine:
            mine[b"child"] = b"value"

    with open_store(path) as db:
        assert in_child(write) == "LockedError"
    assert in_child(write) == "None"
    with open_store(path) as db:
        assert db[b"child"] == b"value"


# The child ends as any program does: what it inherited is torn down by the interpreter.
CHILD_ENDS = """
options = eval(sys.argv[2])
db = lsmkv.open(sys.argv[1], **options)
for number in range(2000):
    db.put(b"key%06d" % (number * 7919 % 2000), b"old %d" % number)
db.flush()
db.wait_until_settled()
items = iter(db.items())
first = next(items)
for number in range(2000):
    db.put(b"key%06d" % number, b"new")
db.compact_range()
db.wait_until_settled()
before = sorted(os.listdir(sys.argv[1]))
live = {info.file_name for info in db.inspect().tables()}
assert {name for name in before if name.endswith(".sst")} > live, "no retired table to lose"
child = os.fork()
if not child:
    del db, items
    gc.collect()
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert sorted(os.listdir(sys.argv[1])) == before
assert len(list(items)) == 1999
print("kept", flush=True)
sys.stdin.readline()
db[b"after"] = b"value"
db.close()
"""


def test_a_child_that_ends_neither_unlocks_the_store_nor_removes_its_files(path: Path) -> None:
    with process(CHILD_ENDS, path, SMALL) as parent:
        assert line_of(parent) == "kept"
        with pytest.raises(lsmkv.LockedError) as caught:
            lsmkv.open(path)
        assert caught.value.pid == parent.pid
        _, errors = parent.communicate("\n")
        assert parent.returncode == 0, errors
    with open_store(path) as db:
        assert len(db) == 2001


def count_keys(path: str) -> int:
    with open_store(path, read_only=True) as db:
        return len(db)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_multiprocessing_workers_may_read_beside_the_writer(path: Path, method: str) -> None:
    with open_store(path) as db:
        overwrite(db, b"old ")
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(count_keys, [str(path)] * 4) == [300] * 4
        db[b"key"] = b"value"
        assert len(db) == 301


def test_two_stores_may_share_a_storage(tmp_path: Path) -> None:
    storage = Storage()
    with (
        open_store(tmp_path / "one", storage=storage) as one,
        open_store(tmp_path / "two", storage=storage) as two,
    ):
        one[b"key"], two[b"key"] = b"1", b"2"
        assert (one[b"key"], two[b"key"]) == (b"1", b"2")
