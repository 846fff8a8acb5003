"""Checks what the package depends on: ``python -m tools.dependencies``, a part of ``make lint``.

Every requirement in ``pyproject.toml`` has a lower bound, below which nobody has tried it, and a reason
on its line.  (Known vulnerabilities are a matter of data that change every day and have to be fetched:
``pip-audit`` looks them up, where there is a network.)
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_LISTS = re.compile(r"^(?:requires|dependencies|[a-z]+) = \[\n(.*?)^\]", re.MULTILINE | re.DOTALL)
_REQUIREMENT = re.compile(r'^\s*"([^"]+)",\s*(#.*)?$')
_TABLES = ("build-system", "project", "project.optional-dependencies")


def problems(text: str) -> list[str]:
    """What is wrong with the requirements of a ``pyproject.toml``."""
    found: list[str] = []
    seen = 0
    for table in re.split(r"^(?=\[)", text, flags=re.MULTILINE):
        if table.partition("]")[0].strip("[") not in _TABLES:
            continue
        for requirements in _LISTS.findall(table):
            earlier_reason = False
            for line in requirements.splitlines():
                match = _REQUIREMENT.match(line)
                if match is None or "::" in match[1] or match[1].startswith("lsmkv["):
                    continue  # no requirement: a classifier, or other lists of this file
                seen += 1
                name = re.split(r"[<>=\[; ]", match[1])[0]
                if ">=" not in match[1]:
                    found.append(f"{name} has no lower bound")
                # "the rest is ..." is the reason of what follows without one of its own.
                earlier_reason |= "the rest" in (match[2] or "")
                if not match[2] and not earlier_reason:
                    found.append(f"{name} has no reason")
    if not seen:
        found.append("no requirement was found: has the file another form?")
    return found


def main() -> int:
    """Print what is wrong; the exit code tells whether anything is."""
    found = problems(Path(__file__).parent.parent.joinpath("pyproject.toml").read_text("utf-8"))
    for problem in found:
        print(f"pyproject.toml: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
