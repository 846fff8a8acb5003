"""Whatever takes all of a range reads each block once, and lengths are right at any moment."""

from __future__ import annotations

import tracemalloc
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

import lsmkv
from lsmkv.read.start import Range, count
from lsmkv.typed import Bytes, Str, TypedDB

KEYS: Final = [b"p/%04d" % number for number in range(1500)]

MAPPINGS: Final[dict[str, Callable[[lsmkv.DB, ExitStack], Any]]] = {
    "store": lambda db, _: db,
    "snapshot": lambda db, opened: opened.enter_context(db.snapshot()),
    "prefix": lambda db, _: db.prefixed(b"p/"),
    "prefix of a snapshot": lambda db, opened: opened.enter_context(db.snapshot()).prefixed(b"p/"),
    "transaction": lambda db, opened: _written(db, opened),
    "prefix of a transaction": lambda db, opened: _written(db, opened).prefixed(b"p/"),
    "typed store": lambda db, _: _typed(db.prefixed(b"p/")),
    "typed transaction": lambda db, opened: _typed(db).on(_written(db, opened)),
}
RANGES: Final[dict[str, dict[str, Any]]] = {
    "all": {},
    "reverse": {"reverse": True},
    "bounds": {"start": KEYS[100], "stop": KEYS[900]},
    "prefix": {"prefix": b"p/1", "reverse": True},
}
WAYS: Final[dict[str, Callable[[Collection[Any]], object]]] = {
    "list": list,
    "tuple": tuple,
    "sorted": sorted,
    "set": set,
    "[*view]": lambda view: [*view],
    "extend": lambda view: [].extend(view),
    "len": len,
    "a call": lambda view: max(*view),
}


def _written(db: lsmkv.DB, opened: ExitStack) -> lsmkv.Transaction:
    """A transaction with own writes, which is discarded at the end."""
    transaction = db.transaction()
    opened.callback(transaction.close)
    transaction[b"p/0007x"] = b"own"
    del transaction[b"p/0009"]
    return transaction


def _typed(db: Any) -> TypedDB[str, bytes]:
    return TypedDB(db, key=Str(), value=Bytes())


def filled(path: Path) -> lsmkv.DB:
    db = lsmkv.open(path, block_cache_size_bytes=0, block_size_bytes=512)
    for step in (2, 3):
        db.update((key, key * 5) for key in KEYS[::step])
        db.flush()
    db.update((key, b"in the memtable") for key in KEYS[::50])
    return db


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lsmkv.DB]:
    with filled(tmp_path_factory.mktemp("kept")) as db:
        yield db


@pytest.fixture
def db(tmp_path: Path) -> Iterator[lsmkv.DB]:
    with filled(tmp_path / "store") as db:
        yield db


def blocks_read(db: lsmkv.DB, function: Callable[[], object]) -> int:
    before = db.stats()
    function()
    return (db.stats() - before).block_reads


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["keys", "values", "items", "mapping"])
@pytest.mark.parametrize("name", MAPPINGS)
def test_each_block_is_read_once(kept: lsmkv.DB, name: str, kind: str, way: str) -> None:
    with ExitStack() as opened:
        mapping = MAPPINGS[name](kept, opened)
        own = name in ("store", "snapshot", "transaction") and way in ("list", "len")
        for wanted in RANGES.values() if own else [{}]:
            view = mapping if kind == "mapping" else getattr(mapping, kind)(**wanted)
            once = blocks_read(kept, lambda view=view: [None for _ in view])  # type: ignore[misc]
            assert once > 10
            assert blocks_read(kept, lambda view=view: WAYS[way](view)) == once  # type: ignore[misc]


@pytest.mark.parametrize("name", MAPPINGS)
def test_a_list_has_what_a_loop_sees(kept: lsmkv.DB, name: str) -> None:
    with ExitStack() as opened:
        mapping = MAPPINGS[name](kept, opened)
        for view in (mapping, mapping.keys(), mapping.values(), mapping.items(reverse=True)):
            seen = [entry for entry in view]  # noqa: C416  # list() is what is tested
            assert len(seen) == len(view)
            assert list(view) == seen
            assert tuple(view) == tuple(seen)
            assert sorted(view) == sorted(seen)


@pytest.mark.parametrize("name", MAPPINGS)
def test_a_length_beside_an_iterator_that_waits_is_right(kept: lsmkv.DB, name: str) -> None:
    with ExitStack() as opened:
        mapping = MAPPINGS[name](kept, opened)
        for view in (mapping, mapping.keys(), mapping.values(), mapping.items(reverse=True)):
            seen = list(iter(view))
            waiting, also = iter(view), iter(view)
            assert len(view) == len(view) == len(seen)
            assert list(waiting) == list(also) == seen
            next(begun := iter(view))
            assert len(view) == len(seen)
            assert list(begun) == seen[1:]


