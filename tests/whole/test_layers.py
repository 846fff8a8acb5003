"""Layers stand on the store as any program does: on its public names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_layering import DOORS, LAYERS_ON_PUBLIC_NAMES, MODULES, imports, room_of

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


@pytest.mark.parametrize(
    "name", [name for name in MODULES if room_of(name) in LAYERS_ON_PUBLIC_NAMES]
)
def test_a_layer_uses_only_public_names(name: str) -> None:
    public = {"lsmkv", "lsmkv.errors", *(f"lsmkv.{known}" for known in lsmkv.__all__)}
    layers = tuple(f"lsmkv.{layer}." for layer in LAYERS_ON_PUBLIC_NAMES)
    found = {used for used in layer_imports(MODULES[name]) if used.partition(".")[0] == "lsmkv"}
    assert {
        used for used in found - public if not used.startswith((*layers, "lsmkv.errors."))
    } == set()


@pytest.mark.parametrize("name", DOORS)
def test_a_door_to_a_layer_is_opened_only_where_it_is_used(name: str) -> None:
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    at_once = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not DOORS[name] & {getattr(node, "module", "") for node in at_once}
    assert DOORS[name] <= set(imports(MODULES[name]))


def test_a_door_leads_only_to_layers() -> None:
    assert {room_of(layer) for layers in DOORS.values() for layer in layers} <= {
        *LAYERS_ON_PUBLIC_NAMES
    }
