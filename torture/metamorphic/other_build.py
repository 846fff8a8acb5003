"""Runs rounds of the part ``metamorphic`` on another build, in another process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import lsmkv
from torture.framework.compiled_build import mixed_tree, run
from torture.metamorphic.rounds import names, session
from torture.metamorphic.sessions import Tally, compare, explained, model_digest

_LIMIT_S: Final = 90.0


@dataclass(frozen=True, slots=True)
class Request:
    """The work of the other process.

    Attributes:
        round_number, seed, operations, directs: arguments of :func:`torture.metamorphic.rounds.session`.
        shrinking_s: time to shrink a failure.
        directory: folder for its stores.
    """

    round_number: int
    seed: int
    operations: int
    directs: bool
    shrinking_s: float
    directory: str


def differences(tree: Path, request: Request) -> list[str]:
    """Wrong answers of the build in ``tree``."""
    imports = mixed_tree(tree, Path(request.directory) / "imports")
    limit_s = _LIMIT_S + request.shrinking_s
    module = "torture.metamorphic.other_build"
    try:
        done = run(imports, module, json.dumps(asdict(request)), limit_s=limit_s)
    except subprocess.TimeoutExpired as error:
        return [f"the process did not end within {error.timeout:g} s"]
    if done.returncode:
        return [f"the process ended with {done.returncode}: {done.stderr[-600:]}"]
    loaded, *lines = done.stdout.splitlines()
    if Path(loaded) != imports / "lsmkv":
        return [f"lsmkv was loaded from {loaded}"]
    found: list[str] = []
    for name, line in zip(names(request.round_number), lines, strict=True):
        digest, failure = json.loads(line)
        expected = model_digest(session(name, request.seed, request.operations, request.directs))
        if failure or digest != expected:
            found.append(f"{name}: {failure or 'its answers have a wrong digest'}")
    return found


def replies(request: Request) -> Iterator[str]:
    """A line of JSON for each session: its answers' digest, and its failure."""
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
