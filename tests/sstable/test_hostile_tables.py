"""Tables with wrong fields and right checksums: data or CorruptionError."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest

import lsmkv
from damage import files, footer_of, open_table
from lsmkv.encoding.checksums import checksum
from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.errors import CorruptionError
from lsmkv.filters.hashing import hash_key
from lsmkv.inspection.table_check import check_table
from lsmkv.salvage.repair import repair
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.format import FOOTER_BYTES, TableExpiry
from lsmkv.storage.file_names import MAX_FILE_NUMBER
from lsmkv.tree.manifest import VersionEdit
from torture.fuzz.crafting import (
    ENTRIES,
    FILTER_KEYS,
    SCHEME_AND_PROBES,
    CraftedTable,
    replace_table,
    state_of,
    take_apart,
    write_manifest,
)
from torture.fuzz.encoded import encode_block

KEYS = [b"%04d" % number for number in range(600)]


def made(tmp_path: Path, lie: Callable[[CraftedTable], object], **options: Any) -> Path:
    """A closed store of one table that ``lie`` has changed."""
    store = tmp_path / "store"
    options = {"compression": "none", "compression_level": 1, "block_size_bytes": 300, **options}
    with lsmkv.open(store, read_compaction_rate_bytes=0, **options) as db:
        for key in KEYS:
            db[key] = b"v" * 10
        db.flush()
    (path,) = files(store, ".sst")
    table = take_apart(path.read_bytes())
    assert table.put_together() == path.read_bytes()
    lie(table)
    replace_table(store, table)
    return store


def assert_corrupt(store: Path, call: Callable[[lsmkv.DB], object], what: str) -> None:
    """The call raises CorruptionError with the table's path and an offset."""
    with lsmkv.open(store, read_only=True) as db:
        with pytest.raises(CorruptionError, match=what) as caught:
            call(db)
        assert caught.value.path.endswith(".sst")
        assert caught.value.offset is not None


def scanned(**bounds: Any) -> Callable[[lsmkv.DB], object]:
    return lambda db: list(db.items(**bounds))


# --- the index against the properties ---


def largest_below(table: CraftedTable) -> None:
    table.properties["largest"] = base64.b64encode(b"0300").decode()


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize(
    "call",
    [
        scanned(stop=b"0200"),
        scanned(start=b"0200", reverse=True),
        lambda db: db.get(b"0200"),
        lambda db: db.explain(b"0200"),
    ],
)
def test_a_largest_key_below_the_index_is_corrupt(
    tmp_path: Path, call: Callable[[lsmkv.DB], object], compression: str
) -> None:
    store = made(tmp_path, largest_below, compression=compression)
    assert_corrupt(store, call, "end above its keys")


def longer_prefix(table: CraftedTable) -> None:
    table.prefix_length = 3


def exchanged_separators(table: CraftedTable) -> None:
    keys = table.separators
    keys[3], keys[4] = keys[4], keys[3]


def another_block(table: CraftedTable) -> None:
    table.properties["block_count"] += 1


def another_entry(table: CraftedTable) -> None:
    table.blocks[1].fields[ENTRIES] += 1


def all_blocks(db: lsmkv.DB) -> None:
    for table in db.inspect().tables():
        list(db.blocks(table.number))


@pytest.mark.parametrize(
    ("lie", "call", "what"),
    [
        (longer_prefix, scanned(stop=b"0300"), "do not share 3 bytes"),
        (exchanged_separators, scanned(start=b"0100"), "separators"),
        (another_block, scanned(), "blocks in a table of"),
        (another_entry, all_blocks, "unlike the index"),
    ],
)
def test_numbers_that_contradict_the_blocks_are_corrupt(
    tmp_path: Path,
    lie: Callable[[CraftedTable], None],
    call: Callable[[lsmkv.DB], object],
    what: str,
) -> None:
    assert_corrupt(made(tmp_path, lie), call, what)


def test_more_deletions_than_entries_are_corrupt(tmp_path: Path) -> None:
    def lie(table: CraftedTable) -> None:
        table.properties["tombstone_count"] = len(KEYS) + 1

    store = made(tmp_path, lie)
    with pytest.raises(CorruptionError, match="more keys or deletions"):
        lsmkv.open(store, read_only=True)


def test_a_manifest_that_lies_about_an_expiry_drops_no_table(tmp_path: Path) -> None:
    store = made(tmp_path, lambda table: None)
    state = state_of(store)
    (placed,) = state.levels.placed()
    count = placed.meta.entry_count
    lie = msgspec.structs.replace(placed.meta, expiry=TableExpiry(count, 1, 1, 1))
    edit = msgspec.structs.replace(
        state.as_edit(), added=[msgspec.structs.replace(placed, meta=lie)]
    )
    write_manifest(store, msgspec.json.encode(edit))
    with pytest.raises(CorruptionError, match="not the table expected here") as caught:
        lsmkv.open(store)
    assert caught.value.path.endswith(".sst")
    assert len(files(store, ".sst")) == 1


