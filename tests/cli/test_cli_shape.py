"""``lsmkv`` stats, inspect and explain."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

import lsmkv
from commands import fail, fill, fill_tables, succeed


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
    assert shown["memory"]["filters"] == shown["levels"][0]["filter_bytes"]
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


def test_inspect_of_a_table_that_is_not_there_fails(store: str) -> None:
    assert "no table 99" in fail("inspect", fill_tables(store), "--table", "99")


def test_keys_in_tables_are_not_taken_for_markup(store: str) -> None:
    with lsmkv.open(store) as db:
        db[b"[bold]:snake:"] = b""
        db.flush()
    assert b"[bold]:snake:" in succeed("inspect", store)


def test_explain_tells_of_an_absent_key(store: str) -> None:
    shown = succeed("explain", fill_tables(store), "key0000x").decode()
    assert "key0000x" in shown and "absent" in shown


def test_explain_json_gives_bytes_as_scan_does(store: str) -> None:
    fill(store, {b"a": b"\xff"})
    shown = json.loads(succeed("explain", store, "a", "--json"))
    assert (shown["key"], shown["value"]) == ("a", {"hex": "ff"})


@pytest.mark.parametrize("command", ["stats", "inspect", "verify"])
def test_looking_inside_works_beside_a_writer(store: str, command: str) -> None:
    with lsmkv.open(store) as db:
        db[b"a"] = b"1"
        succeed(command, store)


@pytest.mark.parametrize("command", ["stats", "inspect", "verify", "scan", "compact"])
def test_looking_inside_does_not_make_a_store(store: str, command: str) -> None:
    fail(command, store)
    assert not os.path.exists(store)


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


def test_inspect_blocks_says_why_there_are_none(store: str) -> None:
    fill(store, {b"a": b"1", b"b": b"2"})
    assert b"all 2 keys are in the log" in succeed("inspect", store, "--blocks")


def test_inspect_blocks_says_that_a_store_is_empty(store: str) -> None:
    assert b"the store is empty" in succeed("inspect", fill(store, {}), "--blocks")


def test_inspect_blocks_json_without_tables_has_the_shape_that_it_has_with_some(store: str) -> None:
    shown = json.loads(succeed("inspect", fill(store, {b"a": b"1"}), "--blocks", "--json"))
    assert shown == {"tables": []}
