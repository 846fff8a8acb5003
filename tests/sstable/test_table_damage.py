"""Damage to a table file is noticed; formats of later releases are refused or skipped."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from lsmkv.encoding.checksums import checksum
from lsmkv.errors import CorruptionError, Error, UnsupportedFormatError
from lsmkv.sstable.format import FOOTER_BYTES, TableMeta
from lsmkv.sstable.reader import TableReader
from table_files import Tables, alike, contents, flip, numbered


def check_all(tables: Tables, meta: TableMeta) -> None:
    """Open the table and check every byte of it."""
    table = tables.open(meta)
    table.verify_sections()
    for number in range(table.index.block_count):
        table.verify_block(number)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_flip_of_any_byte_is_noticed(tables: Tables, compression: str) -> None:
    meta = tables.write(alike(6), compression=compression)
    check_all(tables, meta)
    path = tables.path(meta.number)
    for offset in range(meta.size_bytes):
        flip(path, offset)
        with pytest.raises(Error) as caught:
            check_all(tables, meta)
        assert path in str(caught.value)
        flip(path, offset)
    check_all(tables, meta)


def test_a_look_up_notices_a_flip_of_any_byte_of_the_block_it_reads(tables: Tables) -> None:
    meta = tables.write(numbered(30))
    table = tables.open(meta)
    for offset in range(table.index.offset(1)):
        flip(table.path, offset)
        with pytest.raises(CorruptionError) as caught:
            table.block(0, False)
        assert (caught.value.path, caught.value.offset) == (table.path, 0)
        assert (caught.value.expected is None) == (caught.value.got is None)
        flip(table.path, offset)


def test_every_cut_is_noticed(tables: Tables) -> None:
    meta = tables.write(numbered(20))
    path = Path(tables.path(meta.number))
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(CorruptionError):
            tables.open(meta)


def test_two_blocks_that_changed_places_are_noticed(tables: Tables) -> None:
    meta = tables.write(numbered(100, value=b"same"), filter_granularity="table", fit_pages=False)
    table = tables.open(meta)
    first, second, third = (table.index.offset(number) for number in (0, 1, 2))
    assert second - first == third - second
    path = Path(table.path)
    data = path.read_bytes()
    path.write_bytes(data[second:third] + data[first:second] + data[third:])
    with pytest.raises(CorruptionError, match="checksum"):
        table.block(0, False)


def test_a_block_of_another_table_at_the_same_offset_is_noticed(tables: Tables) -> None:
    one, other = (tables.write(numbered(100, value=b"same")) for _ in range(2))
    table, foreign = tables.open(one), tables.open(other)
    low, end = table.index.offset(1), table.index.offset(2)
    assert (foreign.index.offset(1), foreign.index.offset(2)) == (low, end)
    data, others = Path(table.path).read_bytes(), Path(foreign.path).read_bytes()
    Path(table.path).write_bytes(data[:low] + others[low:end] + data[end:])
    with pytest.raises(CorruptionError, match="checksum"):
        table.block(1, False)


def with_properties(table: TableReader, old: bytes, new: bytes) -> bytes:
    """The file with changed properties, and right checksums."""
    data = Path(table.path).read_bytes()
    footer = table.footer
    properties = data[footer.properties_offset : -FOOTER_BYTES]
    assert properties.count(old) == 1
    tail = data[footer.index_offset : footer.properties_offset] + properties.replace(old, new)
    changed = footer._replace(
        properties_length=len(tail) - footer.index_length, tail_checksum=checksum(tail, 0)
    )
    return data[: footer.index_offset] + tail + changed.encode()


@pytest.mark.parametrize(
    ("old", "new", "error", "said"),
    [
        (b'"filter_scheme":1', b'"filter_scheme":7', UnsupportedFormatError, "filter scheme 7"),
        (b'"filter_key":"whole"', b'"filter_key":"half"', CorruptionError, "half"),
        (b'{"number"', b'{"later":[1,2],"number"', None, ""),  # of a later release
    ],
)
def test_unknown_filters_are_refused_and_unknown_properties_passed_over(
    tables: Tables, old: bytes, new: bytes, error: type[Error] | None, said: str
) -> None:
    table = tables.table(numbered(10))
    Path(table.path).write_bytes(with_properties(table, old, new))
    expectation = pytest.raises(error, match=said) if error else contextlib.nullcontext()
    with expectation:
        again = TableReader(
            tables.storage, table.path, tables.cache, meta=None, filter_residency="resident"
        )
        assert contents(again) == numbered(10)
