"""Keys and lookups of one's own: files are read, and the store tells what is there."""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.experiments.saved_io import datasets
from bench.experiments.saved_io.experiment import EXPERIMENT, tasks
from bench.experiments.saved_io.measure import measure
from bench.experiments.saved_io.rows import TRACE, TRACE_ABSENT, TRACE_PRESENT, Row, join
from bench.experiments.saved_io.tasks import StoreTask
from bench.harness.experiment import Plan, parser_for
from bench.harness.sweep import sweep
from bench.workloads.key_files import read_keys

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


def as_parquet(path: Path, keys: list[bytes]) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = path.with_suffix(".parquet")
    parquet.write_table(pyarrow.table({"key": keys}), path)
    return path


@pytest.mark.parametrize("write", [as_lines, as_packed_lines, as_json_lines, as_parquet])
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
        ("keys.jsonl", b'"a"\n{"k": 1}\n', r'keys\.jsonl, line 2: the object has no "key"'),
        ("keys.jsonl", b"nothing\n", r"keys\.jsonl, line 1: "),
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
            r"keys\.gz: the gzip data are cut short",
        ),
        ("keys.parquet", b"PAR1 not", r"keys\.parquet: "),
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


def test_parquet_without_its_library_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SystemExit, match=r'pip install "lsmkv\[dask\]"'):
        planned("--keys", str(tmp_path / "a.parquet"), "--lookups", "b")


def test_keys_and_lookups_need_each_other() -> None:
    for given in (["--keys", "a"], ["--lookups", "a"]):
        with pytest.raises(SystemExit, match="must be given together"):
            planned(*given)


# Data sets


@pytest.mark.parametrize("given", [["--datasets", "ranges"], ["--keys", "a", "--lookups", "a"]])
def test_the_form_of_a_minute_refuses_other_data(given: list[str]) -> None:
    with pytest.raises(SystemExit, match="--minute has a data set of its own"):
        planned("--minute", *given)
