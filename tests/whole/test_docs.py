"""The documents: their code runs, and generated parts are up to date."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import pkgutil
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import lsmkv
from gates import WAIT_S
from lsmkv.cli.commands import cli
from tools import format_doc

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
API = (ROOT / "docs" / "api.md").read_text()
FIRST = (ROOT / "docs" / "get-started.md").read_text()
LAYERS = (ROOT / "docs" / "layers.md").read_text()
BEYOND = (ROOT / "docs" / "beyond-one-machine.md").read_text()
OBSERVING = (ROOT / "docs" / "observing.md").read_text()


def python_blocks(text: str = README) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


# Of the last page, what needs neither a bucket nor a cluster; tests/remote and tests/cluster have these.
@pytest.mark.parametrize(
    "code", python_blocks() + python_blocks(LAYERS + OBSERVING) + python_blocks(BEYOND)[:2]
)
def test_python_of_the_readme_and_of_three_pages_runs(code: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert run.returncode == 0, run.stderr
    promised = re.findall(r"# ([\d ]+)$", code, flags=re.MULTILINE)
    assert [line for line in run.stdout.splitlines() if line in promised] == promised


@pytest.mark.parametrize("text", [README, FIRST, OBSERVING], ids=["README", "FIRST", "OBSERVING"])
def test_shell_commands_of_the_readme_and_of_two_pages_run(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys.txt").write_text("nut\nfig\n")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    commands = [
        line.partition(" #")[0]
        for block in blocks
        for line in block.splitlines()
        if line.startswith(("lsmkv ", "printf "))
    ]
    assert len(commands) > 2
    for command in commands:
        if command.startswith("printf"):
            subprocess.run(command, shell=True, check=True, timeout=WAIT_S)
            continue
        run = CliRunner().invoke(cli, command.split()[1:])
        assert run.exit_code == 0, f"{command}: {run.output}"


NO_SIGNATURES = {
    "help()",
    "commit()",  # of a batch
    "lsmkv.open(url, read_only=True)",
    "shelve.Shelf(lsmkv.open(path))",
    "len(db)",
    "bool(db)",
    "dict(db.items())",
}
SIGNATURES = sorted(
    {*re.findall(r"`([\w.]+\([^`]*\))`", API.partition("\n## Options")[0])} - NO_SIGNATURES
)


def parameters(function: Callable[..., object]) -> list[tuple[str, object, object]]:
    """Name, kind and default of each parameter that users may know."""
    found = inspect.signature(function).parameters.values()
    hidden = ("self", "storage", "given")  # storage is for tests; *given: Never is a *
    return [(each.name, each.kind, each.default) for each in found if each.name not in hidden]


@pytest.mark.parametrize("documented", SIGNATURES)
def test_a_signature_in_the_api_is_that_of_the_code(documented: str) -> None:
    name, _, arguments = documented.partition("(")
    names: dict[str, Any] = {"time": time}
    exec(f"def found({arguments}: ...", names)
    is_a_method = not name.startswith("lsmkv.")
    try:
        function = pkgutil.resolve_name(f"lsmkv.DB.{name}" if is_a_method else name)
    except ImportError as error:  # of an extra
        pytest.skip(str(error))
    assert parameters(names["found"]) == parameters(function)


def test_the_api_page_has_every_public_name_and_option() -> None:
    names = [*lsmkv.__all__, *(field.name for field in dataclasses.fields(lsmkv.Options))]
    assert [name for name in names if not re.search(rf"\b{name}s?\b", API)] == []


def test_the_layouts_are_those_of_the_modules_that_the_format_page_lists() -> None:
    page = format_doc.render()
    assert set(format_doc._RECORDS) <= {title for title, _ in format_doc.sections()}
    for title, module in format_doc.sections():
        assert re.search(rf"^## {title}\n\n`{module}`: \w", page, re.MULTILINE)
    assert "`TableProperties`: " in page
    assert "    block_count: int\n" in page


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


def test_the_wasted_reads_of_the_readme_are_those_of_the_measured_page_for_a_thousand_keys() -> (
    None
):
    page = (ROOT / "docs" / "filters.md").read_text()
    measured = page.split("**hex, values of 100 bytes: ", 1)[1].split("**", 2)[1]
    rows = [row.strip("| ").split(" | ") for row in measured.splitlines() if row.startswith("| ")]
    columns = [rows[0].index(f"{bits} bits") for bits in (8, 12, 16)]
    lookups = int(page.split("**hex, values of 100 bytes: ", 1)[1].split()[0].replace(",", ""))

    def per_thousand(count: str) -> str:
        return count if count == "-" else f"{1000 * int(count.replace(',', '')) / lookups:.3g}"

    reads = {row[0]: [row[column] for column in columns] for row in rows}
    table = README.split("| 8 bits | 12 bits | 16 bits |", 1)[1].split("\n\n", 1)[0]
    shown = [row.strip("| ").split(" | ") for row in table.splitlines()[2:]]
    assert len(shown) == 7
    for name, *counts in shown:
        assert counts == [per_thousand(count) for count in reads[name.lower()]], name
