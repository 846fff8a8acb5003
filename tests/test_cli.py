"""The ``lsmkv`` command: what goes in, what comes out, how it ends."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner, Result
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lsmkv
from lsmkv.cli import cli
from lsmkv.cli.keys import from_text, to_text
from lsmkv.cli.loading import Loader

# What subprocesses import is what these tests import, installed or not.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(lsmkv.__file__).parent.parent)}
COMMANDS = sorted(cli.commands)
AWKWARD = {
    b"": b"",
    b"plain": b"value",
    b"tab\there": b"line\nbreak\r\n",
    b"back\\slash": b"\\x41 is not A",
    b"quo\"te'": b'","',
    b"\x00\x1b[31m": b"\x7f",
    "naïve ☃ \U0001f600".encode(): "\ufeff\u2028\x85\u202e".encode(),
    b"\xff\xfe": bytes(range(256)),
    b"[bold]": b"=1+1",
}

contents = st.dictionaries(st.binary(max_size=40), st.binary(max_size=60), max_size=12)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Where a store may be made."""
    return str(tmp_path / "store")


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    result = CliRunner().invoke(cli, arguments, input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def succeed(*arguments: str, stdin: bytes | None = None) -> bytes:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.stderr
    return result.stdout_bytes


def fail(*arguments: str, code: int = 1, stdin: bytes | None = None) -> str:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == code, result.output
    return result.stderr


def fill(path: str, entries: dict[bytes, bytes]) -> str:
    with lsmkv.open(path) as db:
        db.update(entries)
    return path


def read(path: str) -> dict[bytes, bytes]:
    with lsmkv.open(path, read_only=True) as db:
        return dict(db.items())


def fill_tables(path: str, count: int = 500) -> str:
    """A store whose entries are in a table of several blocks."""
    with lsmkv.open(path, block_size_bytes=512, compression="none") as db:
        db.update({b"key%04d" % number: b"value%04d" % number for number in range(count)})
        db.flush()
    return path


def damage_block(path: str) -> None:
    """Change one byte of the first block of a store's first table."""
    table = min(name for name in os.listdir(path) if name.endswith(".sst"))
    with open(os.path.join(path, table), "r+b") as file:
        file.seek(100)
        byte = file.read(1)[0]
        file.seek(100)
        file.write(bytes([byte ^ 0xFF]))


def process(
    *arguments: str, stdin: int | None = subprocess.DEVNULL, stdout: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """The command as users run it."""
    return subprocess.Popen(
        [sys.executable, "-m", "lsmkv", *arguments],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )


def one_line(text: str) -> bool:
    return text.count("\n") == 1 and text.endswith("\n")


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


def test_get_of_an_absent_key_prints_nothing_and_exits_with_3(store: str) -> None:
    fill(store, {b"a": b"1"})
    result = run("get", store, "b")
    assert (result.exit_code, result.output) == (3, "")


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


def test_put_beside_a_writer_fails_and_says_who_it_is(store: str) -> None:
    with lsmkv.open(store):
        assert f"process {os.getpid()}" in fail("put", store, "a", "1")


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


# --- scan ---

LETTERS = {letter: letter.upper() for letter in (b"a", b"b", b"ba", b"bb", b"c")}


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
def test_what_scan_prints_can_be_loaded(
    scan_options: list[str], load_options: list[str], entries: dict[bytes, bytes]
) -> None:
    with TemporaryDirectory() as directory:
        printed = succeed("scan", fill(f"{directory}/a", entries), *scan_options)
        succeed("load", f"{directory}/b", "-", *load_options, stdin=printed)
        assert read(f"{directory}/b") == entries


# --- load and dump ---


@pytest.mark.parametrize(
    "options",
    [
        ["--format", "jsonl"],
        ["--format", "tsv"],
        ["--format", "csv"],
        ["--format", "tsv", "--hex"],
        ["--format", "csv", "--hex"],
    ],
)
@settings(max_examples=25)
@given(entries=contents)
@example(entries=AWKWARD)
def test_what_is_dumped_can_be_loaded(options: list[str], entries: dict[bytes, bytes]) -> None:
    with TemporaryDirectory() as directory:
        dumped = succeed("dump", fill(f"{directory}/a", entries), *options)
        succeed("load", f"{directory}/b", "-", *options, stdin=dumped)
        assert read(f"{directory}/b") == entries


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", b'{"key": "k", "value": "v"}\n'),
        ("a.ndjson", b'{"key": "k", "value": {"hex": "76"}}\n'),
        ("a.tsv", b"k\tv\n"),
        ("a.CSV", b'"k","v"\n'),
        ("a", b'{"key": "k", "value": "v"}\n'),
    ],
)
def test_load_goes_by_the_suffix(store: str, tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    succeed("load", store, str(tmp_path / name))
    assert read(store) == {b"k": b"v"}


@pytest.mark.parametrize(
    ("file_format", "content"),
    [
        ("jsonl", b'\xef\xbb\xbf{"key": "k", "value": "v"}\r\n\r\n'),
        ("tsv", b"\xef\xbb\xbfk\tv\r\n\r\n"),
        ("csv", b"\xef\xbb\xbfk,v\r\n\r\n"),
        ("csv", b"\n\nk,v"),
    ],
)
def test_load_takes_windows_files_and_blank_lines(
    store: str, file_format: str, content: bytes
) -> None:
    succeed("load", store, "-", "--format", file_format, stdin=content)
    assert read(store) == {b"k": b"v"}


@pytest.mark.parametrize(
    ("file_format", "line", "reason"),
    [
        ("jsonl", b"nonsense", "not JSON"),
        ("jsonl", b'{"key": "a"}', "missing required field `value`"),
        ("jsonl", b'{"key": "a", "value": 3}', "got `int`"),
        ("jsonl", b'{"key": "a", "value": "", "ttl": 3}', "unknown field `ttl`"),
        ("jsonl", b'{"key": "a", "value": {"hex": "f"}}', "value: 'f' is not hex"),
        ("jsonl", b'{"key": "a", "value": "\xff"}', "not UTF-8"),
        ("jsonl", b'["a", "b"]', "got `array`"),
        ("tsv", b"a", "1 field instead of 2"),
        ("tsv", b"a\tb\tc", "3 fields instead of 2"),
        ("tsv", b"a\tC:\\data", "value: the backslash at byte 3"),
        ("tsv", b"\xff\tb", "key: character 1 is not UTF-8"),
        ("csv", b'"a"b,c', "not CSV"),
        ("csv", b"a;b", "1 field instead of 2"),
        ("csv", b"k" * (lsmkv.MAX_KEY_BYTES + 1) + b",v", "over the limit of"),
    ],
)
def test_load_stops_at_a_bad_line_and_names_it(
    store: str, file_format: str, line: bytes, reason: str
) -> None:
    good = {"jsonl": b'{"key": "%s", "value": ""}\n', "tsv": b"%s\t\n", "csv": b"%s,\n"}[
        file_format
    ]
    lines = good % b"one" + b"\n" + good % b"two" + line + b"\n" + good % b"three"
    message = fail("load", store, "-", "--format", file_format, stdin=lines)
    assert one_line(message)
    assert "-: line 4: " in message and reason in message and "2 entries loaded" in message
    assert read(store) == {b"one": b"", b"two": b""}


def test_load_names_the_first_line_of_a_record_that_spans_several(store: str) -> None:
    lines = b'a,"1\n2"\nb,"3\n4",c\n'
    assert "line 3: 3 fields" in fail("load", store, "-", "--format", "csv", stdin=lines)


def test_load_raw_takes_fields_as_they_are(store: str) -> None:
    lines = b"C:\\data,\xff\n"
    succeed("load", store, "-", "--format", "csv", "--raw", stdin=lines)
    assert read(store) == {b"C:\\data": b"\xff"}


def test_load_takes_long_values(store: str) -> None:
    value = b"v" * 300_000
    succeed("load", store, "-", "--format", "csv", stdin=b"k," + value + b"\n")
    assert read(store) == {b"k": value}


def test_load_says_how_many_entries_it_loaded(store: str) -> None:
    assert run("load", store, "-", "--format", "tsv", stdin=b"a\t\nb\t\n").stderr == (
        "Loaded 2 entries.\n"
    )


def test_load_of_nothing_makes_an_empty_store(store: str) -> None:
    succeed("load", store, "-", stdin=b"")
    assert read(store) == {}


def test_load_replaces_what_is_there(store: str) -> None:
    fill(store, {b"a": b"old", b"b": b"old"})
    succeed("load", store, "-", "--sync", "--format", "csv", stdin=b"b,new\n")
    assert read(store) == {b"a": b"old", b"b": b"new"}


def test_load_can_be_kept_from_making_a_store(store: str) -> None:
    fail("load", store, "-", "--no-create", stdin=b"")
    assert not os.path.exists(store)


def test_load_of_a_missing_file_is_wrong_usage_and_makes_no_store(store: str) -> None:
    fail("load", store, "missing.csv", code=2)
    assert not os.path.exists(store)


def test_load_refuses_a_form_for_json_lines(store: str) -> None:
    fail("load", store, "-", "--hex", code=2, stdin=b"")


@pytest.mark.parametrize(("batch_size", "batches"), [(1, 10), (4, 3), (10, 1), (1000, 1)])
def test_entries_are_written_in_batches(store: str, batch_size: int, batches: int) -> None:
    with lsmkv.open(store) as db:
        loader = Loader(db, batch_size, sync=False)
        for number in range(10):
            loader.add(b"%d" % number, b"")
        loader.finish()
        assert db.stats().write_batches == batches


def test_a_batch_of_long_values_is_written_early(store: str) -> None:
    with lsmkv.open(store) as db:
        loader = Loader(db, 1000, sync=False)
        loader.add(b"a", bytes(8 * 1024 * 1024))
        assert loader.loaded == 1


def test_load_writes_tables_with_the_options_set(store: str) -> None:
    lines = b"".join(b"%05d\t%050d\n" % (number, number) for number in range(2000))
    options = ["--set", "write_buffer_size_bytes=0x4000", "--set", "error_rate=0.5"]
    succeed("load", store, "-", "--format", "tsv", "--batch-size", "10", *options, stdin=lines)
    with lsmkv.open(store, read_only=True) as db:
        assert {table.requested_rate for table in db.inspect().tables()} == {0.5}


@pytest.mark.parametrize(
    "setting",
    [
        "error_rate",
        "error_rate=2",
        "error_rate=x",
        "no_such=1",
        "block_size_bytes=4k",
        "direct_reads=yes",
        "filter_key=half",
        "compression=zip",
    ],
)
def test_an_option_that_cannot_be_set_is_wrong_usage(store: str, setting: str) -> None:
    fail("load", store, "-", "--set", setting, code=2, stdin=b"")
    assert not os.path.exists(store)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", b'{"key":"k","value":"v"}\n'),
        ("a.tsv", b"k\tv\n"),
        ("a.csv", b"k,v\n"),
        ("a", b'{"key":"k","value":"v"}\n'),
    ],
)
def test_dump_goes_by_the_suffix(store: str, tmp_path: Path, name: str, content: bytes) -> None:
    succeed("dump", fill(store, {b"k": b"v"}), "--output", str(tmp_path / name))
    assert (tmp_path / name).read_bytes() == content


