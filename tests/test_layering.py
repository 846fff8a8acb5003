"""The house rules that a program can check: who imports whom, how long files are, their names."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import lsmkv
from lsmkv import filters

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "lsmkv"
MAX_LINES = 500

# From the bottom up: a module imports only from modules of lines above its own.
LAYERS = """
    lsmkv.lazy  lsmkv.errors  lsmkv.finalizers  lsmkv.changes  lsmkv.interpreter  lsmkv.posix
    lsmkv.absent  lsmkv.encoding  lsmkv.notices
    lsmkv.compare  lsmkv.filters.hashing
    lsmkv.filters.bloom  lsmkv.filters.packed  lsmkv.filters.protocols
    lsmkv.filters.sizing  lsmkv.filters.allocation  lsmkv.filters.keys
    lsmkv.filters.rates  lsmkv.filters.saved  lsmkv.filters.known
    lsmkv.filters.base  lsmkv.filters.layouts
    lsmkv.filters.classic  lsmkv.filters.fuse  lsmkv.filters.cuckoo  lsmkv.filters.fingerprints
    lsmkv.filters.blocked  lsmkv.filters.partitioned  lsmkv.filters.folding
    lsmkv.filters.counting  lsmkv.filters.strategies
    lsmkv.filters.rolling
    lsmkv.filters.loading  lsmkv.filters.policy
    lsmkv.filters
    lsmkv.options  lsmkv.stats  lsmkv.report
    lsmkv.files
    lsmkv.storage  lsmkv.cache
    lsmkv.sstable  lsmkv.sstable.lengths  lsmkv.sstable.heads  lsmkv.sstable.arrays
    lsmkv.sstable.fingerprints  lsmkv.sstable.order
    lsmkv.sstable.frame  lsmkv.sstable.layout  lsmkv.sstable.block  lsmkv.sstable.index
    lsmkv.sstable.reduced  lsmkv.sstable.filtering
    lsmkv.sstable.codec
    lsmkv.sstable.columns  lsmkv.sstable.packed
    lsmkv.sstable.payload  lsmkv.sstable.tail  lsmkv.sstable.read_around  lsmkv.sstable.checks
    lsmkv.sstable.reader  lsmkv.sstable.writer  lsmkv.sstable.salvage
    lsmkv.ordered  lsmkv.radix  lsmkv.pins  lsmkv.group_commit
    lsmkv.batch  lsmkv.memtable  lsmkv.log
    lsmkv.replay
    lsmkv.tree  lsmkv.merge
    lsmkv.manifest  lsmkv.version
    lsmkv.moments
    lsmkv.readable
    lsmkv.sources  lsmkv.compaction  lsmkv.recovery
    lsmkv.scan
    lsmkv.background  lsmkv.background.failures
    lsmkv.background.jobs
    lsmkv.background.messages
    lsmkv.background.helper
    lsmkv.background.threads
    lsmkv.background.worker  lsmkv.background.throttle  lsmkv.background.pace
    lsmkv.background.heap
    lsmkv.handles  lsmkv.logs  lsmkv.tables
    lsmkv.background.process
    lsmkv.background.runner
    lsmkv.background.maintenance
    lsmkv.writable
    lsmkv.engine
    lsmkv.cursor  lsmkv.writes  lsmkv.ranges
    lsmkv.reads  lsmkv.popping
    lsmkv.explain  lsmkv.inspect  lsmkv.verify
    lsmkv.repair.report
    lsmkv.repair.order  lsmkv.repair.logs  lsmkv.repair.state  lsmkv.repair.tables
    lsmkv.repair.run
    lsmkv.repair
    lsmkv.db
    lsmkv.opening
    lsmkv
    lsmkv.cli.keys  lsmkv.cli.streams
    lsmkv.cli.output  lsmkv.cli.settings  lsmkv.cli.group  lsmkv.cli.fields
    lsmkv.cli.records
    lsmkv.cli.data
    lsmkv.cli.shape  lsmkv.cli.sizes  lsmkv.cli.loading
    lsmkv.cli.admin
    lsmkv.cli
    lsmkv.__main__
"""

# Third-party library -> the modules that may import it; a folder stands for all in it.
HOMES = {
    "mmh3": {"lsmkv.filters.hashing"},
    "xxhash": {"lsmkv.encoding"},
    "zstandard": {"lsmkv.sstable.codec"},
    "click": {"lsmkv.cli"},
    "rich": {"lsmkv.cli"},
    # Typed JSON and MessagePack: table properties, manifest edits, lines of exported records, jobs.
    "msgspec": {
        "lsmkv.background.failures",
        "lsmkv.background.jobs",
        "lsmkv.background.messages",
        "lsmkv.background.process",
        "lsmkv.background.runner",
        "lsmkv.tables",
        "lsmkv.sstable.layout",
        "lsmkv.sstable.writer",
        "lsmkv.tree",
        "lsmkv.manifest",
        "lsmkv.cli.fields",
        "lsmkv.cli.records",
    },
    # What typed code is compiled with: machine integers, and bytes read as such.
    "mypy_extensions": {"lsmkv"},
    "librt": {"lsmkv"},
}

# Libraries that a program which only stores data should never have to load.
HEAVY = {"click", "rich", "lsmkv.cli", "bench"}
HEAVY |= {"matplotlib", "plotly", "numpy", "pandas", "scipy"}
HEAVY |= {"http", "urllib.request", "socketserver", "asyncio", "multiprocessing"}


def modules() -> dict[str, Path]:
    """Every module of the package, by name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()
