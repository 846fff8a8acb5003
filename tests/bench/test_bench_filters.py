"""The filters' benchmark: repeatable counts, honest intervals, and no missing contender."""

from __future__ import annotations

import csv
import json
import random
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from bench import __main__ as bench
from bench.experiments.filters import tasks
from bench.experiments.filters.contenders import CONTENDERS, contender_named, missing
from bench.experiments.filters.experiment import EXPERIMENT
from bench.experiments.filters.measure import count
from bench.experiments.filters.rows import Row, names
from bench.experiments.filters.story import (
    DOCUMENTED,
    markdown,
    section,
    story,
    write_markdown,
)
from bench.harness import experiment, records
from bench.harness.experiment import Results
from bench.harness.intervals import clustered_interval
from drawn_charts import faults
from lsmkv.encoding.words import COMPILED
from lsmkv.filters import hash_key
from lsmkv.filters.policy import POLICIES

TINY = tasks.Effort(
    key_counts=(8, 30),
    error_rates=(0.1, 0.01),
    false_positives=3,
    least_trials=60,
    most_trials=100,
    least_filters=3,
    turns=1,
    timed_operations=30,
    timed_asked=20,
)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "QUICK", TINY)


def run(*arguments: str) -> Results[Row]:
    return experiment.run(EXPERIMENT, ["--quick", "--out", "unused", *arguments])


