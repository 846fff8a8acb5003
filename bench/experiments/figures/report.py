"""Experiment ``figures``: figures from documents on Bloom filters, beside this package's.

``python -m bench figures [--into FILE] [--out DIR]`` prints them, puts those that are wrong into the
marked section of a Markdown file, or writes all with charts.  Everything is computed again, from the
seeds written here.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.experiments.figures.figure import Figure
from bench.experiments.figures.filters import kinds
from bench.experiments.figures.formulas import formulas
from bench.experiments.figures.sizes import sizes
from bench.experiments.figures.store import rows_and_columns
from bench.experiments.figures.strategies import strategies

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
    yield from rows_and_columns()


def markdown() -> str:
    """Every figure, and the formulas that documents have wrong."""
    parts = [_table("", figures()), "**Formulas and statements that documents have wrong**"]
    return "\n\n".join([*parts, _wrong(), NEIGHBOURS])


def section() -> str:
    """The part that stands in the documentation."""
    return f"Command: `{COMMAND}`.\n\n{_wrong()}"


def _wrong() -> str:
    return _table("for 1,000 keys", formulas())


def _table(heading: str, rows: Iterator[Figure]) -> str:
    lines = [f"| {heading} | stated | here |", "|---|---|---|"]
    lines += [f"| {system} | {stated or '-'} | {found} |" for system, stated, found in rows]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, put them into a file, or write them with the charts."""
    parser = argparse.ArgumentParser(prog="bench figures", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--into", type=Path, help=f"a file with lines {BEGIN.strip()} and {END.strip()}"
    )
    parser.add_argument(
        "--out", type=Path, help="a folder for the tables, and the charts as PNG and SVG"
    )
    chosen = parser.parse_args(arguments)
    if chosen.into is not None:
        before, _, rest = chosen.into.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        chosen.into.write_text(f"{before}{BEGIN}\n{section()}\n\n{END}{after}")
    if chosen.out is not None:
        _write(chosen.out, markdown())
    if chosen.into is None and chosen.out is None:
        print(markdown())


def _write(folder: Path, tables: str) -> None:
    """The tables and the charts; exits with 1 if a measured point is not where the theory has it."""
    # Here: the tables alone need no matplotlib.
    from bench.experiments.figures.charts import charts
    from bench.experiments.figures.curves import misses
    from bench.harness import charts as drawn

    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKDOWN_NAME).write_text(tables + "\n")
    written = [str(folder / MARKDOWN_NAME)]
    for chart in charts():
        written += drawn.save(chart, str(folder))
    print("Written:", *written, sep="\n  ")
    if wrong := misses():
        raise SystemExit("bench: " + "; ".join(wrong))
