"""``TypedDB``: a store whose keys and values are objects."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import zlib
from collections.abc import Callable
from typing import Any

import pytest

import lsmkv
from lsmkv import DB
from lsmkv.typed import (
    Codec,
    DecodeError,
    Int64,
    Json,
    MsgPack,
    Str,
    Tuple,
    TypedBatch,
    TypedDB,
    TypedMapping,
    pack,
)


@dataclasses.dataclass
class User:
    name: str
    born: int = 0


ADA, ALAN, GRACE = User("Ada", 1815), User("Alan", 1912), User("Grace", 1906)
Users = TypedDB[tuple[str, int], User]


@pytest.fixture
def users(db: DB) -> Users:
    db.update({b"": b"-", b"user": b"-", b"user0": b"-"})
    users = TypedDB(db.prefixed(b"user/"), key=Tuple(Str(), Int64()), value=Json(User))
    users.update({("uk", 1): ADA, ("uk", 2): ALAN, ("us", 1): GRACE})
    return users


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({}, ["uk1", "uk2", "us1"]),
        ({"prefix": ("uk",)}, ["uk1", "uk2"]),
        ({"prefix": ("uk", 2)}, ["uk2"]),
        ({"prefix": ("u",)}, []),
        ({"prefix": ()}, ["uk1", "uk2", "us1"]),
        ({"start": ("uk", 2)}, ["uk2", "us1"]),
        ({"stop": ("us",)}, ["uk1", "uk2"]),
        ({"start": ("uk",), "stop": ("uk", 2)}, ["uk1"]),
        ({"prefix": ("uk",), "start": ("uk", 2)}, ["uk2"]),
        ({"prefix": ("uk",), "stop": ("uk", 2)}, ["uk1"]),
    ],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_ranges(users: Users, bounds: dict[str, Any], expected: list[str], reverse: bool) -> None:
    order = expected[::-1] if reverse else expected
    view = users.items(**bounds, reverse=reverse)
    assert [f"{key[0]}{key[1]}" for key, _ in view] == order
    assert [value for _, value in view] == list(users.values(**bounds, reverse=reverse))
    assert list(reversed(view)) == list(view)[::-1]
    assert len(view) == len(order)
    assert list(users.keys(**bounds, reverse=reverse)) == [key for key, _ in view]


def test_a_prefix_of_a_text_part_is_the_whole_text(db: DB) -> None:
    notes = TypedDB(db, key=Tuple(), value=Str())
    keys: list[tuple[Any, ...]] = [
        *(("a",), ("a", None), ("a", 1), ("a", ("x",)), ("a\x00",), ("a\x00b", 1), ("ab",), (b"a",))
    ]
    notes.update(dict.fromkeys(keys, ""))
    assert list(notes.keys(prefix=("a",))) == [("a",), ("a", None), ("a", ("x",)), ("a", 1)]
    assert list(notes.keys(prefix=("a\x00",))) == [("a\x00",)]


def test_an_entry_that_does_not_decode_is_not_lost_by_popitem(db: DB) -> None:
    numbers = TypedDB(db, key=Int64(), value=Json(int))
    db[Int64().encode(5)] = b"damaged"
    with pytest.raises(DecodeError):
        numbers.popitem()
    assert db[Int64().encode(5)] == b"damaged"


# Snapshots, batches, transactions


def test_a_batch_is_shared_by_mappings_of_different_types(db: DB, users: Users) -> None:
    names = TypedDB(db.prefixed(b"name/"), key=Str(), value=Tuple(Str(), Int64()))
    with users.write_batch(sync=True) as batch:
        batch["de", 1] = User("Konrad")
        del batch["uk", 1]
        names.on(batch)["Konrad"] = ("de", 1)
        assert ("de", 1) not in users
        assert len(batch) == 3
    assert users[names["Konrad"]] == User("Konrad")
    assert ("uk", 1) not in users
    with db.write_batch() as plain:
        assert isinstance(users.on(plain), TypedBatch)
        users.on(plain).put(("de", 2), ADA)
    assert users["de", 2] == ADA


def test_a_refused_value_leaves_the_batch_as_it_was(users: Users) -> None:
    wrong: Any = users
    with wrong.write_batch() as batch:
        batch["de", 1] = ADA
        with pytest.raises(TypeError):
            batch["de", "2"] = ADA
        with pytest.raises(ValueError):
            batch["de", 2] = User(5)  # type: ignore[arg-type]
        assert len(batch) == 1
    assert list(users.keys(prefix=("de",))) == [("de", 1)]


def test_a_typed_store_without_a_prefix_takes_batches_of_others(db: DB) -> None:
    numbers = TypedDB(db, key=Int64(), value=Json(int))
    with db.prefixed(b"other/").write_batch() as batch:
        numbers.on(batch)[1] = 2
    assert dict(numbers.items()) == {1: 2}
    assert isinstance(numbers.on(db), TypedDB)
    with db.prefixed(b"x").snapshot() as snapshot:
        assert numbers.on(snapshot)[1] == 2


# Errors


def test_a_wrong_key_is_named_with_the_reason(users: Users) -> None:
    wrong: Any = users
    said = (
        r"^key \('uk', 'one'\) does not encode as Tuple\(Str\(\), Int64\(\)\): "
        r"part 2: 'one' is str, not int$"
    )
    calls: list[Callable[[], object]] = [
        lambda: wrong["uk", "one"],
        lambda: wrong.get(("uk", "one")),
        lambda: ("uk", "one") in wrong,
        lambda: wrong.put(("uk", "one"), ADA),
        lambda: wrong.delete(("uk", "one")),
        lambda: wrong.multi_get([("uk", "one")]),
        lambda: wrong.explain(("uk", "one")),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=said):
            call()
    with pytest.raises(TypeError, match=r"^bound \('uk', 'one'\) does not encode as Tuple"):
        wrong.items(start=("uk", "one"))
    with pytest.raises(TypeError, match=r"^prefix 'uk' does not encode as Tuple"):
        wrong.keys(prefix="uk")
    assert len(users) == 3


def test_a_wrong_value_is_refused_with_its_key_before_anything_changes(users: Users) -> None:
    wrong: Any = users
    said = r"^value of key \('uk', 1\) does not encode as Json\(User\): Expected `str`, got `int`"
    with pytest.raises(ValueError, match=said):
        wrong["uk", 1] = User(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^value of key \('uk', 1\) .* object is unsupported"):
        wrong["uk", 1] = object()
    assert users["uk", 1] == ADA


def test_a_stored_value_that_does_not_decode_is_named_with_key_and_codec(
    db: DB, users: Users
) -> None:
    db[b"user/" + pack(("uk", 2))] = b'{"born": 1}'
    said = r"^value of key \('uk', 2\) does not decode as Json\(User\): .*missing required field"
    for read in (lambda: users["uk", 2], lambda: list(users.values()), lambda: dict(users.items())):
        with pytest.raises(DecodeError, match=said) as caught:
            read()
    error = caught.value
    assert isinstance(error, (lsmkv.Error, ValueError))
    assert (error.key, error.codec, error.data) == (("uk", 2), "Json(User)", b'{"born": 1}')
    assert "missing required field `name`" in error.reason
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.key) == (str(error), error.key)
    assert len(list(users.keys())) == 3  # keys decode no values


def test_any_error_of_a_codec_that_decodes_is_told_with_the_key(db: DB) -> None:
    class Packed(Codec[bytes]):
        def encode(self, value: bytes, /) -> bytes:
            return zlib.compress(value)

        def decode(self, data: bytes, /) -> bytes:
            return zlib.decompress(data)

    packed = TypedDB(db, key=Str(), value=Packed())
    packed["a"] = b"text" * 100
    assert packed["a"] == b"text" * 100
    db[b"a"] = b"damaged"
    with pytest.raises(
        DecodeError, match=r"^value of key 'a' does not decode as Packed\(\): error:"
    ):
        packed.get("a")


def test_a_stored_key_that_does_not_decode_is_named_with_its_codec(db: DB, users: Users) -> None:
    db[b"user/\xff"] = b"{}"
    with pytest.raises(
        DecodeError, match=r"^stored key b'\\xff' does not decode as Tuple"
    ) as caught:
        list(users)
    assert (caught.value.key, caught.value.data) == (b"\xff", b"\xff")
    assert list(users.items(prefix=("us",))) == [(("us", 1), GRACE)]


def test_a_long_key_is_shortened_in_errors(db: DB) -> None:
    texts: Any = TypedDB(db, key=Str(), value=Json(int))
    with pytest.raises(ValueError) as caught:
        texts["x" * 10_000] = "no int"
    assert len(str(caught.value)) < 500
    with pytest.raises(ValueError, match="over the limit of 65535 bytes"):
        texts["x" * 70_000] = 1


def test_codecs_are_checked_when_the_mapping_is_made(db: DB) -> None:
    wrong: Any = TypedDB
    with pytest.raises(TypeError, match=r"key is an lsmkv.typed.KeyCodec, not .*: write Str\(\)"):
        wrong(db, key=Str, value=Json())
    with pytest.raises(TypeError, match=r"key is an lsmkv.typed.KeyCodec, not Json\(\)"):
        wrong(db, key=Json(), value=Json())
    with pytest.raises(TypeError, match=r"value is an lsmkv.typed.Codec, not .*int"):
        wrong(db, key=Str(), value=int)
    with pytest.raises(TypeError, match=r"db is an lsmkv\.DB or a part of one"):
        wrong({}, key=Str(), value=Json())
    with pytest.raises(TypeError, match="has no put"):
        TypedMapping(wrong(db, key=Str(), value=Json()).snapshot(), key=Str(), value=Json())


def test_the_upkeep_of_a_store(db: DB) -> None:
    numbers = TypedDB(db, key=Int64(), value=MsgPack(int))
    numbers.update({number: number * number for number in range(-300, 300)})
    numbers.sync()
    numbers.compact_range(0, 100)
    numbers.compact_range(force=True)
    assert 0 < numbers.approximate_size(0) < numbers.approximate_size()
    assert numbers.explain(-5).outcome == "found"
    assert list(numbers.values(start=-2, stop=3)) == [4, 1, 0, 1, 4]


def test_copies_refer_to_the_same_store(users: Users) -> None:
    assert copy.copy(users)["uk", 1] == ADA
    with pytest.raises(TypeError, match="read_only=True"):
        pickle.dumps(users)


def test_the_repr_names_codecs_and_store(db: DB, users: Users) -> None:
    assert repr(users) == (
        f"<lsmkv.TypedDB Tuple(Str(), Int64()) to Json(User) of {db.prefixed(b'user/')!r}>"
    )
