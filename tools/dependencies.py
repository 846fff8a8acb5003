"""Checks the requirements in ``pyproject.toml``.  ``python -m tools.dependencies``, in ``make lint``

Every requirement has a lower bound, below which nobody has tried it, and a reason on its line.  (Known
vulnerabilities change every day: ``pip-audit`` fetches them.)
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_LISTS = re.compile(r"^(?:requires|dependencies|[a-z-]+) = \[\n(.*?)^\]", re.MULTILINE | re.DOTALL)
_REQUIREMENT = re.compile(r'^\s*"([^"]+)",\s*(#.*)?$')
_TABLES = ("build-system", "project", "project.optional-dependencies", "dependency-groups")


def problems(text: str) -> list[str]:
    """The faults of the requirements in a ``pyproject.toml``."""
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
                    continue  # a classifier, or an item of another list
                seen += 1
                name = re.split(r"[<>=\[; ]", match[1])[0]
                if ">=" not in match[1]:
                    found.append(f"{name} has no lower bound")
                # "the rest is ..." is the reason of every later requirement without one.
                earlier_reason |= "the rest" in (match[2] or "")
                if not match[2] and not earlier_reason:
                    found.append(f"{name} has no reason")
    if not seen:
        found.append("no requirement was found: has the form of the file changed?")
    return found


def main() -> int:
    """Print every fault; 1 if there is one, else 0."""
    found = problems(Path(__file__).parent.parent.joinpath("pyproject.toml").read_text("utf-8"))
    for problem in found:
        print(f"pyproject.toml: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
