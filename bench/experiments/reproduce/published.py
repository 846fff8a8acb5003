"""What experiments wrote, in documents or in a folder of results: commands, tables and pictures."""

from __future__ import annotations

import csv
import json
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

_BEGIN: Final = re.compile(r"^<!-- bench ([a-z-]+) -->$", re.MULTILINE)
_END: Final = re.compile(r"^<!-- end\b.*-->$", re.MULTILINE)
_COMMAND: Final = re.compile(r"Command:\s+`([^`]+)`")
_PICTURE: Final = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")
_TITLE: Final = re.compile(r"^\*\*(.+)\*\*$")
_RULE: Final = re.compile(r"^\|(?:---:?\|)+$")
_PLACES: Final = ("--out", "--into")
Clocks = Mapping[str, Collection[str]]


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A Markdown table, or a table of results.

    Attributes:
        rows: the cells of words, joined, to those of numbers; of words alone, the first to the rest.
        timed: headings that clocks or the system decide, as far as they are known.
    """

    title: str
    headings: tuple[str, ...]
    rows: dict[str, tuple[str, ...]]
    timed: frozenset[str] = frozenset()


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


def sections(documents: Sequence[Path], clocks: Clocks | None = None) -> list[Section]:
    """The sections of these documents, in their order; ``clocks`` are the timed headings by title."""
    return [section for document in documents for section in _sections(document, clocks or {})]


def clocks_of(described: Path) -> Clocks:
    """The timed headings of each table, as the description beside the results tells."""
    if not described.is_file():
        return {}
    found: dict[str, list[str]] = json.loads(described.read_text(encoding="utf-8"))["timed"]
    return {
        title: [heading.replace("\n", " ") for heading in headings]
        for title, headings in found.items()
    }


def results(described: Path) -> Section:
    """What ``NAME.json`` and ``NAME.csv`` of an experiment hold: settings name a row."""
    told = json.loads(described.read_text(encoding="utf-8"))
    name, kinds = told["experiment"], {each["name"]: each["kind"] for each in told["columns"]}
    headings = tuple(column for column, kind in kinds.items() if kind != "setting")
    rows: dict[str, tuple[str, ...]] = {}
    with described.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = ", ".join(row[column] for column, kind in kinds.items() if kind == "setting")
            rows[_free(rows, key)] = tuple(row[heading] for heading in headings)
    timed = frozenset(column for column, kind in kinds.items() if kind == "time")
    command = shlex.split(told["command"])
    words = _without_places(command[command.index(name) + 1 :])
    return Section(described, name, words, (PublishedTable("", headings, rows, timed),), ())


def _sections(document: Path, clocks: Clocks) -> Iterator[Section]:
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
            tuple(
                replace(table, timed=frozenset(clocks.get(table.title, ())))
                for table in tables(inside)
            ),
            tuple(_PICTURE.findall(inside)),
        )


def _command(text: str, name: str) -> tuple[str, ...] | None:
    found = _COMMAND.search(text)
    if found is None:
        return None
    words = shlex.split(found[1])
    if words[:4] != ["python", "-m", "bench", name]:
        return None
    return _without_places(words[4:])


def _without_places(words: Iterable[str]) -> tuple[str, ...]:
    kept, rest = [], iter(words)
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
