"""Builds lsmkv: its hot modules compiled from C, or all of it as plain Python, from the same files.

A source distribution has the C; in a checkout ``tools.mypyc_mend`` has mypyc write it.  With
``LSMKV_PURE=1`` in the environment nothing is compiled, and the wheel is one for every platform.  So it
is, after one warning, where the C is not made for this Python, where there is no C compiler, where
compiling fails, or where mypyc writes C that is not known here.  The package then holds the reason, which
``import lsmkv`` logs.  ``LSMKV_PURE=0`` makes each of these an error.  Editable installs are never
compiled: a checkout always runs the files that are being edited.  All else stands in ``pyproject.toml``.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
import textwrap
import tomllib
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent))
from tools.long_description import long_description
from tools.mypyc_mend import check, generate

HARNESS = "lsmkv_bench"  # what wheels call the folder bench
SHIPPED = Path("csrc")
GENERATED = Path("build", "csrc")
# Sanitizers are built in, with less optimisation, by tools/sanitized.py.
OPTIMISATION = os.environ.get("LSMKV_OPTIMISE", "3")
# Generated code has much that compilers warn of.  Machine integers are to wrap, also where CFLAGS in the
# environment replace Python's own flags.
FLAGS = [f"-O{OPTIMISATION}", "-g0", "-w", "-fwrapv"] + ["-UNDEBUG"] * (OPTIMISATION == "0")


def wanted() -> str:
    """``"pure"``, ``"try"`` or ``"must"``."""
    setting = os.environ.get("LSMKV_PURE", "")
    if setting not in ("", "0", "1"):
        raise SystemExit(f"LSMKV_PURE={setting}: must be 1 (pure), 0 (compiled) or unset")
    return {"1": "pure", "0": "must", "": "try"}[setting]


def requirements() -> list[str]:
    """What this build needs besides setuptools: what mypyc needs, unless the C is here."""
    groups = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["dependency-groups"]
    return [] if SHIPPED.is_dir() or wanted() == "pure" else list(groups["compile"])


def try_compiler() -> None:
    """Compile a small extension module.  RuntimeError if that fails."""
    from setuptools._distutils.ccompiler import new_compiler
    from setuptools._distutils.sysconfig import customize_compiler

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <Python.h>\nint probe(void) { return PY_VERSION_HEX; }\n")
        compiler = new_compiler()
        customize_compiler(compiler)
        headers = [sysconfig.get_path("include"), sysconfig.get_path("platinclude")]
        try:
            compiler.compile([str(source)], output_dir=folder, include_dirs=headers)
        except Exception as error:
            tried = os.environ.get("CC") or sysconfig.get_config_var("CC")
            raise RuntimeError(f"no C compiler works here with Python.h (tried {tried})") from error


def compiled() -> list[Extension]:
    """One library of all compiled modules, and a small loader for each."""
    folder = SHIPPED if SHIPPED.is_dir() else GENERATED
    if folder is SHIPPED:
        check(SHIPPED)
    else:
        generate(GENERATED)
    print("lsmkv: building compiled", file=sys.stderr)
    (library,) = folder.glob("__native_*.c")
    loaders = sorted((folder / "lsmkv").rglob("*.c"))
    names = [library.stem.removeprefix("__native_") + "__mypyc"]
    names += [".".join(loader.relative_to(folder).with_suffix("").parts) for loader in loaders]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    item = f"\\{len(suffix):03o}{suffix}"  # among mypyc's constants each stands behind its length
    macros = [("LSMKV_SUFFIX", f'"{suffix}"'), ("LSMKV_SUFFIX_ITEM", f'"{item}"')]
    headers = [str(folder / "lib-rt"), str(folder)]
    return [  # the library first: it takes nearly all of the time
        Extension(name, [str(source)], headers, macros, extra_compile_args=FLAGS)
        for name, source in zip(names, [library, *loaders], strict=True)
    ]


def extensions() -> tuple[list[Extension], str]:
    """What is to be compiled, and why that is nothing, if it was to be all."""
    builds = {"bdist_wheel", "build", "build_ext", "install"} & set(sys.argv[1:])
    if not builds or wanted() == "pure":  # setuptools also runs this file for metadata
        return [], ""
    try:
        try_compiler()
        return compiled(), ""
    except Exception as error:
        if wanted() == "must":
            raise SystemExit(f"lsmkv: LSMKV_PURE=0, but {error}")
        return [], warn_of_pure_build(str(error))


def warn_of_pure_build(reason: str) -> str:
    """Tell that the build is plain Python though nobody asked for that; return why, on one line."""
    reason = textwrap.shorten(reason, 200)  # a compiler's has the whole command
    told = "WARNING: building as plain Python, which is several times slower"
    print(f"lsmkv: {told}: {reason}", file=sys.stderr)
    return reason


def keep_reason(build_lib: str, reason: str) -> None:
    """Have the package in ``build_lib`` tell that it is plain Python; if it is not to, remove that."""
    path = Path(build_lib, "lsmkv", "not_compiled.py")
    path.unlink(missing_ok=True)  # an earlier build may have left it
    if reason:
        text = f'"""Why the build, which was to be compiled, is plain Python."""\n\nREASON = {reason!r}\n'
        path.write_text(text, "utf-8")


def packages() -> list[str]:
    """The package, and the benchmark harness; folders without Python are data."""
    harness = [HARNESS, *(f"{HARNESS}.{name}" for name in find_packages("bench"))]
    return [*find_packages(include=["lsmkv*"]), *harness]


class BuildModules(build_py):
    """Starts from nothing, and tells in the package if it could not be compiled."""

    def run(self) -> None:
        """As the base class, without what an earlier build left; then notes the reason."""
        if Path("build") in Path(self.build_lib).parents:  # or a chosen folder may hold more
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        if not self.editable_mode:
            keep_reason(self.build_lib, NOT_COMPILED)


class BuildExtensions(build_ext):
    """Compiles the C; builds plain Python where that fails."""

    def run(self) -> None:
        """As the base class; with ``LSMKV_PURE=0`` a failure is an error."""
        try:
            super().run()
        except Exception as error:
            if wanted() == "must":
                raise
            keep_reason(self.build_lib, warn_of_pure_build(f"the C compiler fails: {error}"))
            for output in self.get_outputs():
                Path(output).unlink(missing_ok=True)
            self.extensions = []


EXTENSIONS, NOT_COMPILED = extensions()
setup(
    packages=packages(),
    package_dir={HARNESS: "bench"},
    long_description=long_description(),
    long_description_content_type="text/markdown",
    setup_requires=requirements(),
    ext_modules=EXTENSIONS,
    cmdclass={"build_py": BuildModules, "build_ext": BuildExtensions},
    options={"build_ext": {"parallel": True}},  # the small loaders beside their library
)
