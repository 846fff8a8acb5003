"""``lsmkv load`` and ``lsmkv dump``: dumps can be loaded, bad lines are named, fields are chosen."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given

import lsmkv
from commands import AWKWARD, contents, fail, fill, one_line, read, succeed
from lsmkv.cli.fields import Columns, Fields
from lsmkv.cli.keys import Form
from lsmkv.cli.loading import batches


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


@pytest.mark.parametrize("file_format", ["jsonl", "tsv", "csv"])
@pytest.mark.parametrize("how", [[], ["--bulk", "--sorted"]], ids=["in batches", "in bulk"])
def test_load_restores_when_dumped_entries_expire(
    store: str, file_format: str, how: list[str]
) -> None:
    with lsmkv.open(store) as db:
        db.put(b"a", b"1", expires_at=2**40 - 1)
        db.flush()
        db.put(b"b", b"1", expires_at=9_999_999_999)
        db.put(b"c", b"1")
        db.put(b"d", b"1", expires_at=1)
    form = ["--format", file_format]
    dumped = succeed("dump", store, *form)
    succeed("load", f"{store}-2", "-", *form, *how, "--ttl", "99", stdin=dumped)
    with lsmkv.open(f"{store}-2") as db:
        assert list(db) == [b"a", b"b", b"c"]
        assert [db.expires_at(key) for key in (b"a", b"b")] == [2**40 - 1, 9_999_999_999]
        assert 0 < (db.expires_at(b"c") or 0) < 9_999_999_999  # by --ttl
    assert b"3 entries expire" in succeed("inspect", store)
    assert succeed("dump", f"{store}-2", *form).splitlines()[:2] == dumped.splitlines()[:2]


def test_an_entry_that_does_not_expire_is_dumped_as_ever(store: str) -> None:
    succeed("put", store, "a", "1")
    succeed("put", store, "b", "1", "--ttl", "3600")
    plain, expiring = succeed("dump", store, "--format", "tsv").splitlines()
    assert plain == b"a\t1" and expiring.startswith(b"b\t1\texpires_at=")
    assert succeed("dump", store).startswith(b'{"key":"a","value":"1"}\n')


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"k,v,expires_at=soon", "'expires_at=soon' is no number of seconds since 1970"),
        (b"k,v,expires_at=-1", "expires_at=-1.0: give more than 0 seconds"),
        (b"k,v,1795838400", "3 fields instead of 2"),
        (b'{"key": "k", "value": "v", "expires_at": 1e99}', "beyond the limit"),
        (b'{"key": "k", "value": "v", "expires_at": "soon"}', "got `str`"),
    ],
)
def test_a_line_with_a_wrong_expiry_is_named(store: str, line: bytes, reason: str) -> None:
    form = "jsonl" if line.startswith(b"{") else "csv"
    message = fail("load", store, "-", "--format", form, stdin=line + b"\n")
    assert "line 1: " in message and reason in message
    assert not os.path.exists(store)


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


@pytest.mark.parametrize(
    ("most", "sizes"), [(1, [1] * 10), (4, [4, 4, 2]), (10, [10]), (1000, [10])]
)
def test_entries_are_written_in_batches(most: int, sizes: list[int]) -> None:
    items = ((b"%d" % number, b"", None) for number in range(10))
    assert [len(batch) for batch in batches(items, most) if batch] == sizes


def test_a_batch_of_long_values_is_written_early() -> None:
    long = b"a", bytes(8 * 1024 * 1024), None
    assert [len(batch) for batch in batches(iter([long, long]), 1000) if batch] == [1, 1]


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


def refuse(store: str, file_format: str, content: bytes, *options: str) -> str:
    message = fail("load", store, "-", "--format", file_format, *options, stdin=content)
    assert one_line(message)
    return message


# --- tables ---


class CountedName(str):
    """The name of a column, which counts how often any is compared."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedName.comparisons += 1
        return str(self) == other

    __hash__ = str.__hash__


def test_each_column_of_a_header_is_compared_with_few_others() -> None:
    header: list[str] = [CountedName(f"column {number}") for number in range(1000)]
    Columns(Fields(key="column 5"), Form.TEXT, header)
    assert CountedName.comparisons < 3 * len(header)


# --- JSON lines ---


@pytest.mark.parametrize(
    ("file_format", "line", "reason"),
    [
        ("csv", b"id,\xff", "line 1: column names are not UTF-8"),
        ("jsonl", b'{"id": "a", "x": "\xff"}', "not UTF-8"),
        ("jsonl", b'{"id": "a", "value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "line 1: "),
    ],
    ids=["names", "no text", "deep"],
)
def test_hostile_lines_are_refused(store: str, file_format: str, line: bytes, reason: str) -> None:
    assert reason in refuse(store, file_format, line + b"\n", "--key-field", "id")
    assert not os.path.exists(store)


# --- dump ---


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv.gz", "a.tsv.GZ"])
def test_dump_packs_files_named_gz(store: str, tmp_path: Path, name: str) -> None:
    succeed("dump", fill(store, {b"k": b"v"}), "--output", str(tmp_path / name))
    assert b"k" in gzip.decompress((tmp_path / name).read_bytes())
    succeed("load", str(tmp_path / "copy"), str(tmp_path / name))
    assert read(str(tmp_path / "copy")) == {b"k": b"v"}


def test_two_dumps_of_the_same_are_the_same_bytes(store: str, tmp_path: Path) -> None:
    fill(store, {b"k": b"v"})
    for name in ("a.gz", "b.gz"):
        succeed("dump", store, "--output", str(tmp_path / name))
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


@pytest.mark.parametrize("name", ["missing/a.csv", "n" * 300])
def test_dump_names_the_file_that_it_cannot_write(store: str, tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    message = fail("dump", fill(store, {b"k": b"v"}), "--output", path)
    assert one_line(message) and message.startswith(f"Error: {path}: ")


def test_dump_takes_a_name_as_long_as_names_may_be(store: str, tmp_path: Path) -> None:
    succeed("dump", fill(store, {b"k": b"v"}), "--output", str(tmp_path / ("n" * 255)))
    assert (tmp_path / ("n" * 255)).read_bytes() == b'{"key":"k","value":"v"}\n'


def test_dump_keeps_the_permissions_of_the_file_that_it_replaces(
    store: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.touch(mode=0o600)
    path.chmod(0o600)
    succeed("dump", fill(store, {b"k": b"v"}), "--output", str(path))
    assert path.stat().st_mode & 0o777 == 0o600
