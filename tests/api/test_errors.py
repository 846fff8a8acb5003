"""Exceptions are copied and pickled, closed objects raise new ones, and those of an open store refuse."""

from __future__ import annotations

import copy
import importlib
import multiprocessing
import os
import pickle
import pkgutil
import traceback
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from conftest import fill, open_small

import lsmkv
from lsmkv import DB, ClosedError, CorruptionError, ForkedError, LockedError
from lsmkv import UnsupportedFormatError as Unsupported
from lsmkv.background.process.parent import HelperDiedError
from time_limits import exit_code

HANG_S = 60  # only stops a test that hangs

MADE: dict[str, lsmkv.Error] = {
    "CorruptionError": CorruptionError("/a/b", 17, "wrong", expected=b"x", got=(1, None)),
    "CorruptionError without a place": CorruptionError("/a/b", None, "r" * 1000),
    "ConflictError": lsmkv.ConflictError(b"k", 10),
    "ConflictError of no key": lsmkv.ConflictError(None),
    "UnsupportedFormatError": Unsupported("/a/b", "version 9"),
    "LockedError": LockedError("/a/b", 1, may_read=True),
    "LockedError of nobody known": LockedError("/a/b", None),
    "LockedError in this process": LockedError("/a/b", os.getpid()),
    "StoreReplacedError": lsmkv.StoreReplacedError("/a/b"),
    "MissingExtraError": lsmkv.MissingExtraError("what is wrong"),
    "HelperDiedError": HelperDiedError(-9, "killed"),
}


def pickled(protocol: int) -> Callable[[Any], Any]:
    return lambda error: pickle.loads(pickle.dumps(error, protocol))


WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {number}": pickled(number) for number in range(pickle.HIGHEST_PROTOCOL + 1)},
}


def kinds() -> Iterator[type[lsmkv.Error]]:
    """Every exception class, public or private, that takes only a message."""
    for module in pkgutil.walk_packages(lsmkv.__path__, "lsmkv."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    waiting = [lsmkv.Error]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__init__ is Exception.__init__:
            yield kind


def all_errors() -> dict[str, lsmkv.Error]:
    return {**MADE, **{kind.__name__: kind("what is wrong") for kind in kinds()}}


ERRORS = all_errors()


def test_every_public_exception_is_tried() -> None:
    named = {name: getattr(lsmkv, name) for name in lsmkv.__all__}
    public = {
        name
        for name, value in named.items()
        if isinstance(value, type) and issubclass(value, BaseException)
    }
    assert "CursorError" in public
    assert public <= ERRORS.keys()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ERRORS)
def test_an_exception_keeps_kind_message_and_fields(name: str, way: str) -> None:
    error = ERRORS[name]
    again = WAYS[way](error)
    assert again is not error
    assert type(again) is type(error)
    assert (str(again), repr(again)) == (str(error), repr(error))
    assert (again.args, vars(again)) == (error.args, vars(error))


def test_an_exception_of_a_subclass_keeps_its_fields() -> None:
    again = pickle.loads(pickle.dumps(_UserError("there", 3)))
    assert (type(again), str(again), again.path, again.count) == (
        _UserError,
        "there: 3",
        "there",
        3,
    )


def test_an_exception_keeps_its_notes() -> None:
    error = LockedError("/a/b", 1)
    error.add_note("while the report was written")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["while the report was written"]


class _UserError(CorruptionError):
    def __init__(self, path: str, count: int) -> None:
        super().__init__(path, None, str(count))
        self.count = count


def _open_locked(path: str) -> None:
    lsmkv.open(path)


def test_an_exception_in_a_process_pool_reaches_the_parent(path: str) -> None:
    with open_small(path), multiprocessing.get_context("spawn").Pool(1) as pool:
        with pytest.raises(LockedError) as caught:
            pool.apply_async(_open_locked, (path,)).get(timeout=HANG_S)
        assert (caught.value.path, caught.value.pid) == (path, os.getpid())


# Each use raises a new exception


