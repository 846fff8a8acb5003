"""The page: its numbers are the store's, its text is text, its size is bounded."""

from __future__ import annotations

import base64
import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import msgspec
import pytest

import lsmkv
from explored_stores import FEW, HOSTILE, MANUAL, make_store, page_in
from lsmkv.explore import contract, exploration, page
from lsmkv.explore.exploration import Detail, Exploration
from lsmkv.explore.keys import text_of
from lsmkv.explore.page import embedded, file_page, render
from lsmkv.explore.survey import Extent, blocks_per_cell


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explored") / "db<&>"
    make_store(path, 1500, filter_policy="bloom")
    return path


@pytest.fixture(scope="module")
def shown(store: Path) -> contract.Page:
    with Exploration(str(store)) as exploration:
        return exploration.page(Detail())


def tables_of(page: contract.Page) -> list[contract.Table]:
    return [table for level in page.map.levels for run in level.runs for table in run.tables]


def test_the_map_has_the_tables_of_inspect(store: Path, shown: contract.Page) -> None:
    with lsmkv.open(store, read_only=True) as db:
        info = db.inspect()
    expected = {}
    for table in info.tables():
        fields = table.as_dict()
        for name in ("smallest_hex", "largest_hex", "expiry", *table.derived):
            del fields[name]
        expected[table.number] = fields
    found = {
        table.number: {name: getattr(table, name) for name in expected[table.number]}
        for table in tables_of(shown)
    }
    assert found == expected
    assert shown.map.entry_count == info.entry_count
    assert shown.map.size_bytes == info.size_bytes
    assert shown.map.memtable_key_counts == list(info.memtable_key_counts)
    assert (shown.map.index_bytes, shown.map.filter_bytes) == (info.index_bytes, info.filter_bytes)


def test_cells_are_the_blocks_of_the_store(store: Path, shown: contract.Page) -> None:
    with lsmkv.open(store, read_only=True) as db:
        for table in tables_of(shown):
            cells, blocks = table.cells, list(db.blocks(table.number))
            assert cells.first_block == [block.number for block in blocks]
            (opened,) = (each for each in db.tables() if each.number == table.number)
            separators = [text_of(opened.separator(block.number)) for block in blocks]
            assert cells.from_key == separators
            assert cells.to_key == [*separators[1:], text_of(blocks[-1].last_key)]
            assert table.codec == blocks[0].codec
            assert cells.size_bytes == [block.length_bytes for block in blocks]
            assert cells.entry_count == [block.entry_count for block in blocks]
            assert cells.filter_bits == [block.bit_count for block in blocks]
            assert cells.parameter == [block.probe_count for block in blocks]
            known = [rate for rate in cells.rate if rate is not None]
            if len(known) == len(blocks):
                assert known == pytest.approx([block.expected_rate for block in blocks])


def test_places_of_keys_ascend_within_a_run(shown: contract.Page) -> None:
    for level in shown.map.levels:
        for run in level.runs:
            places = [
                place
                for table in run.tables
                for pair in zip(table.cells.start, table.cells.end, strict=True)
                for place in pair
            ]
            assert places == sorted(places)
            assert 0.0 <= places[0] <= places[-1] <= 1.0


def test_a_lookup_lies_within_the_cell_of_the_block_that_spans_its_key(
    shown: contract.Page,
) -> None:
    tables = {table.number: table for table in tables_of(shown)}
    seen = 0
    for lookup in shown.lookups:
        for step in lookup.runs:
            if step.table is not None and step.spanning_block is not None:
                cells = tables[step.table].cells
                start, end = cells.start[step.spanning_block], cells.end[step.spanning_block]
                assert start <= lookup.position <= end
                seen += 1
    assert seen > 100


def test_the_counters_are_those_of_the_recorded_lookups(shown: contract.Page) -> None:
    assert shown.stats["block_reads"] == sum(lookup.blocks_read for lookup in shown.lookups)
    cells = [sum(table.cells.wasted) for table in tables_of(shown)]
    steps = [step for lookup in shown.lookups for step in lookup.runs if step.outcome == "absent"]
    assert sum(cells) == sum(len(step.blocks) for step in steps) > 0
    assert shown.stats["compaction_block_reads"] == shown.stats["block_cache_hits"] == 0


def test_pictures_of_filters_do_not_count(store: Path) -> None:
    with Exploration(str(store), filter_residency="cached") as exploration:
        made = exploration.page(FEW)
    read_bytes = sum(
        step.filter.read_bytes
        for lookup in made.lookups
        for step in lookup.runs
        if step.filter is not None
    )
    assert made.stats["filter_read_bytes"] == read_bytes


