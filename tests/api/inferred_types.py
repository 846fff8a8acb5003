"""A program whose types checkers must infer: mypy and pyright read it, and a test runs it.

``type: ignore`` stands where both must complain: they report one that is not needed.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

import msgspec

import lsmkv
from lsmkv.layers import PrefixedBatch, PrefixedDB, PrefixedSnapshot
from lsmkv.typed import (
    Bytes,
    Float,
    Int64,
    Json,
    MsgPack,
    Pickle,
    Str,
    Tuple,
    TypedBatch,
    TypedDB,
    TypedSnapshot,
    Uuid,
)


@dataclass
class User:
    name: str


class Point(msgspec.Struct):
    x: int


class Movie(TypedDict):
    title: str


def keys_and_values(db: lsmkv.DB) -> None:
    users = TypedDB(db.prefixed(b"1"), key=Tuple(Str(), Int64()), value=Json(User))
    assert_type(users, TypedDB[tuple[str, int], User])
    points = TypedDB(db.prefixed(b"2"), key=Uuid(), value=MsgPack(Point))
    assert_type(points, TypedDB[uuid.UUID, Point])
    movies = TypedDB(db.prefixed(b"3"), key=Str(), value=Json(Movie))
    assert_type(movies, TypedDB[str, Movie])
    counts = TypedDB(db.prefixed(b"4"), key=Bytes(), value=Json(dict[str, list[int]]))
    assert_type(counts, TypedDB[bytes, dict[str, list[int]]])
    anything = TypedDB(db.prefixed(b"5"), key=Tuple(), value=Json())
    assert_type(anything, TypedDB[tuple[Any, ...], Any])
    nested = TypedDB(db.prefixed(b"6"), key=Tuple(Tuple(Str(), Float()), Bytes()), value=Int64())
    assert_type(nested, TypedDB[tuple[tuple[str, float], bytes], int])
    six = Tuple(Str(), Int64(), Float(), Bytes(), Uuid(), Str())
    assert_type(six, Tuple[tuple[str, int, float, bytes, uuid.UUID, str]])
    assert_type(Tuple(Str(), Str(), Str(), Str(), Str(), Str(), Str()), Tuple[tuple[Any, ...]])
    assert_type(Pickle(complex), Pickle[complex])
    maybe: TypedDB[int, int | None] = TypedDB(db, key=Int64(), value=Json(int | None))
    assert_type(maybe.get(1), int | None)


def a_mapping(db: lsmkv.DB) -> None:
    users = TypedDB(db.prefixed(b"7"), key=Tuple(Str(), Int64()), value=Json(User))
    users["ada", 1] = User("Ada")
    users.put(("alan", 2), User("Alan"), sync=True)
    assert_type(users["ada", 1], User)
    assert_type(users.get(("ada", 2)), User | None)
    assert_type(users.get(("ada", 2), 0), User | int)
    assert_type(users.multi_get([("ada", 1)]), list[User | None])
    for key, user in users.items(prefix=("ada",)):
        assert_type(key, tuple[str, int])
        assert_type(user, User)
    for key in users.keys(start=("ada",), stop=("alan", 3), reverse=True):
        assert_type(key, tuple[str, int])
    assert_type(list(users.values()), list[User])
    assert_type(list(users), list[tuple[str, int]])
    with users.cursor() as cursor:
        cursor.seek(("alan",))
        assert_type(cursor.item, tuple[tuple[str, int], User])
    read: Mapping[tuple[str, int], User] = users
    both: MutableMapping[tuple[str, int], User] = users
    assert_type(dict(read), dict[tuple[str, int], User])
    assert_type(both.pop(("ada", 1)), User)
    assert_type(users.popitem(), tuple[tuple[str, int], User])


def snapshots_and_batches(db: lsmkv.DB) -> None:
    part = db.prefixed(b"8")
    assert_type(part, PrefixedDB)
    assert_type(part.prefixed(b"x"), PrefixedDB)
    assert_type(part.get(b"k"), bytes | None)
    assert_type(list(part.items(prefix=b"k")), list[tuple[bytes, bytes]])
    part[bytearray(b"k")] = memoryview(b"8 bytes!")
    part.clear()
    users = TypedDB(part, key=Str(), value=Json(User))
    with db.write_batch() as batch, users.write_batch() as other:
        assert_type(part.on(batch), PrefixedBatch)
        assert_type(users.on(batch), TypedBatch[str, User])
        assert_type(other, TypedBatch[str, User])
        other["ada"] = User("Ada")
    with users.snapshot() as snapshot, db.snapshot() as plain:
        assert_type(snapshot, TypedSnapshot[str, User])
        assert_type(snapshot["ada"], User)
        assert_type(users.on(plain), TypedSnapshot[str, User])
        assert_type(part.on(plain), PrefixedSnapshot)
        assert_type(plain.prefixed(b"8"), PrefixedSnapshot)
    assert_type(users.on(db), TypedDB[str, User])


def mistakes(db: lsmkv.DB) -> None:
    users = TypedDB(db, key=Tuple(Str(), Int64()), value=Json(User))
    users["ada", 1] = "Ada"  # type: ignore
    users["ada"] = User("Ada")  # type: ignore
    users.get(("ada", "1"))  # type: ignore
    users.put(("ada", 1), User("Ada").name)  # type: ignore
    users.items(prefix="ada")  # type: ignore
    users.write_batch()["ada", 1] = 5  # type: ignore
    users.snapshot()["ada", 1] = User("Ada")  # type: ignore
    TypedDB(db, key=Json(User), value=Json(User))  # type: ignore
    TypedDB(db, key=Str, value=Json(User))  # type: ignore
    db.prefixed("text")  # type: ignore
    db.prefixed(b"p")["text"] = b""  # type: ignore
    db.snapshot().prefixed(b"p")[b"key"] = b""  # type: ignore
    Tuple(Json())  # type: ignore
