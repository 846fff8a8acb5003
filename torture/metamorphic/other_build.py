"""Has the compiled build of the same sources run rounds of the part ``metamorphic``, in another process.

The compiled build is the tree that ``LSMKV_COMPILED`` names, or ``build/compiled`` (``make
build/compiled`` makes it).  The process takes ``lsmkv`` from there and everything else from here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import lsmkv
from torture.metamorphic.rounds import names, session
from torture.metamorphic.sessions import Tally, compare, explained, model_digest

VARIABLE: Final = "LSMKV_COMPILED"
_ROOT: Final = Path(__file__).parents[2]
_DEFAULT: Final = _ROOT / "build" / "compiled"
_LIMIT_S: Final = 90.0


@dataclass(frozen=True, slots=True)
class Request:
    """What the other process is to do.

    Attributes:
        round_number, seed, operations, directs: of its sessions, as
            :func:`torture.metamorphic.rounds.session` takes them.
        shrinking_s: time to make a failure small.
        directory: for its stores.
    """

    round_number: int
    seed: int
    operations: int
    directs: bool
    shrinking_s: float
    directory: str


def compiled_tree() -> tuple[Path | None, str]:
    """The compiled build of these sources; or None, and why there is none."""
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


def differences(tree: Path, request: Request) -> list[str]:
    """What the build in ``tree`` answered otherwise than it should have."""
    mixed = mixed_tree(tree, Path(request.directory) / "imports")
    wanted = json.dumps(asdict(request))
    try:
        done = subprocess.run(
            [
                sys.executable,
                "-PB",
                "-X",
                "faulthandler",
                "-m",
                "torture.metamorphic.other_build",
                wanted,
            ],
            env={**os.environ, "PYTHONPATH": str(mixed)},
            capture_output=True,
            text=True,
            timeout=_LIMIT_S + request.shrinking_s,
        )
    except subprocess.TimeoutExpired as error:
        return [f"no end after {error.timeout:g} s"]
    if done.returncode:
        return [f"the process ended with {done.returncode}: {done.stderr[-600:]}"]
    loaded, *lines = done.stdout.splitlines()
    if Path(loaded) != mixed / "lsmkv":
        return [f"lsmkv was loaded from {loaded}"]
    found: list[str] = []
    for name, line in zip(names(request.round_number), lines, strict=True):
        digest, failure = json.loads(line)
        wanted_digest = model_digest(
            session(name, request.seed, request.operations, request.directs)
        )
        if failure or digest != wanted_digest:
            found.append(f"{name}: {failure or 'the digest of its answers is another'}")
    return found


def mixed_tree(tree: Path, folder: Path) -> Path:
    """A folder from which Python imports the package of ``tree``, and the rest from here."""
    if not folder.exists():
        folder.mkdir(parents=True)
        for path in [tree / "lsmkv", *tree.glob("*.so"), _ROOT / "torture"]:
            (folder / path.name).symlink_to(path.resolve())
    return folder


def replies(request: Request) -> Iterator[str]:
    """For each session of the round its digest and, if it differed, how; as JSON."""
    path = Path(request.directory) / "other-store"
    for name in names(request.round_number):
        wanted = session(name, request.seed, request.operations, request.directs)
        tally = Tally(digests=True)
        found = compare(wanted, path, tally)
        failure = found and explained(wanted, found, path, request.shrinking_s / 4)
        yield json.dumps([tally.digest, failure])


if __name__ == "__main__":
    print(Path(lsmkv.__file__).parent)
    for reply in replies(Request(**json.loads(sys.argv[1]))):
        print(reply)
