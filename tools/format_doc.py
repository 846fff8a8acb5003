"""Collects the layouts of the store's files in ``docs/format.md``.  ``python -m tools.format_doc``

The docstring of the module that reads and writes a kind of file describes its layout.  ``--check`` only
says whether the document is up to date.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
DOCUMENT: Final = ROOT / "docs" / "format.md"

_INTRODUCTION: Final = """\
# The files of a store

*Made by `python -m tools.format_doc` from the docstrings of the modules that own the layouts.*

A store is a directory of its own:

| file | what it is |
|---|---|
| `CURRENT` | one line that names the manifest in force; replaced by a rename |
| `MANIFEST-000002` | the log of edits that says which tables make the tree |
| `000001.log` | write-ahead log: what the memtable with the same number holds |
| `000003.sst` | a table (SSTable): sorted entries in blocks, never changed once written |
| `LOCK` | locked by the process that has the store open for writing; one line with its process number |
| `BACKUP` | in a backup: what it was made of |
| `UNFINISHED` | in a checkpoint or first backup, until `CURRENT` is there: half-made, no store yet |
| `*.lsmkv-tmp` | a file being written that will be renamed; removed when the store is opened |

Numbers are given out in ascending order and never used twice. Files that the manifest does not name,
left by a crash, are removed when the store is opened for writing; other files are not touched.

Order on disk: a table is synced, and the directory after it, before the manifest's edit that names it;
the edit is synced before the log that it makes superfluous is removed; a log's header is synced, and
the directory after it, before its first record is written.

A new store is made in this order: `LOCK`, the log `000001.log`, the manifest `MANIFEST-000002`,
`CURRENT`. The last three are written and synced before they get these names, so whatever a crash
leaves can be told from the files of other programs (`lsmkv/tree/ownership.py`).
"""

_SECTIONS: Final = (
    ("Tables", "lsmkv.sstable.format"),
    ("Tables from outside", "lsmkv.sstable.table_end"),
    ("Blocks in their place", "lsmkv.sstable.block.trailer"),
    ("Data blocks", "lsmkv.sstable.block.block"),
    ("Transposed payloads", "lsmkv.sstable.block.transposed"),
    ("Index", "lsmkv.sstable.index"),
    ("Packed index", "lsmkv.sstable.index_codec"),
    ("Filters", "lsmkv.filters.bloom"),
    ("Grafite filters", "lsmkv.filters.grafite"),
    ("Elias-Fano", "lsmkv.filters.elias_fano"),
    ("Hashing", "lsmkv.filters.hashing"),
    ("Logs", "lsmkv.log.writer"),
    ("Write batches", "lsmkv.log.batch"),
    ("Manifest and CURRENT", "lsmkv.tree.manifest"),
    ("Checksums", "lsmkv.encoding.checksums"),
    ("Published stores", "lsmkv.remote.generation"),
    ("Backups", "lsmkv.copies.record"),
)


def render() -> str:
    parts = [_INTRODUCTION]
    for title, name in _SECTIONS:
        parts.append(f"\n## {title}\n\n`{name}`: {_as_markdown(_docstring_of(name))}\n")
    return "".join(parts)


def _docstring_of(name: str) -> str:
    """The docstring in a module's source: compiled modules have none."""
    path = ROOT / Path(*name.split(".")).with_suffix(".py")
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def _as_markdown(docstring: str) -> str:
    """The reStructuredText that docstrings use, as Markdown."""
    text = docstring.strip().replace("``", "`")
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text)
    return re.sub(r"::$", ":", text, flags=re.MULTILINE)


def main() -> int:
    """Write the document, or check it; 1 if it is out of date, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    arguments = parser.parse_args()
    text = render()
    if arguments.check:
        if DOCUMENT.read_text() == text:
            return 0
        print(f"{DOCUMENT.name} is out of date: run python -m tools.format_doc", file=sys.stderr)
        return 1
    DOCUMENT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
