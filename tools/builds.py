"""Builds: folders that hold an lsmkv to run, such as this checkout or ``build/compiled``.

And what builds are made of: the checkout's files, and the versions of Python on this machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

CHECKOUT: Final = str(Path(__file__).resolve().parent.parent)
VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
"""The versions of Python that builds are tried with, as far as they are installed."""


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


def files_of_checkout() -> list[str]:
    """The checkout's files that git has, or would have."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = filter(None, listed.stdout.split("\0"))
    return sorted(name for name in names if Path(CHECKOUT, name).is_file())


def copy_checkout(target: Path) -> None:
    """Copy those files."""
    for name in files_of_checkout():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(Path(CHECKOUT, name), target / name)


def interpreter(version: str) -> str | None:
    """A Python of that version which makes environments: on the PATH, or of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    found = [shutil.which(f"python{version}"), *pyenv.glob(f"{version}.*/bin/python{version}")]
    for path in map(str, filter(None, found)):
        # A launcher may name a version that is not installed.
        tried = subprocess.run([path, "-c", "import ensurepip"], capture_output=True, check=False)
        if tried.returncode == 0:
            return path
    return None
