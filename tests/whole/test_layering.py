"""House rules that a program can check: imports, lengths of files, names."""

from __future__ import annotations

import ast
import functools
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest

import lsmkv
from gates import WAIT_S
from lsmkv import layers

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "lsmkv"
MOST_CODE_LINES = 420  # of a file, without docstrings, comments and blank lines

# Lowest floor first: a room imports from itself and from rooms on the lines above its own.
FLOORS = """
    errors  html  runtime  changes
    encoding  stats
    storage  filters  memtable
    log  options  sstable
    tree
    read  compaction
    background  inspection
    engine  salvage  remote  copies  layers
    api
    lsmkv
    dbm  aio  metrics  counters
    typed
    cache
    explore  cluster
    cli
    __main__
"""

# Floors inside rooms, lowest first; modules that are not named stand on the last.
INSIDE = {
    "lsmkv.filters": [
        "maths",
        "hashing bloom blocked fuse ribbon elias_fano grafite learning keys policy",
        "family",
    ],
    "lsmkv.sstable": ["format entry_cache", "block_cache", "block"],
    "lsmkv.background": ["threads worker pace handles malloc_trim", "process"],
    "bench": ["harness engines workloads traces", "experiments"],
    "torture": [
        "framework",
        "crash corruption metamorphic",
        "fuzz",
        "security load objects published",
    ],
}

# Rooms that stand on the store as any program does: they import public names alone.
LAYERS_ON_PUBLIC_NAMES = (
    "typed",
    "cache",
    "dbm",
    "aio",
    "metrics",
    "counters",
    "explore",
    "cluster",
)

# Folders beside the package -> the folders beside it that each may import.
BESIDE = {
    "tools": {"bench"},
    "bench": set[str](),
    "torture": {"bench"},
}

# Third-party library -> the modules that may import it; a folder stands for all in it.
HOMES = {
    "mmh3": {"lsmkv.filters.hashing"},
    "xxhash": {"lsmkv.encoding.checksums"},
    "zstandard": {"lsmkv.sstable.block.codec"},
    "click": {"lsmkv.cli"},
    "rich": {"lsmkv.cli"},
    # Typed JSON and MessagePack: table properties, manifest edits, lines of exported records, jobs.
    "msgspec": {
        "lsmkv.background.process",
        "lsmkv.encoding.checked_line",
        "lsmkv.sstable.filter_plan",
        "lsmkv.sstable.format",
        "lsmkv.sstable.table_end",
        "lsmkv.sstable.table_file",
        "lsmkv.tree.levels",
        "lsmkv.tree.manifest",
        "lsmkv.cli.fields",
        "lsmkv.cli.records",
        "lsmkv.typed.values",
        "lsmkv.counters",
        "lsmkv.remote.generation",
        "lsmkv.copies.record",
        "lsmkv.tree.erased_file",
        "lsmkv.explore",
    },
    "dask": {"lsmkv.cluster"},
    "distributed": {"lsmkv.cluster"},
    "numpy": {"lsmkv.cluster"},
    "pandas": {"lsmkv.cluster"},
    "pyarrow": {"lsmkv.cluster"},
    "obstore": {"lsmkv.remote.bucket"},
    "prometheus_client": {"lsmkv.metrics"},
    "starlette": {"lsmkv.explore.server"},
    "uvicorn": {"lsmkv.explore.server"},
    # Machine integers and byte access for compiled code.
    "mypy_extensions": {"lsmkv"},
    "librt": {"lsmkv"},
}

# Libraries that a program which only stores data should never have to load.
HEAVY = {"click", "rich", "lsmkv.cli", "bench", "lsmkv_bench"}
HEAVY |= {"matplotlib", "plotly", "numpy", "pandas", "scipy"}
HEAVY |= {"starlette", "uvicorn"}
HEAVY |= {"lsmkv.api.transaction"}
HEAVY |= {f"lsmkv.{layer}" for layer in LAYERS_ON_PUBLIC_NAMES}
HEAVY |= {"dask", "distributed", "pyarrow"}
HEAVY |= {"lsmkv.remote", "obstore", "prometheus_client"}
HEAVY |= {"lsmkv.copies", "lsmkv.layers.mapped"}
HEAVY |= {"http", "urllib.request", "socketserver", "asyncio", "multiprocessing"}


def modules() -> dict[str, Path]:
    """Every module of the package, by name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if not path.stem.isidentifier():  # a hook of PyInstaller, which imports the package
            continue
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def floors(lines: Iterable[str]) -> dict[str, int]:
    """Each room's floor, counted from the bottom up."""
    return {room: floor for floor, line in enumerate(lines) for room in line.split()}


RANK = floors(FLOORS.strip().splitlines())


def room_of(name: str) -> str:
    """``lsmkv.log.reader`` -> ``log``; ``lsmkv`` itself is a room."""
    return name.split(".")[1] if "." in name else name


