"""The compaction benchmark: repeatable counts, amplification and right answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy
import pytest

import lsmkv
from bench.experiments.compaction.experiment import EXPERIMENT
from bench.experiments.compaction.loads import CHUNK_ENTRIES, ENTRY_BYTES, LOADS, chunks, user_bytes
from bench.experiments.compaction.measure import measure
from bench.experiments.compaction.rows import Row
from bench.experiments.compaction.summary import STYLES
from bench.experiments.compaction.tasks import Task
from bench.harness import records, write_cost
from lsmkv.options import CompactionStyle

TINY = Task(
    load="overwrite",
    style="leveled",
    size_ratio=2,
    error_rate=0.1,
    allocation="uniform",
    key_count=6 * CHUNK_ENTRIES,
    chunk_count=20,
    stride=3,
    seed=1,
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """One row for each style."""
    return [
        measure(replace(TINY, style=style), str(tmp_path_factory.mktemp("store")))
        for style in get_args(CompactionStyle)
    ]


def test_counts_repeat_for_a_seed(rows: list[Row], tmp_path: Path) -> None:
    again = measure(replace(TINY, style="leveled"), str(tmp_path))
    assert records.repeatable([again]) == records.repeatable(rows[:1])


def test_write_amplification_is_table_bytes_over_user_bytes(tmp_path: Path) -> None:
    # Tiered with 8 chunks: flushes, and the two compactions of four flushed tables each.
    task = replace(TINY, style="tiered", size_ratio=10, load="sequential", chunk_count=8)
    task = replace(task, key_count=8 * CHUNK_ENTRIES)
    row = measure(task, str(tmp_path))
    handed_over = CHUNK_ENTRIES * (16 + 100)
    files = [path.stat().st_size for path in (tmp_path / "store").glob("*.sst")]
    assert row.user_bytes == 8 * handed_over
    assert row.run_counts == "1 2 3 1 2 3 4 2"
    assert row.compaction_write_bytes == sum(files)  # no flushed table is left
    late = row.flush_bytes / 2 + row.compaction_write_bytes / 2  # of chunks 5 to 8
    assert row.write_amplification == pytest.approx(late / (4 * handed_over), rel=0.01)


def test_every_style_answers_rightly(rows: list[Row]) -> None:
    assert [row.style for row in rows] == list(STYLES)
    assert [row.wrong_answers for row in rows] == [0, 0, 0]
    assert all(row.present_reads_mean >= 1.0 for row in rows)  # no cache: each was read


@pytest.mark.parametrize("load", LOADS)
def test_every_load_is_answered_rightly(load: str, tmp_path: Path) -> None:
    row = measure(replace(TINY, load=load, key_count=20 * CHUNK_ENTRIES), str(tmp_path))
    assert row.wrong_answers == 0
    assert row.sample_count == 3


def test_a_wrong_answer_fails_the_run(rows: list[Row]) -> None:
    assert EXPERIMENT.story(rows).failures == []
    assert EXPERIMENT.story([replace(rows[0], wrong_answers=3)]).failures


def test_reads_of_absent_keys_are_those_of_the_filters(rows: list[Row]) -> None:
    for row in rows:
        assert row.absent_reads_mean == pytest.approx(row.absent_reads_expected_mean, rel=0.25)


def test_expected_reads_are_the_rate_of_the_only_table(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "store", TINY.options()) as db:
        with db.write_batch() as batch:
            for number in range(100):
                batch.put(b"%016d" % (2 * number), b"v" * 100)
        db.flush()
        (table,) = db.inspect().tables()
        expected = write_cost.expected_absent_reads(db.inspect(), numpy.arange(100))
    assert table.expected_rate is not None
    # The table spans 99 of the 100 absent keys.
    assert expected == pytest.approx(table.expected_rate * 0.99)


@pytest.mark.parametrize("load", LOADS)
def test_a_load_repeats_and_stays_in_its_key_space(load: str) -> None:
    key_count = 5 * CHUNK_ENTRIES
    first = list(chunks(load, key_count, 5, seed=3))
    assert first == list(chunks(load, key_count, 5, seed=3))
    assert [len(chunk) for chunk in first] == [CHUNK_ENTRIES] * 5
    assert all(0 <= number < key_count for chunk in first for number, _ in chunk)


def test_a_deletion_counts_with_its_key_alone() -> None:
    assert user_bytes([(1, True), (2, False)]) == ENTRY_BYTES + 16
