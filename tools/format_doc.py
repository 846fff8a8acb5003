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
| `ERASED` | a second copy of the range deletes in the manifest; replaced by a rename |
| `LOCK` | locked (`flock`) by the process that has the store open for writing: `lsmkv process 17` |
| `BACKUP` | in a backup: what it was made of |
| `UNFINISHED` | in a checkpoint or first backup, until `CURRENT` is there: half-made, no store yet |
| `*.lsmkv-tmp` | a file being written that will be renamed; removed when the store is opened |

Numbers have six digits or more; they are given out in ascending order and never used twice. Files that
the manifest does not name, left by a crash, are removed when the store is opened for writing; other files
are not touched.

Order on disk: a table is synced, and the directory after it, before the manifest's edit that names it;
the edit is synced before the log that it makes superfluous is removed; a log's header is synced, and
the directory after it, before its first record is written.

A new store is made in this order: `LOCK`, the log `000001.log`, the manifest `MANIFEST-000002`,
`CURRENT`. The last three are written and synced before they get these names, so whatever a crash
leaves can be told from the files of other programs (`lsmkv/tree/ownership.py`).

In JSON, objects have the fields listed below; one with a default may be missing. Bytes are base64, tuples
are arrays, and numbers that are keys of an object are strings.
"""

_SECTIONS: Final = (
    ("Tables", "lsmkv.sstable.format"),
    ("Tables from outside", "lsmkv.sstable.table_end"),
    ("Blocks in their place", "lsmkv.sstable.block.trailer"),
    ("Data blocks", "lsmkv.sstable.block.block"),
    ("Transposed payloads", "lsmkv.sstable.block.transposed"),
    ("Index", "lsmkv.sstable.index_layout"),
    ("What filters hold", "lsmkv.filters.keys"),
    ("Bloom filters", "lsmkv.filters.bloom"),
    ("Ribbon filters", "lsmkv.filters.ribbon"),
    ("Grafite filters", "lsmkv.filters.grafite"),
    ("Elias-Fano", "lsmkv.filters.elias_fano"),
    ("Hashing", "lsmkv.filters.hashing"),
    ("Logs", "lsmkv.log.writer"),
    ("Write batches", "lsmkv.log.batch"),
    ("Several logs", "lsmkv.log.chain"),
    ("Manifest and CURRENT", "lsmkv.tree.manifest"),
    ("Range deletes again", "lsmkv.tree.erased_file"),
    ("Expiry", "lsmkv.encoding.expiry"),
    ("Checksums", "lsmkv.encoding.checksums"),
    ("Published stores", "lsmkv.remote.generation"),
    ("Backups", "lsmkv.copies.record"),
)


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


def render() -> str:
    parts = [_INTRODUCTION]
    for title, name in _SECTIONS:
        parts.append(f"\n## {title}\n\n`{name}`: {_as_markdown(_docstring_of(name))}\n")
        parts += [_record(*place) for place in _RECORDS.get(title, ())]
    return "".join(parts)


def _record(name: str, record: str) -> str:
    """The fields of a class that is written as JSON, and what its docstring says of them."""
    body = ast.parse(_source_of(name)).body
    (found,) = (part for part in body if isinstance(part, ast.ClassDef) and part.name == record)
    fields = [f"    {ast.unparse(part)}" for part in found.body if isinstance(part, ast.AnnAssign)]
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
