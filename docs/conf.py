"""The site: ``make docs`` has Sphinx build it from the pages beside this file and from docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

import lsmkv
from tools import format_doc

HERE: Final = Path(__file__).parent
MODULES: Final = {
    "lsmkv": "The store",
    "lsmkv.typed": "Typed stores",
    "lsmkv.cache": "A cache",
    "lsmkv.aio": "asyncio",
    "lsmkv.dbm": "dbm",
    "lsmkv.filters": "Filters",
    "lsmkv.metrics": "Metrics",
    "lsmkv.counters": "Counters",
    "lsmkv.cluster": "Clusters",
}
"""The public modules: each has a page of its own, made of its docstrings."""
SECTIONS: Final = {
    heading
    for described in (lsmkv.Options, lsmkv.Stats)
    for heading in re.findall(r"^([A-Z][a-z ]+):$", inspect.getdoc(described) or "", re.MULTILINE)
}
"""Headings above the fields of large classes."""

project = "lsmkv"
version = release = lsmkv.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["upstream"]
html_theme = "furo"
html_title = f"lsmkv {release}"
html_extra_path = ["calculator.html"]
html_show_sphinx = False
html_copy_source = False
suppress_warnings = ["ref.python"]  # fields of one name in several classes
myst_heading_anchors = 4
napoleon_use_param = False  # lists of names, of which one line may have several
napoleon_custom_sections = [
    (name, "params_style") for name in sorted(SECTIONS - {"Raises"} | {"Attributes"})
]
autodoc_typehints_format = "short"
autodoc_default_options = {
    "members": True,
    "inherited-members": "BaseException",
    "show-inheritance": True,
}


def constants_of(module: str) -> list[str]:
    """The public constants that Sphinx does not find, since they stand in other modules."""
    public = importlib.import_module(module)
    found = {name: getattr(public, name) for name in public.__all__}
    described = {name for _, name in ModuleAnalyzer.for_module(module).find_attr_docs()}
    return sorted(
        name
        for name, value in found.items()
        if name not in described and not inspect.isroutine(value) and not inspect.isclass(value)
    )


def write_reference() -> None:
    """Write a page for each public module."""
    folder = HERE / "reference"
    folder.mkdir(exist_ok=True)
    for name, title in MODULES.items():
        heading = f"{title}: ``{name}``"
        text = f"{heading}\n{'=' * len(heading)}\n\n.. automodule:: {name}\n"
        text += "".join(f"\n.. py:data:: {each}\n" for each in constants_of(name))
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def write_layouts() -> None:
    """Write the page of the layouts, which stand in docstrings too."""
    (HERE / "reference" / "layouts.md").write_text(format_doc.render(), "utf-8")


def as_downloads(_app: Sphinx, _name: str, source: list[str]) -> None:
    """Have links to what is no page of the site lead to a copy of the file."""
    outside = r"\]\(((?:\.\./|upstream/)[^)#]+)(?:#[^)]*)?\)"
    source[0] = re.sub(outside, r"](path:\1)", source[0])


def without_twins(
    app: Sphinx, _what: str, name: str, _obj: object, skip: bool, _options: object
) -> bool | None:
    """Leave names of ``lsmkv`` out where another module has them, too."""
    here = app.env.current_document.docname.endswith("lsmkv.filters")
    return True if here and name in lsmkv.__all__ else None


def write_demo(app: Sphinx, error: Exception | None) -> None:
    """Write the page of a small store, which the first page shows in a frame."""
    if error is None:
        command = ["-m", "lsmkv", "explore", "--demo", "--out", str(app.outdir / "demo.html")]
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)


def setup(app: Sphinx) -> None:
    """Have Sphinx make what is not in the repository."""
    write_reference()
    write_layouts()
    app.connect("source-read", as_downloads)
    app.connect("autodoc-skip-member", without_twins)
    app.connect("build-finished", write_demo)