def test_filters_tell_how_many_of_their_bits_are_set(shown: contract.Page) -> None:
    for filter in shown.filters:
        if filter.shown_bits == filter.bit_count:
            bits = base64.b64decode(filter.bits)
            assert filter.set_bits == sum(byte.bit_count() for byte in bits)


@pytest.mark.slow
def test_a_damaged_block_has_its_place_on_the_page(tmp_path: Path) -> None:
    make_store(tmp_path / "db", 1500)
    with lsmkv.open(tmp_path / "db", read_only=True) as db:
        table = db.tables()[-1]
        block = table.block(table.block_count // 2)
        name = table.info().file_name
    path = tmp_path / "db" / name
    content = bytearray(path.read_bytes())
    content[block.offset + 5] ^= 0xFF
    path.write_bytes(content)
    with Exploration(str(tmp_path / "db")) as exploration:
        made = exploration.page(Detail())
        again = exploration.page(Detail())
    (damage,) = made.damage
    assert (damage.table, damage.block) == (table.number, block.number)
    assert (damage.file_name, damage.offset) == (name, block.offset)
    assert "checksum" in damage.reason
    assert len([lookup for lookup in made.lookups if lookup.kind == "present"]) > 50
    assert again.damage == made.damage


def test_the_filters_hold_the_bits_that_lookups_ask(shown: contract.Page) -> None:
    filters = {(filter.table, filter.block): filter for filter in shown.filters}
    asked = 0
    for lookup in shown.lookups:
        for step in lookup.runs:
            if step.filter is None or not step.filter.probes or step.table is None:
                continue
            bits = base64.b64decode(filters[step.table, step.block].bits)
            unset = [bit for bit in step.filter.probes if not bits[bit >> 3] >> (bit & 7) & 1]
            assert unset == step.filter.unset_probes
            asked += 1
    assert asked > 100


@pytest.mark.slow
def test_the_page_is_small_whatever_the_store_is(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = len(page._asset("explore.js").encode()) + len(page._asset("explore.css"))
    monkeypatch.setattr(page, "MOST_BYTES", script + 30_000)
    made = file_page(str(store))
    assert len(made.encode()) <= script + 30_000


@pytest.fixture(scope="module")
def many_runs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small store whose lookups have 30 steps each."""
    path = tmp_path_factory.mktemp("many") / "db"
    with lsmkv.open(path, MANUAL) as db:
        for run in range(30):
            db.update((b"key%06d" % (7 * (30 * number + run)), b"v" * 45) for number in range(60))
            db.flush()
    return str(path)


MANY: Final = Detail(present=60, absent=60, false_positives=0)


@pytest.mark.slow
def test_what_costs_most_is_left_out_and_no_step_of_a_lookup(
    many_runs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exploration, "_DRAWING_S", 60.0)
    made = file_page(many_runs, MANY)
    whole = page_in(made)
    assert (len(whole.lookups), whole.omitted[1:]) == (120, [])  # 2 MB of steps, if written out
    monkeypatch.setattr(page, "MOST_BYTES", len(made.encode()) - 5_000)
    smaller = page_in(file_page(many_runs, MANY))
    assert len(smaller.lookups) == 60
    assert {len(one.runs) for one in smaller.lookups if one.outcome == "absent"} == {30}
    assert smaller.history == whole.history and len(smaller.filters) == 30
    assert "60 recorded lookups, each with all of its steps" in " ".join(smaller.omitted)


def test_what_is_left_out_is_said(store: Path) -> None:
    with Exploration(str(store)) as exploration:
        made = exploration.page(Detail(extent=Extent(cells=40, tables=400), filters=10, steps=2))
    assert made.map.blocks_per_cell > 1
    assert len(made.omitted) == 3
    assert "blocks as one cell" in made.omitted[0]
    assert [len(table.cells.size_bytes) for table in tables_of(made)] != []
    for table in tables_of(made):
        assert sum(table.cells.size_bytes) == table.stored_bytes
        assert sum(table.cells.entry_count) == table.entry_count


@pytest.mark.slow
def test_many_tables_are_shown_together(store: Path) -> None:
    with Exploration(str(store)) as exploration:
        made = exploration.page(Detail(extent=Extent(cells=4000, tables=2)))
        single = exploration.page(Detail())
    assert max(table.table_count for table in tables_of(made)) > 1
    for name in ("size_bytes", "entry_count", "block_count", "filter_bytes", "tombstone_count"):
        assert sum(getattr(table, name) for table in tables_of(made)) == sum(
            getattr(table, name) for table in tables_of(single)
        )
    assert sum(table.table_count for table in tables_of(made)) == len(tables_of(single))


@pytest.mark.parametrize(
    ("counts", "most", "step"),
    [([10, 10], 20, 1), ([10, 11], 20, 2), ([5, 5, 5], 1, 5), ([], 5, 1), ([1] * 9, 3, 1)],
)
def test_cells_are_as_small_as_fits(counts: list[int], most: int, step: int) -> None:
    assert blocks_per_cell(counts, most) == step


class _Reader(HTMLParser):
    """Notes what a browser would run or load."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def test_hostile_keys_and_names_add_no_markup(store: Path) -> None:
    reader = _Reader()
    with Exploration(str(store)) as explored:
        shown = explored.page(FEW)
        shown.lookups = [explored.look_up(key).lookup for key in HOSTILE]
    assert any("</script>" in lookup.key.text for lookup in shown.lookups)
    made = render(shown)
    assert not set(embedded(shown)) & set("<>&")  # browsers end a script also at "</script "
    reader.feed(made)
    assert reader.tags.count("script") == 2  # data and program
    assert set(reader.tags) == {
        *("html", "head", "meta", "title", "link", "style", "body", "div", "p", "script")
    }
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert f"<title>{html.escape(shown.source.name)} ·" in made
    assert "db<&>" not in made.replace(embedded(shown), "")


def test_the_data_reads_back_from_the_page(shown: contract.Page) -> None:
    assert page_in(render(shown)) == shown


def test_keys_on_the_page_are_one_line_of_printable_text(store: Path) -> None:
    from lsmkv.explore.keys import on_screen

    for key in HOSTILE:
        text = on_screen(key).text
        assert text.isprintable() and len(text) <= 60
        assert on_screen(key).byte_count == len(key)


def test_the_page_may_load_nothing(store: Path) -> None:
    made = file_page(str(store))
    policy = html.unescape(re.findall(r'Content-Security-Policy" content="([^"]+)"', made)[0])
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy and "connect-src" not in policy
    outside = set(re.findall(r"https?://[\w.-]+", made))
    assert outside <= {"http://www.w3.org"}  # the name of SVG's namespace, which is not loaded


@pytest.mark.parametrize("entries", [0, 1])
def test_stores_without_tables_have_a_page(tmp_path: Path, entries: int) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        for number in range(entries):
            db.put(b"%d" % number, b"")
    with Exploration(str(tmp_path / "db")) as exploration:
        made = exploration.page(Detail())
    assert made.what_if is None
    assert tables_of(made) == []
    assert sum(made.map.memtable_key_counts) == entries
    assert len([lookup for lookup in made.lookups if lookup.outcome == "found"]) == entries


@pytest.fixture(scope="module")
def erring(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store whose filters let three in ten absent keys pass."""
    path = tmp_path_factory.mktemp("erring") / "db"
    make_store(path, 3000, filter_policy="ribbon", error_rate=0.3)
    return str(path)


def test_filters_that_learn_let_pass_what_the_page_says(erring: str) -> None:
    with Exploration(erring, filter_policy="ribbon", adaptive_filters=True) as exploration:
        made = exploration.page(Detail())
    passed = [lookup for lookup in made.lookups if lookup.kind == "false positive"]
    assert len(passed) == 25
    assert all(lookup.false_positives for lookup in passed)
    assert made.stats["filter_lessons"] >= len(passed)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"filter_policy": "ribbon"}, marks=pytest.mark.slow),
        {"filter_policy": "none"},
        pytest.param({"filter_granularity": "table"}, marks=pytest.mark.slow),
        {"filter_policy": "ribbon", "filter_granularity": "table"},
        {"filter_key": lsmkv.FixedPrefix(5)},
        {"compression": "zstd", "compression_dictionary_size_bytes": 4096},
    ],
    ids=str,
)
def test_stores_of_every_kind_have_a_page(tmp_path: Path, options: dict[str, object]) -> None:
    make_store(tmp_path / "db", 400, **options)
    with Exploration(str(tmp_path / "db")) as exploration:
        made = exploration.page(FEW)
    assert msgspec.json.decode(msgspec.json.encode(made), type=contract.Page) == made
    # A table of one key needs no filter.
    kinds = {table.filter_kind for table in tables_of(made) if table.entry_count > 1}
    assert kinds == {options.get("filter_policy", "bloom")}
