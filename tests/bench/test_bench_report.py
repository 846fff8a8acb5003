"""Every report begins with its main finding and a chart."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from bench.__main__ import EXPERIMENTS
from bench.experiments.wasted_reads.experiment import EXPERIMENT
from bench.harness.charts import Chart, save
from bench.harness.experiment import Experiment, Results
from bench.harness.report import write
from bench.harness.story import HEADLINE_WORDS, Story
from bench.harness.tables import Table

MOST_WORDS = 40


def registered() -> list[Experiment]:  # type: ignore[type-arg]
    modules = [importlib.import_module(module) for module, _ in EXPERIMENTS.values()]
    return [module.EXPERIMENT for module in modules if hasattr(module, "EXPERIMENT")]


def draw(figure: Figure) -> None:
    figure.subplots()


@pytest.mark.parametrize("failures", [[], ["a count disagrees " * 50]])
@pytest.mark.parametrize("headline", ["", "word " * HEADLINE_WORDS])
def test_a_chart_stands_before_the_fortieth_word(
    failures: list[str], headline: str, tmp_path: Path
) -> None:
    chart = Chart("one", "A title", "How to read it.", draw)
    save(chart, str(tmp_path))
    first = Table("first", ["a"], [["1"]] * 60, left=0)
    story = Story(["a finding " * 100], [], [chart], failures, first, headline)
    header = {
        "seed": 1, "quick": True, "executor": "1", "elapsed_s": 1.0, "missing": [], "command": "c",
        "environment": {"versions": {}},
    }  # fmt: skip
    write(str(tmp_path / "report.html"), EXPERIMENT, Results(header), story)
    page = (tmp_path / "report.html").read_text()
    body = page[page.index("<body>") : page.index("<img")]
    assert len(re.sub("<[^>]*>", " ", body).split()) <= MOST_WORDS
    assert ("Failed: 1" in body) == bool(failures)


def test_title_and_headline_of_every_experiment_leave_the_chart_its_place() -> None:
    words_of_failures = 2
    for experiment in registered():
        words = len(experiment.title.split()) + HEADLINE_WORDS + words_of_failures
        assert words <= MOST_WORDS, experiment.name
