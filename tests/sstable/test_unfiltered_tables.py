"""``filter_policy="none"``: tables without filters, and a store that works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import fill, number_key, open_small

import lsmkv
from damage import spoil_first_block

GRANULARITIES = ["block", "table"]


def write(path: Path, **given: Any) -> dict[bytes, bytes]:
    with open_small(path, filter_policy="none", **given) as db:
        contents = fill(db, range(0, 1000, 2))
        db.compact_range()
        assert db.stats().filter_build_ns == 0
    return contents


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("residency", ["resident", "cached", "off"])
def test_every_block_that_spans_a_key_is_searched(
    tmp_path: Path, granularity: str, residency: str
) -> None:
    contents = write(tmp_path / "db", filter_granularity=granularity)
    with open_small(tmp_path / "db", filter_residency=residency) as db:
        assert dict(db.items()) == contents
        before = db.stats()
        assert all(db.get(number_key(number)) is None for number in range(1, 999, 2))
        assert all(db[key] == value for key, value in contents.items())
        spent = db.stats() - before
        assert spent.filter_negatives == spent.filter_false_positives == 0
        assert spent.filter_true_positives == spent.filter_reads == 0
        assert 900 < spent.unfiltered_probes <= 999


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_no_bytes_of_filters_are_written(tmp_path: Path, granularity: str) -> None:
    write(tmp_path / "db", filter_granularity=granularity)
    with open_small(tmp_path / "db") as db:
        info = db.inspect()
        assert info.filter_bytes == info.filter_memory_bytes == 0
        for table in info.tables():
            assert (table.filter_kind, table.expected_rate) == ("none", 1.0)
            assert "no filters" in str(table)
            for block in db.blocks(table.number):
                assert (block.bit_count, block.key_count, block.probe_count) == (0, 0, 0)
        assert db.verify().ok


def test_prefix_scans_skip_nothing(tmp_path: Path) -> None:
    with open_small(tmp_path / "db", filter_policy="none", filter_key=lsmkv.FixedPrefix(4)) as db:
        for group in range(0, 100, 2):
            db.put(b"%04d-x" % group, b"v" * 100)
        db.flush()
        assert [len(db.keys(prefix=b"%04d" % group)) for group in range(4)] == [1, 0, 1, 0]
        assert db.stats().prefix_filter_skips == 0


def test_a_damaged_table_is_repaired_without_filters(tmp_path: Path) -> None:
    contents = write(tmp_path / "db")
    spoil_first_block(max((tmp_path / "db").glob("*.sst")))
    report = lsmkv.repair(tmp_path / "db", in_place=True)
    assert report.entries_lost
    with open_small(tmp_path / "db") as db:
        assert {table.filter_kind for table in db.inspect().tables()} == {"none"}
        kept = dict(db.items())
        assert kept.items() < contents.items()
        assert len(kept) == len(contents) - report.entries_lost


def test_blocks_without_filters_are_found_when_the_index_is_lost(tmp_path: Path) -> None:
    contents = write(tmp_path / "db")
    table = max((tmp_path / "db").glob("*.sst"))
    table.write_bytes(table.read_bytes()[:-72])  # without its footer
    lsmkv.repair(tmp_path / "db", in_place=True)
    with open_small(tmp_path / "db") as db:
        assert dict(db.items()) == contents
