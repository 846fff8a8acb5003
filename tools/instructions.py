"""Counts the machine instructions of each kind of operation.  ``python -m tools.instructions``

It runs the counted kinds of :mod:`bench.workloads.operations` under ``valgrind --tool=callgrind``, which
counts from the first operation to the last, in all threads.  Each kind runs twice, in processes of their
own: with the operations and without.  The difference is divided by the number of operations.

The result repeats within 0.1 % (hashes of strings are fixed by ``PYTHONHASHSEED=0``), but for kinds that
start threads, which wait in more turns on a busy machine.  Instructions say nothing of caches and disks.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Final

import lsmkv
from bench.workloads import operations
from bench.workloads.operations import COUNTED
from tools.builds import CHECKOUT, BuildError, environment, nature

_COLLECTED: Final = re.compile(r"^==\d+== Collected : (\d+)", re.MULTILINE)
_PER_ENTRY: Final = {"scan", "scan-reverse", "flush", "compact", "compact-stretch"}


class InstructionsError(Exception):
    """Counting failed."""


def instructions(kind: str, store: str, build: str, *settings: str) -> int:
    """Instructions of one kind of operation in a copy of ``store``."""
    with tempfile.TemporaryDirectory() as directory:
        copy = os.path.join(directory, "store")
        shutil.copytree(store, copy)
        done = subprocess.run(
            [
                *("valgrind", "--tool=callgrind", "--instr-atstart=no"),
                "--callgrind-out-file=/dev/null",
                *(sys.executable, "-P", str(operations.__file__), "counted", kind, copy),
                *settings,
            ],
            env=environment(build),
            capture_output=True,
            text=True,
            check=False,
        )
    found = _COLLECTED.search(done.stderr)
    if done.returncode or found is None:
        raise InstructionsError(f"{kind} failed under valgrind:\n{done.stderr}")
    return int(found[1])


def check(build: str) -> str:
    """Which files of lsmkv run from ``build``: ``"compiled"`` or ``"interpreted"``."""
    if shutil.which("valgrind") is None:
        raise InstructionsError(
            "there is no valgrind on the PATH (Debian, Ubuntu: apt install valgrind)"
        )
    return nature(build)


def main() -> int:
    """Print a line for each kind; 0, or 1 after an error."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--build",
        metavar="PATH",
        default=CHECKOUT,
        help="a folder that holds the lsmkv to count, e.g. build/compiled (default: this checkout)",
    )
    parser.add_argument(
        "--scale",
        metavar="N",
        type=int,
        default=1,
        help="do N times as much in a store N times as large, so that costs per process or per table "
        "weigh less (default: 1)",
    )
    parser.add_argument(
        "--filter-policy",
        metavar="NAME",
        default=lsmkv.Options().filter_policy,
        help="the store's kind of filter (default: %(default)s)",
    )
    parser.add_argument(
        "kinds", metavar="KIND", nargs="*", help=f"{', '.join(COUNTED)} (default: all)"
    )
    arguments = parser.parse_args()
    unknown = [kind for kind in arguments.kinds if kind not in COUNTED]
    if unknown:
        parser.error(f"no such kind: {', '.join(unknown)}")
    if arguments.scale < 1:
        parser.error(f"--scale {arguments.scale}: must be 1 or more")
    build, scale, policy = (
        os.path.abspath(arguments.build),
        arguments.scale,
        arguments.filter_policy,
    )
    settings = ("--scale", str(scale), "--filter-policy", policy)
    try:
        print(f"lsmkv in {build}, {check(build)}; instructions for each operation", flush=True)
        with tempfile.TemporaryDirectory() as directory:
            store = os.path.join(directory, "store")
            operations.make_counted_store(store, operations.Keys(scale), policy)
            for kind in arguments.kinds or COUNTED:
                without = instructions(kind, store, build, *settings, "--prepare-only")
                both = instructions(kind, store, build, *settings)
                unit = "for each entry" if kind in _PER_ENTRY else ""
                each = (both - without) / (scale * COUNTED[kind].operations)
                print(f"{kind:16}{each:12,.0f}  {unit}".rstrip(), flush=True)
    except (BuildError, InstructionsError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
