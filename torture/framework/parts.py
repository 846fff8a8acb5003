"""The parts of the torture run, in their order."""

from __future__ import annotations

import importlib
from typing import Final

from torture.framework.part import Part

MODULES: Final = (
    "crash.crash_states",
    "crash.lost_manifests",
    "crash.faults",
    "corruption.part",
    "fuzz.part",
    "security.part",
    "metamorphic.part",
    "load.part",
    "objects.part",
    "published.part",
    "load.power_cuts",
)
"""Modules of ``torture``, each with a ``PART``."""


def parts() -> dict[str, Part]:
    """Every part by its name."""
    found: list[Part] = [importlib.import_module(f"torture.{name}").PART for name in MODULES]
    return {part.name: part for part in found}
