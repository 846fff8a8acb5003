from __future__ import annotations

import random

from conftest import fill, number_key, open_small

from kinds_of_mappings import Walk
from lsmkv import DB


def test_long_random_walks_cross_blocks_tables_and_runs(db: DB) -> None:
    contents = fill(db, range(0, 3000, 2))
    for number in range(0, 3000, 10):
        db.delete(number_key(number))
        del contents[number_key(number)]
    walk = Walk(contents)
    chance = random.Random(9)
    with db.cursor() as cursor:
        for _ in range(300):
            place = number_key(chance.randrange(3100))
            assert cursor.seek(place) == walk.move("seek", place)
            for _ in range(chance.randrange(1, 40)):
                move = chance.choice(["next", "next", "prev"])
                assert getattr(cursor, move)() == walk.move(move, b"")
                if walk.at is not None:
                    assert cursor.key == walk.keys[walk.at]


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


def test_a_closed_cursor_releases_its_view(db: DB) -> None:
    db[b"k"] = b"1"
    with db.cursor() as cursor:
        assert cursor.first()
    db[b"k"] = b"2"
    assert db.memory_usage().snapshot_versions == 0
