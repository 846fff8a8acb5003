"""The document on filters: its code runs, and its table is right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from filter_kinds import own_registry
from lsmkv import filters

DOCUMENT = (Path(__file__).parents[2] / "docs" / "filters.md").read_text(encoding="utf-8")

METHODS = {
    "Insert": {"add"},
    "Membership": {"may_contain"},
    "Delete": {"remove"},
    "CountEstimate": {"count_of"},
    "KeyCount": {"key_count"},
    "Union": {"union"},
    "Fold": {"fold"},
    "Save": {"to_bytes", "from_bytes"},
}


def abilities_table() -> dict[str, dict[str, bool]]:
    lines = DOCUMENT[DOCUMENT.index("| filter |") :].partition("\n\n")[0].splitlines()
    rows = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]
    abilities = rows[0][1:]
    return {
        row[0]: dict(zip(abilities, [cell == "yes" for cell in row[1:]], strict=True))
        for row in rows[2:]
    }


TABLE = abilities_table()


@pytest.mark.parametrize("name", TABLE)
def test_a_filter_has_the_methods_of_its_abilities_and_no_others(name: str) -> None:
    kind = getattr(filters, name)
    assert TABLE[name] == {
        ability: all(hasattr(kind, method) for method in methods)
        for ability, methods in METHODS.items()
    }
    for ability, methods in METHODS.items():
        if not TABLE[name][ability]:
            assert not any(hasattr(kind, method) for method in methods)


def test_every_filter_is_in_the_table() -> None:
    names = {name for name in dir(filters) if name.endswith(("Filter", "FalsePositives"))}
    assert names == TABLE.keys()


@pytest.mark.parametrize("code", re.findall(r"^```python\n(.*?)^```", DOCUMENT, flags=re.M | re.S))
def test_python_of_the_document_runs(code: str) -> None:
    with own_registry():
        exec(compile(code, "docs/filters.md", "exec"), {"__name__": "docs"})


def test_policies_are_in_their_table() -> None:
    for scheme, name in re.findall(r"^\| (\d) \| `([a-z-]+)`", DOCUMENT, flags=re.M):
        assert filters.policy_for(int(scheme)).name == name
