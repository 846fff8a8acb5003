"""The documents: their code runs, and generated parts are up to date."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from lsmkv.cli import cli
from tools import format_doc

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
LAYERS = (ROOT / "docs" / "layers.md").read_text()
OBSERVING = (ROOT / "docs" / "observing.md").read_text()


def python_blocks(text: str = README) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("code", python_blocks() + python_blocks(LAYERS + OBSERVING))
def test_python_of_the_readme_and_of_two_pages_runs(code: str, tmp_path: Path) -> None:
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
    assert run.stdout.startswith("None\nb'cherry' b'dark red'\n")
    assert "read: 0 " in run.stdout


def test_shell_commands_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
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
        run = CliRunner().invoke(cli, command[1:])
        assert run.exit_code == 0, f"{command}: {run.output}"


def test_commands_of_the_readme_are_made_by_the_makefile() -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    for target in re.findall(r"^make (\w+)", README, flags=re.MULTILINE):
        subprocess.run([make, "-n", target], cwd=ROOT, check=True, capture_output=True)


def test_format_document_is_up_to_date() -> None:
    assert format_doc.DOCUMENT.read_text() == format_doc.render()


DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md")], key=str)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_a_document_names_exist(document: Path) -> None:
    """A path counts from the checkout or from the package."""
    text = document.read_text()
    named = set(re.findall(r"`([a-z_]+/[a-z_/0-9]*\.(?:py|json))`", text))
    assert [
        name
        for name in sorted(named)
        if not any((ROOT / top / name).exists() for top in (".", "lsmkv"))
    ] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_that_a_document_links_to_exist(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_first_sentence_of_a_docstring_has_at_most_a_dozen_words() -> None:
    long = []
    for path in sorted((ROOT / "lsmkv").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                first = re.split(r"(?<=[.:;])\s", ast.get_docstring(node) or "")[0]
                if len(first.split()) > 12:
                    long.append(f"{path.relative_to(ROOT)}: {first}")
    assert long == []


def functions_in(path: Path) -> set[str]:
    """The functions of a module, methods with their class."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            found.update(f"{node.name}.{method.name}" for method in methods)
    return found


def test_functions_that_how_it_works_names_are_in_the_files_that_it_names() -> None:
    text = (ROOT / "docs" / "how-it-works.md").read_text()
    rows = re.findall(r"\| `([a-z_/0-9]+\.py)` \| `([\w.]+)` \|", text)
    rows += [
        (file, name) for name, file in re.findall(r"`([\w.]+)`\sin\s`([a-z_/0-9]+\.py)`", text)
    ]
    assert len(rows) > 30
    missing = [
        f"{file}: {name}" for file, name in rows if name not in functions_in(ROOT / "lsmkv" / file)
    ]
    assert missing == []


def test_the_wasted_reads_of_the_readme_are_those_of_the_measured_page() -> None:
    page = (ROOT / "docs" / "filters.md").read_text()
    measured = page.split("**10 bits per key: 999,995 lookups", 1)[1].split("filter bytes: as", 1)[
        0
    ]
    table = README.split("| wasted reads |", 1)[1].split("\n\n", 1)[0]
    shown = re.findall(r"^\| (\w+)(?:, (\w+))?.* \| ([\d.]+) \| ([\d,]+) \|$", table, re.MULTILINE)
    assert len(shown) == 6
    for store, kind, bits, reads in shown:
        name = f"{store.lower()}, {kind.lower()}" if kind else "lower bound"
        row = re.search(rf"^\| {name} \| [\d,]+ \| ([\d.]+) \| ([\d,]+) ", measured, re.MULTILINE)
        assert row is not None, name
        assert (bits, reads) == row.groups()