def test_iterators_over_other_entries_get_their_own(db: lsmkv.DB, tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "other") as other:
        other.update((b"q/%04d" % number, b"") for number in range(db.snapshot().sequence_number))
        assert other.snapshot().sequence_number == db.snapshot().sequence_number
        with db.transaction() as first, db.transaction() as second:
            first[b"p/first"] = second[b"p/second"] = b""
            views = [
                *(db.items(start=KEYS[10]), db.items(stop=KEYS[10]), db.items(reverse=True)),
                *(
                    db.items(),
                    other.items(),
                    first.items(),
                    second.items(),
                    db.prefixed(b"p/").items(),
                ),
            ]
            seen = [list(iter(view)) for view in views]
            for view, entries in zip(views, seen, strict=True):
                waiting = [iter(each) for each in views]
                assert len(view) == len(entries)
                assert list(map(list, waiting)) == seen
            first.close()
            second.close()


def test_a_length_after_a_write_counts_it(db: lsmkv.DB) -> None:
    for mapping in (db, db.prefixed(b"p/"), _typed(db.prefixed(b"p/"))):
        waiting, before = iter(mapping), len(list(iter(mapping)))
        db[b"p/" + type(mapping).__name__.encode()] = b""
        assert len(mapping) == before + 1
        assert len(list(waiting)) == before


def test_a_length_after_a_transaction_s_own_write_counts_it(db: lsmkv.DB) -> None:
    with db.transaction() as transaction:
        waiting, before = iter(transaction), len(list(iter(db)))
        transaction[b"p/own"] = b""
        assert len(transaction) == before + 1
        assert len(list(waiting)) == before


def test_a_transaction_that_asked_only_for_a_length_has_read_the_range(db: lsmkv.DB) -> None:
    with pytest.raises(lsmkv.ConflictError), db.transaction() as transaction:
        view = transaction.keys(prefix=b"p/1")
        waiting = iter(view)
        transaction[b"length"] = b"%d" % len(view)
        db[b"p/1zzz"] = b"one more"
        del waiting


@pytest.mark.parametrize("name", MAPPINGS)
def test_a_length_leaves_values_to_iterators_that_show_them(kept: lsmkv.DB, name: str) -> None:
    with ExitStack() as opened:
        mapping = MAPPINGS[name](kept, opened)
        for kind in ("items", "values", "keys"):
            seen = list(iter(getattr(mapping, kind)()))
            waiting = iter(getattr(mapping, kind)())
            assert len(mapping) == len(seen)
            assert list(waiting) == seen


@pytest.mark.parametrize("name", MAPPINGS)
def test_a_list_of_keys_takes_no_memory_for_values(db: lsmkv.DB, name: str) -> None:
    for number in range(30):
        db[b"p/large %d" % number] = bytes(1_000_000)
    db.flush()
    with ExitStack() as opened:
        mapping = MAPPINGS[name](db, opened)
        list(mapping)  # whatever stays
        tracemalloc.start()
        try:
            list(mapping)
            assert tracemalloc.get_traced_memory()[1] < 15_000_000
        finally:
            tracemalloc.stop()


def waiting_range() -> tuple[Range, list[list[tuple[bytes, bytes]]]]:
    """A range with an iteration that has not read yet, and ten lists that it will read."""
    wanted = Range()
    wanted.note_iteration()
    return wanted, [[(b"key", bytes(1000))]] * 10


@pytest.mark.parametrize("with_values", [False, True])
def test_what_takes_little_memory_is_left_to_the_iteration(with_values: bool) -> None:
    waiting, lists = waiting_range()
    waiting.needs_values = with_values
    assert count(lists, waiting, 10 * 1153) == 10
    left = waiting.begin()
    assert left is not None
    assert [len(value) for items in left for _, value in items] == [1000 * with_values] * 10


def test_what_takes_much_memory_is_not_left_and_counts_all_the_same() -> None:
    waiting, lists = waiting_range()
    assert count(lists, waiting, 9 * 1153) == 10
    assert waiting.begin() is None


def test_the_newest_iteration_keeps_no_store_open(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "store") as db:
        db[b"k"] = b"v"
        db.flush()
        iter(db.items())
        iter(db.transaction().items())
        gone = weakref.ref(db)
    del db
    assert gone() is None
