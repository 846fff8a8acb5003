"""A build that cannot compile gives plain Python, which tells so, and why.

Where compilation was asked for, it is an error.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Final

import pytest

from gates import LONG_WAIT_S
from lsmkv.background.process import parent

pytestmark = pytest.mark.slow  # each builds a package

ROOT: Final = Path(__file__).parents[2]
WARNING: Final = "WARNING: building as plain Python"

# gcc, except for some arguments.
COMPILER: Final = """#!/bin/sh
for argument in "$@"; do
    case "$argument" in
        *.c) {test} ;;
    esac
done
exec {compiler} "$@"
"""
NO_HEADERS: Final = (
    'if grep -q "<Python.h>" "$argument"; then echo "Python.h: No such file" >&2; exit 1; fi'
)
FAILING: Final = 'case "$argument" in *probe.c) ;; *) echo "internal error" >&2; exit 1 ;; esac'

# Replaces mypyc.build, so that the test generates no code.
MYPYC: Final = """
import os

def mypycify(paths, target_dir):
    os.makedirs(target_dir + "/lsmkv")
    for path in ("__native_made_up.c", "lsmkv/made_up.c"):
        with open(target_dir + "/" + path, "w") as file:
            file.write({source!r})
"""
# What it does when mypy finds errors.
UNTYPED: Final = """
import sys

def mypycify(paths, **options):
    print("lsmkv/stats.py:7: error: Name 'i65' is not defined  [name-defined]")
    print("Found 1 error in 1 file (checked 60 source files)")
    sys.exit(1)
"""
UNKNOWN: Final = "CPy_DECREF(self->_a);\nself->_b = tmp;\n"
MODULE: Final = """
#include <Python.h>
static struct PyModuleDef made_up = {PyModuleDef_HEAD_INIT, "made_up"};
PyMODINIT_FUNC PyInit_made_up(void) { return PyModule_Create(&made_up); }
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of this checkout's files."""
    if importlib.util.find_spec("setuptools") is None:
        pytest.skip("setuptools is not installed here")
    source = tmp_path / "source"
    unbuilt = shutil.ignore_patterns("*.so", "__pycache__", "node_modules")
    for folder in ("lsmkv", "bench", "tools"):
        shutil.copytree(ROOT / folder, source / folder, ignore=unbuilt)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    return source


def build(source: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "setup.py", "-q", "bdist_wheel"],
        cwd=source,
        env={**os.environ, "LSMKV_PURE": "", "PYTHONPATH": str(source), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_WAIT_S,
    )


def compiler(directory: Path, test: str) -> str:
    """A script that runs the usual compiler, unless ``test`` ends it."""
    usual = sysconfig.get_config_var("CC") or "cc"
    if shutil.which(usual.split()[0]) is None:
        pytest.skip(f"there is no C compiler here ({usual})")
    path = directory / "compiler"
    path.write_text(COMPILER.format(test=test, compiler=usual))
    path.chmod(0o755)
    return str(path)


def replace_mypyc(source: Path, generated: str, program: str = MYPYC) -> None:
    package = source / "mypyc"
    (package / "lib-rt").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "build.py").write_text(program.replace("{source!r}", repr(generated)))


def remove_mypyc(source: Path) -> None:
    (source / "mypyc").mkdir()
    (source / "mypyc" / "__init__.py").touch()


