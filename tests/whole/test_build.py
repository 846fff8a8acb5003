"""How setup.py builds: what it compiles, and what it makes of the code of mypyc.

``python -m tools.check_install`` builds wheels, and compares what they do.
"""

from __future__ import annotations

import ast
import hashlib
import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

import pytest
from conftest import outdated_sources

from gates import LONG_WAIT_S
from tools.long_description import for_an_index
from tools.mypyc_mend import (
    COMPILED,
    TYPES,
    UnknownCodeError,
    check,
    docstrings,
    documented,
    portable,
    safe,
)

ROOT: Final = Path(__file__).parents[2]
SETUP: Final = ROOT / "setup.py"


@pytest.mark.parametrize("drop", ["CPy_DECREF", "CPy_DECREF_NO_IMM"])  # the latter from 3.12 on
def test_generated_code_stores_an_attribute_before_it_drops_the_old_value(drop: str) -> None:
    always_set = (
        f"{drop}(((ThingObject *)cpy_r_self)->_a);\n  ((ThingObject *)cpy_r_self)->_a = cpy_r_b;"
    )
    maybe_set = f"if (self->_a != NULL) {{\n  {drop}(self->_a);\n}}\nself->_a = tmp;"
    assert safe(always_set) == "Py_XSETREF(((ThingObject *)cpy_r_self)->_a, cpy_r_b);"
    assert safe(maybe_set) == "Py_XSETREF(self->_a, tmp);"


def test_generated_code_keeps_no_object_for_reuse() -> None:
    kept = "if (X_free_instance == NULL) {\n  X_free_instance = self;\n  return;\n}\n"
    assert safe(kept).startswith("if (0) {\n")


@pytest.mark.parametrize(
    "unknown",
    [
        "free(self);\nX_free_instance = self;\n",
        "CPy_DECREF(self->_a);\nself->_b = tmp;\n",
        "CPy_DECREF(self->_a.f0);\nself->_a = tmp;\n",
        "CPy_XDECREF(self->_a);\nself->_a = tmp;\n",
    ],
)
def test_generated_code_of_another_kind_is_not_compiled(unknown: str) -> None:
    with pytest.raises(UnknownCodeError, match="not known to be safe"):
        safe(f"before\n{unknown}after\n")


SUFFIX: Final = EXTENSION_SUFFIXES[0]


def test_generated_code_has_the_suffix_of_whatever_python_compiles_it() -> None:
    table = f'    "\\003\\b__file__\\{len(SUFFIX):03o}{SUFFIX}",\n'
    named = f"  f = PyUnicode_FromString(\"{SUFFIX}\");\n  g = S[1]; /* '{SUFFIX}' */\n"
    assert portable(table + named) == (
        '"\\003\\b__file__" LSMKV_SUFFIX_ITEM "",\n'
        f"f = PyUnicode_FromString(LSMKV_SUFFIX);\ng = S[1]; /* '{SUFFIX}' */\n"
    )


def test_generated_code_that_tells_the_suffix_elsewhere_is_not_compiled() -> None:
    with pytest.raises(UnknownCodeError, match=f"is for {SUFFIX} only"):
        portable(f'name = "x{SUFFIX}";\n')


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source distribution of one module, and its C."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("a")
    (tmp_path / "SHA256SUMS").write_text(hashlib.sha256(b"a").hexdigest() + "  a.py\n")
    return tmp_path


def test_shipped_code_of_a_changed_module_is_not_compiled(shipped: Path) -> None:
    check(shipped)
    (shipped / "a.py").write_text("b")
    with pytest.raises(RuntimeError, match=r"a\.py was changed; remove"):
        check(shipped)


