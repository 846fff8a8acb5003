"""``lsmkv`` put, get, delete and scan, and the text form of bytes."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lsmkv
from commands import AWKWARD, contents, fail, fill, one_line, read, run, succeed
from lsmkv.encoding.text_form import from_text, to_text


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


# --- the text form ---


@given(st.binary())
def test_text_reads_back_as_the_bytes_it_shows(data: bytes) -> None:
    assert from_text(to_text(data)) == data


@given(st.binary())
def test_text_is_one_line_without_control_characters(data: bytes) -> None:
    text = to_text(data)
    assert len(text.splitlines()) <= 1
    assert not re.search("[\x00-\x1f\x7f-\x9f]", text)


def test_text_leaves_letters_of_any_language_alone() -> None:
    assert to_text("naïve ☃ 日本".encode()) == "naïve ☃ 日本"


@pytest.mark.parametrize("text", ["\\", "\\n", "\\x4", "\\xzz", "C:\\data", "\\u0041"])
def test_text_takes_a_backslash_only_as_one_of_its_two_escapes(text: str) -> None:
    with pytest.raises(ValueError, match=r"write .* for a backslash"):
        from_text(text)


# --- put, get, delete ---


def test_get_prints_what_put_stored(store: str) -> None:
    succeed("put", store, "alice", "34")
    assert succeed("get", store, "alice") == b"34\n"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["b"], "b"),
        (["b", "--json"], "b"),
        (["\\x00\\xff"], "\\x00\\xff"),
        (["00FF", "--hex"], "\\x00\\xff"),
    ],
)
def test_get_of_an_absent_key_says_so_on_standard_error_and_exits_with_3(
    store: str, arguments: list[str], shown: str
) -> None:
    fill(store, {b"a": b"1"})
    result = run("get", store, *arguments)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == f"{shown}: not in {store}\n"


def test_the_absent_key_is_shown_on_one_short_line(store: str) -> None:
    fill(store, {b"a": b"1"})
    key = os.fsdecode(b"\x1b[31m\n" + b"k" * 1000)
    message = fail("get", store, key, "--raw", code=3)
    assert one_line(message) and message.startswith("\\x1b[31m\\x0akkk") and len(message) < 400


def test_an_empty_value_is_not_an_absent_one(store: str) -> None:
    succeed("put", store, "a", "")
    assert succeed("get", store, "a") == b"\n"


def test_get_without_a_store_fails_in_one_line_and_makes_none(store: str) -> None:
    assert one_line(fail("get", store, "a"))
    assert not os.path.exists(store)


def test_get_works_beside_a_writer(store: str) -> None:
    with lsmkv.open(store) as db:
        db[b"a"] = b"1"
        assert succeed("get", store, "a") == b"1\n"


def test_put_beside_a_writer_fails_and_names_its_process(store: str) -> None:
    with lsmkv.open(store):
        assert f"in this process ({os.getpid()})" in fail("put", store, "a", "1")


def test_put_can_be_kept_from_making_a_store(store: str) -> None:
    fail("put", store, "a", "1", "--no-create")
    assert not os.path.exists(store)


def test_put_takes_standard_input_byte_for_byte(store: str) -> None:
    value = bytes(range(256)) + b"\r\n"
    succeed("put", store, "a", "-", stdin=value)
    assert read(store) == {b"a": value}


def test_put_takes_a_dash_that_is_escaped_as_a_value(store: str) -> None:
    succeed("put", store, "a", "\\x2d")
    assert read(store) == {b"a": b"-"}


def test_keys_that_start_with_a_dash_go_after_two(store: str) -> None:
    succeed("put", store, "--", "-key", "-value")
    assert read(store) == {b"-key": b"-value"}


def test_text_arguments_may_hold_any_byte(store: str) -> None:
    succeed("put", store, "a\\xff\\\\", "\\x00")
    assert read(store) == {b"a\xff\\": b"\0"}


def test_hex_goes_in_and_out(store: str) -> None:
    succeed("put", store, "ff00", "00ff0a", "--hex")
    assert read(store) == {b"\xff\0": b"\0\xff\n"}
    assert succeed("get", store, "FF00", "--hex") == b"00ff0a\n"


def test_raw_goes_in_and_out(store: str) -> None:
    succeed("put", store, os.fsdecode(b"a\xff\\"), "C:\\data", "--raw")
    assert read(store) == {b"a\xff\\": b"C:\\data"}
    assert succeed("get", store, os.fsdecode(b"a\xff\\"), "--raw") == b"C:\\data\n"


def test_raw_without_newline_prints_the_value_and_nothing_else(store: str) -> None:
    fill(store, {b"a": bytes(range(256))})
    assert succeed("get", store, "a", "--raw", "--no-newline") == bytes(range(256))


def test_get_json_is_a_line_that_load_takes(store: str, tmp_path: Path) -> None:
    fill(store, {b"a": b"\xff"})
    line = succeed("get", store, "a", "--json")
    assert json.loads(line) == {"key": "a", "value": {"hex": "ff"}}
    succeed("load", str(tmp_path / "other"), "-", stdin=line)
    assert read(str(tmp_path / "other")) == {b"a": b"\xff"}


@pytest.mark.parametrize(
    "arguments", [["C:\\data"], ["zz", "--hex"], ["a", "--hex", "--raw"], ["\udcff"]]
)
def test_a_key_that_is_not_of_its_form_is_wrong_usage(store: str, arguments: list[str]) -> None:
    fill(store, {b"a": b"1"})
    assert "Usage:" in fail("get", store, *arguments, code=2)


def test_a_key_over_the_limit_fails_in_one_line(store: str) -> None:
    message = fail("put", store, "k" * (lsmkv.MAX_KEY_BYTES + 1), "")
    assert one_line(message) and str(lsmkv.MAX_KEY_BYTES) in message


def test_delete_removes_every_key_given(store: str) -> None:
    fill(store, {b"a": b"1", b"b": b"2", b"c": b"3"})
    succeed("delete", store, "a", "c")
    assert read(store) == {b"b": b"2"}


def test_delete_of_an_absent_key_is_no_error(store: str) -> None:
    fill(store, {b"a": b"1"})
    succeed("delete", store, "b")


def test_delete_does_not_make_a_store(store: str) -> None:
    fail("delete", store, "a")
    assert not os.path.exists(store)


LETTERS = {letter: letter.upper() for letter in (b"a", b"b", b"ba", b"bb", b"c")}


def test_delete_by_prefix_removes_the_keys_that_start_with_it(store: str) -> None:
    result = run("delete", fill(store, LETTERS), "--prefix", "b", "--yes")
    assert (result.exit_code, result.stderr) == (0, "Deleted 3 entries.\n")
    assert list(read(store)) == [b"a", b"c"]


def test_delete_by_prefix_goes_on_beyond_a_batch(store: str) -> None:
    fill(store, {b"x%04d" % number: b"" for number in range(2500)} | {b"y": b""})
    assert json.loads(succeed("delete", store, "--prefix", "x", "--yes", "--json")) == {
        "deleted": 2500
    }
    assert list(read(store)) == [b"y"]


def test_delete_by_prefix_takes_it_in_hex(store: str) -> None:
    succeed("delete", fill(store, LETTERS), "--hex", "--prefix", "62", "--yes")
    assert list(read(store)) == [b"a", b"c"]


def test_delete_by_prefix_asks_first_and_says_how_many(store: str) -> None:
    result = run("delete", fill(store, LETTERS), "--prefix", "b", stdin=b"n\n")
    assert result.exit_code == 1
    assert "Delete 3 entries" in result.stderr and "nothing is changed" in result.stderr
    assert read(store) == LETTERS


def test_delete_by_prefix_goes_ahead_when_the_answer_is_yes(store: str) -> None:
    succeed("delete", fill(store, LETTERS), "--prefix", "b", stdin=b"y\n")
    assert list(read(store)) == [b"a", b"c"]


def test_delete_by_prefix_changes_nothing_when_nobody_answers(store: str) -> None:
    message = fail("delete", fill(store, LETTERS), "--prefix", "b", stdin=b"")
    assert "give --yes" in message
    assert read(store) == LETTERS


@pytest.mark.parametrize(
    ("stop", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "stopped (1,000 entries deleted before that)"),
        (OSError(28, "No space"), 1, "Error: No space (1,000 entries deleted before that)"),
    ],
)
def test_an_interrupted_delete_by_prefix_reports_its_progress(
    store: str, monkeypatch: pytest.MonkeyPatch, stop: BaseException, code: int, said: str
) -> None:
    fill(store, {b"x%04d" % number: b"" for number in range(1500)})
    begin, begun = lsmkv.DB.write_batch, 0

    def batch(db: lsmkv.DB) -> lsmkv.WriteBatch:
        nonlocal begun
        begun += 1
        if begun > 1:
            raise stop
        return begin(db)

    monkeypatch.setattr(lsmkv.DB, "write_batch", batch)
    assert said in fail("delete", store, "--prefix", "x", "--yes", code=code)
    assert len(read(store)) == 500


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["a", "--prefix", "b"],
        ["--prefix", "", "--yes"],
        ["a", "--yes"],
        ["a", "--json"],
        ["--prefix", "\\", "--yes"],
    ],
)
def test_wrong_combinations_of_delete_options_are_wrong_usage(
    store: str, arguments: list[str]
) -> None:
    fail("delete", fill(store, LETTERS), *arguments, code=2)
    assert read(store) == LETTERS


@pytest.mark.parametrize("command", [["put", "", "a", "1"], ["scan", ""], ["destroy", "", "--yes"]])
def test_an_empty_store_argument_is_not_the_present_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(fill(str(tmp_path / "store"), LETTERS))
    assert "empty" in fail(*command, code=2)
    assert read(".") == LETTERS


# --- count ---


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ([], 5),
        (["--prefix", "b"], 3),
        (["--start", "b", "--stop", "bb"], 2),
        (["--hex", "--prefix", "62"], 3),
        (["--start", "z"], 0),
        (["--approximate"], 5),
    ],
)
def test_count_prints_how_many_keys_there_are(store: str, options: list[str], number: int) -> None:
    assert succeed("count", fill(store, LETTERS), *options) == b"%d\n" % number


def test_count_is_exact_where_the_estimate_is_not(store: str) -> None:
    with lsmkv.open(store) as db:
        for _ in range(2):
            db.update(LETTERS)
            db.flush()
    assert succeed("count", store) == b"5\n"
    assert succeed("count", store, "--approximate") == b"10\n"


def test_count_json_says_whether_it_is_an_estimate(store: str) -> None:
    shown = json.loads(succeed("count", fill(store, LETTERS), "--approximate", "--json"))
    assert shown == {"count": 5, "approximate": True}


def test_an_estimate_for_a_range_is_wrong_usage(store: str) -> None:
    fail("count", fill(store, LETTERS), "--approximate", "--prefix", "b", code=2)


def test_count_does_not_make_a_store(store: str) -> None:
    assert one_line(fail("count", store))
    assert not os.path.exists(store)


# --- scan ---


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ([], "a b ba bb c"),
        (["--start", "b"], "b ba bb c"),
        (["--stop", "bb"], "a b ba"),
        (["--prefix", "b"], "b ba bb"),
        (["--prefix", "b", "--start", "ba", "--stop", "bb"], "ba"),
        (["--reverse"], "c bb ba b a"),
        (["--reverse", "--limit", "2"], "c bb"),
        (["--limit", "0"], ""),
        (["--limit", str(sys.maxsize)], "a b ba bb c"),
        (["--start", "z"], ""),
    ],
)
def test_scan_prints_the_keys_asked_for(store: str, options: list[str], keys: str) -> None:
    fill(store, LETTERS)
    assert succeed("scan", store, "--keys-only", *options).decode().split() == keys.split()


def test_scan_prints_key_tab_value(store: str) -> None:
    fill(store, {b"a": b"1", b"b\t": b"\n"})
    assert succeed("scan", store) == b"a\t1\nb\\x09\t\\x0a\n"


def test_scan_raw_prints_the_bytes(store: str) -> None:
    fill(store, {b"\xff": b"\\"})
    assert succeed("scan", store, "--raw") == b"\xff\t\\\n"


def test_scan_bounds_are_written_in_the_form_asked_for(store: str) -> None:
    fill(store, {b"\x01": b"", b"\x02": b""})
    assert succeed("scan", store, "--hex", "--start", "02") == b"02\t\n"


def test_scan_json_of_keys_only_has_no_values(store: str) -> None:
    fill(store, {b"a": b"1"})
    assert succeed("scan", store, "--json", "--keys-only") == b'{"key":"a"}\n'


@pytest.mark.parametrize(
    ("scan_options", "load_options"),
    [([], ["--format", "tsv"]), (["--hex"], ["--format", "tsv", "--hex"]), (["--json"], [])],
)
@settings(max_examples=25)
@given(entries=contents)
@example(entries=AWKWARD)
def test_output_of_scan_can_be_loaded(
    scan_options: list[str], load_options: list[str], entries: dict[bytes, bytes]
) -> None:
    with TemporaryDirectory() as directory:
        printed = succeed("scan", fill(f"{directory}/a", entries), *scan_options)
        succeed("load", f"{directory}/b", "-", *load_options, stdin=printed)
        assert read(f"{directory}/b") == entries
