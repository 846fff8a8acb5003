"""The bytes of a generation, and the names of objects."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import xxhash

from lsmkv import CorruptionError, Options, Stats
from lsmkv.remote.bucket import Bucket
from lsmkv.remote.generation import (
    Generation,
    PublishedTable,
    decode_generation,
    encode_generation,
    generation_name,
    generation_number,
    read_generation,
    table_generation,
    table_name,
)
from lsmkv.sstable.format import TableMeta

CONTENT = "0123456789abcdef" * 2
TABLE = PublishedTable(
    level=1,
    run=3,
    meta=TableMeta(
        number=7,
        size_bytes=1000,
        smallest=b"a",
        largest=b"\xff",
        smallest_seq=1,
        largest_seq=9,
        entry_count=5,
        tombstone_count=1,
        checksum=12,
    ),
    name=f"{CONTENT}-0000000002.sst",
    data_length=500,
    dictionary_length=10,
    filters_length=90,
)
GENERATION = Generation(format=1, number=2, publication="f00d", last_seq=9, tables=[TABLE])


def sized(size_bytes: int) -> TableMeta:
    return msgspec.structs.replace(TABLE.meta, size_bytes=size_bytes)


LINE = (
    b'{"format":1,"number":2,"publication":"f00d","last_seq":9,"tables":[{"level":1,"run":3,'
    b'"meta":{"number":7,"size_bytes":1000,"smallest":"YQ==","largest":"/w==","smallest_seq":1,'
    b'"largest_seq":9,"entry_count":5,"tombstone_count":1,"checksum":12},'
    b'"name":"0123456789abcdef0123456789abcdef-0000000002.sst","data_length":500,'
    b'"dictionary_length":10,"filters_length":90}]}'
)


def sealed(line: bytes) -> bytes:
    return b"%b\n%b\n" % (line, xxhash.xxh3_128_hexdigest(line).encode())


def test_a_generation_is_these_bytes() -> None:
    assert encode_generation(GENERATION) == sealed(LINE)
    assert decode_generation(sealed(LINE), "url", 2) == GENERATION


def test_the_newest_of_any_two_generations_is_listed_first() -> None:
    numbers = [1, 2, 9, 10, 99, 100, 12345, 10**10 - 2]
    names = sorted(map(generation_name, numbers))
    listed = [generation_number(name.removeprefix("generations/")) for name in names]
    assert listed == numbers[::-1]


@pytest.mark.parametrize("name", ["", "notes.txt", "9999999998-0000000002.json", "1-1.json"])
def test_other_names_are_no_generations(name: str) -> None:
    assert generation_number(name) is None


def test_a_table_is_named_after_its_bytes_and_the_generation_that_needs_it_first() -> None:
    assert table_name(CONTENT, 2) == TABLE.name
    assert table_generation(TABLE.name) == 2
    assert table_generation("notes.txt") is None
    assert (TABLE.content, TABLE.object_name) == (CONTENT, f"tables/{TABLE.name}")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "../../elsewhere"}, "its object's name"),
        ({"data_length": -1}, "do not fit into its size"),
        ({"filters_length": 1000}, "do not fit into its size"),
        ({"level": 99}, "has level 99"),
        ({"meta": sized(1 << 56)}, "table of 72057594037927936 bytes: 70368744177664 are the most"),
        ({"meta": sized(1 << 40)}, "index and properties of .* bytes"),
        ({"meta": sized(1 << 40), "filters_length": 1 << 39}, "filters of .* bytes"),
        ({"meta": sized(1 << 40), "dictionary_length": 1 << 39}, "dictionary of .* bytes"),
        (
            {"meta": msgspec.structs.replace(TABLE.meta, largest_seq=10)},
            "newer than the generation",
        ),
    ],
)
def test_impossible_tables_are_refused(changes: dict[str, object], reason: str) -> None:
    wrong = msgspec.structs.replace(TABLE, **changes)
    data = encode_generation(msgspec.structs.replace(GENERATION, tables=[wrong]))
    with pytest.raises(CorruptionError, match=reason):
        decode_generation(data, "url", 2)


@pytest.mark.parametrize(
    "line", [b"", b"{}", b"[]", b"\xff", b"[" * 100_000, LINE.replace(b'"run":3', b'"run":"3"')]
)
def test_lines_of_another_form_are_refused(line: bytes) -> None:
    with pytest.raises(CorruptionError, match="url at offset 0: bad generation"):
        decode_generation(sealed(line), "url", 2)


def test_a_generation_longer_than_any_can_be_is_not_read(tmp_path: Path) -> None:
    bucket = Bucket(f"file://{tmp_path}", Options(), Stats())
    path = tmp_path / generation_name(1)
    path.parent.mkdir()
    with open(path, "wb") as file:
        file.truncate(3 << 30)  # a sparse file
    with pytest.raises(CorruptionError, match="object of 3221225472 bytes: 268435456 are the most"):
        read_generation(bucket, 1)
    bucket.close()
    assert bucket._stats.object_get_bytes == 0


def test_every_changed_byte_is_found() -> None:
    data = sealed(LINE)
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(CorruptionError):
            decode_generation(damaged, "url", 2)


def test_every_cut_is_found() -> None:
    data = sealed(LINE)
    for end in range(len(data)):
        with pytest.raises(CorruptionError):
            decode_generation(data[:end], "url", 2)
