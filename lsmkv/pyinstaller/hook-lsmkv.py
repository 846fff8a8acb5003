"""Modules to freeze with ``import lsmkv``.

PyInstaller finds imports in source code.  It sees none in a compiled module, and none by name.  The
sources beside the compiled modules tell.
"""

from __future__ import annotations

import ast
from importlib.metadata import files
from pathlib import Path

from PyInstaller.utils.hooks import collect_data_files, collect_submodules

import lsmkv


def imported(source: str) -> set[str]:
    """The modules that a source file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


package = Path(lsmkv.__file__).parent
compiled = [Path(file) for file in files("lsmkv") or [] if file.suffix in (".so", ".pyd")]
libraries = {file.name.partition(".")[0] for file in compiled if "__mypyc" in file.name}
sources = [package.parent / file.parent / f"{file.name.partition('.')[0]}.py" for file in compiled]

hiddenimports = collect_submodules("lsmkv", on_error="ignore")  # some parts need an extra
hiddenimports += sorted(libraries)
hiddenimports += sorted(
    {name for source in sources if source.exists() for name in imported(source.read_text("utf-8"))}
)
datas = collect_data_files("lsmkv")
