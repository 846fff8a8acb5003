"""Wheels: their compiled modules, and equal bytes by both builds."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any, Final

import pytest
from conftest import outdated_sources

ROOT: Final = Path(__file__).parents[2]
SETUP: Final = ROOT / "setup.py"
OLDEST_SETUPTOOLS: Final = 77  # of pyproject.toml

# Writes every kind of file with every filter policy, without background work.  Logs get seeded salts.
WRITE_STORES: Final = """
import os, random, sys
import lsmkv
from lsmkv.filters import bloom

os.urandom = random.Random(1).randbytes

key = "user%06d".__mod__
for policy in ("bloom", "blocked-bloom", "binary-fuse", "none"):
    for granularity in ("block", "table"):
        with lsmkv.open(
            f"{sys.argv[1]}/{policy}-{granularity}",
            filter_policy=policy,
            filter_granularity=granularity,
            filter_key=lsmkv.FixedPrefix(9) if policy == "blocked-bloom" else lsmkv.WholeKey(),
            compression="zstd" if granularity == "block" else "none",
            compression_dictionary_size_bytes=1024 if policy == "bloom" else 0,
            block_size_bytes=512,
            table_size_bytes=16384,
        ) as db:
            for number in range(0, 1500):
                db.put(key(number * 7919 % 1500).encode(), b"value %d" % number * (number % 9))
            db.compact_range()
            with db.write_batch() as batch:
                for number in range(0, 1500, 7):
                    batch.delete(key(number).encode())
                    batch.put(key(number + 1).encode(), b"newer %d" % number)
            held = db.snapshot()
            db.delete(key(2).encode(), sync=True)
            db.put(key(3).encode(), b"")
            db.put(key(4).encode() * 40, b"of a longer key")
            db.flush()
            held.close()
            db.compact_range(key(0).encode(), key(700).encode())
            db.put(b"", b"in the log alone")
