"""Generated sections of Markdown documents."""

from __future__ import annotations

from typing import Any, Final

END: Final = "<!-- end -->\n"


def insert(path: str, name: str, text: str) -> None:
    """Replace the section of a document between ``<!-- bench NAME -->`` and ``<!-- end -->``."""
    before, after = around(path, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}\n{text}\n{after}")


def around(path: str, name: str) -> tuple[str, str]:
    """The document before and after a section, with its marks; ValueError if there is none."""
    mark = f"<!-- bench {name} -->\n"
    with open(path, encoding="utf-8") as file:
        before, begin, rest = file.read().partition(mark)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path}: no section from {mark.strip()} to {END.strip()}")
    return before + begin, end + after


def provenance(header: dict[str, Any]) -> str:
    """One sentence with seed, machine and versions."""
    where = header["environment"]
    versions = [
        f"{name} {version}"
        for name, version in where["versions"].items()
        if version != "not installed"
    ]
    machine = f"{where['processor']}, {where['cpu_count']} CPUs"
    device = f"{where['file_system']} on {where['device']}, virtual: {where['device_virtual']}"
    described = [
        f"Seed {header['seed']}",
        machine,
        device,
        f"{where['python']}, {where['lsmkv_build']}",
    ]
    return "; ".join([*described, ", ".join(versions)]) + "."
