"""Keys and lookups of one's own: files are read, and the store tells what is there."""

from __future__ import annotations

import gzip
import json
import os
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.experiments.saved_io import datasets
from bench.experiments.saved_io.experiment import EXPERIMENT, tasks
from bench.experiments.saved_io.measure import measure
from bench.experiments.saved_io.rows import DRAWN, TRACE, TRACE_ABSENT, TRACE_PRESENT, Row, join
from bench.experiments.saved_io.story import story
from bench.experiments.saved_io.tasks import StoreTask
from bench.harness.experiment import Plan, parser_for
from bench.harness.story import Story
from bench.harness.sweep import sweep
from bench.workloads.key_files import read_keys
from gates import WAIT_S

KEYS = [b"user:%04d" % (2 * number) for number in range(900)]


def lookups() -> list[bytes]:
    """A trace with repeats: some keys are there, and absent ones lie between, below and above."""
    draw = random.Random(5)
    near = [b"user:%04d" % draw.randrange(1800) for _ in range(1500)]
    return [*near, *near[:300], b"aaa", b"zzz", b"zzz"]


def planned(*arguments: str) -> list[StoreTask]:
    given = parser_for(EXPERIMENT).parse_args(["--out", "unused", "--quick", *arguments])
    found = tasks(Plan(given.quick, given.seed, given))
    return [task for task in found if isinstance(task, StoreTask)]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    folder = tmp_path_factory.mktemp("own")
    (folder / "keys.txt").write_bytes(b"\n".join(KEYS) + b"\n")
    with gzip.open(folder / "trace.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"key": key.decode()}) + "\n" for key in lookups())
    found = planned(
        "--counts-only", "--keys", str(folder / "keys.txt"),
        "--lookups", str(folder / "trace.jsonl.gz"), "--value-bytes", "30",
    )  # fmt: skip
    few = [task for task in found if task.error_rate in (None, 0.1, 0.01)]
    return join(sweep(measure, few, None))


def test_the_store_tells_present_and_absent_lookups_apart(rows: list[Row]) -> None:
    present = sum(key in set(KEYS) for key in lookups())
    for row in rows:
        expected = {TRACE: 1803, TRACE_PRESENT: present, TRACE_ABSENT: 1803 - present}
        assert row.lookup_count == expected[row.lookups_of]
        assert row.found_count == (0 if row.lookups_of == TRACE_ABSENT else present)
        assert row.entry_count == len(KEYS)


def test_reads_of_absent_and_present_lookups_add_up_to_those_of_the_trace(rows: list[Row]) -> None:
    by_store: dict[object, dict[str, Row]] = {}
    for row in rows:
        by_store.setdefault((row.run_count, row.error_rate_requested), {})[row.lookups_of] = row
    assert len(by_store) == 6
    for of in by_store.values():
        parts = (of[TRACE_ABSENT].data_block_reads or 0) + (of[TRACE_PRESENT].data_block_reads or 0)
        assert of[TRACE].data_block_reads == parts
        assert not any(row.miscounted for row in of.values())


# Files


def as_lines(path: Path, keys: list[bytes]) -> Path:
    path = path.with_suffix(".txt")
    path.write_bytes(b"\r\n".join(keys) + b"\r\n\r\n")
    return path


def as_packed_lines(path: Path, keys: list[bytes]) -> Path:
    path.write_bytes(gzip.compress(b"\n".join(keys)))
    return path


def as_json_lines(path: Path, keys: list[bytes]) -> Path:
    path = path.with_suffix(".jsonl")
    path.write_text("\n".join(json.dumps(key.decode()) for key in keys))
    return path


def as_a_spreadsheet_does(path: Path, keys: list[bytes]) -> Path:
    path = path.with_suffix(".csv")
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(b'"%b"' % key for key in keys))
    return path


def as_lines_with_a_mark(path: Path, keys: list[bytes]) -> Path:
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(keys))
    return path


