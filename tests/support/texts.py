"""Texts of commands with their results, which a person can read and check.

A text file has a head, which explains its commands, and *sections*, each a test of its own::

    == a title
    # A comment, here or between the lines of a command's input.
    command word name=value
    input, up to an empty line or to the dashes
    ----
    the result, up to an empty line

A section's commands share their state.  A command without dashes has no result.  ``pytest --rewrite``
writes every result anew, from today's code; read the difference before you commit it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

_DASHES: Final = "----"
_SECTION: Final = re.compile(r"^(?=== )", re.MULTILINE)


@dataclass(frozen=True)
class Command:
    name: str
    words: list[str]
    input: list[str]

    def option(self, name: str) -> str | None:
        """The value of the word ``name=value``; None without one."""
        return next(
            (word[len(name) + 1 :] for word in self.words if word.startswith(f"{name}=")), None
        )


Commands = Mapping[str, Callable[[Command], str]]
CheckText = Callable[["Section", Commands], None]


@dataclass(frozen=True)
class Section:
    path: Path
    line: int
    text: str

    @property
    def title(self) -> str:
        return f"{self.path.stem}: {self.text.partition(chr(10))[0].removeprefix('== ')}"

    def rewritten(self, commands: Commands) -> str:
        """The section with the results that ``commands`` give now."""
        return "\n\n".join(_rewritten(block, commands) for block in self.text.split("\n\n"))


def sections(test_file: str, pattern: str = "*.txt") -> list[Section]:
    """The sections of the texts in ``testdata`` beside a test file."""
    found: list[Section] = []
    for path in sorted((Path(test_file).parent / "testdata").glob(pattern)):
        line = 1
        for part in _SECTION.split(path.read_text(encoding="utf-8")):
            if part.startswith("== "):
                found.append(Section(path, line, part.strip("\n")))
            line += part.count("\n")
    titles = [section.title for section in found]
    assert found and len(set(titles)) == len(titles), f"{pattern}: no text, or a title stands twice"
    return found


def title(section: Section) -> str:
    """The name of a section's test."""
    return section.title


def _rewritten(block: str, commands: Commands) -> str:
    asked = block.partition(f"\n{_DASHES}\n")[0]
    lines = [line for line in asked.split("\n") if not line.startswith(("#", "== "))]
    if not lines:
        return block
    name, *words = lines[0].split()
    assert name in commands, f"{name!r} is none of the commands {', '.join(commands)}"
    try:
        result = commands[name](Command(name, words, lines[1:]))
    except Exception as error:
        error.add_note(f"in the command\n{asked}")
        raise
    return f"{asked}\n{_DASHES}\n{result}" if result else asked


@pytest.fixture
def check_text(request: pytest.FixtureRequest) -> CheckText:
    """Fails unless a section's results are those of today; with ``--rewrite`` it rewrites them."""

    def check(section: Section, commands: Commands) -> None:
        found = section.rewritten(commands)
        if found == section.text:
            return
        if request.config.getoption("--rewrite"):
            assert not hasattr(request.config, "workerinput"), "--rewrite is for one process"
            whole = section.path.read_text(encoding="utf-8")
            section.path.write_text(whole.replace(section.text, found, 1), encoding="utf-8")
            return
        difference = difflib.ndiff(section.text.split("\n"), found.split("\n"))
        lines = [line for line in difference if not line.startswith("?")]
        where = f"{section.path}:{section.line} (-: expected, +: found)"
        pytest.fail("\n".join([where, *lines]), pytrace=False)

    return check
