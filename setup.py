"""Builds lsmkv: its hot modules compiled by mypyc, or all of it as plain Python, from the same files.

With ``LSMKV_PURE=1`` in the environment nothing is compiled, and the wheel is one for every platform.
So it is, after one warning, where there is no C compiler, where compiling fails, or where mypyc writes
C that is not known here.  The package then holds the reason, which ``import lsmkv`` logs.
``LSMKV_PURE=0`` makes each of these an error.  Editable installs are never compiled: a checkout always
runs the files that are being edited.  Everything else about the package stands in ``pyproject.toml``.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shutil
import sys
import sysconfig
import tempfile
import textwrap
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

COMPILED = (
    "encoding/checksums",
    "encoding/entries",
    "encoding/words",
    "stats",
    "filters/hashing",
    "filters/bloom",
    "filters/blocked",
    "filters/ribbon",
    "filters/elias_fano",
    "filters/grafite",
    "filters/learning",
    "filters/policy",
    "storage/open_files",
    "storage/files",
    "storage/append_file",
    "storage/storage",
    "sstable/block_cache",
    "sstable/block/trailer",
    "sstable/block/layout",
    "sstable/block/lengths",
    "encoding/fences",
    "sstable/index_arrays",
    "sstable/block/block",
    "encoding/entry_batch",
    "sstable/block/builder",
    "sstable/block/transposed",
    "sstable/block/codec",
    "sstable/index",
    "sstable/index_codec",
    "sstable/filter_section",
    "sstable/table_filters",
    "sstable/block_checks",
    "sstable/read_around",
    "sstable/table_end",
    "sstable/lazy_sections",
    "sstable/ask_counts",
    "sstable/reader",
    "sstable/read_ahead",
    "sstable/pages",
    "sstable/table_file",
    "sstable/stored_blocks",
    "sstable/filter_builder",
    "sstable/writer",
    "log/batch",
    "memtable/radix_sort",
    "memtable/memtable",
    "log/group_commit",
    "log/reader",
    "log/writer",
    "log/replay",
    "compaction/runs",
    "compaction/merge",
    "tree/version",
    "read/bounds",
    "read/visible",
    "read/sources",
    "read/start",
    "read/scan",
    "log/log_set",
    "read/view",
    "engine/state",
    "engine/readers",
    "engine/watch",
    "engine/writer",
    "engine/first_key",
    "engine/upkeep",
    "engine/engine",
    "engine/pairs",
    "api/write_batch",
    "api/ranges",
)
"""The modules that a put, a get, a scan or a merge spends its time in.

