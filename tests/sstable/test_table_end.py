"""The end of a table, rewritten to adopt it: number, one sequence number, and the same blocks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

import lsmkv
from lsmkv.api import table_writer
from lsmkv.encoding.entries import ABSENT, MAX_SEQUENCE
from lsmkv.filters.hashing import hash_key
from lsmkv.inspection.table_check import check_table, open_uncached
from lsmkv.salvage.damaged_table import TableSalvage
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.format import TableMeta, decode_properties
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.table_end import AdoptedEnd, adopted_end, read_end, with_room
from lsmkv.storage.file_names import MAX_FILE_NUMBER
from lsmkv.storage.storage import Storage

if TYPE_CHECKING:
    from golden_support import Golden

SEQ = 77


@dataclass(frozen=True)
class Adopted:
    path: Path
    meta: TableMeta

    def reader(self) -> TableReader:
        return open_uncached(Storage(), str(self.path), self.meta)


def write(path: Path, count: int = 500, prefix: bytes = b"") -> None:
    with lsmkv.TableWriter(path, block_size_bytes=512) as writer:
        for number in range(count):
            writer.add(prefix + b"%05d" % number, b"value %d" % number)


def adopt(path: Path, number: int = 9, seq: int = SEQ) -> AdoptedEnd:
    end = adopted_end(read_end(Storage().open_random(str(path))), number, seq)
    data = path.read_bytes()
    path.write_bytes(data[: end.offset] + end.data)
    return end


@pytest.fixture
def adopted(tmp_path: Path) -> Adopted:
    path = tmp_path / "000009.sst"
    write(path)
    return Adopted(path, adopt(path).meta)


def test_an_adopted_table_is_whole(adopted: Adopted) -> None:
    assert check_table(adopted.reader()).problems == ()
    assert adopted.reader().meta == adopted.meta
    assert adopted.meta.number == 9
    assert adopted.meta.smallest_seq == adopted.meta.largest_seq == SEQ


def test_only_its_last_page_differs(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path)
    before = path.read_bytes()
    end = adopt(path)
    after = path.read_bytes()
    assert len(before) == len(after)
    assert before[: end.offset] == after[: end.offset]
    assert end.in_place
    assert end.offset // 4096 == (len(after) - 1) // 4096


@pytest.mark.parametrize("count", range(1, 400, 7))
def test_every_table_of_short_keys_is_adopted_in_place(tmp_path: Path, count: int) -> None:
    path = tmp_path / "t"
    write(path, count)
    end = adopted_end(read_end(Storage().open_random(str(path))), MAX_FILE_NUMBER, MAX_SEQUENCE)
    assert end.in_place


def test_a_table_whose_properties_exceed_a_page_is_not_adopted_in_place(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, 3, prefix=b"p" * 3000)
    assert not adopt(path).in_place
    assert check_table(open_uncached(Storage(), str(path))).problems == ()


def test_a_table_of_a_store_has_no_room_and_is_adopted_by_a_longer_end(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "store") as db:
        db[b"k"] = b"v"
        db.flush()
    path = next((tmp_path / "store").glob("*.sst"))
    assert not adopt(path).in_place
    assert check_table(open_uncached(Storage(), str(path))).problems == ()


def test_an_adopted_table_can_be_adopted_again(adopted: Adopted) -> None:
    seal = adopted.reader().properties.seal
    meta = adopt(adopted.path, 31, SEQ + 1).meta
    again = open_uncached(Storage(), str(adopted.path), meta)
    assert check_table(again).problems == ()
    assert again.properties.seal == seal
    assert (meta.number, meta.largest_seq) == (31, SEQ + 1)


def test_lookups_below_its_number_do_not_see_it(adopted: Adopted) -> None:
    key = b"00123"
    table = adopted.reader()
    assert table.get(key, hash_key(key), SEQ) == b"value 123"
    assert table.get(key, hash_key(key), MAX_SEQUENCE) == b"value 123"
    assert table.get(key, hash_key(key), SEQ - 1) is ABSENT


def test_salvage_finds_its_blocks_by_the_index(adopted: Adopted) -> None:
    salvage = TableSalvage(Storage(), str(adopted.path), 9)
    assert all(isinstance(block, Block) for _, block in salvage.blocks())


def test_salvage_without_its_end_needs_the_number_of_its_seal(adopted: Adopted) -> None:
    count = adopted.meta.entry_count
    data = adopted.path.read_bytes()
    adopted.path.write_bytes(data[:-100])
    assert whole_entries(adopted.path, adopted.meta.sealed_number) == count
    assert whole_entries(adopted.path, 0) == 0


def whole_entries(path: Path, sealed_number: int) -> int:
    salvage = TableSalvage(Storage(), str(path), 9, sealed_number)
    return sum(block.count for _, block in salvage.blocks() if isinstance(block, Block))


@pytest.mark.parametrize(
    "change",
    [
        {"sealed_number": -1},
        {"sealed_number": MAX_FILE_NUMBER + 1},
        {"has_versions": True},
        {"smallest_seq": SEQ - 1},
    ],
)
def test_impossible_properties_of_an_adopted_table_are_damage(
    adopted: Adopted, change: dict[str, int]
) -> None:
    properties = msgspec.structs.replace(adopted.reader().properties, **change)
    with pytest.raises(lsmkv.CorruptionError, match="cannot be"):
        decode_properties(msgspec.json.encode(properties), "path", 0)


@pytest.mark.parametrize("offset", [0, 1, 3400, 3500, 3900, 4000, 4095, 4096, 123_456])
def test_room_makes_the_properties_end_in_one_page(offset: int) -> None:
    properties = b"p" * 400
    section = with_room(properties, offset)
    end = offset + len(section) + 72
    assert section.lstrip() == properties
    assert (end - 72 - 400 - 96) // 4096 == (end - 1) // 4096


def test_properties_longer_than_a_page_get_the_least_room() -> None:
    assert len(with_room(b"p" * 5000, 4000)) == 5096


# --- golden bytes ---


@pytest.fixture
def golden_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of fixed bytes, as written and not yet adopted."""
    monkeypatch.setattr(table_writer, "new_seal", lambda: 0x123456)
    path = tmp_path / "golden"
    form = lsmkv.Options(
        block_size_bytes=256, fit_pages=False, compression="none", filter_policy="bloom"
    )
    with lsmkv.TableWriter(path, form) as writer:
        for number in range(20):
            writer.add(b"key%02d" % number, b"value of %d" % number)
        writer.delete(b"none")
    return path


