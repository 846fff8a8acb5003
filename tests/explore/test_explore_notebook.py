"""Notebooks draw a store's page and the way of a lookup; ``--demo`` makes a store to show."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

import lsmkv
from explored_stores import HOSTILE, make_store, page_in
from lsmkv.cli.commands import cli
from lsmkv.explore.demo import make_store as make_demo


def tags_of(text: str) -> set[str]:
    found: set[str] = set()

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.add(tag)
            assert not [name for name, _ in attrs if name.startswith("on")]

    Reader().feed(text)
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("drawn") / "db"
    make_store(path, 400)
    return path


def test_a_store_open_for_writing_is_explored_with_what_is_in_its_log(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        db[b"flushed"] = b"1"
        db.flush()
        db[b"in the log"] = b"2"
        drawn = db.explore()
    made = page_in(drawn.html)
    assert made.map.entry_count == 1
    assert made.map.memtable_key_counts == [1]


def test_a_page_in_a_notebook_is_in_a_frame_that_reaches_nothing(store: Path) -> None:
    with lsmkv.open(store, read_only=True) as db:
        drawn = db.explore()
    text = drawn._repr_html_()
    assert tags_of(text) == {"iframe"}
    assert 'sandbox="allow-scripts"' in text
    found = re.search(r'srcdoc="([^"]*)"', text)
    assert found and html.unescape(found[1]) == drawn.html
    assert "notebooks draw it" in repr(drawn)


def test_a_closed_store_is_not_explored(store: Path) -> None:
    db = lsmkv.open(store, read_only=True)
    db.close()
    with pytest.raises(lsmkv.ClosedError):
        db.explore()


def test_an_explanation_is_drawn_in_words_and_rows(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", level0_compaction_trigger=5) as db:
        for run in range(3):
            for number in range(0, 60, 3):
                db.put(b"%03d" % (number + run), b"")
            db.flush()
        db.put(b"new", b"")
        absent, present = db.explain(b"003x"), db.explain(b"003")  # which fills the cache
        in_memory, outside = db.explain(b"new"), db.explain(b"zzz")
        assert absent.filter_negatives == 3
        text = absent._repr_html_()
    assert "<code>003x</code> is not in this store." in text
    assert "3 blocks could hold it. 3 filters said no. 0 reads." in text
    assert text.count("<circle") == 4
    assert text.count("#56b4e9") == 3
    assert f"{absent.runs[0].spanning.length_bytes:,} bytes not read" in text  # type: ignore[union-attr]
    assert f"{present.blocks_read} read found it" in present._repr_html_()
    assert "The memtable has it. 0 reads." in in_memory._repr_html_()
    assert "No block could hold it." in outside._repr_html_()


def test_a_drawing_tells_a_wasted_read_from_a_find(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", filter_policy="none", block_cache_size_bytes=0) as db:
        for end in (b"a", b"b"):
            db.update((b"%02d" % number + end, b"") for number in range(60))
            db.flush()
        found, absent = db.explain(b"30a")._repr_html_(), db.explain(b"40x")._repr_html_()
    assert "1 read found it, 1 wasted read." in found
    assert "2 wasted reads." in absent


def test_hostile_keys_are_text_in_a_drawing(store: Path) -> None:
    with lsmkv.open(store, read_only=True) as db:
        for key in HOSTILE:
            tags = tags_of(db.explain(key)._repr_html_())
            picture = {"div", "p", "code", "svg", "text", "circle"}
            steps = {"details", "summary", "table", "caption", "b", "tbody", "tr", "th", "td"}
            assert tags <= picture | steps


def test_the_demonstration_store_has_four_runs_each_time_the_same(tmp_path: Path) -> None:
    shapes = []
    for name in ("one", "two"):
        make_demo(str(tmp_path / name))
        with lsmkv.open(tmp_path / name, read_only=True) as db:
            info = db.inspect()
            shapes.append([(t.entry_count, t.smallest, t.size_bytes) for t in info.tables()])
            assert sum(len(level.runs) for level in info.levels) == 4
            assert sum(info.memtable_key_counts) > 0
    assert shapes[0] == shapes[1]


def test_the_demonstration_needs_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    out = tmp_path / "demo.html"
    done = CliRunner().invoke(cli, ["explore", "--demo", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert opened == [out.as_uri()]
    made = page_in(out.read_text("utf-8"))
    absent = [one for one in made.lookups if one.kind == "absent"]
    assert max(one.reads_without_filters - one.blocks_read for one in absent) == 4
    assert {step.kind for step in made.history.steps} == {"flush", "compaction"}


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["db", "--port", "80"], "add --serve, or leave --port out"),
        (["db", "--demo"], "leave out db, or --demo"),
        ([], "give --demo"),
        ([""], "the present directory is ."),
    ],
)
def test_options_that_say_nothing_together_are_errors(arguments: list[str], remedy: str) -> None:
    done = CliRunner().invoke(cli, ["explore", *arguments])
    assert done.exit_code == 2
    assert remedy in " ".join(done.output.split())
