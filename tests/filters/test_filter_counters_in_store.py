"""What lookups count, beside a count from the bytes of the table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import lsmkv
from filtered_stores import tables_of
from lsmkv.filters.hashing import hash_key

PRESENT = [b"key%06d" % (10 * number) for number in range(600)]
INSIDE = [key[:-1] + b"5" for key in PRESENT[:-1]]  # some of them between two blocks


def recount(path: str, keys: list[bytes]) -> Counter[str]:
    """What the counters should say of lookups in the store's one table."""
    found: Counter[str] = Counter()
    with lsmkv.open(path, read_only=True) as db:
        (table,) = tables_of(db)
        index, footer = table.index, table.footer
        content = Path(table.path).read_bytes()[footer.filters_offset : footer.index_offset]
        separators = [index.separator(number) for number in range(1, index.block_count)]
        for key in keys:
            start, end, probes = 0, len(content), table.properties.probe_count
            if table.properties.granularity == "block":
                number = sum(key >= separator for separator in separators)
                start, length, probes = index.filter_place(number)
                end = start + length
            if start == end:
                found["unfiltered_probes"] += 1
            elif not table.filter_policy.may_contain(
                content, start, end - start, probes, hash_key(key)
            ):
                found["filter_negatives"] += 1
            elif key in PRESENT:
                found["filter_true_positives"] += 1
            else:
                found["filter_false_positives"] += 1
    return found


@pytest.fixture(params=["block", "table"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a store of one table, in which each tenth key has a block of its own."""
    place = str(tmp_path / "store")
    options = lsmkv.Options(
        filter_granularity=request.param,
        block_size_bytes=512,
        error_rate=0.3,
        compression="none",
        background="thread",
    )
    with lsmkv.open(place, options) as db:
        for number, key in enumerate(PRESENT):
            db.put(key, bytes(600 if number % 10 == 0 else 20))
        db.flush()
    return place


@pytest.mark.parametrize("together", [False, True])
def test_each_lookup_is_counted_once_by_what_ruled_its_key_out_or_let_it_pass(
    path: str, together: bool
) -> None:
    keys = PRESENT + INSIDE
    expected = recount(path, keys)
    with lsmkv.open(path, read_only=True) as db:
        (table,) = db.tables()
        if together:
            db.multi_get(keys)
        else:
            for key in keys:
                db.get(key)
        stats = db.stats()
        names = (
            *("filter_negatives", "filter_true_positives"),
            *("filter_false_positives", "unfiltered_probes"),
        )
        assert {name: getattr(stats, name) for name in names if getattr(stats, name)} == expected
        assert sum(expected.values()) == stats.gets
        assert table.filter_negatives == stats.filter_negatives
        assert table.false_positives == stats.filter_false_positives


def test_explanations_count_the_same(path: str) -> None:
    keys = PRESENT + INSIDE
    expected = recount(path, keys)
    with lsmkv.open(path, read_only=True) as db:
        explained = [db.explain(key) for key in keys]
    assert sum(each.filter_negatives for each in explained) == expected["filter_negatives"]
    assert sum(each.false_positives for each in explained) == expected["filter_false_positives"]
    maybes = expected["filter_true_positives"] + expected["filter_false_positives"]
    asked = sum(each.filters_asked for each in explained)
    assert asked == expected["filter_negatives"] + maybes
    unfiltered = sum(
        len(each.blocks)
        for one in explained
        for each in one.runs
        if each.filter is not None and each.filter.verdict == "none"
    )
    assert unfiltered == expected["unfiltered_probes"]
