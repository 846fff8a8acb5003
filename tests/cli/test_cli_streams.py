"""``lsmkv load``: packed input, damaged and hostile input, and what is no text."""

from __future__ import annotations

import gzip
import io
import random
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import fail, one_line, read, succeed
from lsmkv.cli import records, streams
from lsmkv.cli.keys import Form
from lsmkv.cli.records import read_records
from lsmkv.cli.streams import Lines


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def refuse(store: str, file_format: str, content: bytes, *options: str) -> str:
    message = fail("load", store, "-", "--format", file_format, *options, stdin=content)
    assert one_line(message)
    return message


def lines_of(content: bytes, longest: int = 1 << 20) -> Iterator[bytes]:
    lines = Lines(io.BufferedReader(io.BytesIO(content)), longest=longest)
    for line in lines:
        lines.begin_record()
        yield line


def numbered(count: int) -> bytes:
    """Lines of a table that gzip does not pack into nothing."""
    rng = random.Random(count)
    return b"".join(b"%d,%x\n" % (number, rng.getrandbits(64)) for number in range(count))


# --- packed ---


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv.gz", b"k,v\n"),
        ("a.TSV.GZ", b"k\tv\n"),
        ("a.jsonl.gz", b'{"key": "k", "value": "v"}\n'),
        ("a.gz", b'{"key": "k", "value": "v"}\n'),
        ("a.csv", b"k,v\n"),
    ],
)
def test_load_unpacks_gzip(store: str, tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(gzip.compress(content))
    succeed("load", store, str(tmp_path / name))
    assert read(store) == {b"k": b"v"}


@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 300_000])
def test_packed_lines_are_those_that_were_packed(size: int) -> None:
    content = numbered(size // 10) + b"a" * size
    packed = gzip.compress(content[: size // 3]) + gzip.compress(b"") + bytes(70_000)
    packed += gzip.compress(content[size // 3 :]) + bytes(512)  # zeros, as on a tape
    assert b"".join(lines_of(packed)) == content


# --- damaged ---


def test_the_whole_lines_of_gzip_data_that_are_cut_short_are_loaded(store: str) -> None:
    content = numbered(3000)
    packed = gzip.compress(content)[:-100]
    whole = zlib.decompressobj(31).decompress(packed).rpartition(b"\n")[0].split(b"\n")
    assert 2900 < len(whole) < 3000
    message = refuse(store, "csv", packed)
    assert f"line {len(whole) + 1}: the gzip data are cut short" in message
    assert f"{len(whole):,} entries loaded before that" in message
    assert read(store) == dict(line.split(b",") for line in whole)


def until_error(found: Iterator[bytes]) -> tuple[list[bytes], str]:
    before: list[bytes] = []
    with pytest.raises(ValueError) as caught:
        before.extend(found)
    return before, str(caught.value)


@pytest.mark.parametrize("file_format", ["csv", "tsv", "jsonl"])
def test_every_record_before_lost_packed_bytes_is_read(file_format: str) -> None:
    line = {"csv": b"%d,v\n", "tsv": b"%d\tv\n", "jsonl": b'{"key": %d, "value": "v"}\n'}
    packed = gzip.compress(b"".join(line[file_format] % number for number in range(40)))
    for size in range(3, len(packed)):
        whole = zlib.decompressobj(31).decompress(packed[:size]).count(b"\n")
        found = read_records(io.BytesIO(packed[:size]), file_format, Form.TEXT)
        keys, message = until_error(key for _, key, *_ in found)
        assert keys == [b"%d" % number for number in range(whole)]
        assert message == f"line {whole + 1}: the gzip data are cut short"


def test_every_line_before_damage_of_packed_bytes_is_read() -> None:
    content = numbered(3000)
    packed = gzip.compress(content)
    for place in range(20, len(packed), 997):
        damaged = bytearray(packed)
        damaged[place] ^= 0xFF
        sound = zlib.decompressobj(31).decompress(packed[:place]).rpartition(b"\n")[0]
        found, message = until_error(lines_of(bytes(damaged)))
        assert b"".join(found).startswith(sound)
        assert message.startswith(
            f"line {len(found) + 1}: the gzip data are damaged, here or before"
        )


# --- hostile ---


def test_a_record_that_is_longer_than_any_is_refused() -> None:
    found, message = until_error(lines_of(b"short\n" + bytes(100), longest=50))
    assert found == [b"short\n"]
    assert message == "line 2: it has more than 50 bytes"


@pytest.mark.parametrize("record", [b'"' + b"\n" * 100_000, b'"b","' + b'\n","' * 30_000])
def test_the_lines_of_a_record_are_limited_together(
    store: str, monkeypatch: pytest.MonkeyPatch, record: bytes
) -> None:
    monkeypatch.setattr(records, "_MOST_CHARACTERS", {"csv": 0})
    message = refuse(store, "csv", b"k,v\n" * 30_000 + record)
    assert "line 30001: it has more than 65,536 bytes (30,000 entries loaded" in message
    assert read(store) == {b"k": b"v"}


BOMBS = [
    ("jsonl", b'{"key": "k", "value": "%b"}\n' % (b"a" * 60_000)),
    ("csv", b'k,"%b"\n' % (b"\n" * 60_000)),  # a record of many lines
    ("tsv", b"k\t%b\n" % (b"a" * 60_000)),
]


@pytest.mark.parametrize(("file_format", "record"), BOMBS)
def test_a_long_record_that_gzip_packed_to_almost_nothing_is_refused(
    store: str, monkeypatch: pytest.MonkeyPatch, file_format: str, record: bytes
) -> None:
    first = {"jsonl": b'{"key": "a", "value": ""}\n', "csv": b"a,\n", "tsv": b"a\t\n"}[file_format]
    monkeypatch.setattr(streams, "ANY_TIMES_BYTES", 20_000)
    message = refuse(store, file_format, gzip.compress(first + record))
    assert message == (
        "Error: -: line 2: more than 20,000 bytes of it are packed into less than 1/100; "
        "if you trust it, unpack it with gunzip first (1 entry loaded before that)\n"
    )
    assert read(store) == {b"a": b""}


@pytest.mark.parametrize(("file_format", "record"), BOMBS)
def test_a_long_record_that_is_not_packed_is_taken(
    monkeypatch: pytest.MonkeyPatch, file_format: str, record: bytes
) -> None:
    monkeypatch.setattr(streams, "ANY_TIMES_BYTES", 20_000)
    (found,) = read_records(io.BytesIO(record), file_format, Form.TEXT)
    assert len(found[2]) == 60_000


@pytest.mark.parametrize(
    "content",
    [b"k,v\n" * 20_000, b"k,%b\n" % random.Random(1).randbytes(20_000).hex().encode()],
    ids=["short records", "a long record of few times its packed bytes"],
)
def test_other_packed_records_are_taken(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(streams, "ANY_TIMES_BYTES", 20_000)
    packed = io.BytesIO(gzip.compress(content))
    assert len(list(read_records(packed, "csv", Form.TEXT))) == content.count(b"\n")


# --- no text ---


def test_utf_16_is_refused_with_the_remedy(store: str) -> None:
    assert "iconv" in refuse(store, "tsv", "a\t1\n".encode("utf-16"))


def test_lines_are_those_of_the_stream_however_it_begins() -> None:
    for content in (b"", b"\n", b"\x1f", b"\x1f\x8b", b"\x1f\x8bx\ny", b"a\n\nb"):
        assert list(lines_of(content)) == content.splitlines(keepends=True)