print("interpreted" if str(bloom.__file__).endswith(".py") else "compiled")
"""


def compiled_names() -> tuple[str, ...]:
    """``COMPILED`` of setup.py, read from its source: importing it would build."""
    for node in ast.parse(SETUP.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMPILED":
            return tuple(ast.literal_eval(node.value))
    raise AssertionError("setup.py has no COMPILED")


COMPILED: Final = compiled_names()


def of_setup() -> dict[str, Any]:
    """The functions of setup.py, from its source: importing it would build."""
    wanted: list[ast.stmt] = [
        node
        for node in ast.parse(SETUP.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef)
        or (isinstance(node, ast.ClassDef) and node.name.endswith("Error"))
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).startswith("_"))
    ]
    names: dict[str, Any] = {"ast": ast, "re": re, "sys": sys}
    annotations = ast.parse("from __future__ import annotations").body
    exec(compile(ast.Module(annotations + wanted, []), str(SETUP), "exec"), names)
    return names


SETUP_NAMES: Final = of_setup()
safe: Final = SETUP_NAMES["safe"]
docstrings: Final = SETUP_NAMES["docstrings"]
documented: Final = SETUP_NAMES["documented"]


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
    with pytest.raises(SETUP_NAMES["UnknownCodeError"], match="not known to be safe"):
        safe(f"before\n{unknown}after\n")


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


def test_code_without_docstrings_is_generated_unchanged() -> None:
    mended = documented(GENERATED, docstrings("a.b", DOCUMENTED))
    assert (
        "CPyPy_b___Thing____hidden,\n         METH_FASTCALL | METH_KEYWORDS, PyDoc_STR(NULL)}"
        in mended
    )
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


def wheel(directory: Path, pure: str) -> Path:
    """The wheel of a copy of this checkout, built with ``LSMKV_PURE=pure``."""
    if importlib.util.find_spec("setuptools") is None:
        pytest.skip("setuptools is not installed here")
    version = importlib.metadata.version("setuptools")
    if int(version.partition(".")[0]) < OLDEST_SETUPTOOLS:
        pytest.skip(f"setuptools {version} is older than {OLDEST_SETUPTOOLS}")
    source = directory / "source"
    unbuilt = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "lsmkv", source / "lsmkv", ignore=unbuilt)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"),
            *("--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", "..", "."),
        ],
        cwd=source,
        env={**os.environ, "LSMKV_PURE": pure},
        check=True,
    )
    (found,) = directory.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def pure_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel(tmp_path_factory.mktemp("pure"), "1")


@pytest.fixture(scope="module")
def compiled_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no C compiler here ({compiler})")
    if importlib.util.find_spec("mypyc") is None:
        pytest.skip("mypyc is not installed here")
    return wheel(tmp_path_factory.mktemp("compiled"), "0")


def installed(wheel: Path) -> Path:
    """A folder with the installed wheel."""
    target = wheel.parent / "installed"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--no-deps", "--no-index", "--target", str(target), str(wheel)),
        ],
        check=True,
    )
    return target


def run(target: Path, *arguments: str) -> str:
    """The output of a process that uses the lsmkv in ``target``."""
    return subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=target,
        env={**os.environ, "PYTHONPATH": str(target)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def extensions(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if name.endswith((".so", ".pyd"))]


def test_an_unknown_choice_of_build_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, str(SETUP), "--name"],
        cwd=ROOT,
        env={**os.environ, "LSMKV_PURE": "x"},
        capture_output=True,
        text=True,
        check=False,
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


def test_no_module_is_listed_twice() -> None:
    assert len(set(COMPILED)) == len(COMPILED)


def test_the_pure_wheel_is_for_every_platform(pure_wheel: Path) -> None:
    assert pure_wheel.name.endswith("-py3-none-any.whl")
    assert extensions(pure_wheel) == []


def test_the_wheel_holds_the_page_but_not_its_sources(pure_wheel: Path) -> None:
    with zipfile.ZipFile(pure_wheel) as wheel:
        names = [name for name in wheel.namelist() if name.startswith("lsmkv/explore/")]
    assets = {name.rpartition("/")[2] for name in names if "/assets/" in name}
    assert assets == {"explore.css", "explore.js", "page.html"}
    assert [name for name in names if "/web/" in name] == []


@pytest.mark.slow
def test_the_compiled_wheel_is_for_this_platform_and_holds_every_module(
    compiled_wheel: Path,
) -> None:
    assert f"-cp{sys.version_info.major}{sys.version_info.minor}-" in compiled_wheel.name
    assert not compiled_wheel.name.endswith("-any.whl")
    stems = sorted(name.partition(".")[0] for name in extensions(compiled_wheel))
    libraries = [stem for stem in stems if stem.endswith("__mypyc")]
    assert len(libraries) == 1
    assert [stem for stem in stems if stem not in libraries] == sorted(
        f"lsmkv/{name}" for name in COMPILED
    )


@pytest.mark.slow
def test_both_builds_write_the_same_bytes(
    pure_wheel: Path, compiled_wheel: Path, tmp_path: Path
) -> None:
    written = {}
    for form, built in (("interpreted", pure_wheel), ("compiled", compiled_wheel)):
        target = installed(built)
        assert f"({form}, Python" in run(target, "-m", "lsmkv", "--version")
        stores = tmp_path / form
        stores.mkdir()
        assert run(target, "-c", WRITE_STORES, str(stores)) == f"{form}\n"
        written[form] = {
            str(file.relative_to(stores)): file.read_bytes()
            for file in sorted(stores.rglob("*"))
            if file.is_file() and file.name != "LOCK"
        }
    interpreted, compiled = written["interpreted"], written["compiled"]
    assert list(compiled) == list(interpreted)
    assert [name for name, data in compiled.items() if data != interpreted[name]] == []
    kinds = {Path(name).suffix or Path(name).name.partition("-")[0] for name in compiled}
    assert kinds == {"CURRENT", "MANIFEST", ".log", ".sst"}


# Compiled files in a checkout: see conftest.py


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with one module and its compiled files, all equally old."""
    (tmp_path / "lsmkv").mkdir()
    for name in ("lsmkv/log.py", "lsmkv/log.cpython-311.so", "ab12__mypyc.cpython-311.so"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1000.0, 1000.0))
    return tmp_path


def test_compiled_files_as_old_as_their_sources_are_not_outdated(tree: Path) -> None:
    assert outdated_sources(tree) == []


def test_sources_without_a_compiled_form_are_never_outdated(tree: Path) -> None:
    (tree / "lsmkv" / "db.py").touch()
    assert outdated_sources(tree) == []


def test_a_source_edited_after_it_was_compiled_is_outdated(tree: Path) -> None:
    (tree / "lsmkv" / "log.py").touch()
    assert outdated_sources(tree) == [tree / "lsmkv" / "log.py"]


def test_a_new_library_makes_up_for_an_old_loader(tree: Path) -> None:
    (tree / "lsmkv" / "log.py").touch()
    (tree / "ab12__mypyc.cpython-311.so").touch()
    assert outdated_sources(tree) == []


def test_a_compiled_module_without_a_source_is_outdated(tree: Path) -> None:
    (tree / "lsmkv" / "log.py").unlink()
    assert outdated_sources(tree) == [tree / "lsmkv" / "log.py"]


def test_a_checkout_with_outdated_files_runs_no_tests(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "tests", tmp_path / "tests", ignore=shutil.ignore_patterns("__*", "test_*")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)  # for pytest to find the shared modules
    (tmp_path / "lsmkv").mkdir()
    (tmp_path / "lsmkv" / "log.cpython-311.so").touch()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "compiled files older than their sources (lsmkv/log.py)" in done.stderr
