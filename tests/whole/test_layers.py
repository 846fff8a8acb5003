"""Layers stand on the store as any program does: on its public names."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_layering import LAYERS_ON_PUBLIC_NAMES, MODULES, room_of

import lsmkv


def layer_imports(path: Path) -> Iterator[str]:
    """What a layer imports of the package, by full name, and what it asks of ``lsmkv``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "lsmkv":
            yield f"lsmkv.{node.attr}"


def private(path: Path) -> set[str]:
    """The private attributes that a module uses."""
    return {
        node.attr
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and is_private(node.attr)
    }


def own(path: Path) -> set[str]:
    """The private attributes that a module gives its own objects."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and ast.unparse(node.value) == "self"
        ):
            found.add(node.attr)
    return {name for name in found if is_private(name)}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


@pytest.mark.parametrize(
    "name", [name for name in MODULES if room_of(name) in LAYERS_ON_PUBLIC_NAMES]
)
def test_a_layer_uses_only_public_names(name: str) -> None:
    public = {"lsmkv", "lsmkv.errors", "lsmkv.filters", "lsmkv.__version__"}
    public |= {f"lsmkv.{known}" for known in lsmkv.__all__}
    public |= {
        f"lsmkv.filters.{known}" for known in importlib.import_module("lsmkv.filters").__all__
    }
    layers = tuple(f"lsmkv.{layer}." for layer in ("layers", *LAYERS_ON_PUBLIC_NAMES))
    found = {used for used in layer_imports(MODULES[name]) if used.partition(".")[0] == "lsmkv"}
    assert {
        used for used in found - public if not used.startswith((*layers, "lsmkv.errors."))
    } == set()


@pytest.mark.parametrize("room", LAYERS_ON_PUBLIC_NAMES)
def test_a_layer_reaches_into_no_object_of_the_store(room: str) -> None:
    """``db._engine`` would need no import."""
    paths = [path for name, path in MODULES.items() if room_of(name) in (room, "layers")]
    names = set().union(*map(own, paths))
    used = set().union(*(private(path) for path in paths))
    assert used - names == set()
