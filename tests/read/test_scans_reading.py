"""Scans of several runs whose blocks begin and end with the same keys."""

from __future__ import annotations

import pytest
from conftest import fill, open_small

from table_files import first_key, last_key


@pytest.mark.parametrize("reverse", [False, True])
def test_a_newer_value_of_the_key_that_a_block_begins_with_counts(path: str, reverse: bool) -> None:
    with open_small(path) as db:
        fill(db, range(2000))
        db.compact_range()
        contents = dict(db.items())
        table = next(db._state.require_open().version.tables())
        ends = [end(table, number) for end in (first_key, last_key) for number in range(1, 20)]
        for key in ends[::2]:
            del db[key], contents[key]
        for key in ends[1::2]:
            db[key] = contents[key] = b"new"
        db.flush()
        assert list(db.items(reverse=reverse)) == sorted(contents.items(), reverse=reverse)
