"""What holds for every ordered mapping: store, part, typed, snapshot, transaction, reader, asyncio."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack
from itertools import product
from operator import attrgetter, methodcaller
from typing import Any, Final

import pytest
from conftest import open_small

import lsmkv
from kinds_of_mappings import ALL_KEYS, CONTENTS, KINDS, SYNC, Contents, Kind, Shown, Walk

ITEMS: Final = sorted(CONTENTS.items())
BOUNDS: Final = (None, b"", b"a\1", b"b", b"l", b"\xff")
PREFIXES: Final = (None, b"", b"a", b"b\xff", b"\xff")
OPTIONS: Final[dict[str, Any]] = {"level0_compaction_trigger": 6, "table_size_bytes": 4096}


def within(
    contents: Contents, start: bytes | None, stop: bytes | None, prefix: bytes | None
) -> list[tuple[bytes, bytes]]:
    return sorted(
        (key, value)
        for key, value in contents.items()
        if (start is None or key >= start)
        and (stop is None or key < stop)
        and key.startswith(prefix or b"")
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "shown" in metafunc.fixturenames:
        kinds = SYNC if "mapping" in metafunc.fixturenames else KINDS
        metafunc.parametrize("shown", kinds, indirect=True, ids=str, scope="module")


@pytest.fixture(scope="module")
def shown(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shown]:
    """A mapping that shows ``CONTENTS``, for tests that only read."""
    with open_small(tmp_path_factory.mktemp("laws"), **OPTIONS) as db, ExitStack() as held:
        shown = Shown(request.param, db, held)
        shown.show(CONTENTS)
        yield shown


@pytest.fixture
def mapping(shown: Shown) -> Any:
    """The same; a reader under asyncio is no mapping."""
    return shown.mapping


# Looking up


def test_get_gives_the_value_or_the_default(shown: Shown) -> None:
    for key in ALL_KEYS:
        assert shown.mapping.get(key) == CONTENTS.get(key)
        assert shown.mapping.get(key, 7) == CONTENTS.get(key, 7)


def test_in_tells_whether_a_key_is_there(shown: Shown) -> None:
    assert [key for key in ALL_KEYS if key in shown.mapping] == [
        key for key in ALL_KEYS if key in CONTENTS
    ]


def test_multi_get_answers_in_the_order_asked(shown: Shown) -> None:
    asked = [b"b", b"none", b"a", b"", b"b", *ALL_KEYS]
    assert shown.mapping.multi_get(iter(asked)) == [CONTENTS.get(key) for key in asked]
    assert shown.mapping.multi_get([]) == []


def test_a_missing_key_is_a_key_error_that_names_it(mapping: Any) -> None:
    assert {key: mapping[key] for key in CONTENTS} == CONTENTS
    with pytest.raises(KeyError) as caught:
        mapping[b"none"]
    assert caught.value.args == (b"none",)


def test_it_is_a_mapping_and_a_mutable_one_if_it_writes(shown: Shown, mapping: Any) -> None:
    assert isinstance(mapping, Mapping)
    is_mutable = shown.kind.seen_as != "snapshot"
    assert isinstance(mapping, MutableMapping) == is_mutable
    assert {
        hasattr(mapping, name) for name in ("put", "delete", "__setitem__", "clear", "pop")
    } == {is_mutable}


def test_it_equals_a_dict_and_has_no_hash(mapping: Any) -> None:
    assert mapping == CONTENTS and dict(mapping) == CONTENTS
    assert mapping != {} and mapping != CONTENTS | {b"a": b"other"}
    with pytest.raises(TypeError, match="unhashable"):
        hash(mapping)


def test_length_and_truth_count_each_key_once(mapping: Any) -> None:
    assert (len(mapping), bool(mapping)) == (len(CONTENTS), True)


def test_iteration_is_in_order_and_reversed_in_the_opposite(shown: Shown) -> None:
    assert list(shown.mapping) == sorted(CONTENTS)
    if not shown.kind.is_async:
        assert list(reversed(shown.mapping)) == sorted(CONTENTS, reverse=True)


# Ranges


@pytest.mark.parametrize("reverse", [False, True])
def test_a_range_has_what_is_between_its_bounds(shown: Shown, reverse: bool) -> None:
    bounds = BOUNDS[:: 3 if shown.kind.is_async else 1]  # each step there waits for a thread
    for start, stop, prefix in product(bounds, bounds, PREFIXES):
        expected = within(CONTENTS, start, stop, prefix)[:: -1 if reverse else 1]
        wanted: dict[str, Any] = {"start": start, "stop": stop, "prefix": prefix}
        found = shown.mapping.items(**wanted, reverse=reverse)
        assert (wanted, list(found)) == (wanted, expected)


SOME_RANGES: Final[list[dict[str, Any]]] = [
    {"start": start, "stop": stop, "prefix": prefix, "reverse": reverse}
    for start, stop, prefix in [
        *[(None, None, None), (b"a\1", None, None), (None, b"l", b"b"), (b"b", b"l", None)],
        *[(b"a", b"\xff", b"a"), (b"b", b"a", None), (None, None, b"\xff")],
    ]
    for reverse in (False, True)
]


def expected_items(wanted: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    found = within(CONTENTS, wanted["start"], wanted["stop"], wanted["prefix"])
    return found[::-1] if wanted["reverse"] else found


def test_keys_and_values_of_a_range_are_those_of_its_items(shown: Shown) -> None:
    for wanted in SOME_RANGES:
        items = expected_items(wanted)
        assert list(shown.mapping.keys(**wanted)) == [key for key, _ in items]
        assert list(shown.mapping.values(**wanted)) == [value for _, value in items]


def views(mapping: Any, **wanted: Any) -> list[Any]:
    return [mapping.keys(**wanted), mapping.values(**wanted), mapping.items(**wanted)]


def test_a_view_has_a_length_and_can_be_iterated_again(shown: Shown) -> None:
    for wanted in SOME_RANGES[:: 7 if shown.kind.is_async else 2]:
        for view in views(shown.mapping, **wanted):
            assert len(view) == len(list(view)) == len(list(view)) == len(expected_items(wanted))


def test_a_view_can_be_reversed(mapping: Any) -> None:
    for wanted in SOME_RANGES:
        for view in views(mapping, **wanted):
            assert list(reversed(view)) == list(view)[::-1]


def test_a_view_holds_the_keys_values_and_items_of_its_range(mapping: Any) -> None:
    for wanted in SOME_RANGES:
        inside = dict(expected_items(wanted))
        keys, values, items = views(mapping, **wanted)
        for key in [*CONTENTS, b"none"]:
            value = CONTENTS.get(key, b"")
            assert (key in keys, (key, value) in items) == (key in inside,) * 2
            assert (keys.value(key), items.value(key)) == (inside.get(key),) * 2
            assert (key, value + b"other") not in items
        assert CONTENTS[b"k"] in values or b"k" not in inside
        assert b"no such value" not in values
        assert b"k" not in items


def test_views_take_set_operations(mapping: Any) -> None:
    keys = mapping.keys(start=b"k", stop=b"z")
    assert keys == {b"k", b"l"} and keys < mapping.keys() and keys.isdisjoint([b"x"])
    assert keys & {b"k", b"x", "k", 5} == {b"k"}
    assert keys | {b"x"} == {b"k", b"l", b"x"}
    assert keys - {b"k"} == {b"l"}
    assert keys ^ {b"k", b"x"} == {b"l", b"x"}
    assert mapping.items() & {(b"k", CONTENTS[b"k"]), (b"l", b"")} == {(b"k", CONTENTS[b"k"])}


def test_its_text_and_that_of_its_views_tells_the_store(shown: Shown) -> None:
    ranges = [shown.mapping.keys(), shown.mapping.values(), shown.mapping.items(start=b"a")]
    for told in [shown.mapping, *ranges[: 0 if shown.kind.is_async else 3]]:
        assert shown.db.path in repr(told)


# Cursors


MOVES: Final = ("next", "next", "prev", "prev", "first", "last", "seek", "seek_for_prev")


def test_a_walk_of_a_cursor_is_one_over_a_sorted_list(mapping: Any) -> None:
    chance = random.Random(9)
    walk = Walk(CONTENTS)
    with mapping.cursor() as cursor:
        assert not cursor.valid and not cursor.next() and not cursor.prev()
        for _ in range(300):
            name, key = chance.choice(MOVES), chance.choice([*ALL_KEYS, b"`", b"k\0", b"\xff" * 4])
            moved = getattr(cursor, name)(*[key][: name.startswith("seek")])
            assert moved == cursor.valid == walk.move(name, key)
            if walk.at is not None:
                key = walk.keys[walk.at]
                assert cursor.item == (cursor.key, cursor.value) == (key, CONTENTS[key])
            else:
                with pytest.raises(lsmkv.CursorError, match="at no key"):
                    _ = cursor.item
    assert cursor.closed


def test_cursors_do_not_disturb_each_other(mapping: Any) -> None:
    with mapping.cursor() as one, mapping.cursor() as other:
        assert one.first() and other.last() and one.next() and other.prev()
        assert (one.key, other.key) == (ITEMS[1][0], ITEMS[-2][0])


CURSOR_USES: Final[dict[str, Callable[[Any], object]]] = {
    **{name: methodcaller(name) for name in ("first", "last", "next", "prev", "__enter__")},
    **{name: methodcaller(name, b"k") for name in ("seek", "seek_for_prev")},
    **{name: attrgetter(name) for name in ("key", "value", "item")},
}


def test_a_closed_cursor_refuses_every_use(mapping: Any) -> None:
    cursor = mapping.cursor()
    public = {name for name in dir(cursor) if not name.startswith("_")}
    assert public <= set(CURSOR_USES) | {"close", "closed", "valid"}
    assert cursor.first()
    cursor.close()
    cursor.close()
    for use in CURSOR_USES.values():
        with pytest.raises(lsmkv.ClosedError, match="cursor is closed"):
            use(cursor)
    assert (cursor.closed, cursor.valid) == (True, False)


# What is no key


NO_KEYS: Final = ("a", 5, None, 1.5, object(), (b"a",), [b"a"], {b"a"}, slice(b"a", b"b"))


def test_what_cannot_be_a_key_is_refused_and_not_just_absent(shown: Shown) -> None:
    mapping = shown.mapping
    uses = [mapping.get, mapping.__contains__, lambda key: mapping.multi_get([b"a", key])]
    if not shown.kind.is_async:
        uses += [mapping.__getitem__, mapping.cursor().seek, mapping.cursor().seek_for_prev]
    bounds = [lambda key: mapping.items(start=key), lambda key: mapping.keys(stop=key)]
    bounds += [lambda key: mapping.values(prefix=key)]
    for wrong in NO_KEYS:
        for use in uses + bounds * (wrong is not None):
            with pytest.raises(TypeError, match=f"a key is bytes.*not {type(wrong).__name__}"):
                use(wrong)


def test_a_view_does_not_hold_what_cannot_be_a_key(mapping: Any) -> None:
    keys, values, items = views(mapping)
    for wrong in NO_KEYS:
        assert wrong not in keys and wrong not in values
        assert (wrong, CONTENTS[b"a"]) not in items


def test_multi_get_refuses_a_single_key_with_a_hint(shown: Shown) -> None:
    for key in (b"abc", bytearray(b"abc"), memoryview(b"abc"), "abc", b""):
        with pytest.raises(TypeError, match="keys is an iterable of keys, not one key"):
            shown.mapping.multi_get(key)


def test_a_key_over_the_limit_is_refused(shown: Shown) -> None:
    for look in (shown.mapping.get, shown.mapping.__contains__):
        with pytest.raises(ValueError, match="over the limit of 65535 bytes"):
            look(bytes(65536))


def test_a_range_without_a_name_is_told_the_names(mapping: Any) -> None:
    for name in ("keys", "values", "items"):
        with pytest.raises(TypeError) as caught:
            getattr(mapping, name)(b"a")
        told = "needs a name: start=, stop=, prefix= or reverse="
        assert str(caught.value) == f"{type(mapping).__name__}.{name}(b'a') {told}"


def test_buffers_are_taken_for_keys(shown: Shown) -> None:
    mapping = shown.mapping
    for k in (bytearray(b"k"), memoryview(b"k"), array("B", b"k"), memoryview(b"k ")[:1]):
        assert mapping.get(k) == mapping.multi_get([k])[0] == CONTENTS[b"k"]
        assert k in mapping
        assert list(mapping.keys(start=k, stop=bytearray(b"l"))) == [b"k"]
        assert list(mapping.keys(prefix=k)) == [b"k"]
        if not shown.kind.is_async:
            assert mapping[k] == CONTENTS[b"k"]
            assert mapping.cursor().seek(k) and mapping.cursor().seek_for_prev(k)


def test_these_laws_are_tried_over_several_runs_and_memory(path: str) -> None:
    with open_small(path, **OPTIONS) as db, ExitStack() as held:
        Shown(Kind("store", "itself"), db, held).show(CONTENTS)
        info = db.inspect()
        assert info.memtable_key_counts[0] > 0
        assert len(info.levels[0].runs) == 2 and len(info.levels[1].runs[0].tables) > 1
        assert any(table.tombstone_count for table in info.tables())