def uses(db: DB) -> list[Callable[[], object]]:
    snapshot, cursor, batch, items = db.snapshot(), db.cursor(), db.write_batch(), db.items()
    return [
        lambda: db.get(b"k"),
        lambda: db.put(b"k", b"v"),
        lambda: db.multi_get([b"k"]),
        lambda: db.flush(),
        lambda: db.compact_range(),
        lambda: db.stats(),
        lambda: snapshot.get(b"k"),
        lambda: cursor.first(),
        lambda: batch.commit(),
        lambda: len(items),
        lambda: next(iter(items)),
    ]


def raised(use: Callable[[], object], kind: type[lsmkv.Error]) -> lsmkv.Error:
    with pytest.raises(kind) as caught:
        use()
    return caught.value


def check_each_raises_its_own(tried: list[Callable[[], object]], kind: type[lsmkv.Error]) -> None:
    for use in tried:
        first, second = raised(use, kind), raised(use, kind)
        assert first is not second
        lengths = [len(traceback.extract_tb(error.__traceback__)) for error in (first, second)]
        assert lengths[0] == lengths[1]


def test_each_use_of_a_closed_store_raises_a_new_error(path: str) -> None:
    db = open_small(path)
    tried = uses(db)
    db.close()
    check_each_raises_its_own(tried, ClosedError)


def test_each_use_of_a_forked_store_raises_a_new_error(path: str) -> None:
    with open_small(path) as db:
        tried = uses(db)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                check_each_raises_its_own(tried, ForkedError)
                code = 0
            finally:
                os._exit(code)
        assert exit_code(child) == 0


def a_table(db: DB) -> lsmkv.Table:
    db.put(b"key", b"value")
    db.flush()
    return db.tables()[0]


HELD: dict[str, Callable[[DB], object]] = {
    "DB": lambda db: db,
    "Snapshot": lambda db: db.snapshot(),
    "Cursor": lambda db: db.cursor(),
    "Cursor of a snapshot": lambda db: db.snapshot().cursor(),
    "WriteBatch": lambda db: db.write_batch(),
    "Transaction": lambda db: db.transaction(),
    "Cursor of a transaction": lambda db: db.transaction().cursor(),
    "items of a transaction": lambda db: db.transaction().items(),
    "iterator of a transaction's items": lambda db: iter(db.transaction().items()),
    "RangeKeys": lambda db: db.keys(),
    "RangeValues": lambda db: db.values(),
    "RangeItems": lambda db: db.items(),
    "RangeItems of a snapshot": lambda db: db.snapshot().items(),
    "Table": a_table,
    "iterator of a store": iter,
    "iterator of a store, backwards": reversed,
    "iterator of keys": lambda db: iter(db.keys()),
    "iterator of values": lambda db: iter(db.values()),
    "iterator of items": lambda db: iter(db.items()),
    "iterator of items, backwards": lambda db: reversed(db.items()),
    "iterator of a snapshot": lambda db: iter(db.snapshot().items()),
}


@pytest.mark.parametrize("name", HELD)
def test_objects_of_an_open_store_refuse_to_be_copied(db: DB, name: str) -> None:
    with pytest.raises(TypeError, match=r"^cannot copy or pickle an? .*: \w+"):
        copy.copy(HELD[name](db))


@pytest.mark.parametrize("way", WAYS)
def test_the_error_says_to_open_the_store_by_its_path(db: DB, way: str) -> None:
    with pytest.raises(TypeError) as caught:
        WAYS[way](db)
    assert f"lsmkv.open({db.path!r}, read_only=True)" in str(caught.value)


def test_a_refused_copy_of_an_iterator_leaves_it_where_it_was(db: DB) -> None:
    keys = list(fill(db, range(300)))
    walk = iter(db.keys())
    seen = list(islice(walk, 100))
    with pytest.raises(TypeError):
        copy.copy(walk)
    assert seen + list(walk) == keys


def test_reports_of_a_store_can_be_copied(db: DB) -> None:
    fill(db, range(300))
    db.flush()
    told = [db.stats(), db.stats().flush_us, db.memory_usage(), db.inspect(), db.options]
    told.append(db.explain(b"key000007"))
    for report in told:
        assert copy.copy(report) == report
        assert copy.deepcopy(report) == report
        assert pickle.loads(pickle.dumps(report)) == report


def test_a_closed_store_is_refused_too(path: str) -> None:
    db = lsmkv.open(path)
    db.close()
    with pytest.raises(TypeError, match="cannot copy or pickle a DB"):
        copy.copy(db)
