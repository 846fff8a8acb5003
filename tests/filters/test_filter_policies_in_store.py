"""Stores of each filter policy: same answers, fewer reads, and any policy opens them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import fill, number_key, open_small
from scipy.stats import binom

import lsmkv
from lsmkv.filters.policy import POLICIES
from lsmkv.inspection.store_info import expected_error_rate

NAMES = [policy.name for policy in POLICIES]
GRANULARITIES = ["block", "table"]
FORMS = [
    (name, granularity)
    for name in NAMES
    for granularity in GRANULARITIES
    if (name, granularity) != ("grafite", "table")
]


def written(path: Path, **options: Any) -> dict[bytes, bytes]:
    with open_small(path, **options) as db:
        contents = fill(db, range(0, 3000, 2))
        db.compact_range()
    return contents


@pytest.mark.parametrize("residency", ["resident", pytest.param("cached", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "granularity"), FORMS)
def test_present_keys_are_found_and_absent_ones_read_no_more_blocks_than_the_rate_allows(
    tmp_path: Path, name: str, granularity: str, residency: str
) -> None:
    contents = written(
        tmp_path / "db", filter_policy=name, filter_granularity=granularity, error_rate=0.01
    )
    with open_small(
        tmp_path / "db", filter_residency=residency, block_cache_size_bytes=1 << 20
    ) as db:
        tables = list(db._state.require_open().version.tables())
        assert {table.filter_policy.name for table in tables} == {name}
        assert all(db[key] == value for key, value in contents.items())
        lookups = [str(db.explain(number_key(number))) for number in range(1, 200, 2)]
        assert any("filter says no" in lookup for lookup in lookups)
        before = db.stats()
        for number in range(1, 2999, 2):
            assert db.get(number_key(number)) is None
        spent = db.stats() - before
        rate = max(expected_error_rate(table) or 0.0 for table in tables)
        asked = spent.filter_negatives + spent.filter_false_positives
        assert asked > 1000
        assert spent.filter_false_positives <= binom.ppf(1 - 1e-9, asked, rate)


@pytest.mark.parametrize("name", [name for name, form in FORMS if form == "table"])
def test_prefix_filters_work_with_each_kind(tmp_path: Path, name: str) -> None:
    with open_small(
        tmp_path / "db", filter_policy=name, filter_key=lsmkv.FixedPrefix(4), error_rate=0.01
    ) as db:
        for group in range(0, 200, 2):
            db.put(b"%04d-x" % group, b"v" * 100)
        db.flush()
        assert [len(db.keys(prefix=b"%04d" % group)) for group in range(4)] == [1, 0, 1, 0]
