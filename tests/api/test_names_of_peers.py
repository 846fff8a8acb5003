"""Names of other stores, and ``help``: each says what to write here, in both builds."""

from __future__ import annotations

import ast
import inspect
import pydoc
import re
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any, Final

import pytest

import lsmkv
from lsmkv.api.snapshot import RangeItems, RangeKeys, RangeValues
from lsmkv.layers import peers
from lsmkv.typed import Bytes, Str, TypedDB


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Any]:
    with lsmkv.open(tmp_path / "store") as db:
        yield db


ARGUMENTS: Final[dict[str, tuple[Callable[[Any], object], str]]] = {
    "put True": (lambda db: db.put(b"k", b"v", True), r"DB\.put\(\.\.\., True\): .* sync=True"),
    "put ttl": (
        lambda db: db.put(b"k", b"v", ttl=5),
        r"DB\.put has no argument 'ttl': put\(key, value, ttl_s=60\)",
    ),
    "delete True": (lambda db: db.delete(b"k", True), r"DB\.delete\(\.\.\., True\): .* sync=True"),
    "prefix put": (
        lambda db: db.prefixed(b"p").put(b"k", b"v", True),
        r"PrefixedDB\.put.*sync=True",
    ),
    "typed put": (lambda db: typed(db).put("k", b"v", ttl=5), r"TypedDB\.put.*'ttl': .*ttl_s=60"),
    "prefix delete": (
        lambda db: db.prefixed(b"p").delete(b"k", True),
        r"PrefixedDB\.del.*sync=True",
    ),
    "limit": (
        lambda db: db.items(limit=3),
        r"DB\.items has no argument 'limit': itertools\.islice",
    ),
    "from_key": (lambda db: db.items(from_key=b"a"), r"'from_key': write start="),
    "end": (lambda db: db.keys(end=b"a"), r"DB\.keys has no argument 'end': write stop="),
    "inclusive": (lambda db: db.values(include_stop=True), r"start <= key < stop"),
    "descending": (lambda db: db.items(descending=True), r"write reverse="),
    "unknown": (
        lambda db: db.items(colour=1),
        r"'colour': it takes start=, stop=, prefix= and reverse=",
    ),
    "unnamed": (lambda db: db.items(b"a"), r"DB\.items\(b'a'\) needs a name: start="),
    "unnamed sync of a batch": (
        lambda db: db.write_batch(True),
        r"DB\.write_batch\(True\): sync needs its name, DB\.write_batch\(sync=True\)",
    ),
    "unnamed sync of a transaction": (
        lambda db: db.transaction(True),
        r"DB\.transaction\(True\): sync needs its name",
    ),
    "no pairs": (lambda db: db.bulk_load(3), r"pairs=3: give pairs of keys and values, or a map"),
    "no stats": (lambda db: db.stats() - 3, r"stats - 3: subtract the stats\(\) of an earlier mom"),
    "cursor": (lambda db: list(db.cursor()), r"a Cursor is moved, .* db\.items\(start=\.\.\.\)"),
    "typed cursor": (lambda db: list(typed(db).cursor()), r"a MappedCursor is moved"),
}


def typed(db: Any) -> Any:
    return TypedDB(db, key=Str(), value=Bytes())


@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_argument_of_another_store_is_refused_with_what_to_write(db: Any, name: str) -> None:
    call, message = ARGUMENTS[name]
    with pytest.raises(TypeError, match=message):
        call(db)
    assert not db


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("iterator", r"items\(start="),
        ("delete_prefix", r"delete_range\(prefix=\)"),
        ("put_if_absent", r"compare_and_set\(key, None, value\)"),
        ("has_key", "write: key in db"),
        ("incr", r"transact\(function\)"),
        ("ttl", r"ttl_s=60"),
        ("compact", r"compact_range\(\)"),
        ("get_approximate_size", r"approximate_size\(start, stop\)"),
    ],
)
def test_an_attribute_of_another_store_is_missing_with_what_to_write(
    db: Any, name: str, advice: str
) -> None:
    for mapping in (db, db.snapshot(), db.transaction(), db.prefixed(b"p"), typed(db)):
        assert not hasattr(mapping, name)
        assert name not in dir(mapping)
        assert name not in dir(type(mapping))  # which help() shows
        with pytest.raises(
            AttributeError, match=rf"^{type(mapping).__name__} has no '{name}': .*{advice}"
        ):
            getattr(mapping, name)


