"""Deleting ranges: by a store, a batch, a transaction and a layer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import number_key, open_small

import lsmkv
import lsmkv.aio
from costs import COMPILED
from event_loops import run
from lsmkv.engine.erase import delete_ranges
from lsmkv.log.batch import OPERATION_OVERHEAD_BYTES
from lsmkv.typed import Bytes, Str, TypedDB

KEYS = [number_key(number) for number in range(400)]
LOW, HIGH = KEYS[50], KEYS[350]
LEFT = KEYS[:50] + KEYS[350:]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[lsmkv.DB]:
    with open_small(tmp_path / "store") as db:
        for key in KEYS:
            db.put(key, b"old")
        yield db


def live(db: lsmkv.DB) -> int:
    return db.inspect().range_delete_count


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bounds", "left"),
    [
        ({"start": LOW, "stop": HIGH}, LEFT),
        ({"start": LOW}, KEYS[:50]),
        ({"stop": HIGH}, KEYS[350:]),
        ({"prefix": b"key0003"}, KEYS[:300]),
        ({"start": KEYS[250], "prefix": b"key0002"}, KEYS[:250] + KEYS[300:]),
        ({"start": b""}, []),
        ({"start": HIGH, "stop": LOW}, KEYS),
        ({"start": LOW, "stop": LOW}, KEYS),
    ],
)
def test_a_range_delete_removes_what_keys_of_the_same_bounds_shows(
    db: lsmkv.DB, bounds: dict[str, bytes], left: list[bytes]
) -> None:
    db.delete_range(**bounds)  # type: ignore[arg-type]
    assert list(db) == left
    db.flush()
    assert list(db) == left


def test_without_bounds_it_says_to_clear_and_removes_nothing(db: lsmkv.DB) -> None:
    prefixed, typed = db.prefixed(b"k"), TypedDB(db, key=Str(), value=Bytes())
    everywhere: list[Any] = [db, db.write_batch(), db.transaction(), prefixed, typed]
    for deletes in everywhere:
        with pytest.raises(ValueError, match=r"call clear\(\)"):
            deletes.delete_range()
    with pytest.raises(ValueError, match=r"call clear\(\)"):
        db.delete_range(prefix=b"")
    assert list(db) == KEYS


def test_a_bound_that_is_no_key_is_refused_as_by_keys(db: lsmkv.DB) -> None:
    wrong: Any = "key"
    for bound in ("start", "stop", "prefix"):
        with pytest.raises(TypeError) as expected:
            db.keys(**{bound: wrong})
        with pytest.raises(TypeError) as got:
            db.delete_range(**{bound: wrong})
        assert str(got.value) == str(expected.value)


def test_the_empty_key_can_be_erased_alone(db: lsmkv.DB) -> None:
    db[b""] = b"v"
    db.delete_range(b"", b"\0")
    assert list(db) == KEYS


def test_an_empty_range_writes_nothing_but_asks_for_a_store_to_write_to(db: lsmkv.DB) -> None:
    with db.snapshot() as before:
        db.delete_range(b"b", b"a")
        with db.snapshot() as after:
            assert before.sequence_number == after.sequence_number
    with lsmkv.open(db.path, read_only=True) as reader, pytest.raises(lsmkv.ReadOnlyError):
        reader.delete_range(b"b", b"a")
    db.close()
    with pytest.raises(lsmkv.ClosedError):
        db.delete_range(b"b", b"a")


# --- few keys -------------------------------------------------------------------------------------


def test_few_keys_are_deleted_one_by_one_and_many_by_a_range_delete(db: lsmkv.DB) -> None:
    db.delete_range(KEYS[0], KEYS[128])
    assert (live(db), list(db)) == (0, KEYS[128:])
    db.delete_range(KEYS[128], KEYS[257])
    assert (live(db), list(db)) == (1, KEYS[257:])


@pytest.mark.skipif(COMPILED, reason="compiled code takes no other readers")
def test_keys_that_are_put_while_it_looks_are_deleted_too(db: lsmkv.DB) -> None:
    races: list[None] = []

    class Putting:
        """Readers beside which another thread puts a key at each look."""

        def read_view(self) -> Any:
            view = db._engine.readers.read_view()
            races.append(None)
            db.put(b"key000001%d" % len(races), b"new")
            return view

    putting: Any = Putting()
    delete_ranges(putting, db._engine.writer, [(KEYS[0], KEYS[5])], [], False)
    assert (list(db), live(db), len(races)) == (KEYS[5:], 1, 3)


# --- batches --------------------------------------------------------------------------------------


def test_ranges_count_towards_the_limit_of_a_batch(db: lsmkv.DB) -> None:
    batch = db.write_batch()
    batch._size_bytes = lsmkv.MAX_BATCH_BYTES - OPERATION_OVERHEAD_BYTES - 1
    with pytest.raises(ValueError, match="commit it in parts"):
        batch.delete_range(b"a", b"b")
    batch.delete_range(b"a")


# --- transactions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [0, 1000])
def test_a_range_delete_conflicts_with_reads_of_its_keys_alone(db: lsmkv.DB, most: int) -> None:
    db._engine.writer.most_deletions = most
    reads: dict[str, Callable[[Any], object]] = {
        "key inside": lambda t: t.get(KEYS[60]),
        "range across its start": lambda t: list(t.keys(start=KEYS[40], stop=KEYS[51])),
        "range below": lambda t: list(t.keys(stop=LOW)),
        "key at its stop": lambda t: t.get(HIGH),
    }
    conflicts = []
    for name, read in reads.items():
        t = db.transaction()
        read(t)
        t.put(b"z", b"written")
        db.delete_range(LOW, HIGH)
        try:
            t.commit()
        except lsmkv.ConflictError:
            conflicts.append(name)
        for key in KEYS[50:350]:
            db.put(key, b"old")
    assert conflicts == ["key inside", "range across its start"]


def test_a_transaction_that_only_deletes_a_range_conflicts_as_others(db: lsmkv.DB) -> None:
    for bounds in ((LOW, HIGH), (b"x", b"y")):  # the second range is empty
        t = db.transaction()
        t.get(KEYS[0])
        t.delete_range(*bounds)
        db.put(KEYS[0], b"changed")
        with pytest.raises(lsmkv.ConflictError):
            t.commit()
    assert list(db) == KEYS


@pytest.mark.parametrize("most", [0, 1000])
def test_a_write_that_depends_on_an_erased_key_reads_again(db: lsmkv.DB, most: int) -> None:
    db._engine.writer.most_deletions = most
    seen: list[bytes | None] = []

    def revised(old: bytes | None) -> bytes:
        seen.append(old)
        if len(seen) == 1:
            db.delete_range(LOW, HIGH)
        return b"new"

    db._engine.writer.revise(KEYS[60], False, revised)
    assert seen == [b"old", None]
    assert db[KEYS[60]] == b"new"


# --- layers ---------------------------------------------------------------------------------------


def test_layers_delete_their_own_range_and_clear_only_themselves(db: lsmkv.DB) -> None:
    users = db.prefixed(b"user/")
    names = TypedDB(users, key=Str(), value=Bytes())
    for name in ("ada", "alan", "edsger", "grace"):
        names[name] = b""
    names.delete_range(prefix="a")
    assert list(names) == ["edsger", "grace"]
    users.delete_range(b"f", sync=True)
    with users.write_batch() as batch:
        batch.put(b"x", b"")
        batch.delete_range(b"e", b"f")
    assert list(users) == [b"x"]
    names.clear()
    assert list(db) == KEYS
    TypedDB(db, key=Bytes(), value=Bytes()).clear()
    assert not db


def test_an_event_loop_deletes_ranges(db: lsmkv.DB) -> None:
    async def delete() -> None:
        shared = lsmkv.aio.AsyncDB(db)
        await shared.delete_range(bytearray(LOW), KEYS[200])
        async with shared.write_batch() as batch:
            batch.delete_range(KEYS[200], HIGH)
        await shared.close()

    run(delete())
    assert list(db) == LEFT


def test_a_range_is_deleted_while_the_program_ends(db: lsmkv.DB) -> None:
    db._engine.end_with_program()
    db.delete_range(LOW, HIGH)
    assert (list(db), live(db)) == (LEFT, 0)
    assert os.listdir(db.path)
