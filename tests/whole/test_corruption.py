"""Damage to a store: right answers, or errors that name the place.

``python -m torture corruption`` (``test_torture_corruption.py``) damages every byte and every file in
turn; here are cases with an exact outcome.
"""

from __future__ import annotations

import os
import struct
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import fill, open_small

import lsmkv
from damage import files, flip, footer_of, open_table
from lsmkv.encoding.checksums import checksum
from lsmkv.errors import CorruptionError, NotAStoreError, UnsupportedFormatError
from lsmkv.log.reader import read_log
from lsmkv.log.writer import LogWriter
from lsmkv.sstable.block.trailer import BlockTrailer, decode_block_frame
from lsmkv.sstable.format import CODEC_ZSTD, FOOTER_BYTES
from lsmkv.storage.file_names import parse_file_name
from lsmkv.storage.storage import Storage
from table_files import last_key
from torture.fuzz.encoded import encode_batch, encode_block_frame

DAMAGE = (CorruptionError, UnsupportedFormatError, NotAStoreError)
ABSENT = [b"", b"a", b"key", b"key000003x", b"key000999", b"zzz"]
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"compression": "none"},
    "compressed": {"compression": "zstd", "filter_residency": "cached"},
    "dictionary": {
        "compression": "zstd",
        "compression_dictionary_size_bytes": 512,
        "write_buffer_size_bytes": 65536,
        "block_size_bytes": 256,
    },
    "table-filter": {"filter_granularity": "table"},
    "table-filter-cached": {"filter_granularity": "table", "filter_residency": "cached"},
}


@dataclass
class Store:
    """A closed store, its contents, and its undamaged bytes."""

    path: Path
    options: dict[str, Any]
    contents: dict[bytes, bytes]

    def __post_init__(self) -> None:
        self.images = {path: path.read_bytes() for path in self.path.iterdir()}

    def file(self, kind: str) -> Path:
        """The only file of a kind, or the first table."""
        if kind == "current":
            return self.path / "CURRENT"
        return next(path for path in sorted(self.images) if _kind(path) == kind)

    def restore(self, path: Path) -> None:
        path.write_bytes(self.images[path])


def _kind(path: Path) -> str:
    return (parse_file_name(path.name) or (path.name.lower(), 0))[0]


def make_store(path: Path, name: str) -> Store:
    """Make a closed store: three tables, two levels, deletions, a log."""
    options = OPTIONS[name]
    value = b"value" if name != "dictionary" else b"value of a shape that repeats " * 2
    per_table = 30 if name != "dictionary" else 120
    with open_small(path, level0_compaction_trigger=10, **options) as db:
        expected = fill(db, range(0, per_table, 2), value=value)
        db.compact_range()
        expected |= fill(db, range(1, per_table, 2), value=value, seed=2)
        for number in range(0, per_table, 6):
            db.delete(b"key%06d" % number)
            expected.pop(b"key%06d" % number)
        db.flush()
        expected |= fill(db, range(0, per_table, 5), value=value + b"2")
        db.flush()
        expected |= fill(db, range(0, per_table, 7), value=value + b"3")
    return Store(path, options, expected)


@pytest.fixture(params=OPTIONS)
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Store:
    return make_store(tmp_path / "store", request.param)


@pytest.fixture
def plain(tmp_path: Path) -> Store:
    return make_store(tmp_path / "store", "plain")


def read_everything(store: Store) -> list[Exception]:
    """Look everything up and scan both ways; return the errors.

    A wrong answer fails the test.
    """
    try:
        db = open_small(store.path, read_only=True, **store.options)
    except DAMAGE as error:
        return [error]
    errors: list[Exception] = []
    with db:
        for key in [*store.contents, *ABSENT]:
            try:
                assert db.get(key) == store.contents.get(key), key
            except DAMAGE as error:
                errors.append(error)
        for reverse in (False, True):
            try:
                assert dict(db.items(reverse=reverse)) == store.contents
            except DAMAGE as error:
                errors.append(error)
    return errors