def unpacked(source: Path) -> Path:
    """The folder with what the only wheel of ``source`` holds."""
    (wheel,) = (source / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(source / "unpacked")
    return source / "unpacked"


def run(folder: Path, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run Python with the lsmkv in ``folder``."""
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=LONG_WAIT_S,
    )


def check_pure(source: Path, done: subprocess.CompletedProcess[str], reason: str) -> None:
    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stderr.splitlines() if WARNING in line]
    assert len(warnings) == 1
    assert reason in warnings[0]
    (wheel,) = (source / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert reason in archive.read("lsmkv/not_compiled.py").decode()
    assert "lsmkv/engine/engine.py" in names
    assert [name for name in names if name.endswith((".so", ".pyd"))] == []


REASONS: Final = {
    "no compiler": "no C compiler works here",
    "no headers": "no C compiler works here with Python.h",
    "failing compiler": "the C compiler fails",
    "unknown code": "generated code is not known to be safe",
    "no mypyc": "mypyc.build",
    "wrong types": "lsmkv/stats.py:7: error: Name 'i65' is not defined",
}


def spoiled(how: str, source: Path, folder: Path) -> dict[str, str]:
    """Keep the build from being compiled; returns the environment for it."""
    if how in ("failing compiler", "unknown code", "wrong types"):
        generated = {"failing compiler": MODULE, "unknown code": UNKNOWN}.get(how, "")
        replace_mypyc(source, generated, UNTYPED if how == "wrong types" else MYPYC)
    elif how == "no mypyc":
        remove_mypyc(source)
    compilers = {"no headers": NO_HEADERS, "failing compiler": FAILING}
    if how in compilers:
        return {"CC": compiler(folder, compilers[how])}
    return {"CC": "/nowhere/cc"} if how == "no compiler" else {}


@pytest.mark.parametrize("how", REASONS)
def test_a_build_that_cannot_compile_is_plain_python(
    source: Path, tmp_path: Path, how: str
) -> None:
    check_pure(source, build(source, **spoiled(how, source, tmp_path)), REASONS[how])


@pytest.mark.parametrize("how", ["no compiler", "failing compiler", "unknown code"])
def test_a_required_compiled_build_fails(source: Path, tmp_path: Path, how: str) -> None:
    done = build(source, LSMKV_PURE="0", **spoiled(how, source, tmp_path))
    assert done.returncode != 0
    assert WARNING not in done.stderr


def test_plain_python_that_was_to_be_compiled_logs_the_reason_once(source: Path) -> None:
    build(source, CC="/nowhere/cc")
    folder = unpacked(source)
    done = run(folder, "-c", "import lsmkv, lsmkv.typed; lsmkv.open")
    assert done.stderr.count("\n") == 1
    assert "plain Python" in done.stderr and "no C compiler works here" in done.stderr
    told = "import logging; logging.basicConfig(format='%(name)s %(levelname)s'); import lsmkv"
    assert run(folder, "-c", told).stderr == "lsmkv WARNING\n"
    shown = run(folder, "-m", "lsmkv", "--version").stdout
    assert "(interpreted, Python" in shown and "; not compiled: no C compiler works" in shown


def test_a_helper_process_does_not_repeat_the_reason(source: Path) -> None:
    build(source, CC="/nowhere/cc")
    program = parent._PROGRAM.replace("main()", "print(main.__module__)")
    done = run(unpacked(source), "-c", program, "0", *filter(None, sys.path))
    assert (done.stdout, done.stderr) == ("lsmkv.background.process.child\n", "")


def test_plain_python_that_was_asked_for_tells_nothing(source: Path) -> None:
    build(source, CC="/nowhere/cc")  # leaves its reason in build/
    build(source, LSMKV_PURE="1")
    folder = unpacked(source)
    assert run(folder, "-c", "import lsmkv").stderr == ""
    assert run(folder, "-m", "lsmkv", "--version").stdout.endswith(
        f"(interpreted, Python {platform.python_version()})\n"
    )


def test_the_compiled_modules_are_in_the_wheel(source: Path) -> None:
    replace_mypyc(source, MODULE)  # otherwise the tests above would prove nothing
    done = build(source, LSMKV_PURE="0")
    assert done.returncode == 0, done.stderr
    (wheel,) = (source / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert any(name.startswith("lsmkv/made_up") for name in archive.namelist())


def test_a_source_distribution_is_compiled_without_mypy(source: Path) -> None:
    remove_mypyc(source)
    for path in ("__native_made_up.c", "lsmkv/made_up.c", "SHA256SUMS"):
        (source / "csrc" / path).parent.mkdir(parents=True, exist_ok=True)
        (source / "csrc" / path).write_text(MODULE if path.endswith(".c") else "")
    asked = "from setuptools import build_meta as b; print(b.get_requires_for_build_wheel())"
    assert run(source, "-c", asked, cwd=source).stdout.endswith("[]\n")
    done = build(source, LSMKV_PURE="0")
    assert done.returncode == 0, done.stderr
    assert any((source / "build").glob("lib*/lsmkv/made_up*"))


@pytest.mark.parametrize(("choice", "wanted"), [("", True), ("1", False)])
def test_a_checkout_asks_for_mypy_unless_it_stays_plain_python(
    source: Path, choice: str, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LSMKV_PURE", choice)
    asked = "from setuptools import build_meta as b; print(b.get_requires_for_build_wheel())"
    assert ("mypy[mypyc]" in run(source, "-c", asked, cwd=source).stdout) == wanted


@pytest.mark.parametrize("choice", ["1", "0"])
def test_a_build_takes_nothing_along_that_an_earlier_one_left(source: Path, choice: str) -> None:
    replace_mypyc(source, MODULE)
    removed = source / "lsmkv" / "removed.py"
    removed.touch()
    build(source, LSMKV_PURE=choice)
    removed.unlink()
    assert build(source, LSMKV_PURE=choice).returncode == 0
    (wheel,) = (source / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "lsmkv/removed.py" not in names
    assert "lsmkv/engine/engine.py" in names
    assert any(name.startswith("lsmkv/made_up") for name in names) == (choice == "0")
