"""Tables of a run as a section of a Markdown document: generated, never typed."""

from __future__ import annotations

from typing import Any

from bench.harness.story import Story, Table
from reports.document import provenance


def markdown(header: dict[str, Any], story: Story) -> str:
    """What came out and the brief tables of a story, below how they were made."""
    parts = [f"Command: `{header['command']}`. {provenance(header)}"]
    parts.append("\n".join(f"- {finding}" for finding in story.findings))
    parts += [_table(table) for table in story.tables if table.brief]
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    headings = [heading.replace("\n", " ") for heading in table.headings]
    lines = [
        f"**{table.title}**",
        "",
        "| " + " | ".join(headings) + " |",
        "|" + "---|" * table.left + "---:|" * (len(headings) - table.left),
    ]
    lines += ["| " + " | ".join(row) + " |" for row in table.cells]
    if table.note:
        lines += ["", table.note]
    return "\n".join(lines)