def test_golden_table_from_outside_is_written_and_adopted_byte_for_byte(
    golden_table: Path, golden: Golden
) -> None:
    written = golden_table.read_bytes()
    adopt(golden_table)
    files = {"outside": written, "000009.sst": golden_table.read_bytes()}
    golden.check("adopted_table_v2", files)


@pytest.mark.parametrize("name", ["outside", "000009.sst"])
def test_golden_table_from_outside_is_read(tmp_path: Path, golden: Golden, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(golden.load("adopted_table_v2")[name])
    table = open_uncached(Storage(), str(path))
    assert check_table(table).problems == ()
    key = b"key07"
    assert table.get(key, hash_key(key), MAX_SEQUENCE) == b"value of 7"
    assert table.get(b"none", hash_key(b"none"), MAX_SEQUENCE) is None
    assert table.one_seq == (name == "000009.sst")


@pytest.mark.parametrize("name", ["outside", "000009.sst"])
def test_golden_table_from_outside_is_ingested(tmp_path: Path, golden: Golden, name: str) -> None:
    path = tmp_path / "table"
    path.write_bytes(golden.load("adopted_table_v2")[name])
    with lsmkv.open(tmp_path / "store") as db:
        db[b"none"] = b"1"
        db.ingest([path], move=True)
        assert dict(db) == {b"key%02d" % n: b"value of %d" % n for n in range(20)}
