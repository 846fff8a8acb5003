"""Blocks that end where pages do: ``fit_pages``."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmkv.errors import CorruptionError
from lsmkv.sstable.block.trailer import TRAILER_BYTES, decode_trailer
from lsmkv.sstable.pages import MOST_PADDING_BYTES, PAGE_BYTES, PageFit
from lsmkv.sstable.reader import TableReader
from table_files import Entry, Tables, contents, first_key
from torture.fuzz.encoded import encode_block_frame

if TYPE_CHECKING:
    from golden_support import Golden


def entries_of(count: int, least: int, most: int, share: float, seed: int = 1) -> list[Entry]:
    """Entries with values of ``least`` to ``most`` bytes, a ``share`` of which is random."""
    draw = random.Random(seed)
    found: list[Entry] = []
    for number in range(count):
        length = draw.randint(least, most)
        noise = draw.randbytes(int(length * share))
        found.append((b"%016d" % number, noise + bytes(length - len(noise)), number + 1))
    return found


def spans(table: TableReader) -> list[tuple[int, int]]:
    index = table.index
    return [(index.offset(block), index.offset(block + 1)) for block in range(index.block_count)]


def lies_in_one_page(span: tuple[int, int]) -> bool:
    return span[0] // PAGE_BYTES == (span[1] - 1) // PAGE_BYTES


def padding_of(table: TableReader, block: int) -> int:
    """The zeros after the stored payload of an uncompressed block."""
    trailer = table.read_past_cache(block)[1]
    return trailer.payload_length - trailer.raw_length


shapes = st.fixed_dictionaries(
    {
        "compression": st.sampled_from(["none", "zstd"]),
        "compression_dictionary_size_bytes": st.sampled_from([0, 256]),
        "block_size_bytes": st.sampled_from([256, 1024, 4096, 10_000, 65_536]),
        "filter_granularity": st.sampled_from(["block", "table"]),
    }
)


@given(
    shapes,
    st.integers(1, 400),
    st.integers(0, 600),
    st.integers(0, 3000),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.integers(0, 9),
)
def test_any_entries_come_back_and_little_is_left_free(
    shape: dict[str, Any], count: int, least: int, more: int, share: float, seed: int
) -> None:
    given_entries = entries_of(count, least, least + more, share, seed)
    with tempfile.TemporaryDirectory() as directory:
        table = Tables(directory).table(given_entries, **shape)
        assert contents(table) == given_entries
        for block, (_, end) in enumerate(spans(table)):
            table.verify_block(block)
            if shape["compression"] == "none" and padding_of(table, block) > 0:
                assert padding_of(table, block) <= MOST_PADDING_BYTES
                assert end % PAGE_BYTES == 0
        table.verify_sections()


@pytest.mark.parametrize(
    ("least", "most", "share", "compression"),
    [
        (100, 100, 1.0, "none"),
        (100, 100, 0.5, "zstd"),
        (400, 400, 1.0, "zstd"),
        (50, 450, 0.5, "zstd"),
        (20, 300, 1.0, "none"),
    ],
)
def test_nearly_all_keys_are_in_blocks_of_one_page(
    tables: Tables, least: int, most: int, share: float, compression: str
) -> None:
    given_entries = entries_of(6000, least, most, share)
    table = tables.table(given_entries, block_size_bytes=4096, compression=compression)
    inside = sum(
        table.index.entry_count(block)
        for block, span in enumerate(spans(table))
        if lies_in_one_page(span)
    )
    assert inside > 0.875 * len(given_entries)  # 4.5 KiB a look-up


@pytest.mark.parametrize(
    ("least", "most", "pages_per_key"), [(1000, 1000, 1.3), (2500, 2500, 1.6), (100, 3000, 1.4)]
)
def test_of_large_entries_only_those_that_cross_a_border_are_in_two_pages(
    tables: Tables, least: int, most: int, pages_per_key: float
) -> None:
    given_entries = entries_of(3000, least, most, 1.0)
    table = tables.table(given_entries, block_size_bytes=4096, compression="zstd")
    pages = sum(
        table.index.entry_count(block) * (1 + (end - 1) // PAGE_BYTES - start // PAGE_BYTES)
        for block, (start, end) in enumerate(spans(table))
    )
    assert pages < pages_per_key * len(given_entries)
    assert table.index.offset(table.index.block_count) < 1.06 * sum(
        len(key) + len(value) for key, value, _ in given_entries if isinstance(value, bytes)
    )


def test_small_blocks_share_pages(tables: Tables) -> None:
    table = tables.table(entries_of(2000, 100, 100, 1.0), block_size_bytes=1000)
    found = spans(table)
    assert sum(map(lies_in_one_page, found)) > 0.98 * len(found)
    assert 3.5 < len(found) / (found[-1][1] / PAGE_BYTES) < 4.5


def test_large_blocks_take_whole_pages(tables: Tables) -> None:
    table = tables.table(entries_of(4000, 100, 100, 1.0), block_size_bytes=4 * PAGE_BYTES)
    pages = [-(-end // PAGE_BYTES) - start // PAGE_BYTES for start, end in spans(table)[1:-1]]
    assert sum(pages) / len(pages) < 4.2


def test_a_block_holds_at_most_three_times_its_size_before_compression(tables: Tables) -> None:
    table = tables.table(entries_of(4000, 100, 100, 0.0), block_size_bytes=4096, compression="zstd")
    lengths = [table.read_past_cache(block)[1].raw_length for block in range(len(spans(table)))]
    assert 4096 < max(lengths) < 3 * 4096


def test_without_fit_pages_borders_do_not_depend_on_filters(tables: Tables) -> None:
    given_entries = entries_of(1000, 20, 300, 1.0)
    borders = [
        [
            first_key(table, block)
            for table in [tables.table(given_entries, fit_pages=False, **filters)]
            for block in range(table.index.block_count)
        ]
        for filters in ({"filter_policy": "none"}, {"error_rate": 0.0001})
    ]
    assert borders[0] == borders[1]


def test_no_entry_is_too_large_for_a_block() -> None:
    pages = PageFit(4096)
    assert pages.entry_bytes(0) == 4096
    pages.padding(1 << 20, 1, 0, 1 << 20)
    assert pages.entry_bytes(1 << 20) >= 1


# --- golden bytes ---


def golden_entries() -> list[Entry]:
    return [(b"key%04d" % number, b"%d" % number * 60, number + 1) for number in range(60)]


def test_golden_padded_table_is_written_byte_for_byte(tables: Tables, golden: Golden) -> None:
    tables.write(golden_entries(), block_size_bytes=4096)
    golden.check("padded_table_v2", {"000001.sst": Path(tables.path(1)).read_bytes()})


def test_golden_padded_table_is_read(tables: Tables, golden: Golden) -> None:
    Path(tables.path(1)).write_bytes(golden.load("padded_table_v2")["000001.sst"])
    table = TableReader(
        tables.storage, tables.path(1), tables.cache, meta=None, filter_residency="resident"
    )
    assert contents(table) == golden_entries()
    assert any(padding_of(table, block) for block in range(table.index.block_count))


# --- damage ---


def padded_block(table: TableReader) -> int:
    return next(block for block in range(len(spans(table))) if padding_of(table, block) > 0)


def test_a_changed_byte_of_padding_is_found(tables: Tables) -> None:
    table = tables.table(entries_of(100, 400, 400, 1.0), block_size_bytes=4096)
    block = padded_block(table)
    at = spans(table)[block][0] + table.read_past_cache(block)[1].raw_length
    with open(table.path, "r+b") as file:
        assert os.pread(file.fileno(), 1, at) == b"\0"
        os.pwrite(file.fileno(), b"\1", at)
    with pytest.raises(CorruptionError, match="payload") as caught:
        table.block(block, False)
    assert (caught.value.path, caught.value.offset) == (table.path, spans(table)[block][0])


def lie_about_length(table: TableReader, block: int, **lie: int) -> None:
    """State another ``raw_length``, or a ``change`` of it, in a block's trailer, and seal it again."""
    start, end = spans(table)[block]
    data = bytearray(Path(table.path).read_bytes())
    frame = bytes(data[start:end])
    trailer = decode_trailer(frame, len(frame) - TRAILER_BYTES)
    payload = frame[: trailer.payload_length]
    bits = frame[trailer.payload_length : -TRAILER_BYTES]
    stated = trailer.raw_length + lie["change"] if "change" in lie else len(payload) + lie["more"]
    lying = trailer._replace(raw_length=stated)
    data[start:end] = encode_block_frame(payload, bits, lying, table.meta.number, start)
    Path(table.path).write_bytes(data)


@pytest.mark.parametrize("lie", [{"change": -1}, {"change": 1}, {"more": 1}], ids=str)
def test_a_payload_that_states_another_length_is_refused(
    tables: Tables, lie: dict[str, int]
) -> None:
    """Padding that takes part of the payload, too little of it, or none."""
    table = tables.table(entries_of(100, 400, 400, 1.0), block_size_bytes=4096)
    block = padded_block(table)
    lie_about_length(table, block, **lie)
    with pytest.raises(CorruptionError) as caught:
        table.block(block, False)
    assert (caught.value.path, caught.value.offset) == (table.path, spans(table)[block][0])
