"""Makes C of the hot modules: mypyc writes it, and two habits that crash are mended.

``generate`` does it for builds from a checkout, ``tools.source_distribution`` for everybody else: what
installs from a source distribution needs a C compiler, and neither mypy nor this.  ``docs/mypyc.md`` has
the reasons.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.metadata
import io
import re
import shutil
import sys
import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

COMPILED = (
    "encoding/checksums",
    "encoding/entries",
    "encoding/range_deletes",
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
    "sstable/entry_cache",
    "sstable/block/trailer",
    "sstable/block/layout",
    "sstable/block/lengths",
    "encoding/fences",
    "sstable/block/block",
    "encoding/entry_batch",
    "encoding/expiry",
    "sstable/block/builder",
    "sstable/block/transposed",
    "sstable/block/codec",
    "sstable/index_symbols",
    "sstable/index_keys",
    "sstable/index_layout",
    "sstable/index_builder",
    "sstable/index_check",
    "sstable/index",
    "sstable/filter_section",
    "sstable/table_filters",
    "sstable/ask_counts",
    "sstable/lazy_sections",
    "sstable/block_checks",
    "sstable/read_around",
    "sstable/table_end",
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
    "background/state",
    "engine/readers",
    "engine/watch",
    "engine/writer",
    "engine/first_key",
    "engine/erase",
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

PYTHONS = ((3, 11), (3, 14))
"""The first and the last that C in a source distribution is for: those that mypy 2.4 knows.

The first one makes it.  C made by a later one counts no references to constants: there they are
immortal.
"""


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


_INDENTATION = re.compile(r"^[ \t]+", re.MULTILINE)
_NOT_NEEDED = ("*.py", "*.tmpl", "__pycache__", "base64", "internal", "random", "time")


def portable(source: str) -> str:
    """Generated C that tells no suffix of extension modules, which setup.py defines.

    And without its indentation: three quarters of 45 MB, since mypyc indents each class more.

    Raises:
        UnknownCodeError: the suffix of this Python is left.
    """
    suffix = re.escape(EXTENSION_SUFFIXES[0])
    source = _INDENTATION.sub("", source)
    source = source.replace(f'FromString("{EXTENSION_SUFFIXES[0]}")', "FromString(LSMKV_SUFFIX)")
    # A constant stands behind its length: one character, or an escape of one.
    item = r'(?:\\[0-7]{3}|\\.|[^\\"])' + suffix + r'(?=[^\n]*",$)'
    source = re.sub(item, '" LSMKV_SUFFIX_ITEM "', source, flags=re.MULTILINE)
    if re.search(rf"(?<!/\* '){suffix}", source):
        raise UnknownCodeError(f"generated code is for {EXTENSION_SUFFIXES[0]} only")
    return source


def generate(folder: Path) -> None:
    """Write to ``folder``, anew, the C of :data:`COMPILED`, with all that compiling it needs.

    The working directory holds the modules.
    """
    import mypyc

    shutil.rmtree(folder, ignore_errors=True)
    paths = [Path("lsmkv", f"{name}.py") for name in COMPILED]
    docs: dict[str, str] = {}
    for path in paths:
        docs |= docstrings(".".join(path.with_suffix("").parts), path.read_text("utf-8"))
    translate([str(path) for path in paths], folder)
    for path in folder.glob("__native_*.c"):
        path.write_text(portable(documented(safe(path.read_text("utf-8")), docs)), "utf-8")
    library = Path(mypyc.__file__).parent / "lib-rt"
    shutil.copytree(library, folder / "lib-rt", ignore=shutil.ignore_patterns(*_NOT_NEEDED))
    for file in importlib.metadata.files("mypy") or []:
        if file.match("*.dist-info/licenses/LICENSE"):
            shutil.copy(file.locate(), folder / "lib-rt")
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path}\n" for path in paths]
    Path(folder, "SHA256SUMS").write_text("".join(sums), "utf-8")


def check(folder: Path) -> None:
    """RuntimeError unless the C in ``folder``, made elsewhere, fits this Python and the modules here."""
    this = f"Python {sys.version.split()[0]}"
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        raise RuntimeError(f"the C code is not made for {this}")
    if sys.maxsize < 1 << 62 or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise RuntimeError(f"the C code is for 64 bits and the global interpreter lock, not {this}")
    for line in (folder / "SHA256SUMS").read_text("utf-8").splitlines():
        made_of, path = line.split("  ")
        if hashlib.sha256(Path(path).read_bytes()).hexdigest() != made_of:
            raise RuntimeError(f"{path} was changed; remove {folder}, and mypyc makes it anew")


# Types are for mypyc here; `make lint` checks them.  So neither a setting of mypy nor what is installed
# beside, stubs say, ends a build: a library without types gives values of any type.  An error in a
# compiled module does end it, since mypyc relies on the types there.
TYPES = ["--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]


def translate(paths: list[str], folder: Path) -> None:
    """Write the modules as C, as mypyc does.  TypeError if types are wrong."""
    from mypyc.build import mypycify

    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            mypycify([*TYPES, *paths], target_dir=str(folder))
    except SystemExit as error:  # so it ends after errors of mypy, which it has printed
        errors = [line for line in said.getvalue().splitlines() if ": error: " in line]
        raise TypeError(errors[0] if errors else str(error)) from error
    finally:
        sys.stderr.write(said.getvalue())
