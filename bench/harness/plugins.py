"""Files that add an engine, a workload, a data set or a policy."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Sequence


def load(files: Sequence[str]) -> None:
    """Run each Python file once in this process; it registers its additions."""
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