RANK = {
    name: rank for rank, line in enumerate(LAYERS.strip().splitlines()) for name in line.split()
}


def imports(path: Path) -> Iterator[str]:
    """Names of the modules that a file imports, in functions too; never relatively."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{path}: relative import"
            for alias in node.names:
                within = f"{node.module}.{alias.name}"
                yield within if within in MODULES else node.module


def graph() -> dict[str, set[str]]:
    """Which modules of the package each module imports."""
    return {
        name: {found for found in imports(path) if found in MODULES}
        for name, path in MODULES.items()
    }


GRAPH = graph()


def test_every_module_has_a_layer() -> None:
    assert MODULES.keys() - RANK.keys() == set(), "put these into LAYERS"
    assert RANK.keys() - MODULES.keys() == set(), "these are no more: take them out of LAYERS"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_module_imports_only_from_layers_below_it(name: str) -> None:
    listed = GRAPH[name] & RANK.keys()
    assert {found for found in listed if RANK[found] >= RANK.get(name, len(RANK))} == set()


def test_no_modules_import_each_other_in_a_circle() -> None:
    remaining = {name: set(found) for name, found in GRAPH.items()}
    while leaves := [name for name, found in remaining.items() if not found & remaining.keys()]:
        for name in leaves:
            del remaining[name]
    assert not remaining


def is_home(module: str, homes: set[str]) -> bool:
    return any(module == home or module.startswith(f"{home}.") for home in homes)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_third_party_libraries_are_imported_only_where_they_belong(name: str) -> None:
    for found in imports(MODULES[name]):
        library = found.partition(".")[0]
        if library == "lsmkv" or library in sys.stdlib_module_names:
            continue
        assert library in HOMES, f"{name} imports {library}, which has no place in the list"
        assert is_home(name, HOMES[library]), f"{name} imports {library}"


@pytest.mark.parametrize("library", sorted(HOMES))
def test_no_library_is_listed_that_nobody_imports(library: str) -> None:
    users = {
        name
        for name, path in MODULES.items()
        for found in imports(path)
        if found.partition(".")[0] == library
    }
    assert users
    assert all(is_home(user, HOMES[library]) for user in users)
    for home in HOMES[library]:
        assert any(is_home(user, {home}) for user in users), f"{home} does not import {library}"


def test_the_store_itself_does_not_know_the_command_line() -> None:
    for name, found in GRAPH.items():
        if not is_home(name, {"lsmkv.cli", "lsmkv.__main__"}):
            assert not any(is_home(module, {"lsmkv.cli"}) for module in found)


def test_only_the_storage_layer_touches_files() -> None:
    """Nobody else opens a file, or asks the operating system to."""
    calls = {"open", "os.open", "os.read", "os.pread", "os.write", "os.fsync", "os.fdatasync"}
    calls |= {"os.rename", "os.replace", "os.unlink", "os.remove", "os.mkdir", "os.listdir"}
    for name, path in MODULES.items():
        if name in {"lsmkv.files", "lsmkv.storage"} or is_home(name, {"lsmkv.cli"}):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in calls:
                pytest.fail(f"{name}:{node.lineno} calls {ast.unparse(node.func)}")


def loaded_by(statement: str) -> list[str]:
    """Names of the modules that a statement loads."""
    return subprocess.run(
        [sys.executable, "-c", f"{statement}; import sys; print(*sys.modules)"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()


@pytest.mark.parametrize(
    "statement", ["import lsmkv; lsmkv.open", "from lsmkv import Options, open, repair"]
)
def test_importing_the_package_loads_nothing_heavy(statement: str) -> None:
    loaded = loaded_by(statement)
    assert "lsmkv.engine" in loaded
    assert [name for name in loaded if is_home(name, HEAVY)] == []


def test_opening_loads_neither_the_research_filters_nor_repair_nor_what_starts_helpers() -> None:
    loaded = loaded_by("import lsmkv; lsmkv.open")
    unwanted = {
        "lsmkv.filters.cuckoo",
        "lsmkv.repair.run",
        "lsmkv.background.runner",
        "lsmkv.verify",
    }
    assert unwanted.isdisjoint(loaded)


def test_a_helper_process_loads_no_more_than_it_needs() -> None:
    loaded = loaded_by("import lsmkv.background.helper")
    unwanted = {"lsmkv.engine", "lsmkv.db", "lsmkv.scan", "lsmkv.repair.run", "subprocess"}
    assert unwanted.isdisjoint(loaded)


@pytest.mark.parametrize("package", [lsmkv, filters], ids=lambda package: package.__name__)
def test_public_names_are_loaded_from_where_type_checkers_see_them(package: ModuleType) -> None:
    assert package.__file__ is not None
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    (block,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    seen = {
        node.module: tuple(alias.name for alias in node.names)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
    }
    assert seen.pop("lsmkv", ("filters",)) == ("filters",)  # a module, which is its own home
    assert seen == package._HOMES
    names = [name for names in package._HOMES.values() for name in names]
    assert set(names) == set(package.__all__) - {"repair"}
    for home, names in package._HOMES.items():
        for name in names:
            assert getattr(package, name) is getattr(importlib.import_module(home), name)
    assert set(package.__all__) <= set(dir(package))


def test_the_function_repair_is_not_hidden_by_its_folder() -> None:
    importlib.import_module("lsmkv.repair.run")
    assert callable(lsmkv.repair)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    for package in (lsmkv, filters):
        assert not hasattr(package, "nothing")
        assert not hasattr(package, "__nothing__")


def source_files() -> list[Path]:
    return sorted(
        path
        for folder in ("lsmkv", "bench", "tools", "torture", "tests")
        for path in (ROOT / folder).rglob("*.py")
    )


@pytest.mark.parametrize("path", source_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_long(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < MAX_LINES


def test_nothing_is_called_utils() -> None:
    vague = {"utils", "util", "helpers", "common", "misc"}
    assert [path for path in source_files() if path.stem in vague] == []


COMPILED = [
    node.value
    for tree in [ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))]
    for statement in tree.body
    if isinstance(statement, ast.Assign)
    and isinstance(statement.targets[0], ast.Name)
    and statement.targets[0].id == "COMPILED"
    for node in ast.walk(statement.value)
    if isinstance(node, ast.Constant)
]
"""What setup.py compiles, as paths below the package without the extension."""


def test_setup_names_what_it_compiles() -> None:
    assert len(COMPILED) > 10


@pytest.mark.parametrize("name", COMPILED)
def test_no_compiled_module_raises_from_a_cause(name: str) -> None:
    # mypyc leaves the cause out: errors.caused sets it.
    tree = ast.parse((PACKAGE / f"{name}.py").read_text(encoding="utf-8"))
    raised = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    assert [node.lineno for node in raised if node.cause is not None] == []


@pytest.mark.parametrize("name", COMPILED)
def test_no_compiled_class_has_a_finalizer_of_its_own(name: str) -> None:
    # mypyc calls it with an exception pending: a Finalizer stands in.
    tree = ast.parse((PACKAGE / f"{name}.py").read_text(encoding="utf-8"))
    named = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert [node.lineno for node in named if node.name == "__del__"] == []


def _is_number(node: ast.expr) -> bool:
    """Whether it is a literal number, or one made a machine word: ``1``, ``i64(1)``."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _is_below_8(node: ast.expr) -> bool:
    """Whether it is ``... & 7`` or less."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.BitAnd)
        and isinstance(node.right, ast.Constant)
        and isinstance(node.right.value, int)
        and node.right.value < 8
    )


@pytest.mark.parametrize("name", COMPILED)
def test_no_compiled_module_shifts_a_literal_by_a_variable(name: str) -> None:
    # mypyc writes the literal as a 32-bit number: 1 << n is wrong for n > 31.
    tree = ast.parse((PACKAGE / f"{name}.py").read_text(encoding="utf-8"))
    shifts = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.LShift)
        and _is_number(node.left)
        and not _is_number(node.right)
        and not _is_below_8(node.right)
    ]
    allowed = {"float(1 << index)"} if name == "stats" else set()  # there it is no machine word
    source = (PACKAGE / f"{name}.py").read_text(encoding="utf-8")
    lines = source.splitlines()
    found = [node.lineno for node in shifts]
    assert [at for at in found if not any(fine in lines[at - 1] for fine in allowed)] == []


@pytest.mark.parametrize("name", COMPILED)
def test_no_compiled_module_calls_in_the_bound_of_a_slice(name: str) -> None:
    # mypyc calls it twice where it does not know the type of what is sliced.
    tree = ast.parse((PACKAGE / f"{name}.py").read_text(encoding="utf-8"))
    bounds = [
        bound
        for node in ast.walk(tree)
        if isinstance(node, ast.Slice)
        for bound in (node.lower, node.upper)
        if bound is not None
    ]
    called = [
        node
        for bound in bounds
        for node in ast.walk(bound)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") not in {"len", "i64"}
    ]
    assert [node.lineno for node in called] == []
