"""A table's index: searches against a plain search, filter chunks, damage."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmkv.encoding.checksums import checksum
from lsmkv.encoding.entries import MAX_KEY_BYTES
from lsmkv.encoding.fences import fence
from lsmkv.errors import CorruptionError
from lsmkv.sstable.index import IndexBuilder, TableIndex

Spans = list[tuple[bytes, bytes]]  # first and last key of each block

PATH = "/store/000001.sst"
BLOCK_BYTES = 1000


def section(spans: Spans, filter_lengths: list[int] | None = None) -> bytes:
    lengths = filter_lengths or [0] * len(spans)
    builder = IndexBuilder()
    for number, (first, last) in enumerate(spans):
        builder.add(
            first,
            last,
            length=BLOCK_BYTES + number,
            filter_length=lengths[number],
            entry_count=number + 1,
            probe_count=number % 30,
        )
    return builder.finish(filters_of(lengths))


def filters_of(lengths: list[int]) -> bytes:
    return b"".join(bytes([number % 251]) * length for number, length in enumerate(lengths))


def index_of(spans: Spans, filter_lengths: list[int] | None = None) -> TableIndex:
    data_length = sum(BLOCK_BYTES + number for number in range(len(spans)))
    data = section(spans, filter_lengths)
    return TableIndex(data, PATH, 5000, data_length, sum(filter_lengths or [0]))


def plain_seek(spans: Spans, key: bytes) -> int:
    return next((at for at, (_, last) in enumerate(spans) if last >= key), len(spans))


def plain_find(spans: Spans, key: bytes) -> int:
    return next((at for at, (first, last) in enumerate(spans) if first <= key <= last), -1)


@st.composite
def span_lists(draw: st.DrawFn) -> Spans:
    """Blocks in order: some have one key, some start with the previous block's last key."""
    prefix = draw(st.sampled_from([b"", b"user:", b"\0" * 8, b"\xff" * 30, b"p" * 500]))
    alphabet = draw(st.sampled_from([b"ab", b"\0\1", b"\0\xff", bytes(range(256))]))
    suffixes = st.lists(st.sampled_from(list(alphabet)), max_size=14).map(bytes)
    keys = sorted(prefix + suffix for suffix in draw(st.sets(suffixes, min_size=1, max_size=40)))
    spans: Spans = []
    at = 0
    while at < len(keys):
        end = min(len(keys) - 1, at + draw(st.integers(0, 3)))
        spans.append((keys[at], keys[end]))
        at = end + draw(st.sampled_from([0, 1])) if end > at else end + 1
    return spans


def probes_within(spans: Spans, drawn: list[bytes]) -> list[bytes]:
    """Keys between the smallest and the largest: fences, their neighbours, and others."""
    fences = [key for span in spans for key in span]
    near = [key + b"\0" for key in fences] + [key[:-1] for key in fences if key]
    near += [key[:-1] + bytes([key[-1] ^ 1]) for key in fences if key]
    near += [key + other for key in fences[:4] for other in drawn]
    return [key for key in fences + near + drawn if spans[0][0] <= key <= spans[-1][1]]


# --- search ---


@given(span_lists(), st.lists(st.binary(max_size=16), max_size=10))
def test_find_is_a_plain_search_for_the_first_block_that_spans_a_key(
    spans: Spans, drawn: list[bytes]
) -> None:
    index = index_of(spans)
    for key in probes_within(spans, drawn):
        assert index.find(key) == plain_find(spans, key)


@given(span_lists(), st.lists(st.binary(max_size=16), max_size=10))
def test_a_search_in_two_halves_is_a_plain_search(spans: Spans, drawn: list[bytes]) -> None:
    index = index_of(spans)
    for key in probes_within(spans, drawn):
        assert index.find_in(key, index.group_of(key)) == plain_find(spans, key)