def check_places(errors: list[Exception], damaged: Path, size: int) -> None:
    """Check that each error names the damaged file and place."""
    for error in errors:
        assert not isinstance(error, NotAStoreError)
        assert isinstance(error, CorruptionError | UnsupportedFormatError)
        assert error.path == str(damaged)
        assert str(damaged) in str(error)
        if isinstance(error, CorruptionError):
            assert error.offset is not None
            assert 0 <= error.offset <= size


def test_the_store_is_whole_and_has_everything_that_can_be_damaged(store: Store) -> None:
    assert read_everything(store) == []
    tables = files(store.path, ".sst")
    assert len(tables) == 3
    assert {_kind(path) for path in store.images} >= {"table", "log", "manifest", "current"}
    assert footer_of(tables[0]).filters_length
    if "compression_dictionary_size_bytes" in store.options:
        assert any(footer_of(table).dictionary_length for table in tables)


# --- what one damaged block leaves readable ------------------------------------------------------


def test_a_damaged_block_raises_each_time_it_is_needed_and_others_are_read(plain: Store) -> None:
    path = files(plain.path, ".sst")[0]
    table = open_table(path)
    last = last_key(table, 0)
    flip(path, 40)
    with open_small(plain.path, read_only=True) as db:
        for _ in range(2):
            with pytest.raises(CorruptionError) as caught:
                dict(db.items())
            assert (caught.value.path, caught.value.offset) == (str(path), 0)
        for key, value in plain.contents.items():
            if not table.smallest <= key <= last:
                assert db[key] == value


def test_compacting_a_damaged_table_stops_writes_and_removes_nothing(plain: Store) -> None:
    path = files(plain.path, ".sst")[0]
    flip(path, 40)
    with open_small(plain.path) as db:
        with pytest.raises(CorruptionError):
            db.compact_range()
        with pytest.raises(lsmkv.BackgroundError) as caught:
            db[b"k"] = b"v"
        assert isinstance(caught.value.__cause__, CorruptionError)
        assert path.exists()
        last = max(plain.contents)
        assert db[last] == plain.contents[last]


# --- files in the wrong place --------------------------------------------------------------------


def test_swapped_tables_are_noticed(store: Store) -> None:
    one, other, _ = files(store.path, ".sst")
    one.write_bytes(store.images[other])
    other.write_bytes(store.images[one])
    (error,) = read_everything(store)
    assert isinstance(error, CorruptionError)
    assert "not the table expected" in str(error)
    assert error.path in (str(one), str(other))


def test_a_table_of_another_store_is_noticed(plain: Store, tmp_path: Path) -> None:
    with open_small(tmp_path / "other", level0_compaction_trigger=10) as db:
        fill(db, range(40))
        db.compact_range()
    table = files(plain.path, ".sst")[0]
    table.write_bytes(files(tmp_path / "other", ".sst")[0].read_bytes())
    (error,) = read_everything(plain)
    check_places([error], table, table.stat().st_size)


@pytest.mark.parametrize("kind", ["table", "log", "manifest"])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_missing_file_is_named(plain: Store, kind: str, read_only: bool) -> None:
    path = plain.file(kind)
    path.unlink()
    with pytest.raises(CorruptionError, match="missing") as caught:
        open_small(plain.path, read_only=read_only)
    assert caught.value.path == str(path)


@pytest.mark.parametrize("kind", ["table", "log", "manifest", "current"])
@pytest.mark.parametrize(
    "content", [b"", b"some notes, nothing else\n" * 6], ids=["empty", "notes"]
)
def test_a_foreign_file_in_its_place_is_an_error(plain: Store, kind: str, content: bytes) -> None:
    path = plain.file(kind)
    path.write_bytes(content)
    (error,) = read_everything(plain)
    check_places([error], path, len(content))


# --- bytes that check out, and lie ---------------------------------------------------------------


def read_in_little_memory(store: Store) -> list[Exception]:
    """:func:`read_everything` within a few MiB of memory."""
    tracemalloc.start()
    try:
        errors = read_everything(store)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    return errors


def check_lie(store: Store, path: Path) -> None:
    """The lie is noticed, at its place, within little memory."""
    errors = read_in_little_memory(store)
    assert errors
    check_places(errors, path, path.stat().st_size)


