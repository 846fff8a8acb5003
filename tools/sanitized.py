"""Runs tests and torture on a build with AddressSanitizer and UBSan.  ``python -m tools.sanitized``

It builds the compiled modules with gcc's sanitizers below ``build/sanitized/``, in a virtual environment
for each version of Python.  Everything then runs with the sanitizers preloaded and with
``PYTHONMALLOC=malloc_debug``, so that each object is a block of its own, and the sanitizers see accesses
beyond its ends or after its release.  A report ends its process, and so the run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.builds import CHECKOUT, VERSIONS, copy_checkout, interpreter

FOLDER: Final = Path(CHECKOUT, "build", "sanitized")
_FLAGS: Final = (
    "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
)
# What tests, torture and the build import besides the package's own requirements.
_NEEDED: Final = ("psutil", "setuptools>=77", "wheel", "mypy[mypyc]>=2.4,<2.5")
# Sanitizers take memory and time, so tests that limit or measure either fail; the others test no compiled
# code, or compile it again.
LEFT_OUT: Final = (
    "test_bench_*",
    "test_build*",
    "test_cost.py",
    "test_compare_builds.py",
    "test_demo.py",
    "test_docs.py",
    "test_examples.py",
    "test_filter_docs.py",
    "test_malloc_trim.py",
    "test_pictures.py",
    "test_torture_*",
)
SHORT: Final = (
    *("test_block.py", "test_cache.py", "test_group_commit.py"),
    *("test_hostile*.py", "test_index.py", "test_log.py", "test_memtable.py", "test_model.py"),
    *("test_read_only.py", "test_transposed.py", "test_scans.py", "test_snapshots.py"),
    *("test_table.py", "test_table_filters.py", "test_threads.py"),
)
TORTURE: Final = ("fuzz", "corruption", "load", "metamorphic", "objects")
DISTURBED: Final = ("load", "metamorphic")


class StepError(Exception):
    """A step failed."""


def run(command: Sequence[str], cwd: Path, environment: dict[str, str]) -> None:
    print("==", *(Path(command[0]).name, *command[1:]), flush=True)
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **environment}, check=False)
    if done.returncode:
        raise StepError(f"exit status {done.returncode}: {' '.join(command)}")


def library(name: str) -> str:
    """The path of one of gcc's libraries."""
    found = subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    return found.stdout.strip()


def sanitized() -> dict[str, str]:
    """The environment of a process that runs with the sanitizers."""
    return {
        "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')}",
        # The interpreter never frees some memory; tests of memory look for leaks that grow.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc_debug",
        "LSMKV_SANITIZED": "1",
    }


def build(version: str, python: str) -> tuple[Path, Path]:
    """Build for one version; return the folder to run in, and the Python to run."""
    folder = FOLDER / version
    tree, environment = folder / "tree", folder / "venv"
    executable = environment / "bin" / "python"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    copy_checkout(tree)
    pip = (str(executable), "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
    if not executable.exists():
        run([python, "-m", "venv", str(environment)], folder, {})
        run([*pip, ".[test]", *_NEEDED], tree, {"LSMKV_PURE": "1"})
        run([str(executable), "-m", "pip", "--quiet", "uninstall", "--yes", "lsmkv"], folder, {})
    flags = {"CFLAGS": f"{_FLAGS} -g1", "LDFLAGS": _FLAGS, "LSMKV_PURE": "0"}
    run([str(executable), "setup.py", "-q", "bdist_wheel"], tree, {**flags, "LSMKV_OPTIMISE": "1"})
    (wheel,) = (tree / "dist").glob("*.whl")
    run([str(executable), "-m", "zipfile", "-e", str(wheel), str(tree)], tree, {})
    return tree, executable


def test_files(names: Sequence[str]) -> list[str]:
    """The test files whose names match, as paths below the checkout."""
    found: set[str] = set()
    for name in names:
        paths = list(Path(CHECKOUT, "tests").rglob(name))
        if not paths:
            raise StepError(f"no test file matches {name}")
        found.update(str(path.relative_to(CHECKOUT)) for path in paths)
    return sorted(found)


def steps(executable: Path, short: bool) -> list[list[str]]:
    python = str(executable)
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    pytest += ["-n", "auto", "--dist", "loadfile"]
    if short:
        return [[*pytest, *test_files(SHORT)]]
    left_out = test_files(LEFT_OUT)
    torture = [python, "-m", "torture", "--ci"]
    return [
        [*pytest, "tests", *(f"--ignore={path}" for path in left_out)],
        [*torture, *TORTURE],
        [*torture, "--disturb", "gc,switch,signal", *DISTURBED],
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Build and run for each version; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.sanitized", description=__doc__)
    parser.add_argument(
        "versions",
        nargs="*",
        metavar="VERSION",
        help=f"version of Python (default: {', '.join(VERSIONS)})",
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help="only tests of compiled modules, and by default only this version of Python",
    )
    chosen = parser.parse_args(arguments)
    this = f"{sys.version_info.major}.{sys.version_info.minor}"
    versions = chosen.versions or ([this] if chosen.short else list(VERSIONS))
    if shutil.which("gcc") is None:
        print("gcc is not installed: nothing was run", file=sys.stderr)
        return 1
    failures, missing = [], []
    for version in versions:
        python = interpreter(version)
        if python is None:
            missing.append(version)
            continue
        try:
            tree, executable = build(version, python)
            environment = {**sanitized(), "PYTHONPATH": str(tree)}
            for step in steps(executable, chosen.short):
                run(step, tree, environment)
        except StepError as error:
            failures.append(f"Python {version}: {error}")
    for version in missing:
        print(f"Python {version}: not installed here, not run")
    for failure in failures:
        print(failure)
    ran = len(versions) - len(missing)
    print(f"{ran} versions of Python run, {len(failures)} with failures")
    return 1 if failures or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
