"""CPython's own tests of ``dbm`` and ``shelve``, run on ``lsmkv.dbm`` and on shelves of stores."""

from __future__ import annotations

import dbm
import importlib
import importlib.util
import itertools
import os
import pickle
import shelve
import shutil
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lsmkv
import lsmkv.dbm

any_dbm: Any = pytest.importorskip(
    "test.test_dbm", reason="this Python was installed without its own tests (package `test`)"
)
mappings: Any = importlib.import_module("test.mapping_tests")

# Tests of CPython that ask for what a store does otherwise.
OTHERWISE = {
    # dbm.gnu
    "test_disallow_instantiation": "it is about a type written in C",
    "test_flags": "it asks for the flags f, s and u",
    "test_reorganize": "it asks for the size of a file, and a store is a directory",
    "test_context_manager": "it asks for the same words",
    "test_error_conditions": "a wrong flag is a ValueError here, as in dbm.sqlite3",
    # dbm.sqlite3
    "test_misuse_double_create": "one handle writes at a time",
    "test_misuse_reinit": "a Database is made from a DB",
    "test_misuse_empty_filename": "an empty path is a ValueError",
    "test_misuse_invalid_flag": "it asks for the same words",
    "test_datatypes_values": "numbers are refused, as in dbm.gnu and dbm.dumb",
    "test_datatypes_keys": "numbers are refused, as in dbm.gnu and dbm.dumb",
    "test_datatypes_replace_coerced": "numbers are refused, as in dbm.gnu and dbm.dumb",
    "test_readwrite_null_key": "None is a TypeError, as in dbm.gnu and dbm.dumb",
    "test_readwrite_null_value": "None is a TypeError, as in dbm.gnu and dbm.dumb",
    "test_misuse_iter_close1": "it sets a number",
    "test_misuse_iter_close2": "it sets a number",
}


@pytest.fixture(autouse=True)
def at_work_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython's tests write to names in the working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def a_module_that_dbm_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """``dbm.open`` asks ``whichdb`` what made a file, and that knows CPython's modules alone."""
    monkeypatch.setitem(dbm._modules, "lsmkv.dbm", lsmkv.dbm)  # type: ignore[attr-defined]
    monkeypatch.setattr(dbm, "whichdb", made_by)


def made_by(path: str | bytes) -> str | None:
    return "lsmkv.dbm" if os.path.isdir(path) else None


def on_stores(case: type) -> type:
    """A class of CPython's tests; those that ask for something else are skipped."""
    left_out = {
        name: unittest.skip(f"of CPython: {reason}")(getattr(case, name))
        for name, reason in OTHERWISE.items()
        if hasattr(case, name)
    }
    return type(case.__name__, (case,), {**left_out, "__module__": __name__})


class _AnyDBM(unittest.TestCase):
    module = lsmkv.dbm


TestAnyDBM = type("TestAnyDBM", (any_dbm.AnyDBMTestCase, _AnyDBM), {})


def gnu_tests() -> Any:
    """CPython's tests of ``dbm.gnu``, which need not be there."""
    sys.modules["dbm.gnu"], before = lsmkv.dbm, sys.modules.get("dbm.gnu")
    try:
        tests: Any = importlib.import_module("test.test_dbm_gnu")
    finally:
        del sys.modules["dbm.gnu"]
        if before is not None:
            sys.modules["dbm.gnu"] = before
    assert tests.gdbm is lsmkv.dbm
    tests.unlink = remove
    return tests


def remove(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)


TestGnu = on_stores(gnu_tests().TestGdbm)

like_sqlite: Any = None  # dbm.sqlite3 and its tests came with Python 3.13
if importlib.util.find_spec("test.test_dbm_sqlite3") is not None:
    like_sqlite = importlib.import_module("test.test_dbm_sqlite3")
    like_sqlite.dbm_sqlite3 = lsmkv.dbm
    like_sqlite._SQLiteDbmTests.tearDown = lambda self: remove(self.filename)
    TestReadOnly = on_stores(like_sqlite.ReadOnly)
    TestMisuse = on_stores(like_sqlite.Misuse)
    TestDataTypes = on_stores(like_sqlite.DataTypes)


def test_cpython_has_tests_of_its_module_on_sqlite() -> None:
    if like_sqlite is None:
        pytest.skip("this Python has no dbm.sqlite3, which came with 3.13, and no tests of it")
    assert like_sqlite.dbm_sqlite3 is lsmkv.dbm


class _Shelf:
    """A shelf of a store, in place of one of a file."""

    numbers = itertools.count()
    open_store: Any
    _args: dict[str, Any]

    def _reference(self) -> dict[str, object]:
        return {"key1": "value1", "key2": 2, "key3": (1, 2, 3)}

    def _empty_mapping(self) -> shelve.Shelf[Any]:
        shelf: shelve.Shelf[Any] = shelve.Shelf(
            self.open_store(f"shelf{next(self.numbers)}"), **self._args
        )
        self.addCleanup(shelf.close)  # type: ignore[attr-defined]  # of unittest.TestCase
        return shelf


OPENED: dict[str, Callable[[str], Any]] = {
    "DB": lsmkv.open,
    "Dbm": lambda path: lsmkv.dbm.open(path, "c"),
}

for name, opened in OPENED.items():
    for protocol in (0, pickle.HIGHEST_PROTOCOL):
        for writeback in (False, True):
            case = f"TestShelfOf{name}WithProtocol{protocol}{'AndWriteback' if writeback else ''}"
            globals()[case] = type(
                case,
                (_Shelf, mappings.BasicTestMappingProtocol),
                {
                    "type2test": shelve.Shelf,
                    "open_store": staticmethod(opened),
                    "_args": {"protocol": protocol, "writeback": writeback},
                },
            )