def rewrite_block(path: Path, payload: bytes | None = None, **fields: int) -> None:
    """Replace a table's block 0 by a wrong one with right checksums."""
    table = open_table(path, residency="off")
    number, end = table.meta.number, int(table.index.offset(1))
    data = path.read_bytes()
    old_payload, bits, trailer = decode_block_frame(data[:end], str(path), number, 0)
    trailer = BlockTrailer(**{**trailer._asdict(), **fields})
    content = old_payload if payload is None else payload
    frame = encode_block_frame(content, bits, trailer, number, 0)
    assert len(frame) == end
    path.write_bytes(frame + data[end:])


def block_payload(path: Path) -> bytearray:
    table = open_table(path, residency="off")
    frame = path.read_bytes()[: table.index.offset(1)]
    return bytearray(decode_block_frame(frame, str(path), table.meta.number, 0)[0])


def huge_frame(path: Path, stated: int) -> bytes:
    """An empty zstd frame that states a size, padded like block 0."""
    frame = b"\xe0" + stated.to_bytes(8, "little") + b"\x01\x00\x00"
    return frame.ljust(len(block_payload(path)), b"\0")


def rewrite_footer(path: Path, position: int, value: int, form: str = "<Q") -> None:
    """Replace a field of a table's footer, and correct the checksum."""
    data = bytearray(path.read_bytes())
    footer = data[-FOOTER_BYTES:]
    struct.pack_into(form, footer, position, value)
    struct.pack_into("<I", footer, 60, checksum(bytes(footer[:60]), 0) & 0xFFFFFFFF)
    path.write_bytes(bytes(data[:-FOOTER_BYTES] + footer))


def rewrite_index(path: Path, position: int, value: int, form: str = "<I") -> None:
    """Replace a number in a table's index, and correct the checksums."""
    footer = footer_of(path)
    data = bytearray(path.read_bytes())
    struct.pack_into(form, data, footer.index_offset + position, value)
    tail = bytes(data[footer.index_offset : -FOOTER_BYTES])
    path.write_bytes(bytes(data))
    rewrite_footer(path, 48, checksum(tail, 0))