def test_a_dump_that_fails_leaves_the_old_file(store: str, tmp_path: Path) -> None:
    damage_block(fill_tables(store))
    (tmp_path / "dump").write_text("old")
    fail("dump", store, "--output", str(tmp_path / "dump"))
    assert (tmp_path / "dump").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["dump", "store"]


def test_dump_writes_through_a_symbolic_link(store: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    succeed("dump", fill(store, {b"k": b"v"}), "--output", str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b'{"key":"k","value":"v"}\n'


def test_dump_to_a_device_does_not_replace_it(store: str) -> None:
    succeed("dump", fill(store, {b"k": b"v"}), "--output", os.devnull)
    assert not os.path.isfile(os.devnull)


def test_dump_does_not_make_a_store(store: str) -> None:
    fail("dump", store)
    assert not os.path.exists(store)


# --- looking inside ---


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


# --- upkeep ---


def test_verify_finds_a_sound_store_sound(store: str) -> None:
    shown = json.loads(succeed("verify", fill_tables(store), "--json"))
    assert (shown["ok"], shown["problems"]) == (True, [])


def test_verify_exits_with_4_when_a_block_is_damaged(store: str) -> None:
    damage_block(fill_tables(store))
    result = run("verify", store)
    assert result.exit_code == 4
    assert ".sst" in result.stdout


def test_verify_json_lists_the_damage(store: str) -> None:
    damage_block(fill_tables(store))
    shown = json.loads(run("verify", store, "--json").stdout)
    assert not shown["ok"]
    assert len(shown["problems"]) == 1


def test_verify_exits_with_4_when_the_store_cannot_be_opened(store: str) -> None:
    fill_tables(store)
    Path(store, "CURRENT").write_bytes(b"nonsense\n")
    message = fail("verify", store, code=4)
    assert one_line(message) and "CURRENT" in message


def test_repair_builds_a_sound_store(store: str, tmp_path: Path) -> None:
    damage_block(fill_tables(store))
    rescued = str(tmp_path / "rescued")
    succeed("repair", store, "--output", rescued)
    succeed("verify", rescued)
    assert 400 < len(read(rescued)) < 500


def test_repair_in_place_asks_first(store: str) -> None:
    damage_block(fill_tables(store))
    result = run("repair", store, "--in-place", stdin=b"n\n")
    assert result.exit_code == 1
    assert run("verify", store).exit_code == 4


def test_repair_in_place_goes_ahead_when_told_so(store: str) -> None:
    damage_block(fill_tables(store))
    succeed("repair", store, "--in-place", "--yes")
    succeed("verify", store)


def test_repair_json_is_all_that_standard_output_gets(store: str, tmp_path: Path) -> None:
    json.loads(succeed("repair", fill_tables(store), "--output", str(tmp_path / "new"), "--json"))


@pytest.mark.parametrize("options", [[], ["--in-place", "--output", "x"]])
def test_repair_wants_to_know_where_to(store: str, options: list[str]) -> None:
    fail("repair", fill_tables(store), *options, code=2)


def test_compact_makes_one_run_and_forgets_the_deleted(store: str) -> None:
    fill_tables(store)
    fill_tables(store, 300)
    succeed("delete", store, "key0000")
    shown = json.loads(succeed("compact", store, "--json"))
    assert (shown["before"]["runs"], shown["after"]["runs"]) == (2, 1)
    assert shown["after"]["entries"] == 499


def test_compact_says_when_there_is_nothing_to_merge(store: str) -> None:
    succeed("compact", fill_tables(store))
    assert b"Nothing to merge" in succeed("compact", store)


def test_compact_can_be_narrowed_to_a_range(store: str) -> None:
    succeed("compact", fill_tables(store), "--start", "key0100", "--stop", "key0200")
    assert len(read(store)) == 500


def test_compact_rewrites_with_the_options_set(store: str) -> None:
    fill_tables(store)
    fill_tables(store)
    succeed("compact", store, "--set", "error_rate=0.001")
    with lsmkv.open(store, read_only=True) as db:
        assert [table.requested_rate for table in db.inspect().tables()] == [0.001]


# --- help ---


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str) -> None:
    assert f"Example:  lsmkv {command}" in succeed(command, "--help").decode()


EXAMPLES = [
    line.strip()
    for command in cli.commands.values()
    for line in (command.help or "").partition("Example:")[2].strip().splitlines()
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_in_help_are_right_usage(line: str, tmp_path: Path) -> None:
    fill_tables(str(tmp_path / "users.db"))
    fill_tables(str(tmp_path / "old.db"))
    (tmp_path / "users.jsonl").write_bytes(b'{"key": "a", "value": ""}\n')
    (tmp_path / "alice.jpeg").write_bytes(b"\xff\xd8")
    script = f'set -o pipefail\nlsmkv() {{ "{sys.executable}" -m lsmkv "$@"; }}\n{line}\n'
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
    )
    assert done.returncode in (0, 1, 3), done.stderr
    assert b"Traceback" not in done.stderr


# --- as a process ---


def test_version_is_the_packages() -> None:
    running = process("--version")
    out, _ = running.communicate()
    assert out.decode().startswith(f"lsmkv {lsmkv.__version__} (")


def test_an_unknown_command_exits_with_2() -> None:
    running = process("frobnicate")
    running.communicate()
    assert running.returncode == 2


def test_failures_have_no_traceback(store: str) -> None:
    running = process("get", store, "a")
    out, err = running.communicate()
    assert (running.returncode, out) == (1, b"")
    assert one_line(err.decode())


def test_a_reader_that_stops_early_ends_it_quietly(store: str) -> None:
    fill(store, {b"%06d" % number: b"v" * 100 for number in range(20_000)})
    running = process("scan", store)
    assert running.stdout is not None and running.stderr is not None
    running.stdout.readline()
    running.stdout.close()
    assert running.stderr.read() == b""
    assert running.wait() == 141
    running.stderr.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_an_error_in_one_line(store: str) -> None:
    fill(store, {b"a": b"1"})
    with open("/dev/full", "wb") as full:
        running = process("scan", store, stdout=full.fileno())
        _, err = running.communicate()
    assert running.returncode == 1
    assert err.decode() == f"Error: {os.strerror(errno.ENOSPC)}\n"


def test_control_c_ends_load_with_130_and_keeps_what_was_loaded(store: str) -> None:
    running = process(
        "load", store, "-", "--format", "tsv", "--batch-size", "1", stdin=subprocess.PIPE
    )
    assert running.stdin is not None
    running.stdin.write(b"a\t1\nb\t2\n")
    running.stdin.flush()
    while running.poll() is None and not holds(store, b"b"):
        pass
    running.send_signal(signal.SIGINT)
    _, err = running.communicate()
    assert running.returncode == 130
    assert b"2 entries loaded" in err and b"Traceback" not in err
    assert read(store) == {b"a": b"1", b"b": b"2"}


def holds(store: str, key: bytes) -> bool:
    try:
        return key in read(store)
    except lsmkv.NotAStoreError:  # not made yet
        return False


def test_progress_is_drawn_on_a_terminal(store: str) -> None:
    leader, follower = os.openpty()
    running = subprocess.Popen(
        [sys.executable, "-m", "lsmkv", "verify", fill_tables(store)],
        stdout=subprocess.DEVNULL,
        stderr=follower,
        env={**ENVIRONMENT, "TERM": "xterm"},
    )
    os.close(follower)
    drawn = b""
    try:
        while chunk := os.read(leader, 4096):
            drawn += chunk
    except OSError:  # the terminal's other side is closed
        pass
    os.close(leader)
    assert running.wait() == 0
    assert b"Verifying" in drawn


def test_importing_the_package_imports_neither_click_nor_rich() -> None:
    script = "import lsmkv, sys; sys.exit('click' in sys.modules or 'rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT).returncode == 0


def test_the_command_line_imports_rich_only_to_draw() -> None:
    script = "import lsmkv.cli, sys; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT).returncode == 0
