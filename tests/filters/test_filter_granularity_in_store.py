"""Filters per table beside filters per block."""

from __future__ import annotations

import pytest

from filtered_stores import (
    KEY_COUNT,
    RATES,
    absent,
    assert_likely,
    block_of,
    loaded,
    look_up,
    tables_of,
)
from lsmkv.inspection.store_info import filter_rate
from lsmkv.storage.storage import ReadKind
from table_files import last_key


@pytest.mark.parametrize("rate", RATES)
def test_a_filter_per_table_errs_at_its_exact_rate(path: str, rate: float) -> None:
    with loaded(path, error_rate=rate, filter_granularity="table") as (db, storage):
        tables = tables_of(db)
        rates = {
            table.meta.number: filter_rate(
                table,
                8 * table.footer.filters_length,
                table.properties.filter_key_count,
                table.properties.probe_count,
            )
            for table in tables
        }
        keys, expected = [], []
        for number in range(KEY_COUNT):
            for variant in range(8 if rate < 0.01 else 2):
                place = block_of(tables, absent(number, variant))
                if place is not None:
                    keys.append(absent(number, variant))
                    expected.append(rates[place[0].meta.number])
        storage.reset()
        counts = look_up(db, keys)
        assert_likely(storage.reads(ReadKind.DATA), expected)
        assert counts.filter_negatives + counts.filter_false_positives == len(keys)


def test_a_filter_per_table_answers_before_the_index_is_searched(path: str) -> None:
    with loaded(path, error_rate=0.001, filter_granularity="table") as (db, storage):
        gaps = [
            last_key(table, number) + b"-"
            for table in tables_of(db)
            for number in range(table.index.block_count - 1)
        ]
        storage.reset()
        counts = look_up(db, gaps)
        assert counts.filter_negatives > 0.9 * len(gaps)
        assert counts.filter_negatives + storage.reads() == len(gaps)
