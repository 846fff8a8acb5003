"""House rules for compiled modules: what mypyc compiles to something wrong or slow."""

from __future__ import annotations

import ast
import functools

import pytest
from test_layering import PACKAGE

from tools.mypyc_mend import COMPILED

# What compiled modules import and is not compiled, because it is not hot or mypyc cannot.
PLAIN = """
    background/background_work background/events background/refresher background/threads changes
    engine/location engine/recent_writes engine/recovery errors filters/keys filters/maths/allocation
    filters/maths/layouts filters/maths/sizing html options read/snapshots runtime
    sstable/filter_plan sstable/format sstable/multi_writer storage/file_names storage/posix
    tree/capture tree/levels tree/manifest tree/version_set
"""


@pytest.fixture(params=COMPILED)
def name(request: pytest.FixtureRequest) -> str:
    """Of a compiled module."""
    return str(request.param)


@functools.cache
def parsed(name: str) -> ast.Module:
    return ast.parse((PACKAGE / f"{name}.py").read_text(encoding="utf-8"))


@pytest.fixture
def tree(name: str) -> ast.Module:
    return parsed(name)


def test_what_a_compiled_module_imports_is_compiled_or_known_to_be_plain(tree: ast.Module) -> None:
    # A new module that COMPILED does not name would run interpreted, and nothing else would tell.
    imported = {
        node.module.removeprefix("lsmkv.").replace(".", "/")
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("lsmkv.")
    }
    modules = {module for module in imported if (PACKAGE / f"{module}.py").exists()}
    assert sorted(modules - set(COMPILED) - set(PLAIN.split())) == []


def test_no_compiled_module_raises_from_a_cause(tree: ast.Module) -> None:
    # mypyc leaves the cause out: errors.caused sets it.
    raised = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    assert [node.lineno for node in raised if node.cause is not None] == []


def test_no_compiled_class_has_a_finalizer_of_its_own(tree: ast.Module) -> None:
    # mypyc calls it with an exception pending: a Finalizer stands in.
    named = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert [node.lineno for node in named if node.name == "__del__"] == []


def test_no_compiled_generator_has_something_to_do_when_it_is_dropped(tree: ast.Module) -> None:
    # mypyc does not close it: what is behind a yield, in a finally or by a with, is not done.
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.Try | ast.With)]
    yields = (ast.Yield, ast.YieldFrom)
    assert [
        node.lineno for node in blocks if any(isinstance(below, yields) for below in ast.walk(node))
    ] == []


def test_no_compiled_module_asks_what_it_runs_on(tree: ast.Module) -> None:
    # A release has C for all systems and versions.  mypyc leaves out what is for another than its own.
    asked = {"sys.platform", "sys.version_info", "os.name"}
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    assert [node.lineno for node in nodes if ast.unparse(node) in asked] == []


def _is_number(node: ast.expr) -> bool:
    """Whether it is a literal number, or one as a machine word: ``1``, ``i64(1)``."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def _is_below_8(node: ast.expr) -> bool:
    """Whether it is ``... & 7`` or less."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.BitAnd)
        and isinstance(node.right, ast.Constant)
        and isinstance(node.right.value, int)
        and node.right.value < 8
    )


def test_no_compiled_module_shifts_a_literal_by_a_variable(name: str, tree: ast.Module) -> None:
    # mypyc writes the literal as a 32-bit number: 1 << n is wrong for n > 31.
    shifts = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.LShift)
        and _is_number(node.left)
        and not _is_number(node.right)
        and not _is_below_8(node.right)
    ]
    allowed = {"float(1 << index)"} if name == "stats" else set()  # it is no machine word there
    source = (PACKAGE / f"{name}.py").read_text(encoding="utf-8")
    lines = source.splitlines()
    found = [node.lineno for node in shifts]
    assert [at for at in found if not any(fine in lines[at - 1] for fine in allowed)] == []


def test_no_compiled_module_calls_in_the_bound_of_a_slice(tree: ast.Module) -> None:
    # mypyc calls it twice if it does not know the sliced type.
    bounds = [
        bound
        for node in ast.walk(tree)
        if isinstance(node, ast.Slice)
        for bound in (node.lower, node.upper)
        if bound is not None
    ]
    called = [
        node
        for bound in bounds
        for node in ast.walk(bound)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") not in {"len", "i64"}
    ]
    assert [node.lineno for node in called] == []
