"""Builds: folders that hold an lsmkv to run, such as this checkout or ``build/compiled``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

CHECKOUT: Final = str(Path(__file__).resolve().parent.parent)


class BuildError(Exception):
    """A folder holds no lsmkv that runs."""


def environment(build: str) -> dict[str, str]:
    """The environment of a process that runs the lsmkv of ``build``."""
    return {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": build}


def nature(build: str) -> str:
    """Which files of lsmkv run from ``build``: ``"compiled"`` or ``"interpreted"``."""
    found = subprocess.run(
        [sys.executable, "-P", "-c", "from lsmkv.filters import bloom; print(bloom.__file__)"],
        env=environment(build),
        capture_output=True,
        text=True,
        check=False,
    )
    path = found.stdout.strip()
    if not path or Path(build).resolve() not in Path(path).resolve().parents:
        raise BuildError(f"no lsmkv to run in {build} {found.stderr}".rstrip())
    return "interpreted" if path.endswith(".py") else "compiled"
