"""The harness of experiments: rows and files, sweeps, document sections, the command."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench import __main__ as bench
from bench.harness import document, experiment, records
from bench.harness.experiment import Experiment, Plan
from bench.harness.records import Observation, column
from bench.harness.seeds import Figure
from bench.harness.story import Story
from bench.harness.sweep import sweep
from bench.harness.tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Observation):
    number: int = column("what was asked", "setting")
    square: int = column("what came out")
    took_s: float = column("how long", "time")


def square(number: int, directory: str) -> Row:
    """Measures, and leaves a file in its own directory."""
    assert not list(Path(directory).iterdir())
    (Path(directory) / "left").write_text("over")
    if number < 0:
        raise ValueError(f"{number} is negative")
    return Row(number=number, square=number * number, took_s=float("nan"))


def numbers(plan: Plan) -> list[int]:
    return [plan.seed, 2] if plan.quick else [plan.seed, 2, 3]


def story(rows: list[Row]) -> Story:
    table = Table("Squares", ("of", "is"), [[str(row.number), str(row.square)] for row in rows])
    failures = ["a square is odd"] if any(row.square % 2 for row in rows) else []
    return Story([table], [], failures)


SQUARES: Experiment[int, Row, Row] = Experiment(
    name="squares",
    title="Squares",
    question="What are the squares?",
    method=("Multiplication.",),
    row_type=Row,
    tasks=numbers,
    measure=square,
    rows=list,
    story=story,
)


def test_results_keep_the_order_of_tasks_with_any_executor() -> None:
    here = sweep(square, [3, 1, 2], None)
    with ThreadPoolExecutor(3) as pool:
        there = sweep(square, [3, 1, 2], pool)
    assert [row.number for row in there] == [row.number for row in here] == [3, 1, 2]


@pytest.mark.parametrize("threads", [0, 2])
def test_a_configuration_that_fails_ends_the_sweep(threads: int) -> None:
    if not threads:
        with pytest.raises(ValueError, match="-1 is negative"):
            sweep(square, [1, -1, 2], None)
        return
    with ThreadPoolExecutor(threads) as pool, pytest.raises(ValueError, match="-1 is negative"):
        sweep(square, [1, -1, 2], pool)


def test_files_describe_their_columns_and_know_no_nan(tmp_path: Path) -> None:
    stem = str(tmp_path / "rows")
    records.write(stem, {"seed": 1}, Row, [Row(number=1, square=1, took_s=math.inf)])
    assert Path(f"{stem}.csv").read_text() == "repetition,seed,number,square,took_s\n0,0,1,1,\n"
    described = json.loads(Path(f"{stem}.json").read_text())
    took = {"name": "took_s", "kind": "time", "unit": "s", "meaning": "how long"}
    assert described["columns"][4] == took
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(f"{stem}.parquet")["square"].to_pylist() == [1]


def test_the_command_writes_every_file_and_the_section(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- bench squares -->\nold\n<!-- end -->\nafter\n")
    out = tmp_path / "out"
    arguments = ["--out", str(out), "--quick", "--seed", "4", "--into", str(page)]
    experiment.main(SQUARES, arguments)
    assert (out / "report.html").exists()
    lines = ["repetition,seed,number,square,took_s", "0,4,4,16,", "0,4,2,4,"]
    assert (out / "squares.csv").read_text().split() == lines
    once = page.read_text()
    assert once.startswith(
        "before\n<!-- bench squares -->\n\nCommand: `python -m bench squares --out "
    )
    assert once.endswith("| 2 | 4 |\n\n<!-- end -->\nafter\n")
    document.insert(str(page), "squares", "new")
    assert page.read_text() == "before\n<!-- bench squares -->\n\nnew\n<!-- end -->\nafter\n"


def test_broken_promises_fail_the_command_after_it_has_written(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="a square is odd"):
        experiment.main(SQUARES, ["--out", str(tmp_path), "--quick", "--seed", "3"])
    assert "a square is odd" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--out /dev/null/x", "--out '/dev/null/x': Not a directory"),
        ("--out {out} --work /nonexistent", "--work '/nonexistent': must be a folder that exists"),
        ("--out {out} --into /nonexistent.md", "--into '/nonexistent.md': No such file"),
        ("--out {out} --into {page}", "no section from <!-- bench compaction -->"),
    ],
)
def test_places_that_cannot_be_used_are_refused_before_any_work(
    options: str, said: str, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text("no section\n")
    given = options.format(out=tmp_path / "out", page=page).split()
    with pytest.raises(SystemExit, match=re.escape(said)):
        bench.main(["compaction", "--quick", *given])


def test_each_repetition_has_a_seed_of_its_own_and_any_may_fail() -> None:
    arguments = ["--out", "unused", "--quick", "--seed", "4", "--repetitions", "2"]
    results = experiment.run(SQUARES, arguments)
    assert [(row.repetition, row.seed) for row in results.rows] == [(0, 4), (0, 4), (1, 5), (1, 5)]
    told = SQUARES.story_of(results.rows)
    assert told.tables[0].cells == [["4", "16"], ["2", "4"]]
    assert told.failures == ["a square is odd"]


def test_figures_of_several_seeds_have_a_table_with_their_intervals() -> None:
    figures = (Figure("square", "square"),)
    arguments = ["--out", "unused", "--quick", "--seed", "9", "--repetitions", "3"]
    again = dataclasses.replace(SQUARES, figures=figures, tasks=lambda _: [3])
    (_, table) = again.story_of(experiment.run(again, arguments).rows).tables
    assert table.cells == [["", "square", "9 (9-9)"]]
