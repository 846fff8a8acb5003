from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import product

import pytest
from conftest import fill, number_key, open_small
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lsmkv import DB, ClosedError, Cursor, CursorError

Contents = dict[bytes, bytes]
ALL_KEYS = [bytes(key) for length in range(4) for key in product((0x00, 0x61, 0xFF), repeat=length)]
places = st.sampled_from([*ALL_KEYS, b"`", b"b", b"a\1", b"\xff" * 4])
moves = st.lists(
    st.sampled_from(["next", "prev", "first", "last"])
    | st.tuples(st.sampled_from(["seek", "seek_for_prev"]), places),
    max_size=40,
)


@pytest.fixture(scope="module")
def layered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DB, Contents]]:
    """Entries and deletions in memory and in several runs of small blocks."""
    contents: Contents = {}
    chance = random.Random(5)
    path = tmp_path_factory.mktemp("layered")
    with open_small(path, level0_compaction_trigger=8, table_size_bytes=4096) as db:
        for layer in range(5):
            for key in chance.sample(ALL_KEYS, 20):
                if chance.random() < 0.25:
                    db.delete(key)
                    contents.pop(key, None)
                else:
                    contents[key] = db[key] = b"%d:" % layer + bytes(chance.randrange(300))
            if layer == 1:
                db.compact_range()
            elif layer < 4:
                db.flush()
        yield db, dict(sorted(contents.items()))


class _Model:
    """A cursor over a sorted list."""

    def __init__(self, contents: Contents) -> None:
        self.keys = list(contents)
        self.at: int | None = None

    def place(self, at: int) -> bool:
        self.at = at if 0 <= at < len(self.keys) else None
        return self.at is not None

    def move(self, move: str | tuple[str, bytes]) -> bool:
        match move:
            case "first":
                return self.place(0)
            case "last":
                return self.place(len(self.keys) - 1)
            case "next":
                return self.at is not None and self.place(self.at + 1)
            case "prev":
                return self.at is not None and self.place(self.at - 1)
            case ("seek", key):
                return self.place(bisect_left(self.keys, key))
            case (_, key):
                return self.place(bisect_right(self.keys, key) - 1)
        raise AssertionError(move)


def make_move(cursor: Cursor, move: str | tuple[str, bytes]) -> bool:
    name, *arguments = (move,) if isinstance(move, str) else move
    found = getattr(cursor, str(name))(*arguments)
    assert isinstance(found, bool)
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves)
def test_any_walk_equals_one_over_a_sorted_list(
    layered: tuple[DB, Contents], moves: list[str | tuple[str, bytes]]
) -> None:
    db, contents = layered
    model = _Model(contents)
    with db.cursor() as cursor:
        for move in moves:
            placed = model.move(move)
            assert make_move(cursor, move) == cursor.valid == placed
            if model.at is not None:
                key = model.keys[model.at]
                assert cursor.item == (cursor.key, cursor.value) == (key, contents[key])


def test_long_random_walks_cross_blocks_tables_and_runs(db: DB) -> None:
    contents = fill(db, range(0, 3000, 2))
    for number in range(0, 3000, 10):
        db.delete(number_key(number))
        del contents[number_key(number)]
    model = _Model(contents)
    chance = random.Random(9)
    with db.cursor() as cursor:
        for _ in range(300):
            seek = chance.choice(["seek", "seek_for_prev"])
            move: str | tuple[str, bytes] = (seek, number_key(chance.randrange(3100)))
            for _ in range(chance.randrange(1, 40)):
                assert make_move(cursor, move) == model.move(move)
                if model.at is not None:
                    assert cursor.key == model.keys[model.at]
                move = chance.choice(["next", "next", "prev"])


def test_walking_the_whole_store_up_and_down(db: DB) -> None:
    contents = fill(db, range(1000))
    up, down = [], []
    with db.cursor() as cursor:
        placed = cursor.first()
        while placed:
            up.append(cursor.item)
            placed = cursor.next()
        placed = cursor.last()
        while placed:
            down.append(cursor.item)
            placed = cursor.prev()
    assert up == down[::-1] == list(contents.items())


def test_a_fresh_cursor_is_at_no_key(db: DB) -> None:
    db[b"k"] = b"v"
    with db.cursor() as cursor:
        assert not cursor.valid
        for look in (lambda: cursor.item, lambda: cursor.key, lambda: cursor.value):
            with pytest.raises(CursorError, match="at no key"):
                look()


def test_next_and_prev_leave_a_fresh_cursor_where_it_is(db: DB) -> None:
    db[b"k"] = b"v"
    with db.cursor() as cursor:
        assert not cursor.next()
        assert not cursor.prev()
        assert not cursor.valid


