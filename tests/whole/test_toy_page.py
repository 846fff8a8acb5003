"""What the page on how it works shows of the toy, and asks to break in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import toy
import toy_bytes
import toy_table
from gates import WAIT_S
from lsmkv.filters import ribbon

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGE = (ROOT / "docs" / "how-it-works.md").read_text()
BREAKS = re.findall(r"```diff\n(.*?)```\n\n`(\w+)`", PAGE, flags=re.DOTALL)
BREAKS += re.findall(r"()`(\w+)` sees `Log.sync` without it", PAGE)


def test_the_command_of_the_page_makes_an_environment_with_pytest_and_no_more() -> None:
    (target,) = re.findall(r"`make (\.venv[^`]+)`", PAGE)
    command = ["make", "--dry-run", "--always-make", target]
    outside = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    made = subprocess.run(
        command, cwd=ROOT, env=outside, capture_output=True, text=True, timeout=WAIT_S
    )
    ran = [line for line in made.stdout.splitlines() if not line.startswith(("echo", "touch"))]
    assert all(re.search(r" -m (venv|pip install)|^test -n", line) for line in ran), ran
    assert ran[-1].endswith("'.[dev]'")


def test_the_page_shows_what_its_commands_print(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```console\n(.*?)```", PAGE, flags=re.DOTALL)
    printed = ""
    for line in re.findall(r"\$ (.+)", shown):
        script, *words = line.removeprefix(".venv/bin/python ").split()
        command = [sys.executable, str(ROOT / script), *words]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_S, check=True
        )
        printed += f"$ {line}\n{done.stdout}"
    assert printed == shown


def test_the_page_shows_the_table_that_its_command_prints() -> None:
    command = [sys.executable, str(EXAMPLES / "toy_table.py")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
    assert run.stderr == ""
    assert f"```text\n{run.stdout}```\n" in PAGE


def test_a_ribbon_filter_of_as_many_bytes_is_as_good_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build_filter(keys: list[bytes]) -> bytes:
        hashes, size = list(map(toy_bytes.hash_of, keys)), len(build_bloom(keys))
        built = {columns: ribbon.build(hashes, columns) for columns in range(1, 12)}
        columns = max(columns for columns, bits in built.items() if len(bits) <= size)
        monkeypatch.setattr(toy, "PROBES", columns)
        return built[columns]

    def may_contain(bits: bytes, columns: int, key: bytes) -> bool:
        return ribbon.may_contain(bits, 0, len(bits), columns, toy_bytes.hash_of(key))

    build_bloom = toy.build_filter
    monkeypatch.setattr(toy, "build_filter", build_filter)
    monkeypatch.setattr(toy, "may_contain", may_contain)
    reads, _, lost = toy_table.measured(tmp_path / "db", toy_table.RUNS)
    assert lost == 0
    assert f"gets\nto {reads};" in PAGE


@pytest.mark.slow
@pytest.mark.parametrize(("change", "test"), BREAKS, ids=range(1, 1 + len(BREAKS)))
def test_each_break_of_the_page_turns_its_test_red(change: str, test: str, tmp_path: Path) -> None:
    old, new = (
        "".join(line[1:] for line in change.splitlines(keepends=True) if line[0] == sign)
        for sign in "-+"
    )
    for source in EXAMPLES.glob("toy*.py"):
        shutil.copy(source, tmp_path)
    old = old or "        os.fsync(self.file.fileno())\n"
    text = (tmp_path / "toy.py").read_text()
    assert text.count(old) == 1
    (tmp_path / "toy.py").write_text(text.replace(old, new))
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-k", test]
    command += map(str, (ROOT / "tests" / "whole").glob("test_toy*.py"))
    command += ["-o", f"pythonpath=tests/support {tmp_path}"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S)
    assert re.search(rf"FAILED tests/whole/test_toy\w*.py::{test}", run.stdout)
