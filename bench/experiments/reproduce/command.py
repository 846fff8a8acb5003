"""``python -m bench reproduce``: runs the commands of documents or results again, and tells what agreed.

Each section of the documents that an experiment wrote names its command.  That command runs again, into
a copy of the document, and tables and pictures are compared with the published ones.  Results in a folder
are compared row by row.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rich.console import Console

from ... import COMMAND
from ...harness import document
from ...harness.document import provenance
from ...harness.environment import environment
from ...harness.tables import Table
from .agreement import COUNTED, FACTOR, VERDICTS, Cell, Verdict, compare
from .published import Section, clocks_of, results, sections

DOCUMENTS: Final = Path(__file__).parents[3] / "docs"
_HARNESS: Final = __name__.partition(".")[0]
_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class Outcome:
    """One section, measured again.

    Attributes:
        failure: why there is nothing to compare, or how the command failed; empty if it did not.
        pictures: published pictures, and how many of them came out the same, byte by byte.
    """

    section: Section
    cells: tuple[Cell, ...] = ()
    failure: str = ""
    pictures: tuple[int, int] = (0, 0)
    took_s: float = 0.0

    def count(self, verdict: Verdict) -> int:
        return Counter(cell.verdict for cell in self.cells)[verdict]

    @property
    def agrees(self) -> bool:
        """Whether the command ran, and all counts are the published ones."""
        return not self.failure and not self.count("differs")


def measure_again(section: Section, out: Path, work: str | None) -> Outcome:
    """Run the section's command, with its files below ``out``, and compare."""
    if section.command is None:
        return Outcome(section, failure="not a command of bench: not run")
    folder = out / f"{section.document.stem}-{section.name}"
    copies = folder / "docs"
    shutil.rmtree(copies, ignore_errors=True)
    copies.mkdir(parents=True)
    is_document = section.document.suffix != ".json"
    for picture in section.pictures:
        (copies / picture).parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", _HARNESS, section.name, *section.command, "--out", str(folder)]
    copy = copies / section.document.name
    if is_document:
        command += ["--into", str(shutil.copy(section.document, copies))]
    if work and section.name != "figures":
        command += ["--work", work]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    took_s = time.monotonic() - began
    (folder / "output.txt").write_text(done.stdout + done.stderr)
    described = folder / f"{section.name}.json"
    if is_document:
        made = sections([copy], clocks_of(described))
        (here,) = (found for found in made if found.name == section.name)
    elif described.is_file():
        here = results(described)
    else:
        here = replace(section, tables=())
    failure = ""
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        failure = f"exit status {done.returncode}: {lines[-1] if lines else 'no output'}"
    same = sum(
        (copies / picture).is_file()
        and (copies / picture).read_bytes() == (section.document.parent / picture).read_bytes()
        for picture in section.pictures
    )
    cells = tuple(compare(section, here))
    return Outcome(section, cells, failure, (same, len(section.pictures)), took_s)


def table(outcomes: Sequence[Outcome]) -> Table:
    """What agreed, a line for each section."""
    return Table(
        "Published sections, measured again",
        [
            *("section", "outcome", "cells", "same", "times\nwithin", "times\noutside"),
            *("counts\ndiffer", "pictures\nsame", "minutes"),
        ],
        [
            [
                str(outcome.section),
                outcome.failure or ("counts agree" if outcome.agrees else "counts differ"),
                f"{len(outcome.cells):,}",
                *(f"{outcome.count(kind):,}" for kind in VERDICTS),
                f"{outcome.pictures[0]} of {outcome.pictures[1]}",
                f"{outcome.took_s / 60:.1f}",
            ]
            for outcome in outcomes
        ],
        "counts: the same to the last digit. times within: the spreads of both overlap, or without a "
        f"spread the numbers are within a factor of {FACTOR:g}. Each experiment tells which of its "
        "columns are times; of peers and ycsb all are. Pictures with times in them, or drawn by another "
        "version of matplotlib, cannot be the same.",
        left=2,
    )


