"""``DB.ingest`` refuses wrong tables before anything changes, and takes unusual ones."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from conftest import open_small

import lsmkv
from filter_kinds import OwnPolicy, own_registry
from lsmkv.encoding.checksums import checksum
from lsmkv.errors import CorruptionError, UnsupportedFormatError
from lsmkv.filters.policy import register
from lsmkv.sstable.format import FOOTER_BYTES, decode_footer
from outside_tables import numbered, write_table


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


# --- wrong tables ---


def good(tmp_path: Path) -> Path:
    return write_table(tmp_path / "good", numbered(0, 10))


@pytest.mark.parametrize("move", [False, True])
@pytest.mark.parametrize("at", [0, 700, -400, -80, -10])
def test_a_damaged_table_is_refused(
    db: lsmkv.DB, tmp_path: Path, unchanged: None, at: int, move: bool
) -> None:
    path = write_table(tmp_path / "bad", numbered(500, 600))
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptionError) as caught:
        db.ingest([good(tmp_path), path], move=move)
    assert caught.value.path == str(path)
    assert caught.value.offset is not None
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"filter_key": "fixed:4"}, "filter of a block denies its key"),
        ({"filter_scheme": 4}, "filter scheme"),
        ({"raw_bytes": 1}, "count other bytes before compression"),
        ({"filter_bytes": 1}, "count other bytes of filters"),
        ({"expiry": [1, 50, None, 50]}, "count other times of expiry"),
        ({"expiry": [0, 50, None, 50]}, "0 of 100 entries expire"),
        ({"expiry": [101, 50, 50, 50]}, "101 of 100 entries expire"),
        ({"expiry": [9, 50, None, 49]}, "times of expiry are out of order"),
        ({"expiry": [9, 50, None, 1 << 40]}, "times of expiry are out of order, or out of range"),
        ({"expiry": [9, -1, None, 50]}, "times of expiry are out of order, or out of range"),
        ({"expiry": [9, "50", None, 50]}, "expiry"),
    ],
)
def test_properties_that_tell_wrongly_of_the_table_are_refused(
    db: lsmkv.DB, tmp_path: Path, unchanged: None, wrong: dict[str, object], reason: str
) -> None:
    path = write_table(tmp_path / "forged", numbered(500, 600), filter_policy="bloom")
    data = path.read_bytes()
    footer = decode_footer(data[-FOOTER_BYTES:], str(path), len(data))
    properties = msgspec.json.decode(data[footer.properties_offset : -FOOTER_BYTES])
    tail = data[footer.index_offset : footer.properties_offset]
    written = msgspec.json.encode({**properties, **wrong}).rjust(footer.properties_length)
    forged = footer._replace(
        properties_length=len(written), tail_checksum=checksum(tail + written, 0)
    )
    path.write_bytes(data[: footer.properties_offset] + written + forged.encode())
    with pytest.raises((CorruptionError, UnsupportedFormatError), match=reason):
        db.ingest([good(tmp_path), path])


@pytest.mark.parametrize("length", [0, 10, 71, 300, -1])
def test_a_table_cut_short_is_refused(
    db: lsmkv.DB, tmp_path: Path, unchanged: None, length: int
) -> None:
    path = write_table(tmp_path / "bad", numbered(500, 600))
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CorruptionError, match="bad"):
        db.ingest([good(tmp_path), path])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("not a table at all\n" * 100, r"goods\.csv.*not a table file"),
        ("apple,red\n", r'not a table file: .* CSV, .*"lsmkv load"'),
    ],
    ids=["long", "short"],
)
def test_a_foreign_file_is_refused_with_what_loads_it(
    db: lsmkv.DB, tmp_path: Path, unchanged: None, text: str, told: str
) -> None:
    path = tmp_path / "goods.csv"
    path.write_text(text)
    with pytest.raises(CorruptionError, match=told):
        db.ingest([good(tmp_path), path])


def test_a_table_of_a_later_format_is_refused(
    db: lsmkv.DB, tmp_path: Path, unchanged: None
) -> None:
    path = write_table(tmp_path / "later", numbered(500, 600))
    data = bytearray(path.read_bytes())
    data[-16] = 3
    data[-12:-8] = (checksum(bytes(data[-72:-12]), 0) & 0xFFFFFFFF).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(UnsupportedFormatError, match="table format 3"):
        db.ingest([path])


def test_the_same_path_twice_is_refused(db: lsmkv.DB, tmp_path: Path, unchanged: None) -> None:
    path = good(tmp_path)
    with pytest.raises(ValueError, match="is given 2 times"):
        db.ingest([path, str(path)])


def test_overlapping_tables_are_refused_and_both_named(
    db: lsmkv.DB, tmp_path: Path, unchanged: None
) -> None:
    left = write_table(tmp_path / "left", numbered(0, 100))
    right = write_table(tmp_path / "right", numbered(99, 200))
    with pytest.raises(ValueError, match=r"left.*b'00099'.*right.*b'00099'.*overlap"):
        db.ingest([right, left])


@pytest.mark.parametrize(
    ("name", "told"),
    [("nowhere", "nowhere"), (".", "not a regular file"), ("link", "is a symbolic link")],
)
def test_what_is_no_file_is_refused(
    db: lsmkv.DB, tmp_path: Path, unchanged: None, name: str, told: str
) -> None:
    (tmp_path / "link").symlink_to(good(tmp_path))
    with pytest.raises(OSError, match=told):
        db.ingest([tmp_path / "good", tmp_path / name])


def test_a_path_instead_of_paths_is_refused(db: lsmkv.DB, tmp_path: Path, unchanged: None) -> None:
    for path in (good(tmp_path), str(tmp_path / "good")):
        with pytest.raises(TypeError, match="put it into a list"):
            db.ingest(path)  # type: ignore[arg-type]  # that is the test


def test_a_table_of_another_store_is_refused(db: lsmkv.DB, tmp_path: Path, unchanged: None) -> None:
    with open_small(tmp_path / "other") as other:
        other.ingest([good(tmp_path)])
        path = next((tmp_path / "other").glob("*.sst"))
        with pytest.raises(ValueError, match=r"belongs to the store .*other"):
            db.ingest([path], move=True)
        assert other.verify().ok


def test_a_table_of_this_store_is_refused(db: lsmkv.DB, store: Path) -> None:
    db[b"kept"] = b"1"
    db.flush()
    path = next(store.glob("*.sst"))
    for move in (False, True):
        with pytest.raises(ValueError, match=r"is table \d+ of this store already"):
            db.ingest([path], move=move)
    assert path.exists()


def test_the_old_name_of_a_table_of_this_store_is_refused(
    db: lsmkv.DB, tmp_path: Path, store: Path
) -> None:
    path = good(tmp_path)
    db.ingest([path], move=True)
    os.link(next(store.glob("*.sst")), path)  # as a kill leaves it after the commit
    with pytest.raises(ValueError, match="remove the file"):
        db.ingest([path], move=True)
    assert db.verify().ok


def test_a_table_with_versions_is_refused(db: lsmkv.DB, tmp_path: Path, unchanged: None) -> None:
    with open_small(tmp_path / "other") as other:
        other[b"k"] = b"1"
        snapshot = other.snapshot()
        other[b"k"] = b"2"
        other.flush()
        snapshot.close()
        path = next((tmp_path / "other").glob("*.sst"))
        path = path.rename(tmp_path / "versions")
    with pytest.raises(ValueError, match="several versions of a key"):
        db.ingest([path])


def test_a_copied_table_of_another_store_is_taken(db: lsmkv.DB, tmp_path: Path) -> None:
    with open_small(tmp_path / "other") as other:
        other.ingest([good(tmp_path)])
        path = tmp_path / "copied"
        path.write_bytes(next((tmp_path / "other").glob("*.sst")).read_bytes())
    db.ingest([path])
    assert dict(db) == numbered(0, 10)
    assert db.verify().ok


@pytest.mark.parametrize("name", ["none", "ribbon", "grafite"])
def test_tables_keep_their_own_filters(db: lsmkv.DB, tmp_path: Path, name: str) -> None:
    path = write_table(tmp_path / "t", numbered(0, 300), filter_policy=name)
    db.ingest([path])
    assert dict(db) == numbered(0, 300)
    assert db.multi_get([b"00007", b"00007x"]) == [b"outside", None]
    assert db.verify().ok


@pytest.fixture
def private_table(tmp_path: Path) -> Path:
    with own_registry():
        register(OwnPolicy())
        return write_table(tmp_path / "t", numbered(0, 10), filter_policy="own-bloom")


def test_a_table_with_an_unknown_filter_policy_is_refused(
    db: lsmkv.DB, private_table: Path, unchanged: None
) -> None:
    with pytest.raises(UnsupportedFormatError, match="own-bloom"):
        db.ingest([private_table])


def test_a_table_with_a_registered_filter_policy_is_taken(
    db: lsmkv.DB, private_table: Path
) -> None:
    with own_registry():
        register(OwnPolicy())
        db.ingest([private_table])
        assert dict(db) == numbered(0, 10)


def test_it_is_refused_where_another_process_compacts(tmp_path: Path, private_table: Path) -> None:
    with own_registry(), open_small(tmp_path / "store", background="process") as db:
        register(OwnPolicy())
        with pytest.raises(ValueError, match="registered in this process alone"):
            db.ingest([private_table])
        assert len(db) == 0
