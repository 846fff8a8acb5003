"""Forked children: they refuse the parent's handles, and the parent loses nothing."""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

import lsmkv
from gates import WAIT_S, GatedStorage
from other_processes import (
    HANG_S,
    REFUSED,
    SMALL,
    commit_batch,
    compact,
    line_of,
    open_store,
    overwrite,
    process,
    put,
    run,
)
from time_limits import exit_code

CHILD_HANG_S: Final = 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


def in_child(job: Callable[[], object]) -> str:
    """Run ``job`` in a forked child; return its result or its error's name."""
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
    code = exit_code(child)
    assert code >= 0, f"the child was killed by signal {-code}"
    return answer


@contextmanager
def sleeping_child() -> Iterator[None]:
    """A forked child that sleeps while the block runs."""
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
        exit_code(child)


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


def test_objects_of_a_handle_from_before_the_fork_are_refused_in_the_child(path: Path) -> None:
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
        # The parent loses none of it.
        assert snapshot[b"key00001"] and cursor.next() and len(list(iterator)) == len(view) - 1
        batch.commit()
        assert db[b"key"] == b"value"


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


def test_a_child_may_open_the_store_for_writing_once_the_parent_has_closed_it(path: Path) -> None:
    def write() -> None:
        with open_store(path) as mine:
            mine[b"child"] = b"value"

    with open_store(path) as db:
        assert in_child(write) == "LockedError"
    assert in_child(write) == "None"
    with open_store(path) as db:
        assert db[b"child"] == b"value"


# The child ends as any program does: the interpreter tears its inherited objects down.
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
        _, errors = parent.communicate("\n", timeout=WAIT_S)
        assert parent.returncode == 0, errors
    with open_store(path) as db:
        assert len(db) == 2001
