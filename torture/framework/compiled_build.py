"""Runs modules of this folder on the compiled build, in another process.

That is the build of the same sources in the folder that the variable ``LSMKV_COMPILED`` names, or in
``build/compiled`` (``make build/compiled`` makes it).  The process imports ``lsmkv`` from there and the
rest from here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import lsmkv

VARIABLE: Final = "LSMKV_COMPILED"
_ROOT: Final = Path(__file__).parents[2]
_DEFAULT: Final = _ROOT / "build" / "compiled"


def compiled_tree() -> tuple[Path | None, str]:
    """The compiled build of these sources; or None, and the reason why there is none."""
    here = Path(lsmkv.__file__).parent
    if _extensions(here):
        return None, "compiled build: it is what runs here already"
    given = os.environ.get(VARIABLE)
    tree = Path(given) if given else _DEFAULT
    where = f"the folder of {VARIABLE}" if given else str(_DEFAULT.relative_to(_ROOT))
    if not _extensions(tree / "lsmkv"):
        return None, f"compiled build: none in {where} (make build/compiled, or set {VARIABLE})"
    for name in sorted(_sources(here) | _sources(tree / "lsmkv")):
        one, other = here / name, tree / "lsmkv" / name
        if not (one.exists() and other.exists() and one.read_bytes() == other.read_bytes()):
            return None, f"compiled build: {where} was made from another lsmkv/{name}"
    return tree, ""


def _extensions(package: Path) -> list[Path]:
    return list(package.glob("**/*.so"))


def _sources(package: Path) -> set[str]:
    return {str(path.relative_to(package)) for path in package.glob("**/*.py")}


def mixed_tree(tree: Path, folder: Path) -> Path:
    """A folder with ``lsmkv`` of ``tree`` and all other modules from here."""
    if not folder.exists():
        folder.mkdir(parents=True)
        for path in [tree / "lsmkv", *tree.glob("*.so"), _ROOT / "torture"]:
            (folder / path.name).symlink_to(path.resolve())
    return folder


def run(
    imports: Path, module: str, *arguments: object, limit_s: float
) -> subprocess.CompletedProcess[str]:
    """Run a module that imports from ``imports``; TimeoutExpired after ``limit_s``."""
    return subprocess.run(
        [sys.executable, "-PB", "-X", "faulthandler", "-m", module, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(imports)},
        capture_output=True,
        text=True,
        timeout=limit_s,
    )
