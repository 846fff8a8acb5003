"""Experiment ``figures``: figures that others published, beside this package's.

``python -m bench figures [--into FILE] [--out DIR]`` prints them, puts them into the marked section
of a Markdown file, or writes them to a folder.  Everything is computed again, from the seeds written
here.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ... import COMMAND as HARNESS
from .figure import Figure
from .filters import kinds
from .formulas import formulas
from .outsiders import outsiders
from .sizes import sizes
from .strategies import strategies

BEGIN: Final = "<!-- bench figures -->\n"
END: Final = "<!-- end of figures -->\n"
COMMAND: Final = "python -m bench figures --into docs/filters.md"
MARKDOWN_NAME: Final = "figures.md"
NEIGHBOURS: Final = """\
Neighbours that the documents name, and that are not in scope here:

- HyperLogLog estimates how many different keys a stream has; it cannot tell whether one was there.
- MinHash and SimHash estimate how alike two sets are.
- Classification of DNA asks Bloom filters for the short substrings of a sequence; it is a use of them."""


def figures() -> Iterator[Figure]:
    """Every figure, one after another; some seconds of work."""
    yield from sizes()
    yield from strategies()
    yield from kinds()


def markdown() -> str:
    """Every figure, and the formulas that documents have wrong."""
    parts = [_table("", figures()), "**Formulas and statements that documents have wrong**"]
    return "\n\n".join([*parts, _wrong(), NEIGHBOURS, published()])


def section() -> str:
    """The part that stands in the documentation."""
    return f"Command: `{COMMAND}`.\n\n{_wrong()}\n\n{published()}"


def published() -> str:
    """What others published of filters, trees and caches."""
    lines = [
        "**Published figures, and those of this command**",
        "",
        "| what | published | here | source | more by `python -m bench` |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {what} | {stated} | {here} | {source} | `{command}` |"
        for what, source, stated, here, command in outsiders()
    ]
    return "\n".join(lines)


def _wrong() -> str:
    return _table("for 1,000 keys", formulas())


def _table(heading: str, rows: Iterator[Figure]) -> str:
    lines = [f"| {heading} | stated | here |", "|---|---|---|"]
    lines += [f"| {system} | {stated or '-'} | {found} |" for system, stated, found in rows]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, put them into a file, or into a folder."""
    parser = argparse.ArgumentParser(prog=f"{HARNESS} figures", description=__doc__.split("\n")[0])
    parser.add_argument("--into", type=Path, help=f"a file with {BEGIN.strip()} and {END.strip()}")
    parser.add_argument("--out", type=Path, help="a folder for the tables")
    chosen = parser.parse_args(arguments)
    if chosen.into is not None:
        before, _, rest = chosen.into.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        chosen.into.write_text(f"{before}{BEGIN}\n{section()}\n\n{END}{after}")
    if chosen.out is not None:
        chosen.out.mkdir(parents=True, exist_ok=True)
        (chosen.out / MARKDOWN_NAME).write_text(markdown() + "\n")
    if chosen.into is None and chosen.out is None:
        print(markdown())
