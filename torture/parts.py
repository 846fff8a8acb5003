"""The parts of the torture run, in the order in which they run."""

from __future__ import annotations

import importlib
from typing import Final

from torture.part import Part

MODULES: Final = (
    "crash_states",
    "lost_manifests",
    "faults",
    "corruption",
    "fuzz",
    "security",
    "metamorphic",
    "load",
    "objects",
    "power_cuts",
)
"""Modules of this package; each has a ``PART``."""


def parts() -> dict[str, Part]:
    """Every part by its name."""
    found: list[Part] = [importlib.import_module(f"torture.{name}").PART for name in MODULES]
    return {part.name: part for part in found}