@pytest.mark.parametrize("version", [(3, 10), (3, 15)])
def test_shipped_code_is_not_compiled_for_an_untried_python(
    shipped: Path, version: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    with pytest.raises(RuntimeError, match="the C code is not made for Python"):
        check(shipped)


DOCUMENTED: Final = '''
"""Of a module."""

def use(key):
    """Of a function: "quoted", \\\\, why??!"""

class Thing:
    """Of a class.

    With a second line, and é.
    """

    def _hidden(self): pass

    def act(self):
        """Of a method."""

    @property
    def state(self):
        """Of a property."""

    @state.setter
    def state(self, value): pass
'''

GENERATED: Final = r"""
    static PyGetSetDef b___Thing_getseters[] = {
        {"state",
         (getter)b___Thing_get_state,
         (setter)b___Thing_set_state,
        NULL, NULL},
    };
    static PyMethodDef b___Thing_methods[] = {
        {"act",
         (PyCFunction)CPyPy_b___Thing___act,
         METH_FASTCALL | METH_KEYWORDS, PyDoc_STR("act($self)\n--\n\n")},
        {"_hidden",
         (PyCFunction)CPyPy_b___Thing____hidden,
         METH_FASTCALL | METH_KEYWORDS, PyDoc_STR(NULL)},
    };
    static PyTypeObject CPyType_b___Thing_template_ = {
        .tp_name = "Thing",
        .tp_doc = PyDoc_STR(NULL),
    };
    static PyMethodDef bmodule_methods[] = {
        {"use", (PyCFunction)CPyPy_b___use, METH_FASTCALL, PyDoc_STR("use(key)") /* docstring */},
    };
    static struct PyModuleDef bmodule = {
        PyModuleDef_HEAD_INIT,
        "a.b",
        NULL, /* docstring */
    };
"""


def test_docstrings_are_put_into_generated_code() -> None:
    mended = documented(GENERATED, docstrings("a.b", DOCUMENTED))
    assert '"a.b",\n        "Of a module.", /* docstring */' in mended
    assert r'PyDoc_STR("use(key)""Of a function: \042quoted\042, \134, why\077\077!")' in mended
    assert r'PyDoc_STR("Of a class.\012\012With a second line, and \303\251.")' in mended
    assert r'PyDoc_STR("act($self)\n--\n\n""Of a method.")' in mended
    assert '(setter)b___Thing_set_state,\n        "Of a property.", NULL}' in mended
    assert "hidden,\n         METH_FASTCALL | METH_KEYWORDS, PyDoc_STR(NULL)}" in mended
    assert documented(GENERATED, {}) == GENERATED


@pytest.mark.parametrize(
    ("known", "unknown"),
    [
        ("PyDoc_STR(NULL)", "PyDoc_STR(nothing)"),
        ("(getter)", "(reader)"),
        ("NULL, /* docstring */", "/* docstring */ NULL,"),
    ],
)
def test_generated_code_with_unknown_docstrings_is_unchanged_with_a_warning(
    known: str, unknown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    generated = GENERATED.replace(known, unknown)
    assert documented(generated, docstrings("a.b", DOCUMENTED)) == generated
    assert "building without docstrings" in capsys.readouterr().err


TYPED: Final = """
from unheard_of import anything
from other import wrong

def use(key: bytes) -> bytes:
    found = anything(key, wrong)
    return found
"""


def mypy(folder: Path, compiled: str) -> str:
    """What mypy says of a module to be compiled, beside one that is wrong and is not."""
    pytest.importorskip("mypy")
    (folder / "compiled.py").write_text(compiled)
    (folder / "other.py").write_text("wrong: int = ''\n")
    (folder / "mypy.ini").write_text("[mypy]\nstrict = true\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *TYPES, "compiled.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_WAIT_S,
    )
    return done.stdout


@pytest.mark.parametrize(("more", "said"), [("", "Success"), ("wrong: str = 1\n", "compiled.py:8")])
def test_only_wrong_types_of_a_compiled_module_end_a_build(
    tmp_path: Path, more: str, said: str
) -> None:
    assert mypy(tmp_path, TYPED + more).startswith(said)


README: Final = """
![A picture of
it](docs/pictures/it.svg)

See [why](docs/design.md#why), [docs/a.md](docs/a.md) and [the
site](https://example.org).
"""


def test_the_description_for_a_package_index_has_no_links_into_the_repository() -> None:
    shown = for_an_index(README)
    assert (
        shown
        == """
See why (`docs/design.md`), docs/a.md and [the
site](https://example.org).
"""
    )
    assert "](" not in for_an_index((ROOT / "README.md").read_text("utf-8"))


def test_an_unknown_choice_of_build_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, str(SETUP), "--name"],
        cwd=ROOT,
        env={**os.environ, "LSMKV_PURE": "x"},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_WAIT_S,
    )
    assert done.returncode
    assert "LSMKV_PURE=x: must be 1 (pure), 0 (compiled) or unset" in done.stderr


@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_module_exists_and_has_no_derived_dataclass_with_slots(name: str) -> None:
    # Compiled, such a class cannot be made when the module is imported; one without a base can.
    tree = ast.parse((ROOT / "lsmkv" / f"{name}.py").read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.bases:
            decorators = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
            assert "slots=True" not in decorators, node.name


# Compiled files in a checkout: see conftest.py


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with one module and its compiled files, all equally old."""
    (tmp_path / "lsmkv").mkdir()
    for name in ("lsmkv/log.py", "lsmkv/log.cpython-311.so", "ab12__mypyc.cpython-311.so"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000.0, 1000.0))
    return tmp_path


@pytest.mark.parametrize(
    ("touched", "outdated"),
    [
        ([], []),
        (["lsmkv/db.py"], []),  # which has no compiled form
        (["lsmkv/log.py"], ["lsmkv/log.py"]),
        (["lsmkv/log.py", "ab12__mypyc.cpython-311.so"], []),  # its loader may be old
    ],
    ids=str,
)
def test_a_source_that_is_newer_than_its_library_is_outdated(
    tree: Path, touched: list[str], outdated: list[str]
) -> None:
    for name in touched:
        (tree / name).touch()
    assert outdated_sources(tree) == [tree / name for name in outdated]
    (tree / "lsmkv" / "log.py").unlink()  # a compiled module without a source
    assert outdated_sources(tree) == [tree / "lsmkv" / "log.py"]
