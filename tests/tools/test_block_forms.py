"""``tools.block_forms``: each form of blocks is written, and the stored one is the smallest."""

from __future__ import annotations

import pytest

from lsmkv.encoding.words import COMPILED
from tools.block_forms import FORMS, by_number, by_time, table_bytes

LINES = [b"2026-01-02 03:04:%02d line %d of a log" % (n // 50, n * n) for n in range(3000)]


@pytest.mark.skipif(COMPILED, reason="a compiled build has one form")
def test_blocks_as_stored_take_the_least() -> None:
    for entries in (by_time(LINES), by_number(LINES)):
        stored, no_columns, whole = (table_bytes(entries, form) for form in FORMS.values())
        assert stored < no_columns < whole
