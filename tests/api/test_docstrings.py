"""``help`` on the public classes, in both builds."""

from __future__ import annotations

import ast
import inspect
import pydoc
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lsmkv
from lsmkv.api.snapshot import RangeItems, RangeKeys, RangeValues

PACKAGE = Path(__file__).parents[2] / "lsmkv"

CLASSES = {
    name: value
    for name in lsmkv.__all__
    for value in [getattr(lsmkv, name)]
    if isinstance(value, type)
} | {kind.__name__: kind for kind in (RangeItems, RangeKeys, RangeValues)}


def is_public(method: ast.FunctionDef) -> bool:
    """Whether the name is public; overloads are not, they are for type checkers."""
    decorators = map(ast.unparse, method.decorator_list)
    return not method.name.startswith("_") and "overload" not in decorators


def written(kind: type) -> Iterator[tuple[type, str, str | None]]:
    """Docstrings of a class and its bases: owner, public name ("" for the class), text."""
    for owner in kind.__mro__:
        if not owner.__module__.startswith("lsmkv."):
            continue
        path = PACKAGE.joinpath(*owner.__module__.split(".")[1:]).with_suffix(".py")
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name == owner.__name__:
                yield owner, "", ast.get_docstring(node)
                for method in node.body:
                    if isinstance(method, ast.FunctionDef) and is_public(method):
                        yield owner, method.name, ast.get_docstring(method)


def test_the_public_classes_are_found() -> None:
    assert {"DB", "WriteBatch", "Stats", "Histogram", "Cursor", "Snapshot"} <= CLASSES.keys()


@pytest.mark.parametrize("name", CLASSES)
def test_a_public_class_and_its_methods_have_docstrings(name: str) -> None:
    found = list(written(CLASSES[name]))
    assert found
    assert [(owner.__name__, method) for owner, method, text in found if not text] == []


@pytest.mark.parametrize("name", CLASSES)
def test_help_shows_what_the_sources_say(name: str) -> None:
    for owner, method, text in written(CLASSES[name]):
        shown = inspect.getdoc(vars(owner)[method] if method else owner)
        assert (owner.__name__, method, shown) == (owner.__name__, method, text)


def test_help_on_a_batch_shows_its_methods() -> None:
    shown = pydoc.plain(pydoc.render_doc(lsmkv.WriteBatch))
    assert "Operations collected by ``DB.write_batch``" in shown
    assert "Set ``key`` to ``value`` when the batch is committed." in shown
    assert "Whether the batch was committed or discarded." in shown


def test_help_begins_with_the_ten_names_that_most_programs_need() -> None:
    begin = pydoc.plain(pydoc.render_doc(lsmkv)).partition("PACKAGE CONTENTS")[0]
    names = re.findall(r"``(\w+)``", begin)
    assert len(names) == 10
    assert set(names) <= set(lsmkv.__all__)


def test_what_a_reader_looks_for_first_is_named_by_the_store_itself() -> None:
    assert {"get", "multi_get", "keys", "values", "items", "put", "delete"} <= vars(lsmkv.DB).keys()