@pytest.mark.parametrize(
    "write", [as_lines, as_packed_lines, as_json_lines, as_a_spreadsheet_does, as_lines_with_a_mark]
)
def test_each_form_gives_the_same_keys(
    write: Callable[[Path, list[bytes]], Path], tmp_path: Path
) -> None:
    path = write(tmp_path / "keys", KEYS[:50])
    assert read_keys(str(path), 7) == [(key, 7) for key in KEYS[:50]]


def test_the_sizes_of_values_are_taken_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text('{"key": "a", "value": "four"}\n{"key": 12, "value_bytes": 9}\n"c"\n')
    assert read_keys(str(path), 1) == [(b"a", 4), (b"12", 9), (b"c", 1)]
    entries = datasets.entries_of([(b"a", 4), (b"b", 300), (b"a", 9)], seed=1)
    assert [(key, len(value)) for key, value in entries] == [(b"a", 9), (b"b", 300)]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "keys.jsonl",
            b'"a"\n{"k": 1}\n',
            r"keys\.jsonl: line 2: there is no field 'key': the fields are 'k'",
        ),
        ("keys.jsonl", b"nothing\n", r"keys\.jsonl: line 1: not JSON"),
        (
            "keys.jsonl",
            b'{"key": "a", "value_bytes": -1}',
            r"line 1: value_bytes=-1: must be from 0",
        ),
        ("keys.txt", b"\n\n", r"keys\.txt: no keys"),
        ("keys.txt", b"k" * 70_000, r"line 1: key of 70000 bytes"),
        (
            "keys.gz",
            gzip.compress(b"a\nb\n" * 99, mtime=0)[:-9],
            r"keys\.gz: line \d+: the gzip data are cut short",
        ),
        (
            "keys.gz",
            gzip.compress(b"a\nb\n" * 99, mtime=0) + b"garbage",
            r"keys\.gz: line 199: the gzip data are damaged",
        ),
        (
            "keys.gz",
            gzip.compress(b"a\nb\n" * 99, mtime=0)[:12] + b"\xff\xff",
            r"keys\.gz: line 1: the gzip data are",
        ),
        ("keys.parquet", b"PAR1\x15 not", r"keys\.parquet: line 1: it is Parquet; write it as CSV"),
        ("keys.txt", "a\nb\n".encode("utf-16"), r"keys\.txt: line 1: it is UTF-16"),
        ("keys.csv", b"id,address\n1,a\n", r"keys\.csv: its first row looks like a header"),
        ("keys.csv", b"key\n1\n", r"keys\.csv: its first row looks like a header"),
        ("keys.csv", b"1,a,x\n", r"line 1: 3 fields instead of 2 .*--key-field"),
        ("missing", None, r"missing.*: No such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_before_any_work(
    name: str, content: bytes | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SystemExit, match=said):
        planned("--keys", str(path), "--lookups", str(path))


