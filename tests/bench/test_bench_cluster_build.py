"""The model of builds on a cluster, and its comparison with real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import cluster_build
from bench.cluster_build import Parameters, Run, fitted, predict
from lsmkv.cluster import BuildReport

MIB = 1 << 20
PARAMETERS = Parameters(2.0, 1.0, 3.0, 2.5, 80.0, 100.0, 60.0)


def report(seconds: float, partitions: int, pairs: int) -> BuildReport:
    count = partitions * pairs
    sizes = (count, count, count * 100, count * 60, partitions)
    return BuildReport(*sizes, partitions, 1.0, 0, seconds / 4, seconds / 2, seconds / 4)


def test_costs_follow_from_the_parameters() -> None:
    cost = predict(PARAMETERS, 1_000_000, 4, 80 * MIB, 2 * MIB)
    assert cost.partitions == 10  # of 10 MiB of pairs each
    assert cost.tables == 30  # 6 MB of each partition
    assert cost.read_bytes == 2 * 80e6
    assert cost.shuffled_bytes == 116e6
    assert cost.table_bytes == 60e6
    # Ten partitions take four workers three rounds, as twelve would.
    assert cost.seconds == pytest.approx(2 + (1 + 3 * 1.2) / 4)


def test_a_fitted_model_predicts_the_build_that_it_was_fitted_to() -> None:
    fixed = Run(1000, 80_000, 0.5, report(2.0, 1, 1000))
    smallest = Run(200_000, 16_000_000, 4.5, report(10.0, 2, 100_000))
    parameters = fitted(fixed, smallest, workers=2)
    cost = predict(parameters, 200_000, 2, 80 * MIB, 64 * MIB)
    assert cost.seconds == pytest.approx(10.0)
    assert cost.cpu_s == pytest.approx(4.0)
    assert cost.table_bytes == 200_000 * 60
    assert cost.partitions == 2


@pytest.mark.slow
def test_real_builds_have_the_predicted_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "page.md"
    document.write_text("# A page\n\n<!-- bench cluster-build -->\n<!-- end -->\n")
    given = ["--entries", "3000,9000", "--work", str(tmp_path), "--into", str(document)]
    cluster_build.main(given)
    shown = capsys.readouterr().out
    assert "| 3,000 |" in shown and "| 9,000 |" in shown
    assert "1,000,000,000 such entries" in document.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]
