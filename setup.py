"""Builds lsmkv: its hot modules compiled by mypyc, or all of it as plain Python, from the same files.

Without a C compiler, or with ``LSMKV_PURE=1`` in the environment, nothing is compiled and the wheel
is one for every platform.  ``LSMKV_PURE=0`` makes a failure to compile an error.  Editable installs
are never compiled: a checkout always runs the files that are being edited.  Everything else about
the package stands in ``pyproject.toml``.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Extension, setup

COMPILED = (
    "absent",
    "encoding",
    "compare",
    "stats",
    "filters/hashing",
    "filters/bloom",
    "filters/blocked",
    "filters/policy",
    "files",
    "storage",
    "cache",
    "sstable/frame",
    "sstable/fingerprints",
    "sstable/lengths",
    "sstable/heads",
    "sstable/block",
    "sstable/columns",
    "sstable/payload",
    "sstable/reduced",
    "sstable/codec",
    "sstable/index",
    "sstable/packed",
    "sstable/tail",
    "sstable/filtering",
    "sstable/read_around",
    "sstable/reader",
    "sstable/writer",
    "batch",
    "ordered",
    "radix",
    "memtable",
    "group_commit",
    "log",
    "replay",
    "merge",
    "version",
    "moments",
    "sources",
    "scan",
    "background/throttle",
    "logs",
    "readable",
    "writable",
    "engine",
    "writes",
    "ranges",
)
"""The modules that a put, a get, a scan or a merge spends its time in.

Left to the interpreter on purpose: ``filters/keys`` (dataclasses with slots and a base class, which
mypyc cannot make), ``db`` and ``reads`` (compiled, they would have no docstrings), ``finalizers``,
``pins`` and ``background/worker`` (what happens when an object or a thread ends), ``filters/fuse``
(its integers need 64 bits without a sign, and boxed ones are slower than Python's), and everything
that runs once for each store or file.
"""

OPTIMISATION = "3"

# Machine integers are to wrap, also where CFLAGS in the environment replace Python's own flags.
POSIX_FLAGS = ["-fwrapv"]


# How mypyc (to 2.4 at least) drops an object of which it keeps one for the next to be made.
_KEPT_FOR_REUSE = r"if \((\w+_free_instance) == NULL\) \{\n\s*\1 = self;\n(.*?)return;\n\s*\}"


def kept_when_empty(source: str) -> str:
    """Generated C in which an object is kept for reuse only once it refers to nothing any more.

    mypyc keeps it first, and then drops what it refers to.  That may let another thread run (a table
    that goes closes its file), and this thread would empty the object that the other has made anew.

    Raises:
        SystemExit: mypyc writes something else than what is mended here.
    """
    mended, count = re.subn(
        _KEPT_FOR_REUSE,
        r"if (\1 == NULL) {\n\2if (\1 == NULL) {\n\1 = self;\nreturn;\n}\n}",
        source,
        flags=re.DOTALL,
    )
    if count != len(re.findall(r"_free_instance = self;", source)):
        raise SystemExit("lsmkv: mypyc keeps objects for reuse in a way that is not known here")
    return mended


def wanted() -> str:
    """``"pure"``, ``"try"`` or ``"must"``."""
    setting = os.environ.get("LSMKV_PURE", "")
    if setting not in ("", "0", "1"):
        raise SystemExit(f"LSMKV_PURE={setting}: must be 1 (pure), 0 (compiled) or unset")
    return {"1": "pure", "0": "must", "": "try"}[setting]


def is_building() -> bool:
    """Whether this run makes extensions at all; setuptools also runs this file for metadata."""
    return bool({"bdist_wheel", "build", "build_ext", "install"} & set(sys.argv[1:]))


def compiler_works() -> bool:
    """Whether a small extension module can be compiled here."""
    from setuptools._distutils.ccompiler import new_compiler
    from setuptools._distutils.errors import CCompilerError, DistutilsError
    from setuptools._distutils.sysconfig import customize_compiler

    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "probe.c")
        source.write_text("#include <Python.h>\nint probe(void) { return PY_VERSION_HEX; }\n")
        compiler = new_compiler()
        customize_compiler(compiler)
        try:
            compiler.compile(
                [str(source)],
                output_dir=directory,
                include_dirs=[sysconfig.get_path("include"), sysconfig.get_path("platinclude")],
            )
        except (CCompilerError, DistutilsError, OSError):
            return False
    return True


def extensions() -> list[Extension]:
    """What is to be compiled: nothing, or every module of :data:`COMPILED`."""
    choice = wanted()
    if not is_building() or choice == "pure":
        say("as plain Python", choice == "pure")
        return []
    if not compiler_works():
        if choice == "must":
            raise SystemExit("lsmkv: LSMKV_PURE=0, but no C compiler works here")
        say("as plain Python: no C compiler works here")
        return []
    from mypyc.build import mypycify

    say("compiled by mypyc")
    paths = [f"lsmkv/{name}.py" for name in COMPILED]
    found: list[Extension] = mypycify(paths, opt_level=OPTIMISATION, debug_level="0")
    for extension in found:
        if os.name == "posix":
            extension.extra_compile_args += POSIX_FLAGS
        for generated in {*map(Path, extension.sources)}:
            if generated.name.startswith("__native"):
                generated.write_text(kept_when_empty(generated.read_text("utf-8")), "utf-8")
    return found


def say(how: str, loud: bool = True) -> None:
    """Tell which build this is."""
    if loud:
        print(f"lsmkv: building {how}", file=sys.stderr)


setup(ext_modules=extensions())
