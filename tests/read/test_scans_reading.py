"""Blocks that scans of several runs read: each when its first key is due."""

from __future__ import annotations

from itertools import islice

import pytest
from conftest import fill, open_small


@pytest.mark.parametrize("reverse", [False, True])
def test_a_run_whose_keys_come_later_is_not_read(path: str, reverse: bool) -> None:
    with open_small(path, block_cache_size_bytes=0) as db:
        fill(db, range(2000))
        db.compact_range()
        fill(db, range(995, 1005))
        db.flush()
        before = db.stats()
        assert len(list(islice(db.items(reverse=reverse), 5))) == 5
        assert (db.stats() - before).block_reads == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_a_next_block_is_not_read_while_others_come_first(path: str, reverse: bool) -> None:
    with open_small(path, block_cache_size_bytes=0) as db:
        fill(db, range(2000))
        db.compact_range()
        index = next(db._engine.require_open().version.tables()).index
        between = [index.last_key(3) + bytes([letter]) for letter in b"abcdefghijklmnopqrstuvwxyz"]
        db.update(dict.fromkeys(between, b"new"))
        db.flush()
        stop = index.last_key(4) + b"\0"
        count = index.entry_count(4 if reverse else 3)
        before = db.stats()
        wanted = db.keys(start=index.first_key(3), stop=stop, reverse=reverse)
        found = list(islice(wanted, count + 3))
        assert found[count:] == (between[:-4:-1] if reverse else between[:3])
        assert (db.stats() - before).block_reads == 2


@pytest.mark.parametrize("reverse", [False, True])
def test_a_newer_value_of_the_key_that_a_block_begins_with_counts(path: str, reverse: bool) -> None:
    with open_small(path) as db:
        fill(db, range(2000))
        db.compact_range()
        contents = dict(db.items())
        index = next(db._engine.require_open().version.tables()).index
        ends = [index.first_key(number) for number in range(1, 20)]
        ends += [index.last_key(number) for number in range(1, 20)]
        for key in ends[::2]:
            del db[key], contents[key]
        for key in ends[1::2]:
            db[key] = contents[key] = b"new"
        db.flush()
        assert list(db.items(reverse=reverse)) == sorted(contents.items(), reverse=reverse)


@pytest.mark.parametrize("reverse", [False, True])
def test_entries_in_hand_are_returned_before_the_last_source_reads_on(
    path: str, reverse: bool
) -> None:
    with open_small(path, block_cache_size_bytes=0) as db:
        large = b"v" * 3000  # a block for each
        db.update({b"b": large, b"c": large, b"d": large})
        db.compact_range()
        db[b"e" if reverse else b"a"] = b"first"
        db.flush()
        before = db.stats()
        assert len(list(islice(db.items(reverse=reverse), 2))) == 2
        assert (db.stats() - before).block_reads == 2


def test_a_scan_reads_first_as_far_ahead_as_it_has_come(path: str) -> None:
    with open_small(path, block_cache_size_bytes=0) as db:
        fill(db, range(2000))
        db.compact_range()
        index = next(db._engine.require_open().version.tables()).index
        passed = sum(index.entry_count(number) for number in range(4))
        before = db.stats()
        assert len(list(islice(db.items(), passed + 1))) == passed + 1
        assert 8 <= (db.stats() - before).block_reads <= 9