@pytest.mark.parametrize("value", [0, 1, 1 << 20, 1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize("field", ["entries", "keys_length", "values_length", "flags", "widths"])
def test_wrong_block_headers_are_errors(plain: Store, field: str, value: int) -> None:
    path = files(plain.path, ".sst")[0]
    payload = block_payload(path)
    place = {"entries": 0, "flags": 4, "widths": 5, "keys_length": 16, "values_length": 20}[field]
    if field in ("flags", "widths"):
        value = {0: 3, 1: 7, 1 << 20: 4, 1 << 31: 128}.get(value, 255)
        payload[place] = value
    else:
        struct.pack_into("<I", payload, place, value)
    rewrite_block(path, bytes(payload))
    check_lie(plain, path)


@pytest.mark.parametrize("raw_length", [(1 << 32) - 1, (1 << 31) - 1])
def test_a_payload_that_is_shorter_than_it_states_is_an_error(
    plain: Store, raw_length: int
) -> None:
    path = files(plain.path, ".sst")[0]
    rewrite_block(path, raw_length=raw_length)
    check_lie(plain, path)


@pytest.mark.parametrize("stated", [1 << 20, 1 << 30, (1 << 31) - 1, 1 << 40])
def test_a_compressed_block_that_states_a_huge_size_is_an_error_and_takes_no_memory_for_it(
    plain: Store, stated: int
) -> None:
    path = files(plain.path, ".sst")[0]
    raw_length = min(stated, (1 << 32) - 1)
    rewrite_block(path, huge_frame(path, stated), raw_length=raw_length, codec=CODEC_ZSTD)
    check_lie(plain, path)


def test_an_unknown_codec_is_named(plain: Store) -> None:
    path = files(plain.path, ".sst")[0]
    rewrite_block(path, codec=9)
    errors = read_everything(plain)
    assert errors
    assert all(isinstance(error, UnsupportedFormatError) for error in errors)
    assert "codec 9" in str(errors[0])


def test_a_block_of_another_place_is_an_error(tmp_path: Path) -> None:
    with open_small(tmp_path / "store") as db:
        contents = fill(db, range(200))
        db.flush()
    store = Store(tmp_path / "store", {}, contents)
    path = files(store.path, ".sst")[0]
    index = open_table(path).index
    data = path.read_bytes()
    blocks = [
        data[index.offset(number) : index.offset(number + 1)] for number in range(index.block_count)
    ]
    swap = next(
        (i, j)
        for i, one in enumerate(blocks)
        for j, other in enumerate(blocks)
        if i < j and len(one) == len(other)
    )
    blocks[swap[0]], blocks[swap[1]] = blocks[swap[1]], blocks[swap[0]]
    joined = b"".join(blocks)
    path.write_bytes(joined + data[len(joined) :])
    errors = read_everything(store)
    assert errors
    check_places(errors, path, len(data))


@pytest.mark.parametrize("value", [0, 1, 1 << 30, 1 << 62, (1 << 64) - 1])
@pytest.mark.parametrize("position", [0, 8, 16, 24, 32])
def test_wrong_section_lengths_are_errors(plain: Store, position: int, value: int) -> None:
    path = files(plain.path, ".sst")[0]
    (old,) = struct.unpack_from("<Q", path.read_bytes()[-FOOTER_BYTES:], position)
    if old == value:
        return
    rewrite_footer(path, position, value)
    check_lie(plain, path)


@pytest.mark.parametrize("position", [0, 8, 16, 24, 32])
def test_wrong_section_lengths_with_a_right_sum_are_errors(plain: Store, position: int) -> None:
    path = files(plain.path, ".sst")[0]
    other = 32 if position == 0 else 0
    for place, change in ((position, 5), (other, -5)):
        (old,) = struct.unpack_from("<Q", path.read_bytes()[-FOOTER_BYTES:], place)
        rewrite_footer(path, place, old + change)
    check_lie(plain, path)


@pytest.mark.parametrize("value", [0, 1, 1000, 1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize("position", [0, 8], ids=["blocks", "chunks"])
def test_wrong_index_counts_are_errors(plain: Store, position: int, value: int) -> None:
    path = files(plain.path, ".sst")[0]
    footer = footer_of(path)
    (old,) = struct.unpack_from("<I", path.read_bytes(), footer.index_offset + position)
    if old == value:
        return
    rewrite_index(path, position, value)
    check_lie(plain, path)


@pytest.mark.parametrize("value", [1, 1 << 31, (1 << 63) + 5, (1 << 64) - 1])
def test_wrong_block_offsets_are_errors(plain: Store, value: int) -> None:
    path = files(plain.path, ".sst")[0]
    blocks = int(open_table(path).index.block_count)
    rewrite_index(path, 12 + 16 * blocks, value, "<Q")
    check_lie(plain, path)


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"short",
        struct.pack("<QI", 0, 0),
        struct.pack("<QI", (1 << 64) - 1, 1),
        struct.pack("<QI", 1, (1 << 32) - 1),
        struct.pack("<QIBHI", 1, 1, 1, 65535, 0),
        struct.pack("<QIBHI", 1, 1, 1, 0, (1 << 32) - 1),
        struct.pack("<QIBHI", 1, 1, 0, 0, 5) + b"value",
        struct.pack("<QIBHI", 1, 1, 2, 1, 1) + b"kk",
        struct.pack("<QIBHI", 1, 1, 3, 1, 0) + b"k",
        struct.pack("<QIBHI", 1, 1, 255, 1, 0) + b"k",
        encode_batch(1, [(b"k", b"v")]) + b"more",
        encode_batch(1, [(b"k", b"v")])[:-1],
    ],
)
def test_invalid_log_records_with_right_checksums_are_errors(tmp_path: Path, record: bytes) -> None:
    open_small(tmp_path / "store").close()
    store = Store(tmp_path / "store", {}, {})
    path = store.file("log")
    number = (parse_file_name(path.name) or ("", 0))[1]
    contents = read_log(Storage(), str(path), number, "log")
    assert contents is not None
    log = LogWriter.reopen(Storage(), contents)
    start = log.append(record) - len(record)
    log.close()
    (error,) = read_in_little_memory(store)
    check_places([error], path, os.path.getsize(path))
    assert isinstance(error, CorruptionError)
    assert error.offset is not None
    assert error.offset < start
