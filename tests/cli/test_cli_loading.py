"""``lsmkv load`` and ``lsmkv dump``: dumps can be loaded, bad lines are named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings

import lsmkv
from commands import (
    AWKWARD,
    contents,
    damage_block,
    fail,
    fill,
    fill_tables,
    one_line,
    read,
    run,
    succeed,
)
from lsmkv.cli.loading import Loader


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


@pytest.mark.parametrize(
    "options",
    [
        ["--format", "jsonl"],
        ["--format", "tsv"],
        ["--format", "csv"],
        pytest.param(["--format", "tsv", "--hex"], marks=pytest.mark.slow),
        pytest.param(["--format", "csv", "--hex"], marks=pytest.mark.slow),
    ],
)
@settings(max_examples=25)
@given(entries=contents)
@example(entries=AWKWARD)
def test_dumps_can_be_loaded(options: list[str], entries: dict[bytes, bytes]) -> None:
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
def test_load_takes_the_format_from_the_suffix(
    store: str, tmp_path: Path, name: str, content: bytes
) -> None:
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


def test_load_replaces_present_values(store: str) -> None:
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
        loader.load((b"%d" % number, b"") for number in range(10))
        assert db.stats().write_batches == batches


def test_a_batch_of_long_values_is_written_early(store: str) -> None:
    with lsmkv.open(store) as db:
        loader = Loader(db, 1000, sync=False)
        long = b"a", bytes(8 * 1024 * 1024)

        def pairs() -> Iterator[tuple[bytes, bytes]]:
            yield long
            yield long
            assert loader.loaded == 2

        loader.load(pairs())


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
def test_dump_takes_the_format_from_the_suffix(
    store: str, tmp_path: Path, name: str, content: bytes
) -> None:
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


def test_a_dump_that_fails_leaves_what_a_symbolic_link_names(store: str, tmp_path: Path) -> None:
    damage_block(fill_tables(store))
    (tmp_path / "whole").write_text("old")
    (tmp_path / "link").symlink_to("whole")
    fail("dump", store, "--output", str(tmp_path / "link"))
    assert (tmp_path / "link").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["link", "store", "whole"]


@pytest.mark.parametrize("command", [["dump", "--output"], ["explore", "--out"]])
@pytest.mark.parametrize(
    ("name", "links"),
    [
        ("store/CURRENT", {}),
        ("store/new.csv", {}),
        ("link", {"link": "store/CURRENT"}),
        ("way/CURRENT", {"way": "store"}),
    ],
)
def test_no_output_is_among_the_files_of_the_store(
    store: str, tmp_path: Path, command: list[str], name: str, links: dict[str, str]
) -> None:
    fill(store, {b"k": b"v"})
    for link, target in links.items():
        (tmp_path / link).symlink_to(target)
    name_of_command, option = command
    message = fail(name_of_command, store, option, str(tmp_path / name), code=2)
    assert f"{option} {tmp_path / name} is inside STORE, among its own files" in message
    assert read(store) == {b"k": b"v"}
    assert not Path(store, "new.csv").exists()


def test_output_does_not_replace_a_file_that_is_protected(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dump").write_text("old")
    (tmp_path / "link").symlink_to("dump")
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.W_OK)  # root may write to all
    message = fail("dump", fill(store, {b"k": b"v"}), "--output", str(tmp_path / "link"))
    assert message == f"Error: {tmp_path / 'link'}: Permission denied\n"
    assert (tmp_path / "dump").read_text() == "old"


def test_dump_to_a_device_does_not_replace_it(store: str) -> None:
    succeed("dump", fill(store, {b"k": b"v"}), "--output", os.devnull)
    assert not os.path.isfile(os.devnull)


def test_dump_does_not_make_a_store(store: str) -> None:
    fail("dump", store)
    assert not os.path.exists(store)


def test_dump_refuses_hex_for_json_without_naming_options_it_lacks(store: str) -> None:
    message = fail("dump", fill(store, {b"a": b"1"}), "--hex", code=2)
    assert "--hex is for TSV and CSV" in message and "--raw" not in message


@pytest.mark.parametrize("form", ["--hex", "--raw"])
def test_load_refuses_the_form_that_was_given_for_json(store: str, form: str) -> None:
    message = fail("load", store, "-", form, code=2, stdin=b"")
    assert f"{form} is for TSV and CSV" in message


# --- --bulk ---


@pytest.mark.parametrize("options", [["--bulk"], ["--bulk", "--sorted"]])
def test_a_dump_is_loaded_as_tables(tmp_path: Path, store: str, options: list[str]) -> None:
    dumped = succeed("dump", fill(str(tmp_path / "a"), AWKWARD))
    succeed("load", store, "-", *options, stdin=dumped)
    assert read(store) == AWKWARD
    with lsmkv.open(store, read_only=True) as db:
        assert db.verify().log_record_count == 0


def test_bulk_lines_in_any_order_are_loaded_and_the_last_value_counts(store: str) -> None:
    done = run("load", store, "-", "--format", "tsv", "--bulk", stdin=b"b\t1\na\t2\nb\t3\n")
    assert read(store) == {b"a": b"2", b"b": b"3"}
    assert "Loaded 2 entries" in done.stderr


def test_a_bad_line_of_a_bulk_load_loads_nothing(store: str) -> None:
    said = fail("load", store, "-", "--format", "tsv", "--bulk", stdin=b"a\t1\nb\nc\t3\n")
    assert "line 2" in said
    assert "0 entries loaded" in said
    assert read(store) == {}


def test_lines_out_of_order_are_refused_where_they_should_be_sorted(store: str) -> None:
    said = fail("load", store, "-", "--format", "tsv", "--bulk", "--sorted", stdin=b"b\t1\na\t2\n")
    assert "line 2: key a follows b: with --sorted, keys ascend" in said
    assert read(store) == {}
    said = fail(
        "load", store, "-", "--format", "tsv", "--bulk", "--sorted", stdin=b"a\t1\n\na\t2\n"
    )
    assert "line 3: key a comes twice" in said


def test_sorted_is_refused_without_bulk(store: str) -> None:
    assert "--sorted is for --bulk" in fail("load", store, "-", "--sorted", code=2, stdin=b"")