@pytest.mark.parametrize("options", [{}, {"filter_granularity": "table"}], ids=["block", "table"])
def test_an_index_that_verify_finds_whole_answers_right_whatever_byte_was_changed(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    (path,) = files(made(tmp_path, lambda table: None, block_size_bytes=1024, **options), ".sst")
    data, footer = path.read_bytes(), footer_of(path)
    asked, wrong = KEYS[::4], 0
    for at in range(footer.index_offset, footer.properties_offset):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        tail = checksum(bytes(changed[footer.index_offset : -FOOTER_BYTES]), 0)
        path.write_bytes(changed[:-FOOTER_BYTES] + footer._replace(tail_checksum=tail).encode())
        try:
            table = open_table(path)
            found = [table.get(key, hash_key(key), MAX_SEQUENCE) for key in asked]
        except CorruptionError as error:
            assert error.path == str(path)
            continue
        if found != [b"v" * 10] * len(asked):
            wrong += 1
            assert check_table(table).problems, f"byte {at} was changed"
    assert wrong > 0


# --- filters ---


@pytest.mark.parametrize(
    ("policy", "parameter"), [("bloom", 0), ("ribbon", 0), ("ribbon", 255), ("grafite", 255)]
)
@pytest.mark.parametrize("residency", ["resident", "cached", "off"])
def test_an_impossible_parameter_of_a_filter_is_corrupt_whoever_asks_it(
    tmp_path: Path, residency: str, policy: str, parameter: int
) -> None:
    def lie(table: CraftedTable) -> None:
        table.numbers["parameters"] = [parameter] * len(table.blocks)

    store = made(
        tmp_path, lie, filter_residency=residency, filter_policy=policy, block_size_bytes=1024
    )
    assert_corrupt(store, lambda db: db.get(b"0100"), f"the parameter {parameter}")


def test_a_table_s_own_filter_is_checked_too(tmp_path: Path) -> None:
    def lie(table: CraftedTable) -> None:
        table.properties["probe_count"] = 0

    store = made(tmp_path, lie, filter_policy="ribbon", filter_granularity="table")
    assert_corrupt(store, lambda db: db.get(b"0100"), "the parameter 0")


@pytest.mark.parametrize("policy", ["bloom", "ribbon"])
def test_filters_of_blocks_are_checked_where_the_table_claims_one_of_its_own(
    tmp_path: Path, policy: str
) -> None:
    def lie(table: CraftedTable) -> None:
        table.properties |= {"granularity": "table", "probe_count": 8}
        table.numbers["parameters"] = [0] * len(table.blocks)

    store = made(tmp_path, lie, filter_policy=policy, block_size_bytes=1024)
    assert_corrupt(store, lambda db: db.get(b"0100"), "the parameter 0")
    with lsmkv.open(store, read_only=True) as db:
        assert not db.verify().ok
    repair(str(store), str(tmp_path / "repaired"))


@pytest.mark.parametrize("policy", ["bloom", "ribbon", "grafite"])
def test_a_filter_of_more_keys_than_its_block_has_is_corrupt(tmp_path: Path, policy: str) -> None:
    def lie(table: CraftedTable) -> None:
        table.blocks[1].fields[FILTER_KEYS] = 0xFFFF_FFFF

    store = made(tmp_path, lie, filter_policy=policy)
    assert_corrupt(store, all_blocks, "fewer entries")


@pytest.mark.parametrize("columns", [1, 5, 31])
@pytest.mark.parametrize(
    "byte", [0x5A, *(pytest.param(byte, marks=pytest.mark.slow) for byte in (0, 0xFF))]
)
def test_filters_of_garbage_learn_without_harm(tmp_path: Path, columns: int, byte: int) -> None:
    """They may deny a present key before, but an answer to one is never changed by learning."""

    def lie(table: CraftedTable) -> None:
        for block in table.blocks:
            block.bits = bytearray([byte]) * 9
            block.fields[SCHEME_AND_PROBES] = block.fields[SCHEME_AND_PROBES] & ~31 | columns
        table.follow_filters()

    store = made(tmp_path, lie, filter_policy="ribbon")
    options = lsmkv.Options(adaptive_filters=True, block_cache_size_bytes=0)
    with lsmkv.open(store, options, read_only=True) as db:
        before = db.multi_get(KEYS)
        asked = [b"%04d-%d" % (number, variant) for number in range(600) for variant in range(3)]
        for _ in range(3):
            assert not any(db.multi_get(asked))
            assert not any(db.get(key) for key in asked)
        assert db.stats().filter_lessons > 0 or columns > 1
        assert db.multi_get(KEYS) == before


# --- blocks ---


def swapped(table: CraftedTable) -> None:
    blocks = table.blocks
    assert len(blocks) > 12
    blocks[3], blocks[9] = blocks[9], blocks[3]


def test_verify_finds_a_block_in_the_place_of_another(tmp_path: Path) -> None:
    with lsmkv.open(made(tmp_path, swapped), read_only=True) as db:
        reasons = [problem.reason for problem in db.verify().problems]
    assert any("last key of a block is not below" in reason for reason in reasons)
    assert any("first key of a block is below" in reason for reason in reasons)


def assert_not_compacted(store: Path, what: str) -> None:
    """Compacting raises and leaves the table in place."""
    before = [path.read_bytes() for path in files(store, ".sst")]
    with lsmkv.open(store) as db, pytest.raises(CorruptionError, match=what) as caught:
        db.compact_range(force=True)
    assert caught.value.offset is not None
    assert [path.read_bytes() for path in files(store, ".sst")] == before


def test_a_compaction_refuses_blocks_in_the_place_of_others(tmp_path: Path) -> None:
    assert_not_compacted(made(tmp_path, swapped), "last key of a block is not below")


def keys_exchanged(table: CraftedTable) -> None:
    """Swap two keys in the middle of a block."""
    payload = table.blocks[2].payload
    count, _, _, prefix_length, _, keys_length, values_length = struct.unpack_from(
        "<IBBHQII", payload
    )
    width = keys_length // count
    assert width and prefix_length
    at = len(payload) - values_length - keys_length + 4 * width
    one, other = payload[at : at + width], payload[at + width : at + 2 * width]
    payload[at : at + 2 * width] = other + one


@pytest.mark.parametrize(
    ("change", "what"),
    [(-1, "last key of a block is not below"), (1, "first key of a block is below")],
)
def test_a_compaction_refuses_a_block_whose_keys_cross_a_separator(
    tmp_path: Path, change: int, what: str
) -> None:
    def lie(table: CraftedTable) -> None:
        key = table.separators[5]
        table.separators[5] = key[:-1] + bytes([key[-1] + change])

    assert_not_compacted(made(tmp_path, lie), what)


def test_a_compaction_refuses_keys_that_do_not_ascend(tmp_path: Path) -> None:
    assert_not_compacted(made(tmp_path, keys_exchanged), "keys of a block do not ascend")


@pytest.mark.parametrize("base", [1 << 56, 1 << 63, (1 << 64) - 1])
def test_a_sequence_number_out_of_range_is_corrupt(tmp_path: Path, base: int) -> None:
    def lie(table: CraftedTable) -> None:
        struct.pack_into("<Q", table.blocks[2].payload, 8, base)

    assert_not_compacted(made(tmp_path, lie), "sequence number")


@pytest.mark.parametrize("spread", [1, 300, 70_000, 1 << 40])
def test_a_sequence_number_that_its_distance_takes_out_of_range_is_corrupt(spread: int) -> None:
    seqs = [MAX_SEQUENCE - spread, MAX_SEQUENCE]
    payload = bytearray(encode_block([b"a", b"b"], [b"", b""], seqs, b"\0\0", has_versions=False))
    assert Block(bytes(payload), _fail).seqs() == seqs
    struct.pack_into("<Q", payload, 8, seqs[0] + 1)
    with pytest.raises(CorruptionError, match=str(MAX_SEQUENCE + 1)):
        Block(bytes(payload), _fail)


def _fail(reason: str) -> NoReturn:
    raise CorruptionError("p", 0, reason)


# --- numbers of files ---


def test_a_store_without_numbers_for_new_files_is_refused_to_writers(tmp_path: Path) -> None:
    store = made(tmp_path, lambda table: None)
    edit = msgspec.structs.replace(state_of(store).as_edit(), next_file=MAX_FILE_NUMBER)
    write_manifest(store, msgspec.json.encode(edit))
    before = sorted(path.name for path in store.iterdir())
    for _ in range(2):
        with pytest.raises(CorruptionError, match="no higher number is left"):
            _written(store)
        assert sorted(path.name for path in store.iterdir()) == before
    with lsmkv.open(store, read_only=True) as db:
        assert len(db) == len(KEYS)


def _written(store: Path) -> None:
    with lsmkv.open(store) as db:
        db[b"more"] = b"1"
        db.flush()


def test_repair_refuses_a_file_with_the_last_number(tmp_path: Path) -> None:
    store = made(tmp_path, lambda table: None)
    (store / f"{MAX_FILE_NUMBER}.log").write_bytes(b"")
    with pytest.raises(CorruptionError, match="no higher number is left"):
        repair(store, tmp_path / "output")


def test_an_edit_beyond_the_last_number_is_corrupt(tmp_path: Path) -> None:
    store = made(tmp_path, lambda table: None)
    write_manifest(
        store, msgspec.json.encode(VersionEdit(next_file=MAX_FILE_NUMBER + 1, log_number=1))
    )
    with pytest.raises(CorruptionError, match="out of range"):
        lsmkv.open(store)
