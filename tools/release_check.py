"""Tells what keeps this commit from being released.  ``python -m tools.release_check``"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tools.builds import CHECKOUT


def faults(root: Path, tag: str | None) -> list[str]:
    """What is wrong with the versions, dates and tag of a checkout."""
    version = str(tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"])
    named = {
        "lsmkv/__init__.py": rf'^__version__ = "{re.escape(version)}"$',
        "CITATION.cff": rf"^version: {re.escape(version)}$",
        "CHANGELOG.md": rf"^## {re.escape(version)}, \d{{4}}-\d\d-\d\d$",
    }
    found = [
        f"{name}: has no line {pattern!r}"
        for name, pattern in named.items()
        if not re.search(pattern, (root / name).read_text("utf-8"), re.MULTILINE)
    ]
    if tag not in (None, f"v{version}"):
        found.append(f"tag {tag}: pyproject.toml has version {version}, so it must be v{version}")
    return found


def uncommitted(root: Path) -> list[str]:
    """The files that differ from the commit."""
    command = ["git", "status", "--porcelain"]
    told = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return [f"{line[3:]}: not committed" for line in told.splitlines()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is wrong; 1 if anything is, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tag", help="the tag that is to be released")
    tag = parser.parse_args(arguments).tag
    found = faults(Path(CHECKOUT), tag) + uncommitted(Path(CHECKOUT))
    print("\n".join(found) or "versions, dates and commit agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
