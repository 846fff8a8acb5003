"""Tables of a run as a section of a Markdown document: generated, never typed."""

from __future__ import annotations

from typing import Any, Final

from bench.harness.story import Story, Table

END: Final = "<!-- end -->\n"


def insert(path: str, name: str, text: str) -> None:
    """Replace the section of a document between ``<!-- bench NAME -->`` and ``<!-- end -->``.

    Raises:
        ValueError: the document has no such section.
    """
    before, after = around(path, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}\n{text}\n{after}")


def around(path: str, name: str) -> tuple[str, str]:
    """What stands before and after a section, its marks included.

    Raises:
        ValueError: the document has no such section.
    """
    mark = f"<!-- bench {name} -->\n"
    with open(path, encoding="utf-8") as file:
        before, begin, rest = file.read().partition(mark)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path}: no section from {mark.strip()} to {END.strip()}")
    return before + begin, end + after


def markdown(header: dict[str, Any], story: Story) -> str:
    """What came out and the brief tables of a story, below how they were made."""
    parts = [f"Command: `{header['command']}`. {provenance(header)}"]
    parts.append("\n".join(f"- {finding}" for finding in story.findings))
    parts += [_table(table) for table in story.tables if table.brief]
    return "\n\n".join(parts) + "\n"


def provenance(header: dict[str, Any]) -> str:
    """Seed, machine and versions, in a sentence."""
    where = header["environment"]
    versions = [
        f"{name} {version}"
        for name, version in where["versions"].items()
        if version != "not installed"
    ]
    machine = f"{where['processor']}, {where['cpu_count']} CPUs, {where['file_system']}"
    described = [f"Seed {header['seed']}", machine, f"{where['python']}, {where['lsmkv_build']}"]
    return "; ".join([*described, ", ".join(versions)]) + "."


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