@pytest.mark.parametrize("count", [1, 15, 16, 17, 31, 32, 33, 160, 171])
def test_the_group_of_any_search_can_be_prefetched(count: int) -> None:
    index = index_of([(b"%06d" % (2 * number), b"%06d" % (2 * number)) for number in range(count)])
    for number in range(2 * count - 1):
        key = b"%06d" % number
        group = index.group_of(key)
        index.prefetch(group)
        assert index.find_in(key, group) == (-1 if number % 2 else number // 2)


@given(span_lists(), st.lists(st.binary(max_size=16), max_size=10))
def test_seek_is_a_plain_search_for_the_first_block_that_ends_at_a_key_or_above(
    spans: Spans, drawn: list[bytes]
) -> None:
    index = index_of(spans)
    for key in probes_within(spans, drawn):
        assert index.seek(key) == plain_seek(spans, key)


def test_a_key_between_two_blocks_is_in_none() -> None:
    index = index_of([(b"a", b"c"), (b"e", b"g")])
    assert [index.find(key) for key in (b"a", b"c", b"d", b"e", b"g")] == [0, 0, -1, 1, 1]


def test_a_key_and_the_same_key_with_a_zero_byte_are_distinguished() -> None:
    spans = [(b"a", b"a"), (b"a\0", b"a\0"), (b"a\0\0", b"a\0\0\0"), (b"b", b"b")]
    index = index_of(spans)
    found = [index.find(b"a" + bytes(zeros)) for zeros in range(6)]
    assert found == [0, 1, 2, 2, -1, -1]


def test_fences_that_differ_only_in_their_lowest_bit_are_distinguished() -> None:
    # The 63-bit fence drops the last bit of the eighth byte.
    spans = [(b"1234567\x10", b"1234567\x10"), (b"1234567\x11", b"1234567\x11"), (b"2", b"2")]
    index = index_of(spans)
    assert [index.find(first) for first, _ in spans] == [0, 1, 2]


def test_many_blocks_with_one_fence_are_distinguished() -> None:
    keys = [b"x" + b"same---fence%04d" % number for number in range(0, 400, 2)]
    keys = [b"a", *keys, b"z"]
    spans = [(key, key) for key in keys]
    index = index_of(spans)
    assert [index.find(key) for key in keys] == list(range(len(keys)))
    assert index.find(b"xsame---fence0007") == -1


@pytest.mark.parametrize("count", [1, 15, 16, 17, 31, 32, 33, 160, 171])
def test_every_block_of_few_and_many_is_found(count: int) -> None:
    spans = [(b"%06d" % (4 * number), b"%06d" % (4 * number + 2)) for number in range(count)]
    index = index_of(spans)
    for number, (first, last) in enumerate(spans):
        assert [index.find(first), index.find(last)] == [number, number]
        between = b"%06d" % (4 * number + 3)
        assert index.seek(between) == number + 1
    assert index.seek(b"0") == 0
    assert index.seek(b"00000") == 0


def test_an_empty_first_key() -> None:
    index = index_of([(b"", b""), (b"\0", b"\1")])
    assert [index.find(key) for key in (b"", b"\0", b"\0\0", b"\1")] == [0, 1, 1, 1]


def test_keys_of_the_greatest_length() -> None:
    keys = [b"k" * (MAX_KEY_BYTES - 1) + last for last in (b"a", b"b", b"c")]
    index = index_of([(keys[0], keys[0]), (keys[2], keys[2])])
    assert [index.find(key) for key in keys] == [0, -1, 1]


def test_versions_of_one_key_over_many_blocks_are_found_at_the_first_of_them() -> None:
    index = index_of([(b"a", b"k"), (b"k", b"k"), (b"k", b"k"), (b"k", b"z")])
    assert [index.find(key) for key in (b"a", b"k", b"l", b"z")] == [0, 0, 3, 3]


@given(st.binary(max_size=30), st.binary(max_size=30), st.integers(0, 9))
def test_fences_never_descend_as_keys_ascend(a: bytes, b: bytes, prefix_length: int) -> None:
    shared = b"p" * prefix_length
    low, high = sorted((shared + a, shared + b))
    assert (
        0 <= fence(low, prefix_length, len(low)) <= fence(high, prefix_length, len(high)) < 1 << 63
    )


# --- one block ---


@given(span_lists())
def test_first_and_last_keys_come_back(spans: Spans) -> None:
    index = index_of(spans)
    found = [(index.first_key(at), index.last_key(at)) for at in range(len(spans))]
    assert found == spans


def test_places_and_counts_come_back() -> None:
    spans = [(b"%04d" % number, b"%04d" % number) for number in range(50)]
    index = index_of(spans)
    assert index.block_count == 50
    for block in range(50):
        assert index.offset(block + 1) - index.offset(block) == BLOCK_BYTES + block
        assert index.entry_count(block) == block + 1
        assert index.probe_count(block) == block % 30


def test_offsets_past_four_gibibytes() -> None:
    builder = IndexBuilder()
    for key in (b"a", b"b", b"c"):
        builder.add(key, key, length=3 << 30, filter_length=0, entry_count=1, probe_count=0)
    index = TableIndex(builder.finish(b""), PATH, 0, 9 << 30, 0)
    assert [index.offset(block) for block in range(4)] == [0, 3 << 30, 6 << 30, 9 << 30]


def test_a_block_that_is_longer_than_any_can_be_is_corrupt() -> None:
    builder = IndexBuilder()
    builder.add(b"a", b"a", length=1 << 33, filter_length=0, entry_count=1, probe_count=0)
    with pytest.raises(CorruptionError, match="blocks of the index"):
        TableIndex(builder.finish(b""), PATH, 0, 1 << 33, 0)


# --- chunks of filters ---


filter_length_lists = st.lists(
    st.sampled_from([0, 1, 36, 600, 8000, 20_000, 40_000]), min_size=1, max_size=60
)


def numbered_spans(count: int) -> Spans:
    return [(b"%06d" % number, b"%06d" % number) for number in range(count)]


@given(filter_length_lists)
def test_chunks_cover_the_filters_without_gap_or_overlap(lengths: list[int]) -> None:
    index = index_of(numbered_spans(len(lengths)), lengths)
    spans = [index.chunk_span(chunk) for chunk in range(index.chunk_count)]
    assert spans[0][0] == 0
    assert spans[-1][1] == sum(lengths)
    assert all(left[1] == right[0] for left, right in pairwise(spans))


@given(filter_length_lists)
def test_each_filter_lies_in_the_chunk_of_its_block(lengths: list[int]) -> None:
    index = index_of(numbered_spans(len(lengths)), lengths)
    for block in range(len(lengths)):
        low, high = index.chunk_span(index.chunk_of(block))
        assert low <= index.filter_start(block) <= index.filter_start(block + 1) <= high


@given(filter_length_lists)
def test_a_chunk_is_over_4_kib_only_when_one_filter_is(lengths: list[int]) -> None:
    index = index_of(numbered_spans(len(lengths)), lengths)
    for chunk in range(index.chunk_count):
        low, high = index.chunk_span(chunk)
        assert high - low <= max(4 * 1024, *lengths)


@given(filter_length_lists)
def test_each_chunk_has_its_own_checksum(lengths: list[int]) -> None:
    index = index_of(numbered_spans(len(lengths)), lengths)
    filters = filters_of(lengths)
    for chunk in range(index.chunk_count):
        low, high = index.chunk_span(chunk)
        assert index.chunk_checksum(chunk) == checksum(filters[low:high], 0)


def test_one_filter_for_the_whole_table_is_one_chunk() -> None:
    builder = IndexBuilder()
    for first, last in numbered_spans(100):
        builder.add(first, last, length=10, filter_length=0, entry_count=1, probe_count=0)
    filters = b"f" * 50_000
    index = TableIndex(builder.finish(filters), PATH, 0, 1000, len(filters))
    assert index.chunk_count == 1
    assert index.chunk_checksum(0) == checksum(filters, 0)


# --- damage ---

SPANS: Spans = [(b"key%d" % number, b"key%d" % (number + 1)) for number in range(0, 8, 2)]
DATA_LENGTH = sum(BLOCK_BYTES + number for number in range(4))


def open_section(data: bytes) -> TableIndex:
    return TableIndex(data, PATH, 5000, DATA_LENGTH, 40)


def test_every_cut_is_noticed() -> None:
    data = section(SPANS, [10] * 4)
    for length in range(len(data)):
        with pytest.raises(CorruptionError) as caught:
            open_section(data[:length])
        assert (caught.value.path, caught.value.offset) == (PATH, 5000)


def test_bytes_too_many_are_noticed() -> None:
    with pytest.raises(CorruptionError, match="keys"):
        open_section(section(SPANS, [10] * 4) + b"\0")


@pytest.mark.parametrize("count", [0, 1, 3, 5, 1 << 20, 0xFFFF_FFFF])
def test_a_wrong_block_count_is_noticed_before_memory_is_taken(count: int) -> None:
    data = section(SPANS, [10] * 4)
    with pytest.raises(CorruptionError):
        open_section(struct.pack("<I", count) + data[4:])


@pytest.mark.parametrize("chunk_count", [0, 2, 0xFFFF_FFFF])
def test_a_wrong_chunk_count_is_noticed(chunk_count: int) -> None:
    data = section(SPANS, [10] * 4)
    with pytest.raises(CorruptionError):
        open_section(data[:8] + struct.pack("<I", chunk_count) + data[12:])


OFFSETS = 12 + 2 * 8 * 4
FILTER_ENDS = OFFSETS + 8 * 5
KEY_ENDS = FILTER_ENDS + 4 * 5 + 4 * 4 + 4
CHUNK_STARTS = KEY_ENDS + 4 * 9


@pytest.mark.parametrize(
    ("at", "data", "what"),
    [
        (OFFSETS, struct.pack("<Q", 1), "blocks"),
        (OFFSETS + 8, struct.pack("<Q", DATA_LENGTH + 1), "blocks"),
        (OFFSETS + 32, struct.pack("<Q", DATA_LENGTH - 1), "blocks"),
        (FILTER_ENDS + 4, struct.pack("<I", 21), "filters"),
        (FILTER_ENDS + 16, struct.pack("<I", 41), "filters"),
        (KEY_ENDS, struct.pack("<I", 1), "keys"),
        (KEY_ENDS + 8, struct.pack("<I", 0xFFFF_FFFF), "keys"),
        (CHUNK_STARTS, struct.pack("<I", 1), "filter chunks"),
        (CHUNK_STARTS + 4, struct.pack("<I", 5), "filter chunks"),
    ],
)
def test_places_that_do_not_ascend_or_fill_their_section_are_noticed(
    at: int, data: bytes, what: str
) -> None:
    sound = section(SPANS, [10] * 4)
    with pytest.raises(CorruptionError, match=f"{what} of the index"):
        open_section(sound[:at] + data + sound[at + len(data) :])
