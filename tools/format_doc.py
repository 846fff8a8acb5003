"""Prints the layouts of the store's files as one page.  ``python -m tools.format_doc``

The docstring of the module that reads and writes a kind of file describes its layout; ``docs/format.md``
lists these modules.  The site has the page.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
DOCUMENT: Final = ROOT / "docs" / "format.md"

_RECORDS: Final = {
    "Tables": [("lsmkv.sstable.format", "TableProperties")],
    "Manifest and CURRENT": [
        ("lsmkv.tree.manifest", "VersionEdit"),
        ("lsmkv.tree.levels", "PlacedTable"),
        ("lsmkv.sstable.format", "TableMeta"),
        ("lsmkv.sstable.format", "TableExpiry"),
    ],
    "Range deletes again": [("lsmkv.tree.erased_file", "ErasedRecord")],
    "Published stores": [
        ("lsmkv.remote.generation", "Generation"),
        ("lsmkv.remote.generation", "PublishedTable"),
    ],
    "Backups": [
        ("lsmkv.copies.record", "Records"),
        ("lsmkv.copies.record", "Record"),
        ("lsmkv.copies.record", "TableRecord"),
        ("lsmkv.copies.record", "LogRecord"),
    ],
}
"""The classes of JSON whose fields a section lists."""


def sections() -> list[tuple[str, str]]:
    """Title and module of each layout, as the document lists them."""
    text = DOCUMENT.read_text(encoding="utf-8")
    return re.findall(r"^\| ([^|]+) \| \[`(lsmkv[\w.]+)`\]", text, re.MULTILINE)


def render() -> str:
    """The page, in Markdown."""
    parts = ["# Layouts, byte by byte\n"]
    for title, name in sections():
        parts.append(f"\n## {title}\n\n`{name}`: {_as_markdown(_docstring_of(name))}\n")
        parts += [_record(*place) for place in _RECORDS.get(title, ())]
    return "".join(parts)


def _record(name: str, record: str) -> str:
    """The fields of a JSON class, with their comments or docstring."""
    source = _source_of(name)
    (found,) = (
        part
        for part in ast.parse(source).body
        if isinstance(part, ast.ClassDef) and part.name == record
    )
    places = [part for part in found.body if isinstance(part, ast.AnnAssign)]
    lines = source.splitlines()
    first = places[0].lineno - 1
    while lines[first - 1].startswith("    #"):
        first -= 1
    fields = [line for line in lines[first : places[-1].end_lineno] if line]
    text, _, attributes = (ast.get_docstring(found) or "").partition("\n\nAttributes:\n")
    items = [
        f"  {line.strip()}" if line.startswith("     ") else f"- {line.strip()}"
        for line in attributes.splitlines()
    ]
    told = [f"`{record}`: {_as_markdown(text)}", "\n".join(fields)]
    if items:
        told.append(_as_markdown("\n".join(items)))
    return "\n" + "\n\n".join(told) + "\n"


def _docstring_of(name: str) -> str:
    """The docstring in a module's source: compiled modules have none."""
    return ast.get_docstring(ast.parse(_source_of(name))) or ""


def _source_of(name: str) -> str:
    path = ROOT / Path(*name.split(".")).with_suffix(".py")
    return path.read_text(encoding="utf-8")


def _as_markdown(docstring: str) -> str:
    """The reStructuredText that docstrings use, as Markdown."""
    text = docstring.strip().replace("``", "`")
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text)
    return re.sub(r"::$", ":", text, flags=re.MULTILINE)


if __name__ == "__main__":
    print(render())
