"""The texts of commands and results that other tests run: they fail, and are rewritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from texts import Command, Commands, Section, sections

TEXT = """The head.

== adding
# A comment stays.
add 1 2
----
3

add twice=2
# also in the input
3
4
----
14

== silence

add
"""


def add(command: Command) -> str:
    numbers = [int(word) for word in [*command.words, *command.input] if word.isdigit()]
    total = sum(numbers) * int(command.option("twice") or 1)
    return str(total) if total else ""


COMMANDS: Commands = {"add": add}


def sections_of(path: Path, text: str) -> list[Section]:
    (path / "testdata").mkdir(exist_ok=True)
    (path / "testdata" / "sums.txt").write_text(text, encoding="utf-8")
    return sections(str(path / "test_sums.py"))


def test_a_text_with_today_s_results_stays_as_it_is(tmp_path: Path) -> None:
    found = sections_of(tmp_path, TEXT)
    assert [section.title for section in found] == ["sums: adding", "sums: silence"]
    assert [section.line for section in found] == [3, 16]
    assert [section.rewritten(COMMANDS) for section in found] == [section.text for section in found]


@pytest.mark.parametrize("wrong", ["----\n4", "", "----\n3\n3"])
def test_any_other_result_is_replaced(tmp_path: Path, wrong: str) -> None:
    text = TEXT.replace("----\n3\n", f"{wrong}\n" if wrong else "", 1)
    (right, _), (found, _) = sections_of(tmp_path, TEXT), sections_of(tmp_path, text)
    assert found.text != right.text
    assert found.rewritten(COMMANDS) == right.text
