"""The pages for newcomers: each stage of the first program runs, each row of equivalents holds."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import lsmkv
from gates import WAIT_S
from lsmkv.typed import Json, Str, TypedDB

DOCS = Path(__file__).parents[2] / "docs"
STAGES = re.findall(
    r"^```python\n(.*?)^```", (DOCS / "get-started.md").read_text(), re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize("count", range(1, 1 + len(STAGES)))
def test_the_first_program_prints_what_it_says_at_each_stage(count: int, tmp_path: Path) -> None:
    program = "\n\n".join(STAGES[:count])
    promised = re.findall(r"print\(.*\)  # (.+)$", program, re.MULTILINE)
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines() == promised
    assert len(promised) == program.count("print(")


BYTES = {b"a": b"1", b"b1": b"2", b"b2": b"3", b"c": b"4"}
NUMBERS = {"a": 1, "b1": 2, "b2": 3, "c": 4}


class Side(NamedTuple):
    """Opens a store; ``names`` are those of a row's code, ``content`` lists the entries afterwards."""

    names: Callable[[str], dict[str, Any]]
    content: Callable[[dict[str, Any]], dict[Any, Any]]


def here(path: str) -> dict[str, Any]:
    return {"db": lsmkv.open(path, background="thread"), "lsmkv": lsmkv}


def typed(path: str) -> dict[str, Any]:
    store = lsmkv.open(path, background="thread")
    return {"db": TypedDB(store, key=Str(), value=Json()), "store": store}


def cached(path: str) -> dict[str, Any]:
    return {"cache": importlib.import_module("lsmkv.cache").Cache(path, background="thread")}


def plyvel(path: str) -> dict[str, Any]:
    library = pytest.importorskip("plyvel")
    return {"db": library.DB(path, create_if_missing=True), "plyvel": library}


def rocksdict(path: str) -> dict[str, Any]:
    library = pytest.importorskip("rocksdict")
    names = {name: getattr(library, name) for name in ("Rdict", "WriteBatch", "Checkpoint")}
    return {"db": library.Rdict(path), **names}


def lmdb(path: str) -> dict[str, Any]:
    env = pytest.importorskip("lmdb").open(path, map_size=1 << 24)
    Path(f"{path}-copy").mkdir()
    return {"env": env}


def shelf(path: str) -> dict[str, Any]:
    return {"db": importlib.import_module("shelve").open(path)}


def sqlitedict(path: str) -> dict[str, Any]:
    library = pytest.importorskip("sqlitedict", reason="sqlitedict is no dependency of ours")
    return {"db": library.SqliteDict(path, autocommit=True)}


def diskcache(path: str) -> dict[str, Any]:
    library = pytest.importorskip("diskcache", reason="diskcache is no dependency of ours")
    return {"cache": library.Cache(path)}


def of_env(names: dict[str, Any]) -> dict[Any, Any]:
    if "txn" in names:
        names["txn"].commit()
    with names["env"].begin() as transaction:
        return dict(transaction.cursor())


def of_cache(names: dict[str, Any]) -> dict[Any, Any]:
    return {key: names["cache"][key] for key in names["cache"] if not isinstance(key, tuple)}


def of_mapping(names: dict[str, Any]) -> dict[Any, Any]:
    return dict(names["db"].items())


LSMKV = Side(here, of_mapping)
TYPED = Side(typed, of_mapping)
SECTIONS: dict[str, tuple[dict[Any, Any], Side, Side]] = {
    "plyvel": (BYTES, Side(plyvel, lambda names: dict(names["db"])), LSMKV),
    "RocksDict": (BYTES, Side(rocksdict, of_mapping), LSMKV),
    "LMDB": (BYTES, Side(lmdb, of_env), LSMKV),
    "shelve": (NUMBERS, Side(shelf, of_mapping), TYPED),
    "sqlitedict": (NUMBERS, Side(sqlitedict, of_mapping), TYPED),
    "diskcache": (NUMBERS, Side(diskcache, of_cache), Side(cached, of_cache)),
}


def rows() -> list[tuple[str, str, str]]:
    """Section, the other's code and ours."""
    found = []
    for section in (DOCS / "coming-from.md").read_text().split("\n## ")[1:]:
        for other, ours in re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", section, re.MULTILINE):
            found.append((section.split("\n")[0], other, ours))
    return found


def filled(names: dict[str, Any], entries: dict[Any, Any], code: str) -> None:
    if "env" in names:
        with names["env"].begin(write=True) as transaction:
            for key, value in entries.items():
                transaction.put(key, value)
        if "txn" in code:  # no two write at a time
            names["txn"] = names["env"].begin(write=True)
        return
    mapping: Any = names.get("db", names.get("cache"))
    for key, value in entries.items():
        if hasattr(mapping, "iterator"):  # plyvel's
            mapping.put(key, value)
        else:
            mapping[key] = value


def outcome(code: str, side: Side, entries: dict[Any, Any], path: str) -> tuple[object, object]:
    """What a row's last expression gives, and what the store holds then; None if it is closed."""
    names = side.names(path)
    filled(names, entries, code)
    names |= {"path": path, "copy": f"{path}-copy"}
    *statements, last = code.split("; ")
    exec("\n".join(statements), names)
    try:
        ast.parse(last, mode="eval")
        value = eval(last, names)
    except SyntaxError:  # it is a statement
        exec(last, names)
        value = None
    if "close()" in code:
        return value, None
    content = side.content(names)
    next(names[name] for name in ("store", "db", "env", "cache") if name in names).close()
    return value, content


@pytest.mark.parametrize(("section", "other", "ours"), rows())
def test_a_row_of_equivalents_does_the_same(
    section: str, other: str, ours: str, tmp_path: Path
) -> None:
    entries, there, mine = SECTIONS[section]
    given, content = outcome(ours, mine, entries, str(tmp_path / "ours"))
    wanted, wanted_content = outcome(other, there, entries, str(tmp_path / "other"))
    assert content == wanted_content
    if given is not None and wanted is not None:  # no write, of which some tell what it found
        assert given == wanted


def test_each_table_of_equivalents_has_rows() -> None:
    assert {section for section, _, _ in rows()} == set(SECTIONS)
