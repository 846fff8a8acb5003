"""``lsmkv`` stats, inspect and explain."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import lsmkv
from commands import fill, fill_tables, succeed
from lsmkv.cli.commands import cli


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def test_stats_shows_the_shape_of_the_tree(store: str) -> None:
    shown = succeed("stats", fill_tables(store)).decode()
    assert re.search(r"about 500 keys", shown)
    assert re.search(r"^ *all +1 +1 +500 +0 ", shown, re.MULTILINE)


def test_stats_json_has_levels_memory_and_what_opening_read(store: str) -> None:
    shown = json.loads(succeed("stats", fill_tables(store), "--json"))
    assert shown["approximate_count"] == 500
    assert shown["levels"][0]["entries"] == 500
    assert shown["memory"]["filter_bytes"] == shown["levels"][0]["filter_bytes"]
    assert shown["opening"]["filter_read_bytes"] == shown["levels"][0]["filter_bytes"]


def test_stats_of_an_empty_store(store: str) -> None:
    assert b"about 0 keys" in succeed("stats", fill(store, {}))


def test_inspect_shows_each_table(store: str) -> None:
    shown = succeed("inspect", fill_tables(store)).decode()
    assert re.search(r"key0000 +key0499 ", shown)


def test_inspect_blocks_shows_each_filter(store: str) -> None:
    shown = json.loads(succeed("inspect", fill_tables(store), "--blocks", "--json"))
    blocks = shown["tables"][0]["blocks"]
    assert blocks[0]["first_key"] == "key0000"
    assert sum(block["entry_count"] for block in blocks) == 500
    assert all(0 < block["expected_rate"] < 0.02 for block in blocks)
    assert len(succeed("inspect", store, "--blocks").splitlines()) >= len(blocks)


def test_inspect_can_be_narrowed_to_a_table(store: str) -> None:
    number = json.loads(succeed("inspect", fill_tables(store), "--blocks", "--json"))["tables"][0][
        "number"
    ]
    assert (
        json.loads(succeed("inspect", store, "--table", str(number), "--json"))["number"] == number
    )


def test_keys_in_tables_are_not_taken_for_markup(store: str) -> None:
    with lsmkv.open(store) as db:
        db[b"[bold]:snake:"] = b""
        db.flush()
    assert b"[bold]:snake:" in succeed("inspect", store)


def test_explain_tells_of_an_absent_key(store: str) -> None:
    shown = succeed("explain", fill_tables(store), "key0000x").decode()
    assert "key0000x" in shown and "absent" in shown


@pytest.fixture
def runs(store: str) -> str:
    """A store of four runs of even numbers, whose filters err often; the newest deletes one."""
    form = {"compaction": "tiered", "level0_compaction_trigger": 9, "error_rate": 0.2}
    with lsmkv.open(store, **form) as db:  # type: ignore[arg-type]
        for _ in range(4):
            db.update({b"%06d" % number: b"value" for number in range(0, 2000, 2)})
            db.delete(b"000010")
            db.flush()
    return store


def test_explain_has_a_line_for_each_run_within_80_columns(runs: str) -> None:
    with lsmkv.open(runs, read_only=True) as db:
        saved_all = next(
            key
            for key in (b"%06d" % number for number in range(1, 2000, 2))
            if db.explain(key).filter_negatives == 4
        )
    shown = succeed("explain", runs, saved_all.decode()).decode().splitlines()
    assert max(map(len, shown)) <= 80
    assert [line[:4] for line in shown[2:-1]] == ["- L0"] * 4
    assert shown[-1] == "absent; 0 bytes read; filters saved 4 of 4 reads"


def test_explain_marks_a_wasted_read(runs: str) -> None:
    with lsmkv.open(runs, read_only=True) as db:
        wasted = next(
            key
            for key in (b"%06d" % number for number in range(1, 2000, 2))
            if db.explain(key).false_positives == 4  # the runs have the same keys and filters
        )
    shown = succeed("explain", runs, wasted.decode()).decode()
    lines = re.findall("^! L0/.* filter says maybe: .* read, wasted$", shown, re.MULTILINE)
    assert len(lines) == 4 and max(map(len, lines)) <= 80
    assert shown.startswith("get ") and shown.endswith(" read; filters saved 0 of 4 reads\n")


@pytest.mark.parametrize(("key", "outcome"), [("000012", "found"), ("000010", "deleted")])
def test_explain_marks_the_entry_that_ends_the_lookup(runs: str, key: str, outcome: str) -> None:
    shown = succeed("explain", runs, key).decode().splitlines()
    assert re.fullmatch(rf"\+ L0/.* read, {outcome}", shown[-2])
    assert shown[-1].startswith(outcome) and shown[-1].endswith("; filters saved 0 of 1 read")


def test_explain_says_more_of_filters_when_asked_in_the_same_layout(runs: str) -> None:
    brief = succeed("explain", runs, "000012").decode().splitlines()
    more = succeed("explain", runs, "000012", "--filters").decode().splitlines()
    assert [line for line in more if not line.startswith("    ")] == brief
    assert any("k=" in line for line in more) and not any("k=" in line for line in brief)
    assert max(map(len, more)) <= 80


def test_explain_is_coloured_only_on_a_terminal(runs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def coloured() -> bool:
        return "\x1b[" in CliRunner().invoke(cli, ["explain", runs, "000012"], color=True).output

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert b"\x1b[" not in succeed("explain", runs, "000012")
    assert coloured()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not coloured()


@pytest.mark.parametrize("command", ["stats", "inspect", "verify"])
def test_looking_inside_works_beside_a_writer(store: str, command: str) -> None:
    with lsmkv.open(store) as db:
        db[b"a"] = b"1"
        succeed(command, store)


@pytest.fixture
def one_of_each(store: str) -> str:
    """A store of one table, block and entry, and one logged key."""
    with lsmkv.open(store) as db:
        db[b"a"] = b"1"
        db.flush()
        db[b"b"] = b"2"
    return store


@pytest.mark.parametrize(
    "arguments",
    [["verify"], ["explain", "a"], ["inspect"], ["stats"], ["compact"], ["repair", "--in-place"]],
)
def test_one_of_a_thing_is_singular(one_of_each: str, arguments: list[str]) -> None:
    options = ["--yes"] if "--in-place" in arguments else []
    shown = succeed(arguments[0], one_of_each, *arguments[1:], *options).decode()
    assert re.search(r"\b1 [a-z]", shown)
    assert not re.search(r"\b1 (?:log )?(?:[a-z]+s|entries)\b", shown)


def test_one_of_a_thing_is_singular_in_the_text_of_a_report(one_of_each: str) -> None:
    with lsmkv.open(one_of_each, read_only=True) as db:
        shown = db.inspect().text()
    assert "1 table, 1 entry" in shown
    assert not re.search(r"\b1 (?:[a-z]+s|entries)\b", shown)


@pytest.mark.parametrize("command", ["stats", "inspect"])
def test_index_and_filters_are_shown_side_by_side(store: str, command: str) -> None:
    fill_tables(store)
    with lsmkv.open(store, read_only=True) as db:
        info = db.inspect()
    shown = succeed(command, store).decode()
    assert info.index_and_filters() in shown
    found = json.loads(succeed(command, store, "--json"))
    found = found["memory"] if command == "stats" else found
    assert found["index_bytes_per_key"] == info.index_bytes_per_key
    assert found["filter_bytes_per_block"] == info.filter_bytes_per_block


def test_inspect_shows_the_identity_of_the_store(store: str) -> None:
    fill_tables(store)
    with lsmkv.open(store, read_only=True) as db:
        store_id = db.inspect().store_id
    assert f"Identity of the store: {store_id}\n" in succeed("inspect", store).decode()
    assert json.loads(succeed("inspect", store, "--json"))["store_id"] == store_id


def test_inspect_says_how_to_see_cut_keys_whole(store: str) -> None:
    fill_tables(store)
    hint = b"Some keys are cut; --json shows them whole.\n"
    assert hint not in succeed("inspect", store)
    with lsmkv.open(store) as db:
        db[b"z" * 33] = b""
        db.flush()
    assert hint in succeed("inspect", store)
    assert hint in succeed("inspect", store, "--blocks")


def test_inspect_says_so_also_where_the_terminal_cuts_them(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_tables(store)
    for width, is_cut in ((60, True), (200, False)):
        monkeypatch.setattr("lsmkv.cli.output._width", lambda width=width: width)
        assert (b"--json shows them whole" in succeed("inspect", store)) is is_cut
