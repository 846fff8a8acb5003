"""The sections of documents that experiments wrote: their commands, tables and pictures."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_BEGIN: Final = re.compile(r"^<!-- bench ([a-z-]+) -->$", re.MULTILINE)
_END: Final = re.compile(r"^<!-- end\b.*-->$", re.MULTILINE)
_COMMAND: Final = re.compile(r"Command:\s+`([^`]+)`")
_PICTURE: Final = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")
_TITLE: Final = re.compile(r"^\*\*(.+)\*\*$")
_RULE: Final = re.compile(r"^\|(?:---:?\|)+$")
_PLACES: Final = ("--out", "--into")


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A Markdown table.

    Attributes:
        rows: the cells of words, joined, to those of numbers; of words alone, the first to the rest.
    """

    title: str
    headings: tuple[str, ...]
    rows: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Section:
    """A section between ``<!-- bench NAME -->`` and ``<!-- end -->``.

    Attributes:
        document: its file.
        command: the words after ``python -m bench NAME`` that made it, without places of files; None
            if it names no such command.
        pictures: paths of files, from the document's folder.
    """

    document: Path
    name: str
    command: tuple[str, ...] | None
    tables: tuple[PublishedTable, ...]
    pictures: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} in {self.document.name}"


def sections(documents: Sequence[Path]) -> list[Section]:
    """The sections of these documents, in their order."""
    return [section for document in documents for section in _sections(document)]


def _sections(document: Path) -> Iterator[Section]:
    text = document.read_text(encoding="utf-8")
    for begin in _BEGIN.finditer(text):
        end = _END.search(text, begin.end())
        if end is None:
            raise ValueError(f"{document}: section {begin[1]} has no end")
        inside = text[begin.end() : end.start()]
        yield Section(
            document,
            begin[1],
            _command(inside, begin[1]),
            tuple(tables(inside)),
            tuple(_PICTURE.findall(inside)),
        )


def _command(text: str, name: str) -> tuple[str, ...] | None:
    found = _COMMAND.search(text)
    if found is None:
        return None
    words = shlex.split(found[1])
    if words[:4] != ["python", "-m", "bench", name]:
        return None
    kept, rest = [], iter(words[4:])
    for word in rest:
        if word in _PLACES:
            next(rest, None)
        else:
            kept.append(word)
    return tuple(kept)


def tables(text: str) -> Iterator[PublishedTable]:
    """The Markdown tables of a text, each with the bold line before it as its title.

    Columns to the left are words as far as the rule has no colon, as ``Table.to_markdown`` writes it.

    >>> [table] = tables("**Times**\\n\\n| phase | us |\\n|---|---:|\\n| open | 1.5 |\\n")
    >>> table.title, table.headings, table.rows
    ('Times', ('us',), {'open': ('1.5',)})
    """
    title, lines = "", text.splitlines()
    for number, line in enumerate(lines):
        named = _TITLE.match(line)
        if named:
            title = named[1]
        if not _RULE.match(line) or not number:
            continue
        words = line.replace(":", "").count("|---") - line.count("---:")
        headings = _cells(lines[number - 1])
        if words == len(headings):  # no numbers: the first column names the row
            words = 1
        rows: dict[str, tuple[str, ...]] = {}
        for row in lines[number + 1 :]:
            if not row.startswith("|"):
                break
            cells = _cells(row)
            rows[_free(rows, ", ".join(cells[:words]))] = tuple(cells[words:])
        yield PublishedTable(title, tuple(headings[words:]), rows)


def _free(rows: dict[str, tuple[str, ...]], key: str) -> str:
    """The key, numbered where an earlier row has it."""
    found, number = key, 1
    while found in rows:
        number += 1
        found = f"{key} ({number})"
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
