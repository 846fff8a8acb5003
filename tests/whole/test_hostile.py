"""Hostile bytes with right checksums: one test for each defect found."""

from __future__ import annotations

import json
import os
import shutil
import struct
from pathlib import Path

import msgspec
import pytest
from conftest import fill, open_small

import lsmkv
from damage import files, footer_of, open_table, write_table
from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.errors import CorruptionError, UnsupportedFormatError
from lsmkv.inspection.table_check import check_table
from lsmkv.options import Options
from lsmkv.salvage.repair import repair
from lsmkv.sstable.block.codec import Compressor, Decompressor
from lsmkv.sstable.format import FOOTER_BYTES, decode_footer, decode_properties
from lsmkv.storage.file_names import MAX_FILE_NUMBER
from lsmkv.tree.manifest import MOST_ASKS
from lsmkv.tree.version_set import table_format
from torture.fuzz.crafting import state_of, write_manifest
from torture.fuzz.encoded import encode_block
from torture.fuzz.sealing import NUMBER, seal_footer, seal_table


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store of a table and a logged write."""
    with open_small(tmp_path / "store") as db:
        fill(db, range(40))
        db.flush()
        db.put(b"in the log", b"1")
    return tmp_path / "store"


def properties_of(path: Path) -> bytes:
    data = path.read_bytes()
    return data[footer_of(path).properties_offset : -FOOTER_BYTES]


def test_properties_nested_deeply_are_corrupt() -> None:
    with pytest.raises(CorruptionError, match="do not parse"):
        decode_properties(b'{"more":' + b"[" * 100_000, "p", 0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("number", 0),
        ("number", MAX_FILE_NUMBER + 1),
        ("probe_count", 1 << 62),
        ("probe_count", -1),
        ("granularity", "row"),
        ("error_rate", 0),
        ("largest_seq", 1 << 60),
        ("raw_bytes", 1 << 70),
    ],
)
def test_impossible_properties_are_corrupt(store: Path, field: str, value: object) -> None:
    said = msgspec.json.decode(properties_of(files(store, ".sst")[0]))
    data = msgspec.json.encode(said)
    decode_properties(data, "p", 0)
    with pytest.raises(CorruptionError, match="cannot be"):
        decode_properties(data.replace(*_replacement(said, field, value)), "p", 0)


def _replacement(said: dict[str, object], field: str, value: object) -> tuple[bytes, bytes]:
    old, new = (
        json.dumps({field: item}, separators=(",", ":"))[1:-1] for item in (said[field], value)
    )
    return old.encode(), new.encode()


def test_an_invalid_dictionary_is_corrupt() -> None:
    payload = encode_block([b"k"], [b"abc" * 100], [1], b"\1", has_versions=False)
    codec, packed = Compressor(1, b"").compress_block(payload)
    wrong = Decompressor(b"\x37\xa4\x30\xec" + bytes(60))
    with pytest.raises(CorruptionError, match="does not decompress"):
        wrong.decompress_block(codec, packed, len(payload), "p", 0)


@pytest.mark.parametrize("section", [1, 2, 3, 4])
def test_a_section_as_long_as_a_sparse_file_is_corrupt(section: int) -> None:
    size = 1 << 42
    lengths = [0] * 5
    lengths[section] = size - FOOTER_BYTES
    footer = struct.pack("<QQQQQ", *lengths).ljust(FOOTER_BYTES, b"\0")
    with pytest.raises(CorruptionError, match="are the most"):
        decode_footer(seal_footer(footer, size), "p", size)


def test_messages_stay_short_whatever_a_file_says() -> None:
    for error in (
        CorruptionError("p", 0, "r" * 5000, expected=b"x" * 5000, got="y" * 5000),
        UnsupportedFormatError("p", "r" * 5000),
    ):
        assert len(str(error)) < 1200
        assert error.reason == "r" * 5000


# --- what verifying had not looked at ---


def sealed_table(path: Path, change_at: int) -> Path:
    """Table ``NUMBER`` with one byte changed, and right checksums."""
    data = bytearray(path.read_bytes())
    data[change_at] ^= 0x55
    path.write_bytes(seal_table(bytes(data)))
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table"
    form = table_format(Options(block_size_bytes=256, compression="none"), 0.01)
    write_table(path, [(b"key%03d" % n, b"value", n + 1) for n in range(60)], form, NUMBER)
    assert check_table(open_table(path)).problems == ()
    return path


def test_verify_finds_a_fingerprint_that_hides_its_key(table: Path) -> None:
    prefix_length = int.from_bytes(table.read_bytes()[6:8], "little")
    check = check_table(open_table(sealed_table(table, 24 + prefix_length)))
    assert check.damaged == (0,)
    assert "fingerprint" in check.problems[0].reason


# --- logs of other stores, and logs that are gone ---


def test_the_log_of_another_store_is_recognised_and_no_repair_applies_it(
    store: Path, tmp_path: Path
) -> None:
    with open_small(tmp_path / "twin") as db:
        fill(db, range(40))
        db.flush()
        db.put(b"in the log", b"2")
    (log,) = files(store, ".log")
    (other,) = files(tmp_path / "twin", ".log")
    assert log.name == other.name
    shutil.copy(other, log)
    for read_only in (True, False):
        with pytest.raises(CorruptionError, match="another store") as caught:
            open_small(store, read_only=read_only)
        assert caught.value.path == str(log)
    report = repair(store, tmp_path / "output")
    assert not report.is_complete
    assert report.log_operations_kept == 0
    with open_small(tmp_path / "output") as db:
        assert b"in the log" not in db


def test_repair_counts_what_a_log_held_that_a_pipe_has_replaced(
    store: Path, tmp_path: Path
) -> None:
    (log,) = files(store, ".log")
    size = os.path.getsize(log)
    log.unlink()
    os.mkfifo(log)
    report = repair(store, tmp_path / "output")
    assert not report.is_complete
    assert 0 < report.log_bytes_lost <= size


@pytest.mark.parametrize("work", ["count", "compact"])
@pytest.mark.parametrize("asks", [MOST_ASKS, MOST_ASKS - 1])
def test_counts_of_lookups_at_their_limit_stay_there(tmp_path: Path, work: str, asks: int) -> None:
    path = tmp_path / "counted"
    with open_small(path, write_buffer_size_bytes=1 << 20) as db:
        for run in range(3):
            db.update({b"%05d" % number: b"v" for number in range(run, 300, 3)})
            db.flush()
    numbers = [table.number for table in state_of(path).levels.tables()]
    edit = state_of(path).as_edit()
    forged = msgspec.structs.replace(edit, asks=dict.fromkeys(numbers, (asks, asks)))
    write_manifest(path, msgspec.json.encode(forged))
    with open_small(path, filter_memory_bytes=500) as db:
        for number in range(50):
            assert db.get(b"%05dx" % number) is None
        if work == "compact":
            db.compact_range(force=True)
            assert len(db) == 300
    kept = state_of(path).asks
    assert kept and all(max(counts) <= MOST_ASKS for counts in kept.values())


@pytest.mark.parametrize("work", ["put", "batch", "ingest"])
def test_a_store_whose_sequence_numbers_are_used_up_is_read_and_says_so(
    tmp_path: Path, work: str
) -> None:
    path, table = tmp_path / "full", tmp_path / "table"
    with open_small(path) as db:
        db[b"a"] = b"1"
        db.flush()
    edit = state_of(path).as_edit()
    full = msgspec.structs.replace(edit, last_seq=MAX_SEQUENCE, closed_log=None, closed_salt=None)
    write_manifest(path, msgspec.json.encode(full))
    with lsmkv.TableWriter(table) as writer:
        writer.add(b"b", b"2")
    with open_small(path) as db:
        with pytest.raises(CorruptionError, match="sequence numbers are used up"):
            if work == "put":
                db[b"b"] = b"2"
            elif work == "batch":
                db.update({b"b": b"2"})
            else:
                db.ingest([table])
        assert dict(db.items()) == {b"a": b"1"}