def test_a_method_that_a_class_has_is_shown_though_its_base_tells_it_as_another_stores() -> None:
    assert "commit" in dir(lsmkv.Transaction)


def test_advice_that_a_snapshot_cannot_follow_names_the_store(db: Any) -> None:
    with pytest.raises(
        AttributeError, match=r"'set': put\(key, value\).*; that is a method of the store"
    ):
        _ = db.snapshot().set
    with pytest.raises(AttributeError, match=r"db\[key\] = value$"):
        _ = db.set
    with pytest.raises(AttributeError, match=r"approximate_count\(\) does not$"):
        _ = db.snapshot().count


def test_a_cursor_tells_its_names(db: Any) -> None:
    for cursor in (db.cursor(), db.transaction().cursor(), typed(db).cursor()):
        with pytest.raises(AttributeError, match=r"has no 'seek_to_first': first\(\)"):
            _ = cursor.seek_to_first
        assert "seek_to_first" not in dir(cursor)
        assert "seek" in dir(cursor)


@pytest.mark.parametrize("table", [peers._OF_MAPPINGS, peers._OF_CURSORS, peers._OF_RANGES])
def test_each_name_is_told_once(table: dict[str, str]) -> None:
    names = " ".join(table).split()
    assert len(names) == len(set(names))


def test_no_name_hides_a_method_of_mappings() -> None:
    assert not set(peers._by_name(peers._OF_MAPPINGS)) & set(dir(MutableMapping))


def test_help_shows_the_arguments_that_a_write_takes() -> None:
    assert str(inspect.signature(lsmkv.DB.put)) == (
        "(self, key: 'Buffer', value: 'Buffer', *, ttl_s: 'float | None' = None, "
        "expires_at: 'float | None' = None, sync: 'bool' = False) -> 'None'"
    )
    assert str(inspect.signature(lsmkv.DB.delete)) == (
        "(self, key: 'Buffer', *, sync: 'bool' = False) -> 'None'"
    )
    assert [*inspect.signature(lsmkv.DB.items).parameters] == [
        *("self", "start", "stop", "prefix", "reverse")
    ]


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("p", "error_rate"),
        ("fpr", "error_rate"),
        ("ttl", "default_ttl_s"),
        ("mode", "read_only=True"),
    ],
)
def test_an_option_of_another_store_is_refused_with_what_to_write(
    tmp_path: Path, option: str, advice: str
) -> None:
    wrong: dict[str, Any] = {option: 1}
    with pytest.raises(TypeError, match=f"no such option: {option} .*{advice}"):
        lsmkv.open(tmp_path / "store", **wrong)


def test_an_error_rate_of_one_says_how_to_do_without_filters() -> None:
    with pytest.raises(ValueError, match=r"error_rate=1: .*filter_policy='none'"):
        lsmkv.Options(error_rate=1)


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


def test_help_begins_with_the_ten_names_that_most_programs_need() -> None:
    begin = pydoc.plain(pydoc.render_doc(lsmkv)).partition("PACKAGE CONTENTS")[0]
    names = re.findall(r"``(\w+)``", begin)
    assert len(names) == 10
    assert set(names) <= set(lsmkv.__all__)


def test_what_a_reader_looks_for_first_is_named_by_the_store_itself() -> None:
    assert {"get", "multi_get", "keys", "values", "items", "put", "delete"} <= vars(lsmkv.DB).keys()
