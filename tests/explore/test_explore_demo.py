"""The demonstration, the benchmark and the command of the page, end to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

import lsmkv
from bench import explore as demo
from browsers import needs_browser
from explored_stores import make_store, page_in
from gates import WAIT_S
from lsmkv.cli.commands import cli
from time_limits import started


def test_the_command_writes_a_page(tmp_path: Path) -> None:
    make_store(tmp_path / "db", 60)
    out = tmp_path / "page.html"
    done = CliRunner().invoke(cli, ["explore", str(tmp_path / "db"), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"{out}: ")
    assert page_in(out.read_text("utf-8")).source.name == "db"


def test_a_reader_that_leaves_early_ends_the_command_also_without_buffers(tmp_path: Path) -> None:
    make_store(tmp_path / "db", 60)
    line = [sys.executable, "-u", "-m", "lsmkv", "explore", str(tmp_path / "db"), "--out", "-"]
    with started(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.read(100)
        running.stdout.close()
        assert (running.wait(WAIT_S), running.stderr.read()) == (141, b"")


def test_the_command_sets_options_of_its_lookups(tmp_path: Path) -> None:
    make_store(tmp_path / "db", 60)
    command = ["explore", str(tmp_path / "db"), "--out", "-", "--set", "filter_residency=off"]
    done = CliRunner().invoke(cli, command)
    asked = [run.filter for one in page_in(done.output).lookups for run in one.runs if run.filter]
    assert {filter.verdict for filter in asked} == {"off"}


def test_the_command_replays_the_lookups_of_a_file(tmp_path: Path) -> None:
    make_store(tmp_path / "db", error_rate=0.3, filter_policy="bloom")
    keys = [b"key%07d" % number for number in range(0, 12_000, 17)]
    (tmp_path / "keys.txt").write_bytes(b"\n".join(keys))
    command = ["explore", str(tmp_path / "db"), "--lookups", str(tmp_path / "keys.txt")]
    made = page_in(CliRunner().invoke(cli, [*command, "--out", "-"]).output)
    kinds = [one.kind for one in made.lookups]
    assert {*kinds[:200]} == {"present", "absent"} and kinds[200:] == ["false positive"] * 25
    assert [one.key.text.encode() for one in made.lookups[:200]] == keys[:200]
    wasted: dict[tuple[int | None, int], int] = {}
    with lsmkv.open(tmp_path / "db", read_only=True, block_cache_size_bytes=0) as db:
        for key in keys:
            for run in db.explain(key).runs:
                if run.outcome == "absent":
                    for block in run.blocks:
                        wasted[run.table, block.number] = (
                            wasted.get((run.table, block.number), 0) + 1
                        )
    tables = [t for level in made.map.levels for run in level.runs for t in run.tables]
    assert made.map.blocks_per_cell == 1
    cells = {(t.number, at): n for t in tables for at, n in enumerate(t.cells.wasted) if n}
    assert cells == wasted and len(cells) > 20


def test_lookups_of_a_file_are_for_a_page_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_bytes(b"key\n")
    command = ["explore", str(tmp_path), "--lookups", str(tmp_path / "keys.txt"), "--serve"]
    assert "leave --serve out" in CliRunner().invoke(cli, command).output
    (tmp_path / "keys.txt").write_bytes(b"a\\q\n")
    refused = CliRunner().invoke(cli, [*command[:-1], "--out", str(tmp_path / "page.html")])
    assert "keys.txt: line 1: the backslash at byte 2" in str(refused.output)
    assert not (tmp_path / "page.html").exists()


def test_a_damaged_store_is_one_line_and_leaves_the_old_page(tmp_path: Path) -> None:
    make_store(tmp_path / "db", 60)
    for table in (tmp_path / "db").glob("*.sst"):
        table.write_bytes(table.read_bytes()[:-10])
    (tmp_path / "x.html").write_text("old")
    done = CliRunner().invoke(
        cli, ["explore", str(tmp_path / "db"), "--out", str(tmp_path / "x.html")]
    )
    assert done.exit_code == 1 and ".sst" in done.output and "Traceback" not in done.output
    assert (tmp_path / "x.html").read_text() == "old"


def test_without_the_server_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_store(tmp_path / "db", 100)
    monkeypatch.setitem(sys.modules, "lsmkv.explore.server", None)
    done = CliRunner().invoke(cli, ["explore", str(tmp_path / "db"), "--serve"])
    assert done.exit_code == 1 and 'pip install "lsmkv[explore]"' in done.output


@pytest.mark.slow
def test_the_demonstration_makes_levels_and_a_page(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    demo.main(["--seconds", "0", "--files", "6000", "--out", str(out)])
    page = page_in(out.read_text("utf-8"))
    assert page.map.entry_count == 6000
    kinds = {step.kind for step in page.history.steps}
    assert {"flush", "compaction"} <= kinds


@pytest.mark.slow
def test_the_demonstration_serves_the_store_while_it_grows(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.explore", "--no-open", "--seconds", "2"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with started(
        [*command, "--files", "2000"], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        address = process.stdout.readline().strip()
        with urllib.request.urlopen(address + "events", timeout=60) as events:
            for line in events:
                if line.startswith(b"data: ") and b'"table_count":0,' not in line:
                    break
        process.send_signal(signal.SIGINT)
        process.wait(30)
    assert list(tmp_path.iterdir()) == []


@needs_browser
@pytest.mark.slow
def test_the_pictures_are_taken(tmp_path: Path) -> None:
    from tools.screenshots import PICTURES, take

    make_store(tmp_path / "db", 60)
    out = tmp_path / "page.html"
    CliRunner().invoke(cli, ["explore", str(tmp_path / "db"), "--out", str(out)])
    take(out.as_uri(), tmp_path)
    for name in PICTURES:
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