def test_a_folder_in_place_of_keys_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=rf"{tmp_path}.*: Is a directory"):
        planned("--keys", str(tmp_path), "--lookups", str(tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "field"),
    [
        ("a.csv", b'id,address\r\n1,"Main street\n2nd floor"\r\n', "id"),
        ("a.csv", b'"Main street\n2nd floor",1\n', "2"),
        ("a.jsonl", b'{"id": 1, "name": "x"}\n', "id"),
    ],
)
def test_a_field_is_chosen_as_load_chooses_it(
    name: str, content: bytes, field: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    assert [key for key, _ in read_keys(str(tmp_path / name), 1, field)] == [b"1"]


def test_a_list_of_keys_has_no_fields(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\n")
    with pytest.raises(ValueError, match=r"a\.txt: --key-field=id is for names that end in \.csv"):
        read_keys(str(tmp_path / "a.txt"), 1, "id")


@pytest.mark.parametrize("count", [100, 20_000])  # less and more than any buffer
def test_keys_from_a_pipe_are_all_read_and_serve_every_repetition(
    count: int, tmp_path: Path
) -> None:
    pipe, keys = tmp_path / "pipe", [b"key%06d" % number for number in range(count)]
    (tmp_path / "lookups.txt").write_bytes(b"key000001\nother\n")
    os.mkfifo(pipe)
    given = ["--keys", str(pipe), "--lookups", str(tmp_path / "lookups.txt"), "--repetitions", "2"]
    writer = threading.Thread(target=pipe.write_bytes, args=[b"\n".join(keys) + b"\n"], daemon=True)
    writer.start()
    found = planned(*given)
    writer.join(WAIT_S)
    pipe.unlink()  # whoever reads it again fails
    for task in (found[0], found[-1]):
        data = datasets.content(task.dataset, 0, task.seed, task.own)
        assert [key for key, _ in data.entries] == keys


def test_a_pipe_is_refused_where_several_processes_need_its_keys(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    files = ["--keys", str(tmp_path / "pipe"), "--lookups", str(tmp_path / "pipe")]
    with pytest.raises(SystemExit, match="pipe: no regular file, which --jobs 2 needs"):
        planned(*files, "--jobs", "2")


def test_keys_and_lookups_need_each_other() -> None:
    for given in (["--keys", "a"], ["--lookups", "a"]):
        with pytest.raises(SystemExit, match="must be given together"):
            planned(*given)


# Data sets


def test_the_form_of_a_minute_refuses_other_data_sets() -> None:
    with pytest.raises(SystemExit, match="--minute has its own data set, or --keys"):
        planned("--minute", "--datasets", "ranges")


def of_own_files(folder: Path, keys: list[str], asked: list[str], *options: str) -> Story:
    """The story of a counted run on lists of keys."""
    (folder / "keys.txt").write_text("\n".join(keys) + "\n")
    (folder / "lookups.txt").write_text("\n".join(asked) + "\n")
    files = ["--keys", str(folder / "keys.txt"), "--lookups", str(folder / "lookups.txt")]
    found = planned("--counts-only", *files, *options)
    few = [task for task in found if task.error_rate in (None, 0.1, 0.01)]
    return story(join(sweep(measure, few, None)))


def test_headline_first_table_and_first_chart_are_of_one_store(rows: list[Row]) -> None:
    told = story(rows)
    (row,) = [
        row
        for row in rows
        if (row.lookups_of, row.run_count, row.error_rate_requested) == (TRACE, 4, 0.01)
    ]
    share = row.reads_saved_gross_share or 0.0
    assert f"{share:.2%}" in told.headline and "4 KiB blocks, 4 runs" in told.headline
    assert told.first is not None and f"{share * 100:.3f}" in told.first.cells[-1]
    assert "(lookups of a trace, " in told.tables[0].title
    chart = told.charts[0]
    shown = [point for line in chart.panels[0].lines[:1] for point in line.points]
    reads = (row.data_block_reads or 0) / row.lookup_count
    assert shown[-1][1] == pytest.approx(reads) and len(shown) == 2
    base = chart.panels[0].lines[2].points[0][1]
    assert 1 - reads / base == pytest.approx(share)


def test_a_minute_takes_keys_of_ones_own(tmp_path: Path) -> None:
    told = of_own_files(tmp_path, ["a", "b", "c"], ["a", "b", "x"] * 9, "--minute")
    assert told.failures == [] and "4 runs" in told.headline


@pytest.mark.parametrize(
    ("keys", "asked"),
    [
        (["only"], ["only", "other"]),
        (["a", "b", "c"], ["a", "b", "c"]),
        ([" ", "  ", "x"], [f"{number:016x}" for number in range(400)]),
    ],
    ids=["one key", "all present", "three keys"],
)
def test_the_smallest_files_have_a_report(
    keys: list[str], asked: list[str], tmp_path: Path
) -> None:
    assert of_own_files(tmp_path, keys, asked).failures == []


def test_lookups_of_ones_own_are_not_held_against_theory(rows: list[Row]) -> None:
    useless = [replace(row, data_block_reads=row.data_block_reads_unfiltered) for row in rows]
    assert story(useless).failures == []
    drawn = [replace(row, lookups_of=DRAWN) for row in useless if row.lookups_of == TRACE_ABSENT]
    assert "filters of 1 % save only 0.00% of absent reads" in story(drawn).failures[0]
