"""``lsmkv load``: fields of a row, headers of tables; ``lsmkv dump``: its file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from commands import damage_block, fail, fill, fill_tables, one_line, read, run, succeed
from lsmkv.cli.fields import Columns, Fields
from lsmkv.cli.keys import Form

PEOPLE = b"id,name,town\n7,Ann,Oslo\n8,Bob,Rome\n"


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


def test_a_header_of_more_than_two_columns_asks_for_the_key(store: str) -> None:
    message = refuse(store, "csv", PEOPLE, "--header")
    assert "line 1: 3 columns" in message and "--key-field" in message and "'town'" in message


def test_without_a_value_field_the_rest_of_the_row_is_a_json_object(store: str) -> None:
    assert load(store, "csv", PEOPLE, "--key-field", "id") == {
        b"7": b'{"name":"Ann","town":"Oslo"}',
        b"8": b'{"name":"Bob","town":"Rome"}',
    }


def test_one_column_beside_the_key_is_a_json_object_too(store: str) -> None:
    assert load(store, "csv", b"k,v\na,1\n", "--key-field", "k") == {b"a": b'{"v":"1"}'}


def test_a_value_field_is_stored_as_it_is(store: str) -> None:
    options = ["--key-field", "name", "--value-field", "id"]
    assert load(store, "csv", PEOPLE, *options) == {b"Ann": b"7", b"Bob": b"8"}


def test_the_key_field_is_key_if_it_is_not_given(store: str) -> None:
    assert load(store, "csv", b"x,key\n1,a\n", "--value-field", "x") == {b"a": b"1"}


def test_bytes_in_the_rest_of_a_row_are_as_in_json_lines(store: str) -> None:
    found = load(store, "csv", b"k,x,y\na,\\xff,C:\\\\\n", "--key-field", "k")
    assert json.loads(found[b"a"]) == {"x": {"hex": "ff"}, "y": "C:\\"}


def test_the_names_of_columns_are_taken_literally(store: str) -> None:
    options = ["--hex", "--key-field", "the key", "--value-field", "C:\\"]
    assert load(store, "csv", b"the key,C:\\\n61,62\n", *options) == {b"a": b"b"}


@pytest.mark.parametrize(
    ("content", "options", "reason"),
    [
        (PEOPLE, ["--key-field", "email"], "line 1: there is no column 'email'"),
        (PEOPLE, ["--key-field", "id", "--value-field", "x"], "line 1: there is no column 'x'"),
        (PEOPLE, ["--value-field", "name"], "line 1: there is no column 'key'"),
        (b"id,a,a\n1,2,3\n", ["--key-field", "id"], "'a' names more than one column"),
        (PEOPLE + b"9,Cid\n", ["--key-field", "id"], "line 4: 2 fields instead of 3"),
        (PEOPLE + b"9,Cid,Bonn,x\n", ["--key-field", "id"], "line 4: 4 fields instead of 3"),
        (PEOPLE + b"9,C:\\d,Bonn\n", ["--key-field", "id"], "line 4: name: the backslash"),
        (b"id,\xff\n", ["--key-field", "id"], "line 1: column names are not UTF-8"),
    ],
)
def test_columns_that_do_not_fit_are_named(
    store: str, content: bytes, options: list[str], reason: str
) -> None:
    assert reason in refuse(store, "csv", content, *options)


def test_a_wide_table_without_options_is_refused_with_the_remedy(store: str) -> None:
    message = refuse(store, "csv", PEOPLE)
    assert "line 1: 3 fields instead of 2" in message and "--key-field" in message


@pytest.mark.parametrize(
    ("file_format", "options"),
    [
        ("jsonl", ["--header"]),
        ("jsonl", ["--no-header"]),
        ("csv", ["--no-header", "--key-field", "id"]),
        ("csv", ["--no-header", "--value-field", "id"]),
    ],
)
def test_options_of_a_header_that_exclude_each_other_are_wrong_usage(
    store: str, file_format: str, options: list[str]
) -> None:
    fail("load", store, "-", "--format", file_format, *options, code=2, stdin=b"")


# --- a first row that may be a header ---


def test_a_first_row_that_looks_like_a_header_is_an_entry_and_gets_a_hint(store: str) -> None:
    result = run("load", store, "-", "--format", "csv", stdin=b"key,value\na,1\n")
    assert read(store) == {b"key": b"value", b"a": b"1"}
    assert "Hint: -: line 1, 'key', 'value', is loaded as an entry; with --header" in result.stderr


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (b"key,value\na,1\n", ["--no-header"]),
        (b"key,value\na,1\n", ["--header"]),
        (b"a,1\nkey,value\n", []),
    ],
)
def test_there_is_no_hint_in_formats_without_headers(
    store: str, content: bytes, options: list[str]
) -> None:
    result = run("load", store, "-", "--format", "csv", *options, stdin=content)
    assert (result.exit_code, "Hint" in result.stderr) == (0, False)


# --- JSON lines ---


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (b'{"age": 34, "tags": [ 1.50, null ]}', b'{"age":34,"tags":[1.50,null]}'),
        (b"[ ]", b"[]"),
        (b"12345678901234567890123", b"12345678901234567890123"),
        (b"1e400", b"1e400"),
        (b"false", b"false"),
        (b'{"hex": 1}', b'{"hex":1}'),
        (b'{"hex": "ff", "x": "\\u00e9 \\n"}', b'{"hex":"ff","x":"\\u00e9 \\n"}'),
        ('{"x": "é  "}'.encode(), '{"x":"é  "}'.encode()),
    ],
)
def test_a_value_that_is_no_string_is_stored_as_json_without_spaces(
    store: str, value: bytes, stored: bytes
) -> None:
    assert load(store, "jsonl", b'{"key": "a", "value": %b}\n' % value) == {b"a": stored}


def test_named_fields_of_json_make_key_and_value(store: str) -> None:
    lines = b'{"id": 7, "name": "Ann", "x": 1}\n{"id": "8", "name": {"hex": "ff"}}\n'
    options = ["--key-field", "id", "--value-field", "name"]
    assert load(store, "jsonl", lines, *options) == {b"7": b"Ann", b"8": b"\xff"}


def test_without_a_value_field_the_rest_of_the_object_is_the_value(store: str) -> None:
    lines = b'{"name": "Ann", "id": 7, "tags": [1, {"a": null}]}\n{"id": 8}\n'
    assert load(store, "jsonl", lines, "--key-field", "id") == {
        b"7": b'{"name":"Ann","tags":[1,{"a":null}]}',
        b"8": b"{}",
    }


def test_one_field_of_json_may_be_key_and_value(store: str) -> None:
    options = ["--key-field", "id", "--value-field", "id"]
    assert load(store, "jsonl", b'{"id": "a"}\n', *options) == {b"a": b"a"}


@pytest.mark.parametrize(
    ("line", "options", "reason"),
    [
        (b'{"key": "a", "value": null}', [], "value: null is no value"),
        (b'{"key": true, "value": ""}', [], "key: a key is a string, a number or"),
        (b'{"key": {}, "value": ""}', [], "key: a key is a string, a number or"),
        (b'{"key": "a", "value": "", "x": 1}', [], "--key-field"),
        (b'{"key": "a"}', [], "--key-field"),
        (b'[{"key": "a", "value": ""}]', [], "jq -c '.[]'"),
        (b'{"id": "a"}', ["--key-field", "name"], "there is no field 'name'"),
        (b'{"id": "a"}', ["--key-field", "id", "--value-field", "x"], "there is no field 'x'"),
        (b'{"id": "a", "x": "\xff"}', ["--key-field", "id"], "not UTF-8"),
        (b'["id"]', ["--key-field", "id"], "not an object"),
        (b'{"id": "a", "x": nan}', ["--key-field", "id"], "not JSON"),
        (b'{"key": "a", "value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", [], "line 1: "),
    ],
)
def test_json_that_makes_no_entry_is_refused(
    store: str, line: bytes, options: list[str], reason: str
) -> None:
    assert reason in refuse(store, "jsonl", line + b"\n", *options)
    assert read(store) == {}


def test_an_error_says_which_format_was_assumed(store: str) -> None:
    assert "--format" in fail("load", store, "-", stdin=b"a,1\n")


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