@functools.cache
def imports(path: Path) -> tuple[str, ...]:
    """The modules that a file imports, also in functions.

    Only the harness imports relatively: wheels have it by another name.
    """
    within_harness = path.relative_to(ROOT).parts[:-1]
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            is_harness = within_harness[:1] == ("bench",) and within_harness != (
                "bench",
                "examples",
            )
            assert is_harness or node.level == 0, f"{path}: relative import"
            base = ".".join(within_harness[: len(within_harness) + 1 - node.level])
            module = ".".join(filter(None, (base if node.level else "", node.module)))
            if is_harness:
                assert node.level or not module.startswith("bench"), (
                    f"{path}: {module} is not relative"
                )
            for alias in node.names:
                within = f"{module}.{alias.name}"
                found.append(within if is_module(within) else module)
    return tuple(found)


@functools.cache
def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def graph() -> dict[str, set[str]]:
    """The imports of each module of the package."""
    return {
        name: {found for found in imports(path) if found in MODULES}
        for name, path in MODULES.items()
    }


GRAPH = graph()


def test_every_room_has_a_floor() -> None:
    assert {room_of(name) for name in MODULES} == RANK.keys()


def test_parts_of_an_open_store_inherit_from_no_other_and_have_at_most_25_methods() -> None:
    parts = (
        "engine/engine",
        "engine/readers",
        "engine/writer",
        "engine/first_key",
        "engine/upkeep",
    )
    for part in (*parts, "background/state"):
        tree = ast.parse((PACKAGE / f"{part}.py").read_text("utf-8"))
        for made in [node for node in tree.body if isinstance(node, ast.ClassDef)]:
            bases = {ast.unparse(base) for base in made.bases}
            methods = [node for node in made.body if isinstance(node, ast.FunctionDef)]
            assert bases <= {"Enum", "Watch", "ReadView"}, f"{made.name} inherits from {bases}"
            assert len(methods) <= 25, f"{made.name} has {len(methods)} methods"


def test_no_class_of_a_table_keeps_more_than_20_attributes() -> None:
    for path in (PACKAGE / "sstable").rglob("*.py"):
        for made in ast.walk(ast.parse(path.read_text("utf-8"))):
            kept = {
                node.attr
                for node in ast.walk(made)
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
                if ast.unparse(node.value) == "self"
            }
            if isinstance(made, ast.ClassDef):
                assert len(kept) <= 20, f"{made.name} has {len(kept)} attributes"


def test_the_package_has_few_rooms() -> None:
    """Layers, which nothing in the store knows, count apart."""
    layers = set(LAYERS_ON_PUBLIC_NAMES)
    at_the_root = {path.stem for path in PACKAGE.glob("*.py")} - layers
    folders = [
        path.parent.relative_to(PACKAGE)
        for path in PACKAGE.rglob("__init__.py")
        if not layers & {*path.parent.relative_to(PACKAGE).parts}
    ]
    assert len(at_the_root) <= 8
    assert len([folder for folder in folders if len(folder.parts) == 1]) <= 18
    assert len(folders) <= 25
    assert (
        len([line for line in FLOORS.strip().splitlines() if layers.isdisjoint(line.split())]) <= 12
    )


def test_a_module_imports_only_from_rooms_below_its_own() -> None:
    wrong = [
        f"{name} imports {found}"
        for name in MODULES
        for found in GRAPH[name]
        if (own := room_of(name)) != (room := room_of(found)) and RANK[room] >= RANK[own]
    ]
    assert wrong == []


@pytest.mark.parametrize("house", sorted(INSIDE))
def test_inside_a_room_imports_go_down_too(house: str) -> None:
    folder = ROOT.joinpath(*house.split("."))
    rank = floors(INSIDE[house])
    wrong = []
    for path in folder.rglob("*.py"):
        within = path.relative_to(folder).with_suffix("").parts
        own = rank.get(within[0], len(INSIDE[house]))
        for found in imports(path):
            if not found.startswith(f"{house}."):
                continue
            room = found.removeprefix(f"{house}.").partition(".")[0]
            if room != within[0] and rank.get(room, len(INSIDE[house])) > own:
                wrong.append(f"{path.relative_to(ROOT)} imports {found}")
    assert wrong == []


@pytest.mark.parametrize("top", sorted(BESIDE))
def test_folders_beside_the_package_import_only_allowed_folders(top: str) -> None:
    allowed = BESIDE[top] | {top, "lsmkv"}
    wrong = [
        f"{path.relative_to(ROOT)} imports {found}"
        for path in (ROOT / top).rglob("*.py")
        for found in imports(path)
        if found.partition(".")[0] in {*BESIDE, "tests"} - allowed
    ]
    assert wrong == []


def test_no_experiment_imports_another() -> None:
    home = ROOT / "bench" / "experiments"
    wrong = [
        f"{path.relative_to(ROOT)} imports {found}"
        for path in home.rglob("*.py")
        for found in imports(path)
        if found.startswith("bench.experiments.")
        and found.split(".")[2] != path.relative_to(home).with_suffix("").parts[0]
    ]
    assert wrong == []