@pytest.fixture(scope="module")
def made() -> Results[Row]:
    """The results of the command without other arguments; no test changes them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "QUICK", TINY)
        return run()


def counted(results: Results[Row]) -> list[dict[str, Any]]:
    return records.repeatable(results.rows)


def test_a_run_writes_every_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench.main(["filters", "--out", str(tmp_path), "--quick", "--seed", "5", "--jobs", "1"])
    written = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    plots = {"filters-rate.png", "filters-bits.png", "filters-time.png"}
    drawn = plots | {name.replace("png", "svg") for name in plots}
    assert written.keys() == {"filters.csv", "filters.json", "filters.md", "report.html"} | drawn
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in plots)
    document = json.loads((tmp_path / "filters.json").read_text())
    assert (document["schema"], document["seed"], document["missing"]) == (1, 5, [])
    assert [column["name"] for column in document["columns"]] == [f.name for f in fields(Row)]
    assert {"rbloom", "pybloom-live"} < document["environment"]["versions"].keys()
    with (tmp_path / "filters.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [field.name for field in fields(Row)]
    assert [row["filter"] for row in rows] == [row["filter"] for row in document["rows"]]
    offered = [(c.name, p) for c in CONTENDERS for p in TINY.error_rates if c.offers(p)]
    assert len(rows) == len(offered) * len(TINY.key_counts)
    assert {row["false_negative_count"] for row in rows} == {"0"}
    assert all(float(row["query_absent_ns_median"]) > 0 for row in rows)
    assert "30 keys, 1 % requested" in capsys.readouterr().out


def test_every_contender_is_described() -> None:
    document = (Path(bench.__file__).parent / "README.md").read_text()
    for contender in CONTENDERS:
        assert f"`{contender.name}`" in document, contender.name


def test_rows_of_the_store_ask_the_bits_that_its_policies_build_for_tables() -> None:
    draw = random.Random("store rows")
    keys = tasks.keys_of(draw, 60)
    for policy in POLICIES:
        contender = contender_named(f"store/{policy.name}")
        filled = contender.fill(keys[:30], 0.01)
        bits, parameter = policy.build([hash_key(key) for key in keys[:30]], 0.01)
        assert (filled.section[filled.start :], filled.parameter) == (bits, parameter)
        assert contender.ask(filled, keys) == [
            policy.may_contain(bits, 0, len(bits), parameter, hash_key(key)) for key in keys
        ]


def test_a_row_says_whether_its_filter_is_compiled_in_this_build() -> None:
    code = {contender.name: contender.code for contender in CONTENDERS}
    ours = "compiled" if COMPILED else "interpreted"
    assert code["store/bloom"] == code["store/blocked-bloom"] == code["store/ribbon"] == ours
    objects = "partly" if COMPILED else "interpreted"
    assert code["bloom"] == code["blocked"] == code["ribbon"] == objects
    for name in ("store/binary-fuse", "partitioned", "counting-4", "cuckoo", "bloom/leveldb"):
        assert code[name] == "interpreted"
    assert code["rbloom"] == "compiled"


def test_the_rate_in_theory_of_ribbon_filters_in_tables_is_the_mean_of_both_rates() -> None:
    found = count(tasks.Task("store/ribbon", 30, 0.01, 1970, filter_count=300, per_filter=10))
    assert 2**-7 < found.rate < 2**-6
    assert found.rate == pytest.approx(0.01, rel=0.1)


def test_only_times_change_from_run_to_run_and_in_other_processes(made: Results[Row]) -> None:
    first = counted(made)
    assert counted(run("--jobs", "2")) == first
    assert counted(run("--seed", "2")) != first
    times = {c["name"] for c in records.columns(Row)} - first[0].keys()
    assert times == {
        f"{operation}_ns_{what}"
        for operation in ("add", "query_present", "query_absent")
        for what in ("median", "min", "max")
    }


def test_a_denied_key_fails_the_experiment(made: Results[Row]) -> None:
    rows = list(made.rows)
    assert story(rows).failures == []
    rows[0] = replace(rows[0], false_negative_count=1)
    assert story(rows).failures == [f"{rows[0].filter} denied keys that it holds"]


@pytest.mark.parametrize(
    ("name", "right"), [("bloom", True), ("counting-4", True), ("bloom/double-hashing", False)]
)
def test_the_interval_tells_independent_probes_from_double_hashing(name: str, right: bool) -> None:
    found = count(tasks.Task(name, 30, 0.01, 1970, filter_count=700, per_filter=100))
    low, high = (
        clustered_interval(found.hits, found.per_filter).low,
        clustered_interval(found.hits, 100).high,
    )
    assert (low <= found.rate <= high) == right
    assert right or low > found.rate
    assert found.false_negatives == 0


def test_a_missing_peer_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "rbloom", None)
    assert missing() == ["rbloom"]
    results = run()
    assert results.header["missing"] == ["rbloom"]
    assert "rbloom" not in names(results.rows)
    assert "| rbloom | not installed |" in markdown(results.header, results.rows)
    assert ["rbloom", "not installed"] in [
        list(row[:2]) for row in story(results.rows).tables[0].cells
    ]


def test_the_document_shows_the_tables_of_a_block_and_of_ten(
    made: Results[Row], tmp_path: Path
) -> None:
    results = made
    given = experiment.parser_for(EXPERIMENT).parse_args(["--out", str(tmp_path)])
    assert write_markdown(results, given) == [str(tmp_path / "filters.md")]
    assert DOCUMENTED == (30, 300)
    assert "**30 keys, 10 % requested**" in section(results)
    assert "**8 keys" not in section(results)
    assert "**8 keys, 10 % requested**" in (tmp_path / "filters.md").read_text()


def test_charts_have_plain_ticks_and_name_their_lines(made: Results[Row]) -> None:
    assert faults(story(made.rows).charts) == []


def test_the_interval_of_independent_trials_is_clopper_and_pearsons() -> None:
    hits = [1] * 50 + [0] * 4950
    found = clustered_interval(hits, 1)
    exact = stats.binomtest(50, 5000).proportion_ci(method="exact")
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), rel=0.002)


def test_the_interval_covers_the_rate_though_filters_differ() -> None:
    """The rates of filters are exponential around 2 %.

    An interval of independent trials ignores that.
    """
    draw = random.Random(7)
    covered = as_if_independent = 0
    for _ in range(300):
        rates = [min(1.0, draw.expovariate(50)) for _ in range(60)]
        hits = [sum(draw.random() < rate for _ in range(100)) for rate in rates]
        found = clustered_interval(hits, 100)
        covered += found.low <= 0.02 <= found.high
        naive = stats.binomtest(sum(hits), 6000).proportion_ci(method="exact")
        as_if_independent += naive.low <= 0.02 <= naive.high
    assert covered > 0.91 * 300
    assert as_if_independent < 0.86 * 300


@pytest.mark.parametrize("hits", [[0, 0, 0], [4, 4, 4]])
def test_the_interval_of_none_and_of_all(hits: list[int]) -> None:
    found = clustered_interval(hits, 4)
    assert (found.low, found.high) == ((0.0, found.high) if not hits[0] else (found.low, 1.0))
    assert 0.2 < found.high - found.low < 1.0


def test_one_filter_is_not_enough() -> None:
    with pytest.raises(ValueError, match="one filter"):
        clustered_interval([3], 100)


def test_contenders_get_the_same_distinct_keys() -> None:
    assert tasks.keys_of(random.Random("a"), 500) == tasks.keys_of(random.Random("a"), 500)
    assert len(set(tasks.keys_of(random.Random("a"), 500))) == 500


def test_the_experiments_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        bench.main(["--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("demo", "filters", "compaction"))
    with pytest.raises(SystemExit, match="no experiment 'nothing'"):
        bench.main(["nothing"])
