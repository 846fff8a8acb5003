"""Objects of an open store refuse copying and pickling, with advice."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from conftest import fill

import lsmkv
from lsmkv import DB


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


def pickled(protocol: int) -> Callable[[object], object]:
    return lambda held: pickle.dumps(held, protocol)


WAYS: dict[str, Callable[[Any], object]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {number}": pickled(number) for number in range(pickle.HIGHEST_PROTOCOL + 1)},
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


def test_a_refused_copy_of_a_store_leaves_it_open(db: DB) -> None:
    with pytest.raises(TypeError):
        copy.copy(db)
    db[b"k"] = b"v"
    assert db[b"k"] == b"v"


def test_a_refused_copy_of_a_batch_leaves_it_to_be_committed(db: DB) -> None:
    with db.write_batch() as batch:
        batch.put(b"k", b"v")
        with pytest.raises(TypeError):
            copy.copy(batch)
    assert db[b"k"] == b"v"


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
