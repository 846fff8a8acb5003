"""Damage to a store: right answers, or errors that name the place.

``python -m torture corruption`` (``test_torture_corruption.py``) damages every byte and every file in
turn; here are cases with an exact outcome.
"""

from __future__ import annotations

import struct
import tracemalloc
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import fill, open_small

import lsmkv
from damage import files, flip, open_table
from lsmkv.encoding.checksums import checksum
from lsmkv.errors import CorruptionError, NotAStoreError, UnsupportedFormatError
from lsmkv.sstable.block.trailer import BlockTrailer, decode_block_frame
from lsmkv.sstable.format import CODEC_ZSTD, FOOTER_BYTES
from lsmkv.storage.file_names import parse_file_name
from table_files import last_key
from torture.fuzz.encoded import encode_block_frame

DAMAGE = (CorruptionError, UnsupportedFormatError, NotAStoreError)
ABSENT = [b"", b"a", b"key", b"key000003x", b"key000999", b"zzz"]


@dataclass
class Store:
    """A closed store, and its contents."""

    path: Path
    contents: dict[bytes, bytes]

    def file(self, kind: str) -> Path:
        """The only file of a kind, or the first table."""
        return next(path for path in sorted(self.path.iterdir()) if _kind(path) == kind)


def _kind(path: Path) -> str:
    return (parse_file_name(path.name) or (path.name.lower(), 0))[0]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three tables, two levels, deletions, a log."""
    path = tmp_path / "store"
    with open_small(path, level0_compaction_trigger=10, compression="none") as db:
        expected = fill(db, range(0, 30, 2))
        db.compact_range()
        expected |= fill(db, range(1, 30, 2), seed=2)
        for number in range(0, 30, 6):
            db.delete(b"key%06d" % number)
            expected.pop(b"key%06d" % number)
        db.flush()
        expected |= fill(db, range(0, 30, 5), value=b"value2")
        db.flush()
        expected |= fill(db, range(0, 30, 7), value=b"value3")
    return Store(path, expected)


def read_everything(store: Store) -> list[Exception]:
    """Look everything up and scan both ways; return the errors.

    A wrong answer fails the test.
    """
    try:
        db = open_small(store.path, read_only=True)
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


# --- what one damaged block leaves readable ------------------------------------------------------


def test_a_damaged_block_raises_each_time_it_is_needed_and_others_are_read(store: Store) -> None:
    path = files(store.path, ".sst")[0]
    table = open_table(path)
    last = last_key(table, 0)
    flip(path, 40)
    with open_small(store.path, read_only=True) as db:
        for _ in range(2):
            with pytest.raises(CorruptionError) as caught:
                dict(db.items())
            assert (caught.value.path, caught.value.offset) == (str(path), 0)
        for key, value in store.contents.items():
            if not table.smallest <= key <= last:
                assert db[key] == value


def test_compacting_a_damaged_table_stops_writes_and_removes_nothing(store: Store) -> None:
    path = files(store.path, ".sst")[0]
    flip(path, 40)
    with open_small(store.path) as db:
        with pytest.raises(CorruptionError):
            db.compact_range()
        with pytest.raises(lsmkv.BackgroundError) as caught:
            db[b"k"] = b"v"
        assert isinstance(caught.value.__cause__, CorruptionError)
        assert path.exists()
        last = max(store.contents)
        assert db[last] == store.contents[last]


# --- files in the wrong place --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["table", "log", "manifest"])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_missing_file_is_named(store: Store, kind: str, read_only: bool) -> None:
    path = store.file(kind)
    path.unlink()
    with pytest.raises(CorruptionError, match="missing") as caught:
        open_small(store.path, read_only=read_only)
    assert caught.value.path == str(path)


@pytest.mark.parametrize("kind", ["table", "log", "manifest", "current"])
@pytest.mark.parametrize(
    "content", [b"", b"some notes, nothing else\n" * 6], ids=["empty", "notes"]
)
def test_a_foreign_file_in_its_place_is_an_error(store: Store, kind: str, content: bytes) -> None:
    path = store.file(kind)
    path.write_bytes(content)
    (error,) = read_everything(store)
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


@pytest.mark.parametrize("raw_length", [(1 << 32) - 1, (1 << 31) - 1])
def test_a_payload_that_is_shorter_than_it_states_is_an_error(
    store: Store, raw_length: int
) -> None:
    path = files(store.path, ".sst")[0]
    rewrite_block(path, raw_length=raw_length)
    check_lie(store, path)


@pytest.mark.parametrize("stated", [1 << 20, 1 << 30, (1 << 31) - 1, 1 << 40])
def test_a_compressed_block_that_states_a_huge_size_is_an_error_and_takes_no_memory_for_it(
    store: Store, stated: int
) -> None:
    path = files(store.path, ".sst")[0]
    raw_length = min(stated, (1 << 32) - 1)
    rewrite_block(path, huge_frame(path, stated), raw_length=raw_length, codec=CODEC_ZSTD)
    check_lie(store, path)


def test_an_unknown_codec_is_named(store: Store) -> None:
    path = files(store.path, ".sst")[0]
    rewrite_block(path, codec=9)
    errors = read_everything(store)
    assert errors
    assert all(isinstance(error, UnsupportedFormatError) for error in errors)
    assert "codec 9" in str(errors[0])


@pytest.mark.parametrize("value", [0, 1, 1 << 30, 1 << 62, (1 << 64) - 1])
@pytest.mark.parametrize("position", [0, 8, 16, 24, 32])
def test_wrong_section_lengths_are_errors(store: Store, position: int, value: int) -> None:
    path = files(store.path, ".sst")[0]
    (old,) = struct.unpack_from("<Q", path.read_bytes()[-FOOTER_BYTES:], position)
    if old == value:
        return
    rewrite_footer(path, position, value)
    check_lie(store, path)


@pytest.mark.parametrize("position", [0, 8, 16, 24, 32])
def test_wrong_section_lengths_with_a_right_sum_are_errors(store: Store, position: int) -> None:
    path = files(store.path, ".sst")[0]
    other = 32 if position == 0 else 0
    for place, change in ((position, 5), (other, -5)):
        (old,) = struct.unpack_from("<Q", path.read_bytes()[-FOOTER_BYTES:], place)
        rewrite_footer(path, place, old + change)
    check_lie(store, path)
