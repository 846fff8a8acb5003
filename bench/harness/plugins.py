"""Files that add an engine, a workload, a data set or a policy.

They import ``bench``, the harness's name in a checkout.  Where it is installed as ``lsmkv_bench``, both
names are the same modules: a second copy would have registries of its own.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

_CHECKOUT: Final = "bench"
_HERE: Final = __name__.partition(".")[0]


class _OtherName(MetaPathFinder, Loader):
    """Imports ``bench.x`` as the module ``lsmkv_bench.x``."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        is_ours = fullname.partition(".")[0] == _CHECKOUT
        return ModuleSpec(fullname, self, is_package=True) if is_ours else None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        sys.modules[name] = importlib.import_module(_HERE + name.removeprefix(_CHECKOUT))


def load(files: Sequence[str]) -> None:
    """Run each Python file once in this process; it registers its additions."""
    if files and _HERE != _CHECKOUT and not any(isinstance(f, _OtherName) for f in sys.meta_path):
        sys.meta_path.insert(0, _OtherName())
    for file in files:
        path = os.path.abspath(file)
        name = "bench_plugin_" + hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        if name in sys.modules:
            continue
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None or not os.path.isfile(path):
            raise SystemExit(f"bench: plug-in {file}: no such Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