@pytest.mark.parametrize(("move", "way"), [("last", "next"), ("first", "prev")])
def test_off_an_end_a_cursor_is_at_no_key_until_it_is_placed(db: DB, move: str, way: str) -> None:
    fill(db, range(50))
    with db.cursor() as cursor:
        assert make_move(cursor, move)
        for step in (way, "next", "prev"):
            assert not make_move(cursor, step)
            with pytest.raises(CursorError):
                _ = cursor.key
        assert cursor.seek(number_key(7))
        assert cursor.key == number_key(7)


def test_every_move_in_an_empty_store_finds_nothing(db: DB) -> None:
    with db.cursor() as cursor:
        for move in ("first", "last", ("seek", b""), ("seek_for_prev", b"\xff")):
            assert not make_move(cursor, move)


def test_seek_takes_buffers(db: DB) -> None:
    db[b"k"] = b"v"
    with db.cursor() as cursor:
        assert cursor.seek(bytearray(b"a"))
        assert cursor.seek_for_prev(memoryview(b"z"))


def test_seeking_the_empty_key_finds_it(db: DB) -> None:
    db.update({b"": b"0", b"a": b"1"})
    db.flush()
    with db.cursor() as cursor:
        assert cursor.seek(b"")
        assert cursor.item == (b"", b"0")
        assert cursor.seek_for_prev(b"")
        assert cursor.key == b""
        assert not cursor.prev()


def test_a_cursor_sees_the_store_as_it_was_when_it_was_made(db: DB) -> None:
    contents = fill(db, range(300))
    with db.cursor() as cursor:
        db.clear()
        db[b"a"] = db[b"z"] = b"later"
        db.compact_range()
        found = []
        placed = cursor.first()
        while placed:
            found.append(cursor.item)
            placed = cursor.next()
    assert found == list(contents.items())


def test_a_seek_reads_no_more_than_a_block_per_table(path: str) -> None:
    with open_small(path, block_cache_size_bytes=0) as db:
        fill(db, range(2000))
        db.compact_range()
        with db.cursor() as cursor:
            before = db.stats()
            assert cursor.seek(number_key(1234))
            assert (db.stats() - before).block_reads == 1


def test_steps_and_seeks_within_a_block_read_nothing(path: str) -> None:
    with open_small(path, block_cache_size_bytes=0) as db:
        fill(db, range(2000))
        db.compact_range()
        with db.cursor() as cursor:
            assert cursor.first()
            before = db.stats()
            assert cursor.next()
            assert cursor.next()
            assert cursor.prev()
            assert cursor.seek(number_key(0))
            assert cursor.seek_for_prev(number_key(3))
            assert (db.stats() - before).block_reads == 0


USES: dict[str, Callable[[Cursor], object]] = {
    "first": lambda cursor: cursor.first(),
    "last": lambda cursor: cursor.last(),
    "next": lambda cursor: cursor.next(),
    "prev": lambda cursor: cursor.prev(),
    "seek": lambda cursor: cursor.seek(b"k"),
    "seek_for_prev": lambda cursor: cursor.seek_for_prev(b"k"),
    "item": lambda cursor: cursor.item,
    "key": lambda cursor: cursor.key,
    "value": lambda cursor: cursor.value,
    "with": lambda cursor: cursor.__enter__(),
}


@pytest.mark.parametrize("name", USES)
def test_a_closed_cursor_refuses(name: str, db: DB) -> None:
    db[b"k"] = b"v"
    cursor = db.cursor()
    assert cursor.first()
    cursor.close()
    with pytest.raises(ClosedError, match="cursor is closed"):
        USES[name](cursor)


def test_every_public_method_is_tried_on_a_closed_cursor() -> None:
    public = {name for name in dir(Cursor) if not name.startswith("_")}
    assert public <= set(USES) | {"close", "closed", "valid"}


def test_closing_a_cursor_again_does_nothing(db: DB) -> None:
    cursor = db.cursor()
    cursor.close()
    cursor.close()
    assert (cursor.closed, cursor.valid) == (True, False)


def test_a_closed_cursor_releases_its_view(db: DB) -> None:
    db[b"k"] = b"1"
    with db.cursor() as cursor:
        assert cursor.first()
    db[b"k"] = b"2"
    assert db.memory_usage().snapshot_versions == 0


def test_cursors_do_not_disturb_each_other(db: DB) -> None:
    fill(db, range(100))
    with db.cursor() as one, db.cursor() as other:
        assert one.first()
        assert other.last()
        assert one.next()
        assert other.prev()
        assert (one.key, other.key) == (number_key(1), number_key(98))