def test_every_folder_says_what_it_is_for() -> None:
    silent = [
        path.relative_to(ROOT)
        for folder in ("lsmkv", *BESIDE)
        for path in (ROOT / folder).rglob("__init__.py")
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    remaining = {name: set(found) for name, found in GRAPH.items()}
    while leaves := [name for name, found in remaining.items() if not found & remaining.keys()]:
        for name in leaves:
            del remaining[name]
    assert not remaining


def is_home(module: str, homes: set[str]) -> bool:
    return any(module == home or module.startswith(f"{home}.") for home in homes)


def test_third_party_libraries_are_imported_where_they_belong_and_nowhere_else() -> None:
    users: dict[str, set[str]] = {library: set() for library in HOMES}
    for name, path in MODULES.items():
        for library in {found.partition(".")[0] for found in imports(path)}:
            if library != "lsmkv" and library not in sys.stdlib_module_names:
                assert library in HOMES, f"{name} imports {library}, which has no place in the list"
                assert is_home(name, HOMES[library]), f"{name} imports {library}"
                users[library].add(name)
    for library, homes in HOMES.items():
        for home in homes:
            used = any(is_home(user, {home}) for user in users[library])
            assert used, f"{home} does not import {library}"


def test_only_the_storage_layer_touches_files() -> None:
    """No other module opens a store's file, or asks the operating system to."""
    calls = {"open", "os.open", "os.read", "os.pread", "os.write", "os.fsync", "os.fdatasync"}
    calls |= {"os.rename", "os.replace", "os.unlink", "os.remove", "os.mkdir", "os.listdir"}
    for name, path in MODULES.items():
        if is_home(
            name, {"lsmkv.storage", "lsmkv.cli", "lsmkv.counters"}
        ):  # its file is no store's
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
        timeout=WAIT_S,
    ).stdout.split()


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import lsmkv.explore.page, lsmkv.cli.commands", {"starlette", "uvicorn", "asyncio"}),
        (
            "import lsmkv; lsmkv.open",
            {
                "lsmkv.filters.family.cuckoo",
                "lsmkv.salvage.repair",
                "lsmkv.background.process.runner",
                "lsmkv.background.process.staged",
                "lsmkv.inspection.verify",
                "lsmkv.typed",
            },
        ),
        (
            "import lsmkv.background.process.child",
            {
                *("lsmkv.engine.engine", "lsmkv.api.db", "lsmkv.read.scan"),
                *("lsmkv.salvage.repair", "subprocess"),
            },
        ),
    ],
    ids=["a page in a file", "opening", "a helper process"],
)
def test_no_more_is_loaded_than_is_needed(statement: str, unwanted: set[str]) -> None:
    assert unwanted.isdisjoint(loaded_by(statement))


@pytest.mark.parametrize(
    "statement", ["import lsmkv; lsmkv.open", "from lsmkv import Options, open, repair"]
)
def test_importing_the_package_loads_nothing_heavy(statement: str) -> None:
    loaded = loaded_by(statement)
    assert "lsmkv.engine.engine" in loaded
    assert [name for name in loaded if is_home(name, HEAVY)] == []


@pytest.mark.parametrize("package", [lsmkv, layers], ids=lambda package: package.__name__)
def test_public_names_are_loaded_from_where_type_checkers_see_them(package: ModuleType) -> None:
    assert package.__file__ is not None
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    (block,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    seen: dict[str | None, tuple[str, ...]] = {}
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            seen[node.module] = seen.get(node.module, ()) + names
    assert seen.pop("lsmkv", ("filters",)) == ("filters",)  # a module, which is its own home
    assert seen == package._HOMES
    known = {name for names in package._HOMES.values() for name in names}
    assert known == set(package.__all__)
    for home, names in package._HOMES.items():
        for name in names:
            assert getattr(package, name) is getattr(importlib.import_module(home), name)
    assert set(package.__all__) <= set(dir(package))


def source_files() -> list[Path]:
    return sorted(
        path
        for folder in ("lsmkv", "bench", "tools", "torture", "tests")
        for path in (ROOT / folder).rglob("*.py")
    )


def code_line_count(text: str) -> int:
    """How many lines are neither empty, nor a comment, nor of a docstring."""
    spoken: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            spoken.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        number not in spoken and bool(line.strip()) and not line.lstrip().startswith("#")
        for number, line in enumerate(text.splitlines(), 1)
    )


def test_files_are_short() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in source_files()}
    long = {path: text for path, text in texts.items() if text.count("\n") > MOST_CODE_LINES}
    assert long
    assert [path for path, text in long.items() if code_line_count(text) > MOST_CODE_LINES] == []


def test_nothing_is_called_utils() -> None:
    vague = {"utils", "util", "helpers", "common", "misc"}
    assert [path for path in source_files() if path.stem in vague] == []


def test_no_module_imports_a_private_name_of_another() -> None:
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lsmkv"):
                private = [alias.name for alias in node.names if re.match("_[^_]", alias.name)]
                assert private == [], f"{name}:{node.lineno}"
