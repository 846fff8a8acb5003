"""Handles that nobody closes, and read-only ones that are pickled, copied and forked."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, Final

import pytest
from conftest import SMALL, fill, number_key, open_small

import lsmkv
from forked_children import in_child
from lsmkv.api import opening
from lsmkv.background import handles
from lsmkv.background.state import UNOPENED
from lsmkv.engine.engine import Engine
from threaded_stores import run_all

BUSY = """
import sys, lsmkv
db = lsmkv.open(sys.argv[1], write_buffer_size_bytes=20_000, level1_size_bytes=40_000,
                table_size_bytes=10_000)
for number in range(5000):
    db.put(b"%08d" % (number * 7919 % 100_003), b"x" * 100)
"""
KEPT_BY_A_CYCLE = """
class Holder: pass
holder = Holder()
holder.db, holder.itself = db, holder
del db
"""


@pytest.mark.parametrize("more", ["", KEPT_BY_A_CYCLE])
def test_a_program_that_closes_nothing_ends_and_leaves_a_closed_store(
    tmp_path: Path, more: str
) -> None:
    path = tmp_path / "db"
    subprocess.run([sys.executable, "-c", BUSY + more, str(path)], check=True, timeout=120)
    with lsmkv.open(path) as db:
        assert len(db) == 5000
        assert db.verify().ok


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_view_alone_keeps_its_store_open(path: str) -> None:
    with open_small(path) as db:
        contents = fill(db, range(100))
    assert list(open_small(path).items()) == list(contents.items())
    cursor = open_small(path).cursor()
    assert cursor.first() and cursor.key == number_key(0)
    del cursor
    open_small(path).close()  # and nothing holds it open any longer


def test_an_iterator_of_a_closed_store_removes_no_files_of_the_next(path: str) -> None:
    with open_small(path) as db:
        fill(db, range(500))
        db.flush()
        late = iter(db.items())
        next(late)
        db.compact_range()  # retires the tables that ``late`` reads
    lsmkv.destroy(path)
    with open_small(path) as db:
        contents = fill(db, range(500))
        db.flush()
        del late
        db.close()
    with open_small(path) as db:
        assert dict(db.items()) == contents
        assert db.verify().ok


def test_a_closed_store_is_no_longer_watched(path: str) -> None:
    watched = len(handles._watched)
    with open_small(path) as db, lsmkv.open(path, read_only=True) as reader:
        db[b"key"] = b"value"
        reader.refresh()
        assert len(handles._watched) == watched + 2
    assert len(handles._watched) == watched


def test_an_interrupt_before_a_store_is_open_leaves_it_unlocked(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any, **options: Any) -> Engine:
        Engine(*arguments, **options)
        raise KeyboardInterrupt

    gc.disable()
    try:
        monkeypatch.setattr(opening, "Engine", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lsmkv.open(path)
        monkeypatch.undo()
        lsmkv.open(path).close()
    finally:
        gc.enable()


pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


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
    data = pickled(path)
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


def pickled(path: str) -> bytes:
    with open_small(path, read_only=True) as db:
        return pickle.dumps(db)


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
    data = pickled(path)
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
    assert again._state.life is UNOPENED
    again.close()
    assert again.closed
    with pytest.raises(lsmkv.ClosedError):
        again.get(b"key")


def test_an_unpickled_handle_may_be_dropped_used_or_not(
    path: str, store: dict[bytes, bytes]
) -> None:
    data = pickled(path)
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
    data = pickled(path)
    with pickle.loads(data) as again:
        found: list[dict[bytes, bytes]] = []
        run_all(*[lambda: found.append(dict(again.items()))] * 8)
        assert found == [store] * 8


# Forked


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
        with engine.tables.lock, engine.state.mutex:  # as another thread may hold them
            assert in_child(lambda: len(db)) == 50
