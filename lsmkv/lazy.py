"""Packages whose names are loaded when they are first used (``__getattr__`` of modules: PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence


def loaded_when_used(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for a package that gives the names of others, and its modules.

    Args:
        package: its name.
        homes: for each module that names come from, the names.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> object:
        if name in home_of:
            value: object = getattr(importlib.import_module(home_of[name]), name)
            setattr(sys.modules[package], name, value)
            return value
        if not name.startswith("_"):
            module = f"{package}.{name}"
            try:
                return importlib.import_module(module)
            except ModuleNotFoundError as error:
                if error.name != module:
                    raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return load, names
