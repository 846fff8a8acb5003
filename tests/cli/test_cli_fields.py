"""``lsmkv load``: fields of a row, headers of tables; ``lsmkv dump``: its file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from commands import damage_block, fail, fill, fill_tables, one_line, read, succeed
from lsmkv.cli.fields import Columns, Fields
from lsmkv.cli.keys import Form


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def load(store: str, file_format: str, content: bytes, *options: str) -> dict[bytes, bytes]:
    succeed("load", store, "-", "--format", file_format, *options, stdin=content)
    return read(store)


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


@pytest.mark.parametrize(("file_format", "tab"), [("csv", b","), ("tsv", b"\t")])
def test_a_header_alone_is_passed_over(store: str, file_format: str, tab: bytes) -> None:
    content = b"\xef\xbb\xbfkey,value\r\na,1\r\n".replace(b",", tab)
    assert load(store, file_format, content, "--header") == {b"a": b"1"}


def test_a_header_need_not_be_the_first_line(store: str) -> None:
    assert load(store, "csv", b"\n\nkey,value\na,1\n", "--header") == {b"a": b"1"}


# --- a first row that may be a header ---


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
    assert read(store) == {}


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


def test_a_packed_dump_that_fails_leaves_nothing(store: str, tmp_path: Path) -> None:
    damage_block(fill_tables(store))
    fail("dump", store, "--output", str(tmp_path / "a.gz"))
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
