"""Every documented choice of an experiment's options measures and writes a report."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from bench.__main__ import EXPERIMENTS, main
from bench.experiments.compaction.loads import LOADS

pytestmark = pytest.mark.slow  # real stores of every configuration

COMPACTION = "--write-buffers 16 --size-ratios 4 --error-rates 0.1"
SAVED_IO = "--datasets digits --entries 100 --lookups 10 --counts-only"


def choice(name: str, options: str, *, longest: bool = False) -> object:
    marks = pytest.mark.longest if longest else ()
    return pytest.param(name, options, id=f"{name} {options}", marks=marks)


CHOICES = [
    *(choice("compaction", f"{COMPACTION} --loads {load}") for load in LOADS),
    choice("compaction", "--write-buffers 16 --size-ratios 2 --error-rates 0.001 --repeat 2"),
    choice("saved-io", f"{SAVED_IO} --policies ribbon"),
    choice("granularity", "--bits 3 --flush-entries 32 --cache-share 2", longest=True),
    choice("policies", "--parts shift,repeats --keys 2000 --repetitions 2", longest=True),
    choice("wasted-reads", "--bits 10 --entries 1000 --passes 2 --block-size-kib 16"),
]


@pytest.mark.parametrize(("name", "options"), CHOICES)
def test_a_choice_ends_in_a_report(name: str, options: str, tmp_path: Path) -> None:
    main([name, "--quick", "--out", str(tmp_path), *options.split()])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    title = importlib.import_module(EXPERIMENTS[name][0]).EXPERIMENT.title
    assert f"<h1>{title}</h1>" in page
    assert (tmp_path / f"{name}.csv").stat().st_size > 0
