"""``lsmkv load`` and ``lsmkv dump``: dumps can be loaded, bad lines are named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given

import lsmkv
from commands import (
    AWKWARD,
    contents,
    fail,
    fill,
    one_line,
    read,
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
@given(entries=contents)
@example(entries=AWKWARD)
def test_dumps_can_be_loaded(options: list[str], entries: dict[bytes, bytes]) -> None:
    with TemporaryDirectory() as directory:
        dumped = succeed("dump", fill(f"{directory}/a", entries), *options)
        succeed("load", f"{directory}/b", "-", *options, stdin=dumped)
        assert read(f"{directory}/b") == entries


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
        ("jsonl", b'{"key": "a", "value": "\xff"}', "not UTF-8"),
        ("tsv", b"\xff\tb", "key: character 1 is not UTF-8"),
        ("csv", b"k" * (lsmkv.MAX_KEY_BYTES + 1) + b",v", "over the limit of"),
    ],
    ids=["json", "tsv", "long"],
)
def test_lines_that_no_text_can_show_are_named(
    store: str, file_format: str, line: bytes, reason: str
) -> None:
    message = fail("load", store, "-", "--format", file_format, stdin=b"\n" + line)
    assert one_line(message) and "-: line 2: " in message and reason in message


def test_load_raw_takes_fields_as_they_are(store: str) -> None:
    lines = b"C:\\data,\xff\n"
    succeed("load", store, "-", "--format", "csv", "--raw", stdin=lines)
    assert read(store) == {b"C:\\data": b"\xff"}


def test_load_takes_long_values(store: str) -> None:
    value = b"v" * 300_000
    succeed("load", store, "-", "--format", "csv", stdin=b"k," + value + b"\n")
    assert read(store) == {b"k": value}


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
    options += ["--set", "filter_allocation=uniform"]
    succeed("load", store, "-", "--format", "tsv", "--batch-size", "10", *options, stdin=lines)
    with lsmkv.open(store, read_only=True) as db:
        assert {table.requested_rate for table in db.inspect().tables()} == {0.5}


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


# --- --bulk ---


@pytest.mark.parametrize("options", [["--bulk"], ["--bulk", "--sorted"]])
def test_a_dump_is_loaded_as_tables(tmp_path: Path, store: str, options: list[str]) -> None:
    dumped = succeed("dump", fill(str(tmp_path / "a"), AWKWARD))
    succeed("load", store, "-", *options, stdin=dumped)
    assert read(store) == AWKWARD
    with lsmkv.open(store, read_only=True) as db:
        assert db.verify().log_record_count == 0
