"""The documents tell the truth: their code runs, and what is generated is up to date."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import format_doc

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def python_blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", python_blocks())
def test_python_of_the_readme_runs(code: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    promised = re.findall(r"# ([\d ]+)$", code, flags=re.MULTILINE)
    assert [line for line in run.stdout.splitlines() if line in promised] == promised


def test_first_code_of_the_readme_shows_a_look_up_that_reads_nothing(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", python_blocks()[0]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.startswith("None [(b'cherry', b'dark red')]\n")
    assert "read: 0 " in run.stdout


def test_shell_commands_of_the_readme_run(tmp_path: Path) -> None:
    (tmp_path / "goods.csv").write_text("key,value\nnut,brown\n")
    blocks = re.findall(r"^```sh\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
    commands = [
        line.partition(" #")[0].split()
        for block in blocks
        for line in block.splitlines()
        if line.startswith("lsmkv ")
    ]
    assert len(commands) > 5
    for command in commands:
        run = subprocess.run(
            [sys.executable, "-m", "lsmkv", *command[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, f"{command}: {run.stderr}"


def test_commands_of_the_readme_are_made_by_the_makefile() -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    for target in re.findall(r"^make (\w+)", README, flags=re.MULTILINE):
        subprocess.run([make, "-n", target], cwd=ROOT, check=True, capture_output=True)


def test_format_document_is_up_to_date() -> None:
    assert format_doc.DOCUMENT.read_text() == format_doc.render()
