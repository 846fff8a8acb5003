"""What mappings of every kind take, keep and refuse: writes, what was shown before, and their end."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any, Final

import pytest

import lsmkv
from kinds_of_mappings import (
    ALL_KEYS,
    CONTENTS,
    KINDS,
    MAPPING_READS,
    MAPPING_WRITES,
    OUTSIDE,
    READS,
    STORE_WRITES,
    SYNC,
    WRITES,
    Contents,
    Shown,
    fresh,
)

__all__ = ["fresh"]  # a fixture

ITEMS: Final = sorted(CONTENTS.items())
WRITERS: Final = [kind for kind in KINDS if kind.writes]
MUTABLE: Final = [kind for kind in SYNC if kind.writes]
STORES: Final = [kind for kind in SYNC if kind.is_store]
of = partial(pytest.mark.parametrize, "fresh", indirect=True, ids=str)


# What was shown stays


@of(KINDS)
def test_what_a_view_shows_stays_as_it_was(fresh: Shown) -> None:
    mapping = fresh.show(CONTENTS)
    items, keys, values = mapping.items(), mapping.keys(), mapping.values(reverse=True)
    begun = iter(mapping.items())
    seen = [*islice(begun, 3)]
    fresh.change()
    assert [*seen, *begun] == list(items) == list(items) == ITEMS
    assert list(keys) == sorted(CONTENTS)
    assert list(values) == [value for _, value in ITEMS[::-1]]
    assert len(keys) == len(ITEMS)
    if not fresh.kind.is_async:
        assert (b"k", CONTENTS[b"k"]) in items and (b"k", b"changed") not in items
        assert b"new" not in keys and set(CONTENTS) == keys


@of([kind for kind in KINDS if not kind.writes])
def test_what_shows_a_past_is_not_changed_by_writes(fresh: Shown) -> None:
    mapping = fresh.show(CONTENTS)
    fresh.change()
    assert list(mapping.items()) == ITEMS
    assert mapping.multi_get(ALL_KEYS) == [CONTENTS.get(key) for key in ALL_KEYS]
    if not fresh.kind.is_async:
        assert mapping == CONTENTS and len(mapping) == len(CONTENTS)


@of(WRITERS)
def test_what_writes_shows_what_was_written(fresh: Shown) -> None:
    mapping = fresh.show(CONTENTS)
    fresh.change()
    assert [key for key in mapping if key in CONTENTS] == [
        key for number, key in enumerate(sorted(CONTENTS)) if number % 3
    ]
    assert set(mapping.values()) == {b"changed"}


@of(SYNC)
def test_where_nothing_is_every_range_is_empty(fresh: Shown) -> None:
    mapping = fresh.show({})
    assert (list(mapping), list(mapping.items(reverse=True)), len(mapping)) == ([], [], 0)
    assert not mapping and not mapping.cursor().first() and not mapping.cursor().last()


@of(SYNC)
def test_a_cursor_sees_the_mapping_as_it_was_when_it_was_made(fresh: Shown) -> None:
    with fresh.show(CONTENTS).cursor() as cursor:
        fresh.change()
        found = [cursor.item for move in [cursor.first, *[cursor.next] * len(ITEMS)] if move()]
    assert found == ITEMS


# Writing

FEW: Final[Contents] = {b"": b"0", b"a": b"1", b"b": b"2", b"b/x": b"3", b"\xff": b"4"}


@of(WRITERS)
def test_put_sets_and_delete_removes_whether_or_not_a_key_is_there(fresh: Shown) -> None:
    mapping = fresh.show(FEW)
    for key in (b"", b"a", b"new"):
        mapping.put(key, b"")
        assert mapping.get(key, b"default") == b""
    for key in (b"", b"a", b"absent"):
        mapping.delete(key)
        assert key not in mapping
    assert dict(mapping.items()) == {b"b": b"2", b"b/x": b"3", b"\xff": b"4", b"new": b""}
    assert fresh.outside() == OUTSIDE


@of(STORES)
def test_writes_that_are_synced_are_writes(fresh: Shown) -> None:
    mapping, before = fresh.show(FEW), fresh.db.stats()
    mapping.put(b"new", b"v", sync=True)
    mapping.delete(b"a", sync=True)
    assert (fresh.db.stats() - before).log_syncs == 2
    assert (mapping.get(b"new"), b"a" in mapping) == (b"v", False)


FAR_S: Final = 9_999_999_999


@of(WRITERS)
def test_put_takes_when_an_entry_goes_and_one_that_is_due_hides_older_ones(fresh: Shown) -> None:
    mapping = fresh.show(FEW)
    mapping.put(b"late", b"v", expires_at=FAR_S)
    mapping.put(b"later", b"v", ttl_s=FAR_S)
    mapping.put(b"a", b"v", expires_at=1)
    left = {key: value for key, value in FEW.items() if key != b"a"}
    assert dict(mapping.items()) == left | {b"late": b"v", b"later": b"v"}
    with pytest.raises(ValueError, match="ttl_s=-1: give more than 0 seconds"):
        mapping.put(b"b", b"v", ttl_s=-1)
    assert mapping.get(b"b") == FEW[b"b"]


@of(WRITERS)
def test_touch_sets_anew_when_a_key_goes_and_expires_at_tells_it(fresh: Shown) -> None:
    mapping = fresh.show(FEW)
    assert (mapping.touch(b"a", expires_at=FAR_S), mapping.touch(b"none", ttl_s=5)) == (True, False)
    assert [mapping.expires_at(key) for key in (b"a", b"b", b"none")] == [FAR_S, None, None]
    assert dict(mapping.items()) == FEW


@of(STORES)
def test_batches_take_and_snapshots_tell_when_an_entry_goes(fresh: Shown) -> None:
    mapping = fresh.show(FEW)
    with mapping.write_batch() as batch:
        batch.put(b"late", b"v", expires_at=FAR_S)
    with mapping.snapshot() as snapshot:
        mapping.put(b"late", b"v")
        assert (snapshot.expires_at(b"late"), mapping.expires_at(b"late")) == (FAR_S, None)


@of(MUTABLE)
def test_del_and_pop_of_a_missing_key_are_key_errors_that_name_it(fresh: Shown) -> None:
    mapping = fresh.show(FEW)
    for miss in (mapping.__delitem__, mapping.pop):
        with pytest.raises(KeyError) as caught:
            miss(b"none")
        assert caught.value.args == (b"none",)
    assert mapping == FEW


@of(WRITERS)
def test_popitem_takes_the_first_key_until_there_is_none(fresh: Shown) -> None:
    mapping = fresh.show(FEW)
    assert [mapping.popitem() for _ in FEW] == list(FEW.items())
    with pytest.raises(KeyError, match=r"popitem\(\)"):
        mapping.popitem()
    assert fresh.outside() == OUTSIDE


@of(MUTABLE)
def test_update_takes_a_mapping_or_pairs_or_nothing(fresh: Shown) -> None:
    mapping = fresh.show(FEW)
    mapping.update({b"c": b"1"})
    mapping.update([(b"d", b"2"), (b"d", b"3")])
    mapping.update()
    mapping.update(fresh.db.prefixed(b"none"))
    assert mapping == FEW | {b"c": b"1", b"d": b"3"}


@of(MUTABLE)
def test_update_keeps_the_entries_before_a_bad_key(fresh: Shown) -> None:
    mapping = fresh.show({})
    with pytest.raises(TypeError, match=r"a key is bytes.* not str"):
        mapping.update([(b"a", b"1"), ("b", b"2"), (b"c", b"3")])
    with pytest.raises(TypeError, match=r"a key is bytes.* not str"):
        mapping.update(d=b"1")
    assert mapping == {b"a": b"1"}


@of(WRITERS)
def test_clear_removes_everything_and_no_more(fresh: Shown) -> None:
    mapping = fresh.show(FEW)
    for number in range(1100):  # in more batches than one
        mapping.put(b"%05d" % number, b"")
    mapping.clear()
    assert list(mapping) == []
    assert fresh.outside() == OUTSIDE


@of(WRITERS)
def test_what_cannot_be_a_value_is_refused_before_anything_changes(fresh: Shown) -> None:
    mapping = fresh.show(FEW)
    uses: list[Callable[[Any], object]] = [lambda wrong: mapping.put(b"a", wrong)]
    if not fresh.kind.is_async:
        uses += [lambda wrong: mapping.__setitem__(b"a", wrong)]
        uses += [lambda wrong: mapping.update({b"a": wrong})]
        uses += [lambda wrong: mapping.setdefault(b"new", wrong)]
    for use in uses:
        for wrong in ("text", 7, None):
            with pytest.raises(TypeError, match=f"a value is bytes.*not {type(wrong).__name__}"):
                use(wrong)
    assert dict(mapping.items()) == FEW


@of(WRITERS)
def test_what_cannot_be_a_key_is_refused_before_anything_changes(fresh: Shown) -> None:
    mapping = fresh.show(FEW)
    uses: list[Callable[[Any], object]] = [lambda key: mapping.put(key, b""), mapping.delete]
    if not fresh.kind.is_async:
        uses += [mapping.pop, mapping.__delitem__, lambda key: mapping.setdefault(key, b"")]
        uses += [lambda key: mapping.__setitem__(key, b"")]
    for use in uses:
        for wrong in ("a", 5, None):
            with pytest.raises(TypeError, match=f"a key is bytes.*not {type(wrong).__name__}"):
                use(wrong)
        with pytest.raises(ValueError, match="over the limit of 65535 bytes"):
            use(bytes(65536))
    assert dict(mapping.items()) == FEW


@of(WRITERS)
def test_later_changes_of_a_passed_buffer_do_not_reach_the_mapping(fresh: Shown) -> None:
    mapping = fresh.show({})
    key, value = bytearray(b"key"), bytearray(b"value")
    mapping.put(key, memoryview(value))
    key[:], value[:] = b"xxx", b"xxxxx"
    ((found, stored),) = mapping.items()
    assert (found, stored, type(found), type(stored)) == (b"key", b"value", bytes, bytes)


@of(MUTABLE)
def test_any_writes_are_those_of_a_dict(fresh: Shown) -> None:
    chance = random.Random(str(fresh.kind))
    mapping, model = fresh.show(FEW), dict(FEW)
    for _ in range(600):
        key, value = chance.choice(ALL_KEYS[:30]), b"%d" % chance.randrange(1000)
        match chance.choice(["set", "set", "delete", "pop", "popitem", "setdefault", "flush"]):
            case "set":
                mapping[key] = model[key] = value
            case "delete":
                mapping.delete(key)
                model.pop(key, None)
            case "pop":
                assert mapping.pop(key, None) == model.pop(key, None)
            case "popitem" if model and chance.random() < 0.3:
                assert mapping.popitem() == (min(model), model.pop(min(model)))
            case "setdefault":
                assert mapping.setdefault(key, value) == model.setdefault(key, value)
            case _:
                fresh.db.flush()
        assert mapping.get(key) == model.get(key)
    assert list(mapping.items()) == sorted(model.items())
    assert fresh.outside() == OUTSIDE


# What may not be written to, and what has ended


@of([kind for kind in SYNC if "reader" in kind.seen_as])
def test_what_belongs_to_a_reader_refuses_every_write(fresh: Shown) -> None:
    mapping = fresh.show(CONTENTS)
    writes = MAPPING_WRITES if "transaction" in fresh.kind.seen_as else STORE_WRITES
    for name, write in writes.items():
        with pytest.raises(lsmkv.ReadOnlyError, match=r"read_only=True|only read"):
            write(mapping)
        assert (name, mapping) == (name, CONTENTS)


@of(KINDS)
def test_what_has_ended_refuses_every_use(fresh: Shown) -> None:
    mapping = fresh.show(CONTENTS)
    uses = READS if fresh.kind.is_async else MAPPING_READS
    if fresh.kind.is_store:
        uses = uses | STORE_WRITES
    elif fresh.kind.writes:
        uses = uses | (WRITES if fresh.kind.is_async else MAPPING_WRITES)
    fresh.end()
    fresh.end()
    for name, use in uses.items():
        with pytest.raises(lsmkv.ClosedError):
            pytest.fail(f"{name} returned {use(mapping)!r}")
    assert fresh.db.path in repr(mapping) or "transaction" in fresh.kind.seen_as


@of(SYNC)
def test_views_iterators_and_cursors_end_with_the_store(fresh: Shown) -> None:
    mapping = fresh.show(CONTENTS)
    keys, items, begun = mapping.keys(), iter(mapping.items()), iter(mapping.values(reverse=True))
    cursor = mapping.cursor()
    assert next(begun) == ITEMS[-1][1] and cursor.first()
    fresh.db.close()
    if "reader" in fresh.kind.seen_as:
        fresh.end()
    for use in (
        *(lambda: next(begun), lambda: next(items), lambda: list(keys), lambda: len(keys)),
        *(lambda: b"k" in keys, cursor.next, cursor.first, lambda: cursor.item),
        *(mapping.keys, mapping.cursor),
    ):
        with pytest.raises(lsmkv.ClosedError):
            use()