Left to the interpreter on purpose: ``filters/keys`` (dataclasses with slots and a base class, which
mypyc cannot make), ``api/db`` and ``api/snapshot`` (their base classes are not compiled),
``runtime``, ``read/snapshots`` and ``background/worker`` (what happens when an object or a thread
ends), ``filters/fuse`` (its integers need 64 bits without a sign, and boxed ones are slower than
Python's), and everything that runs once for each store or file.
"""

# Sanitizers are built in, with less optimisation, by tools/sanitized.py.
OPTIMISATION = os.environ.get("LSMKV_OPTIMISE", "3")

# Machine integers are to wrap, also where CFLAGS in the environment replace Python's own flags.
POSIX_FLAGS = ["-fwrapv"]


class UnknownCodeError(Exception):
    """mypyc wrote C that is not known here."""


# What generated C looks like where an attribute gets a new value, and where an object is kept for the
# next one to be made.  From Python 3.12 on, values of native classes, which are never immortal, are
# dropped by CPy_DECREF_NO_IMM.
_GUARDED_STORE = re.compile(
    r"if \((.+->_\w+) != NULL\) \{\n\s*CPy_DECREF(?:_NO_IMM)?\(\1\);\n\s*\}\n\s*\1 = (\w+);"
)
_STORE = re.compile(r"CPy_DECREF(?:_NO_IMM)?\((.+->_\w+)\);\n\s*\1 = (\w+);")
_REUSE = re.compile(r"if \((\w+_free_instance) == NULL\) \{(\n\s*\1 = self;)")
_UNSAFE = re.compile(r"CPy_X?DECREF\w*\(.*->_\w+|(?<!if \(0\) \{)\n\s*\w+_free_instance = self;")


def safe(source: str) -> str:
    """Generated C without two habits of mypyc that crash when the end of an object runs other code.

    - An attribute's old value goes before the new one stands.  Another thread, or a finalizer, then
      reads a pointer to freed memory.  ``Py_XSETREF`` stores first.
    - A generator or nested function is kept for reuse before it lets go of what it refers to.  Another
      thread then gets an object that is emptied under its hands.  None is kept.

    ``docs/mypyc.md`` has the evidence.

    Raises:
        UnknownCodeError: something of the kind is left.
    """
    source = _GUARDED_STORE.sub(r"Py_XSETREF(\1, \2);", source)
    source = _STORE.sub(r"Py_XSETREF(\1, \2);", source)
    source = _REUSE.sub(r"if (0) {\2", source)
    found = _UNSAFE.search(source)
    if found:
        raise UnknownCodeError(f"generated code is not known to be safe: {found.group().strip()}")
    return source


_LITERAL = r'(NULL|"(?:[^"\\]|\\.)*")'
_OF_FUNCTION = r"(\(PyCFunction\)(CPyPy_\w+),\s*METH_[\w |]+, PyDoc_STR\()" + _LITERAL + r"\)"
_OF_CLASS = r"((CPyType_\w+)_template_ = \{[^{}]*?\.tp_doc = PyDoc_STR\()" + _LITERAL + r"\)"
_OF_PROPERTY = r"(\(getter\)(\w+),\s*(?:\(setter\)\w+|NULL),\s*)(NULL)(?=, NULL\})"
_OF_MODULE = r'(PyModuleDef_HEAD_INIT,\s*"([\w.]+)",\s*)(NULL)(?=, /\* docstring \*/)'


def docstrings(name: str, source: str) -> dict[str, str]:
    """The docstrings of the module ``name``, by what mypyc calls their owners in C."""
    tree = ast.parse(source)
    found: dict[str, str] = {}

    def note(key: str, node: ast.Module | ast.ClassDef | ast.FunctionDef) -> None:
        text = ast.get_docstring(node)
        if text:  # the setter of a property has none
            found[key] = text

    note(name, tree)
    parts = name.split(".")
    for start in range(len(parts)):  # mypyc leaves out of a module's name what nothing needs
        prefix = "___".join(parts[start:])
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                note(f"CPyPy_{prefix}___{node.name}", node)
            elif isinstance(node, ast.ClassDef):
                owner = f"{prefix}___{node.name}"
                note(f"CPyType_{owner}", node)
                for method in node.body:
                    if isinstance(method, ast.FunctionDef):
                        note(f"CPyPy_{owner}___{method.name}", method)
                        note(f"{owner}_get_{method.name}", method)
    return found


def documented(source: str, docs: dict[str, str]) -> str:
    """Generated C with the docstrings, which mypyc (1.18 to 2.4 at least) leaves out.

    It stays as it is where mypyc writes something else than what is known here: without docstrings
    everything works.
    """

    def add(match: re.Match[str]) -> str:
        head, owner, literal = match.group(1, 2, 3)
        text = docs.get(owner)
        if text is not None:
            literal = ("" if literal == "NULL" else literal) + c_literal(text)
        return head + literal + match.group(0)[match.end(3) - match.start(0) :]

    places = source.count("PyDoc_STR(")
    mended, of_functions = re.subn(_OF_FUNCTION, add, source)
    mended, of_classes = re.subn(_OF_CLASS, add, mended)
    mended, of_properties = re.subn(_OF_PROPERTY, add, mended)
    mended, of_modules = re.subn(_OF_MODULE, add, mended)
    if of_functions + of_classes != places or not of_properties or not of_modules:
        print("lsmkv: building without docstrings: mypyc puts them elsewhere", file=sys.stderr)
        return source
    return mended


def c_literal(text: str) -> str:
    """``text`` as a string of C, in UTF-8."""
    plain = {*range(0x20, 0x7F)} - {*b'"\\?'}  # with question marks begin trigraphs
    return '"' + "".join(chr(c) if c in plain else f"\\{c:03o}" for c in text.encode()) + '"'


def wanted() -> str:
    """``"pure"``, ``"try"`` or ``"must"``."""
    setting = os.environ.get("LSMKV_PURE", "")
    if setting not in ("", "0", "1"):
        raise SystemExit(f"LSMKV_PURE={setting}: must be 1 (pure), 0 (compiled) or unset")
    return {"1": "pure", "0": "must", "": "try"}[setting]


def is_building() -> bool:
    """Whether this run makes extensions at all; setuptools also runs this file for metadata."""
    return bool({"bdist_wheel", "build", "build_ext", "install"} & set(sys.argv[1:]))


def try_compiler() -> None:
    """Compile a small extension module.  RuntimeError if that fails."""
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
        except (CCompilerError, DistutilsError, OSError) as error:
            tried = os.environ.get("CC") or sysconfig.get_config_var("CC")
            raise RuntimeError(f"no C compiler works here with Python.h (tried {tried})") from error


def extensions() -> tuple[list[Extension], str]:
    """What is to be compiled, and why that is nothing although all was to be.

    That is every module of :data:`COMPILED` or none; the reason is empty if all is as it was to be.
    """
    choice = wanted()
    if not is_building():
        return [], ""
    if choice == "pure":
        print("lsmkv: building as plain Python", file=sys.stderr)
        return [], ""
    try:
        try_compiler()
        return generated(), ""
    except Exception as error:
        if choice == "must":
            raise SystemExit(f"lsmkv: LSMKV_PURE=0, but {error}")
        return [], warn_of_pure_build(str(error))


def generated() -> list[Extension]:
    """The modules of :data:`COMPILED` as C, mended."""
    print("lsmkv: building compiled by mypyc", file=sys.stderr)
    paths = [f"lsmkv/{name}.py" for name in COMPILED]
    docs: dict[str, str] = {}
    for name, path in zip(COMPILED, paths, strict=True):
        docs |= docstrings(f"lsmkv.{name}".replace("/", "."), Path(path).read_text("utf-8"))
    found = translated(paths)
    for extension in found:
        # A warning of a compiler that mypyc does not know yet is no reason to stop.
        flags = [flag for flag in extension.extra_compile_args if flag != "-Werror"]
        extension.extra_compile_args = flags + (POSIX_FLAGS if os.name == "posix" else [])
        for path in {*map(Path, extension.sources)}:
            if path.name.startswith("__native"):
                path.write_text(documented(safe(path.read_text("utf-8")), docs), "utf-8")
    # The library, which takes nearly all of the time, is begun first.
    return sorted(found, key=lambda extension: "__mypyc" not in extension.name)


# Types are for mypyc here; `make lint` checks them.  So neither a setting of mypy nor what is installed
# beside, stubs say, ends a build: a library without types gives values of any type.  An error in a
# compiled module does end it, since mypyc relies on the types there.
_TYPES = ["--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]


def translated(paths: list[str]) -> list[Extension]:
    """The modules as C, as mypyc writes it.  TypeError if types are wrong."""
    from mypyc.build import mypycify

    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            found: list[Extension] = mypycify(
                [*_TYPES, *paths], opt_level=OPTIMISATION, debug_level="0"
            )
    except SystemExit as error:  # so it ends after errors of mypy, which it has printed
        errors = [line for line in said.getvalue().splitlines() if ": error: " in line]
        raise TypeError(errors[0] if errors else str(error)) from error
    finally:
        sys.stderr.write(said.getvalue())
    return found


def warn_of_pure_build(reason: str) -> str:
    """Tell that the build is plain Python though nobody asked for that; return why, on one line."""
    reason = textwrap.shorten(reason, 200)  # a compiler's has the whole command
    print(
        f"lsmkv: WARNING: building as plain Python, which is several times slower: {reason}",
        file=sys.stderr,
    )
    return reason


def keep_reason(build_lib: str, reason: str) -> None:
    """Have the package in ``build_lib`` tell that it is plain Python; if it is not to, remove that."""
    path = Path(build_lib, "lsmkv", "not_compiled.py")
    if reason:
        text = f'"""Why the build, which was to be compiled, is plain Python."""\n\nREASON = {reason!r}\n'
        path.write_text(text, "utf-8")
    else:
        path.unlink(missing_ok=True)  # an earlier build may have left it


class BuildModules(build_py):
    """Starts from nothing, and tells in the package if it could not be compiled."""

    def run(self) -> None:
        """As the base class, without what an earlier build left; then notes the reason."""
        if (
            Path("build") in Path(self.build_lib).parents
        ):  # nobody chose a folder that may hold more
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        if not self.editable_mode:
            keep_reason(self.build_lib, NOT_COMPILED)


class BuildExtensions(build_ext):
    """Compiles what mypyc wrote; builds plain Python where that fails."""

    def finalize_options(self) -> None:
        """As the base class, but the modules' small loaders are compiled beside their library."""
        super().finalize_options()
        self.parallel = self.parallel or True

    def run(self) -> None:
        """As the base class; with ``LSMKV_PURE=0`` a failure is an error."""
        try:
            super().run()
        except Exception as error:
            if wanted() == "must":
                raise
            reason = warn_of_pure_build(f"the C compiler fails: {error}")
            keep_reason(self.build_lib, reason)
            for output in self.get_outputs():
                Path(output).unlink(missing_ok=True)
            self.extensions = []


def for_an_index(readme: str) -> str:
    """``readme`` for a package index, where links to the repository's files lead nowhere.

    Pictures go; of a link its text stays, and the path, which the source distribution has.
    """
    without_pictures = re.sub(r"!\[[^]]*\]\((?!\w+:)[^)]*\)\n*", "", readme)
    return re.sub(
        r"\[([^]]+)\]\((?!\w+:)([^)#]+)[^)]*\)",
        lambda link: link[1] if link[2] in link[1] else f"{link[1]} (`{link[2]}`)",
        without_pictures,
    )


EXTENSIONS, NOT_COMPILED = extensions()
setup(
    long_description=for_an_index(Path("README.md").read_text("utf-8")),
    long_description_content_type="text/markdown",
    ext_modules=EXTENSIONS,
    cmdclass={"build_py": BuildModules, "build_ext": BuildExtensions},
)