def disagreements(outcomes: Sequence[Outcome]) -> list[str]:
    """The cells that differ, and the times outside the tolerance; the first of each section."""
    found = []
    for outcome in outcomes:
        wrong = [cell for cell in outcome.cells if cell.verdict in ("differs", "outside")]
        wrong.sort(key=lambda cell: cell.verdict)  # counts first
        found += [
            f"{outcome.section}: {cell.place}: published {cell.published or 'nothing'}, "
            f"here {cell.here or 'nothing'}"
            for cell in wrong[:_SHOWN]
        ]
        if len(wrong) > _SHOWN:
            found.append(f"{outcome.section}: and {len(wrong) - _SHOWN} more")
    return found


def page(outcomes: Sequence[Outcome], command: str, work: str | None) -> str:
    """The Markdown section: command, machine, table and disagreements."""
    where = {"seed": "of each command", "environment": environment(work or tempfile.gettempdir())}
    parts = [f"Command: `{command}`. {provenance(where)}", table(outcomes).to_markdown()]
    wrong = disagreements(outcomes)
    if wrong:
        parts.append("\n".join(f"- {line}" for line in wrong))
    return "\n\n".join(parts) + "\n"


def parser_of() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{COMMAND} reproduce",
        description="Run the commands of the documents' sections again, and tell what agreed.",
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for the files")
    parser.add_argument(
        "--sections",
        metavar="NAMES",
        help="experiments, by commas, or 'counted': those whose answers are counts; default: all "
        "published",
    )
    parser.add_argument(
        "--documents",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="default: the Markdown files of docs/",
    )
    parser.add_argument(
        "--results",
        metavar="FILE",
        nargs="+",
        type=Path,
        default=[],
        help="NAME.json files that experiments wrote, with NAME.csv beside them, in place of documents",
    )
    parser.add_argument("--work", metavar="DIR", help="where stores are made")
    parser.add_argument(
        "--into", metavar="FILE", help="also replace the section <!-- bench reproduce --> of it"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure again, print what agreed, and write it to ``reproduced.md``."""
    given = parser_of().parse_args(arguments)
    documents = given.documents or ([] if given.results else sorted(DOCUMENTS.glob("*.md")))
    found = [section for section in sections(documents) if section.name != "reproduce"]
    found += map(results, given.results)
    if given.sections is not None:
        names = given.sections.split(",")
        if names == ["counted"]:
            names = [section.name for section in found if section.name in COUNTED]
        unknown = sorted(set(names) - {section.name for section in found})
        if unknown:
            known = ", ".join(dict.fromkeys(section.name for section in found))
            raise SystemExit(f"bench: no section {', '.join(unknown)}: must be of {known}")
        found = [section for section in found if section.name in names]
    if given.into:
        document.around(given.into, "reproduce")  # before hours of work, not after them
    out = Path(given.out)
    out.mkdir(parents=True, exist_ok=True)
    console = Console(
        highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 130
    )
    outcomes = []
    for section in found:
        console.print(f"{section} ...", soft_wrap=True)
        outcomes.append(measure_again(section, out, given.work))
    console.print(table(outcomes).to_rich())
    for line in disagreements(outcomes):
        console.print(f"- {line}", soft_wrap=True)
    only = f" --sections {given.sections}" if given.sections else ""
    text = page(outcomes, f"python -m bench reproduce --out {given.out}{only}", given.work)
    (out / "reproduced.md").write_text(text, encoding="utf-8")
    if given.into:
        document.insert(given.into, "reproduce", text)
    wrong = [
        str(outcome.section)
        for outcome in outcomes
        if outcome.section.command is not None and not outcome.agrees
    ]
    if wrong:
        raise SystemExit(f"bench: not reproduced: {', '.join(wrong)}")
