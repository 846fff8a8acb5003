"""``DB.prefixed``: the keys with a prefix, without it, as a mapping."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterable
from typing import Any

import pytest

import lsmkv
from lsmkv import DB
from lsmkv.layers import PrefixedBatch, PrefixedDB, PrefixedMapping, PrefixedSnapshot

OUTSIDE = {b"": b"-", b"us": b"-", b"user": b"-", b"user.": b"-", b"user0": b"-", b"v": b"-"}
"""Keys around ``user/``, some next to it."""


class Transaction:
    """The least that a transaction can do, over a dict."""

    def __init__(self, contents: dict[bytes, bytes]) -> None:
        self.contents = contents

    def get(self, key: bytes, /) -> bytes | None:
        return self.contents.get(key)

    def items(
        self,
        *,
        start: bytes | None = None,
        stop: bytes | None = None,
        prefix: bytes | None = None,
        reverse: bool = False,
    ) -> Iterable[tuple[bytes, bytes]]:
        found = [
            (key, value)
            for key, value in self.contents.items()
            if (start is None or start <= key)
            and (stop is None or key < stop)
            and key.startswith(prefix or b"")
        ]
        return sorted(found, reverse=reverse)

    def put(self, key: bytes, value: bytes, /) -> None:
        self.contents[key] = value

    def delete(self, key: bytes, /) -> None:
        self.contents.pop(key, None)


@pytest.fixture
def users(db: DB) -> PrefixedDB:
    """Three users, and keys around them."""
    db.update(OUTSIDE)
    users = db.prefixed(b"user/")
    users.update({b"a": b"1", b"b": b"2", b"b/x": b"3"})
    return users


# Nested, of snapshots, batches and transactions


def test_a_batch_is_shared_by_mappings(db: DB, users: PrefixedDB) -> None:
    log = db.prefixed(b"log/")
    with db.write_batch() as batch:
        mine, inner = users.on(batch), users.on(batch).prefixed(b"b/")
        mine[b"c"] = b"4"
        del mine[b"a"]
        inner.put(b"y", b"5")
        inner.delete(b"x")
        log.on(batch)[b"1"] = b"changed"
        assert (len(batch), len(mine)) == (5, 5)
        assert b"c" not in users
    assert dict(users.items()) == {b"b": b"2", b"b/y": b"5", b"c": b"4"}
    assert dict(log.items()) == {b"1": b"changed"}


def test_a_batch_makes_a_part_of_itself_while_it_is_open(db: DB) -> None:
    with db.write_batch() as batch:
        part = batch.prefixed(b"a/")
        assert isinstance(part, PrefixedBatch)
        part.prefixed(b"b/")[b"key"] = b"1"
    assert dict(db) == {b"a/b/key": b"1"}
    with pytest.raises(lsmkv.ClosedError):
        batch.prefixed(b"a/")


def test_a_transaction_needs_only_four_methods(users: PrefixedDB) -> None:
    contents = {**OUTSIDE, b"user/a": b"1", b"user/b/x": b"3"}
    mine = users.on(Transaction(contents))
    assert isinstance(mine, PrefixedMapping)
    mine[b"c"] = b"4"
    del mine[b"a"]
    assert dict(mine.items()) == {b"b/x": b"3", b"c": b"4"}
    assert list(mine.keys(start=b"c")) == [b"c"]
    assert mine.keys() - {b"c"} == {b"b/x"}
    assert (mine.keys(prefix=b"c").value(b"c"), mine.keys().value(b"d")) == (b"4", None)
    assert mine.multi_get([b"c", b"d"]) == [b"4", None]
    assert mine.prefixed(b"b/").popitem() == (b"x", b"3")
    mine.clear()
    assert not mine
    with pytest.raises(KeyError):
        mine.popitem()
    assert contents == OUTSIDE


def test_on_takes_what_belongs_to_another_mapping_as_the_store_s(db: DB, users: PrefixedDB) -> None:
    log = db.prefixed(b"log/")
    with log.snapshot() as snapshot:
        assert isinstance(users.on(snapshot), PrefixedSnapshot)
        assert users.on(snapshot)[b"a"] == b"1"
        assert users.on(snapshot).sequence_number == snapshot.sequence_number
    assert isinstance(users.on(log), PrefixedDB)
    assert users.on(log)[b"a"] == b"1"
    with log.write_batch() as batch:
        assert isinstance(users.on(batch), PrefixedBatch)
    wrong: Any = 5
    with pytest.raises(TypeError, match="has no get"):
        users.on(wrong)


def test_the_upkeep_of_a_store_stays_inside_the_prefix(db: DB, users: PrefixedDB) -> None:
    users.update({b"%05d" % number: b"v" * 50 for number in range(500)})
    db.update({b"zz%05d" % number: b"v" * 50 for number in range(500)})
    users.sync()
    users.compact_range(b"0", force=True)
    users.compact_range()
    inside = users.approximate_size()
    assert 0 < inside < db.approximate_size()
    assert users.approximate_size(b"00250") < inside
    assert users.approximate_size(b"2", b"1") == 0
    explained = users.explain(b"a")
    assert (explained.outcome, explained.value) == ("found", b"1")
    assert users.db is db


# Errors


def test_a_prefix_is_bytes_of_a_key_s_length(db: DB) -> None:
    wrong: Any = db
    with pytest.raises(TypeError, match="a prefix is bytes, not str"):
        wrong.prefixed("users")
    with pytest.raises(ValueError, match="prefix of 65536 bytes is over the limit of 65535"):
        db.prefixed(b"p" * 65_536)


def test_pickling_refers_to_the_store(users: PrefixedDB) -> None:
    with pytest.raises(TypeError, match=r"open the store by its path|read_only=True"):
        pickle.dumps(users)
    assert dict(copy.copy(users).items()) == dict(users.items())


def test_the_repr_names_prefix_and_store(db: DB, users: PrefixedDB) -> None:
    assert repr(users) == f"<lsmkv.PrefixedDB b'user/' of {db!r}>"
    assert db.path in repr(users.items())
    assert db.path in repr(users.write_batch())
    with users.cursor() as cursor:
        assert db.path in repr(cursor)
