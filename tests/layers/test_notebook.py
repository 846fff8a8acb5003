"""How objects show themselves: as text, and as HTML in a notebook."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import lsmkv
from lsmkv.inspection.report import Problem

TAGS = {"table", "caption", "b", "tbody", "tr", "th", "td"}
HOSTILE = b"<script>alert('x')</script>&\xff\x00\n" + bytes(5000)
PICTURE = {"div", "p", "code", "svg", "circle", "text", "details", "summary"}  # of a lookup


class Shown(HTMLParser):
    """The tags and the text of an object's HTML, which must be well-formed."""

    def __init__(self, shown: Any) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.html: str = shown._repr_html_()
        self.feed(self.html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


@pytest.fixture
def db(tmp_path: Path) -> Iterator[lsmkv.DB]:
    with lsmkv.open(tmp_path / "<b>store\n") as opened:
        opened[HOSTILE] = b"value"
        opened[b"key"] = b"<i>"
        opened.flush()
        opened[b"new"] = b"1"
        yield opened


def all_of(db: lsmkv.DB) -> list[Any]:
    cursor = db.cursor()
    assert cursor.seek(HOSTILE)
    batch = db.write_batch()
    batch.put(HOSTILE, HOSTILE)
    views = [db.keys(prefix=HOSTILE), db.values(start=HOSTILE, reverse=True), db.items()]
    return [db, db.snapshot(), cursor, batch, db.stats(), *views, *prefixed_of(db)]


def prefixed_of(db: lsmkv.DB) -> list[Any]:
    """Mappings with a hostile prefix, of the store, a snapshot and a transaction, and their views."""
    transaction = db.transaction()
    transaction.put(HOSTILE, HOSTILE)
    readers = (db, db.snapshot(), transaction)
    mappings = [reader.prefixed(HOSTILE) for reader in readers]
    views = [
        view for each in mappings for view in (each.keys(), each.values(), each.items(reverse=True))
    ]
    return [transaction, *mappings, *views]


@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
def test_every_object_is_shown_escaped_bounded_and_without_a_read(
    db: lsmkv.DB, closed: bool
) -> None:
    objects = all_of(db)
    if closed:
        for each in objects:
            getattr(each, "close", lambda: None)()
    before = db._state.stats.copy()
    for each in objects:
        shown = Shown(each)
        assert shown.tags == TAGS
        assert len(shown.html) < 10_000 and len(repr(each)) < 2000
        assert "\n" not in repr(each)
    assert db._state.stats.copy() == before


def test_every_report_is_shown_escaped_and_bounded(db: lsmkv.DB) -> None:
    damaged = Problem("<i>caf\udce9</i>\n", 3, "<b>" * 1000)
    verified = dataclasses.replace(db.verify(), problems=(damaged,) * 1000)
    (table,) = db.inspect().tables()
    blocks = list(db.blocks(table.number))
    for report in (db.explain(HOSTILE), db.inspect(), table, blocks[0], verified, damaged):
        shown = Shown(report)
        drawn = PICTURE if isinstance(report, lsmkv.Explanation) else set()
        assert shown.tags == TAGS | drawn and type(report).__name__ in shown.text
        assert len(shown.html.encode()) < 150_000
    assert "… and 960 more" in Shown(verified).text


def test_a_view_shows_its_bounds(db: lsmkv.DB) -> None:
    path = repr(db.path)
    assert repr(db.keys()) == f"<RangeKeys of {path}, all keys>"
    assert repr(db.items(start=b"a", stop=b"b")) == (
        f"<RangeItems of {path}, start b'a', stop b'b'>"
    )
    assert repr(db.values(prefix=b"user/", reverse=True)) == (
        f"<RangeValues of {path}, prefix b'user/', order descending>"
    )
    assert "b'user/'" in Shown(db.values(prefix=b"user/")).text


def test_a_transaction_shows_its_writes(db: lsmkv.DB) -> None:
    transaction = db.transaction()
    transaction.put(b"key", b"2")
    assert "1 write" in Shown(transaction).text and repr(db.path) in Shown(transaction).text
    transaction.close()
    assert "committed or discarded" in Shown(transaction).text


def test_statistics_show_what_was_counted(db: lsmkv.DB) -> None:
    empty = db.stats() - db.stats()
    assert repr(empty) == "lsmkv.Stats()"
    assert "nothing" in Shown(empty).text
    earlier = db.stats()
    db.get(b"key")
    counted = db.stats() - earlier
    assert repr(counted).startswith("lsmkv.Stats(gets=1, get_hits=1, ")
    assert "writes" not in repr(counted)
    assert "flush_us 1 values" in Shown(db.stats()).text
    assert "flush_us=<lsmkv.Histogram of 1 values, mean " in repr(db.stats())


def test_a_handle_that_cannot_be_opened_any_more_is_shown(tmp_path: Path) -> None:
    import pickle
    import shutil

    with lsmkv.open(tmp_path / "store") as db:
        db[b"a"] = b"1"
    with lsmkv.open(tmp_path / "store", read_only=True) as reader:
        travelled = pickle.loads(pickle.dumps(reader))
    shutil.rmtree(tmp_path / "store")
    assert "NotAStoreError" in Shown(travelled).text
