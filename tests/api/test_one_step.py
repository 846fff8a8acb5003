"""Removals and replacements that depend on what was there happen in one step.

Other writes come in between, where a block is read: the store holds no lock there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from functools import partial
from typing import Any

import pytest

import lsmkv
import lsmkv.dbm
from interruptions import at_each_place
from lsmkv.typed import Json, Str, TypedDB
from storages import HookedStorage

Act = Callable[[], object]


class InterposedStorage(HookedStorage):
    """Calls ``act`` once, when the next block is read."""

    act: Act | None = None

    def after_read(self, *_: object) -> None:
        act, self.act = self.act, None
        if act is not None:
            act()


@pytest.fixture
def storage() -> InterposedStorage:
    return InterposedStorage()


@pytest.fixture
def db(path: str, storage: InterposedStorage) -> Iterator[lsmkv.DB]:
    with lsmkv.open(path, storage=storage, block_cache_size_bytes=0) as opened:
        yield opened


def stored(db: lsmkv.DB) -> None:
    """Put ``k``, and an absent ``gone`` whose absence is only found by reading a block."""
    db.update({b"k": b'"old"', b"gone": b'"value"'})
    db.flush()
    with db.snapshot():  # or the deletion would be merged with what it hides
        db.delete(b"gone")
        db.flush()
        db.wait_until_settled()


MAPPINGS: dict[str, Callable[[lsmkv.DB], MutableMapping[Any, Any]]] = {
    "store": lambda db: db,
    "prefixed": lambda db: db.prefixed(b""),
    "typed": lambda db: TypedDB(db, key=Str(), value=Json(str)),
    "dbm": lsmkv.dbm.Database,
}


@pytest.fixture(params=MAPPINGS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def mapping(kind: str, db: lsmkv.DB) -> MutableMapping[Any, Any]:
    """A mapping over the store; with ``key`` and ``text`` for what it takes."""
    stored(db)
    return MAPPINGS[kind](db)


def key(kind: str, name: bytes) -> Any:
    return name.decode() if kind == "typed" else name


def text(kind: str, name: str) -> Any:
    return name if kind == "typed" else b'"%s"' % name.encode()


def test_pop_returns_what_it_removes(
    kind: str, mapping: MutableMapping[Any, Any], db: lsmkv.DB, storage: InterposedStorage
) -> None:
    storage.act = lambda: db.put(b"k", b'"new"')
    assert mapping.pop(key(kind, b"k")) == text(kind, "new")
    assert storage.act is None
    assert b"k" not in db


def test_pop_and_del_of_what_another_has_removed_are_key_errors(
    kind: str, mapping: MutableMapping[Any, Any], db: lsmkv.DB, storage: InterposedStorage
) -> None:
    for remove in (mapping.pop, mapping.__delitem__):
        storage.act = lambda: db.delete(b"k")
        with pytest.raises(KeyError):
            remove(key(kind, b"k"))
        assert storage.act is None
        stored(db)
    storage.act = lambda: db.delete(b"k")
    assert mapping.pop(key(kind, b"k"), None) is None


def test_setdefault_keeps_what_another_has_put(
    kind: str, mapping: MutableMapping[Any, Any], db: lsmkv.DB, storage: InterposedStorage
) -> None:
    storage.act = lambda: db.put(b"gone", b'"other"')
    assert mapping.setdefault(key(kind, b"gone"), text(kind, "mine")) == text(kind, "other")
    assert storage.act is None
    assert db[b"gone"] == b'"other"'


def test_popitem_returns_what_it_removes(
    kind: str, mapping: MutableMapping[Any, Any], db: lsmkv.DB, storage: InterposedStorage
) -> None:
    storage.act = lambda: db.put(b"k", b'"new"')
    assert mapping.popitem() == (key(kind, b"k"), text(kind, "new"))
    assert storage.act is None
    assert not db


def test_popitem_takes_a_key_below_that_came_meanwhile(
    db: lsmkv.DB, storage: InterposedStorage
) -> None:
    stored(db)

    def put_batch() -> None:
        with db.write_batch() as batch:
            batch.put(b"z", b"")
            batch.put(b"a", b"first")

    storage.act = put_batch
    assert db.popitem() == (b"a", b"first")
    assert db.popitem(prefix=b"k") == (b"k", b'"old"')
    assert dict(db) == {b"z": b""}


def test_popitem_passes_a_key_that_another_has_removed(
    db: lsmkv.DB, storage: InterposedStorage
) -> None:
    stored(db)
    db[b"l"] = b"next"
    storage.act = lambda: db.delete(b"k")
    assert db.popitem() == (b"l", b"next")


def test_popitem_finds_what_was_ingested_meanwhile(
    db: lsmkv.DB, storage: InterposedStorage
) -> None:
    stored(db)
    storage.act = lambda: db.bulk_load({b"a": b"first"})
    assert db.popitem() == (b"a", b"first")
    assert dict(db) == {b"k": b'"old"'}


def test_compare_and_set_does_not_replace_what_came_meanwhile(
    db: lsmkv.DB, storage: InterposedStorage
) -> None:
    stored(db)
    storage.act = lambda: db.put(b"k", b"new")
    assert not db.compare_and_set(b"k", b'"old"', b"mine")
    assert db[b"k"] == b"new"


def test_an_entry_that_does_not_decode_is_not_put_back_over_a_newer_one(db: lsmkv.DB) -> None:
    class Meddled(Json[str]):
        def decode(self, data: bytes) -> str:
            db.put(b"k", b'"new"')
            return super().decode(data)

    typed = TypedDB(db, key=Str(), value=Meddled(str))
    for remove in (typed.popitem, lambda: typed.pop("k")):
        db.put(b"k", b"no JSON")
        with pytest.raises(lsmkv.typed.DecodeError):
            remove()
        assert db[b"k"] == b'"new"'


def test_a_handle_for_reading_removes_nothing(path: str) -> None:
    with lsmkv.open(path) as db:
        db[b"k"] = b"v"
    with lsmkv.open(path, read_only=True) as reader:
        for name in (b"k", b"absent"):
            for act in (
                partial(reader.pop, name),
                partial(reader.setdefault, name, b""),
                partial(reader.__delitem__, name),
                partial(reader.popitem, prefix=name),
            ):
                with pytest.raises(lsmkv.ReadOnlyError):
                    act()


@pytest.mark.parametrize("name", ["pop", "popitem", "setdefault"])
def test_an_interrupted_step_is_done_or_not(path: str, name: str) -> None:
    acts: dict[str, Callable[[lsmkv.DB], object]] = {
        "pop": lambda db: db.pop(b"a"),
        "popitem": lambda db: db.popitem(prefix=b"a"),
        "setdefault": lambda db: db.setdefault(b"b", b"new"),
    }
    with lsmkv.open(path) as db:
        before = {b"a": b"old", b"c": b"kept"}
        after = {**before, b"b": b"new"} if name == "setdefault" else {b"c": b"kept"}
        db.update(before)

        def check() -> None:
            assert dict(db) in (before, after)
            assert len(db._engine.writer.watches.active) <= 1  # the gaps alone
            db.delete(b"b")
            db.update(before)
            assert db.popitem(prefix=b"a") == (b"a", b"old")
            db.update(before)

        assert at_each_place(lambda: acts[name](db), check)
