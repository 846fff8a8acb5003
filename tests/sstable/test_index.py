"""A table's index: searches against a plain search, filter chunks, damage."""

from __future__ import annotations

import hashlib
import random
import struct
from bisect import bisect_right
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.workloads.key_shapes import keys_of
from lsmkv.encoding.checksums import checksum
from lsmkv.encoding.entries import MAX_KEY_BYTES
from lsmkv.encoding.fences import fence
from lsmkv.errors import CorruptionError
from lsmkv.sstable.format import Footer, TableProperties
from lsmkv.sstable.index import TableIndex
from lsmkv.sstable.index_builder import IndexBuilder
from lsmkv.sstable.index_layout import separator
from lsmkv.sstable.index_symbols import Symbols, decoded

Spans = list[tuple[bytes, bytes]]  # first and last key of each block

PATH = "/store/000001.sst"
BLOCK_BYTES = 1000


def section(spans: Spans, filter_lengths: list[int] | None = None) -> bytes:
    lengths = filter_lengths or [0] * len(spans)
    builder = IndexBuilder()
    before = b""
    for number, (first, last) in enumerate(spans):
        length = BLOCK_BYTES + number * number % 77
        above = separator(before, first)
        builder.add(above, length, lengths[number], number % 9 + 1, number % 30)
        before = last
    return builder.finish(filters_of(lengths), spans[0][0], spans[-1][1])


def filters_of(lengths: list[int]) -> bytes:
    return b"".join(bytes([number % 251]) * length for number, length in enumerate(lengths))


def opened(
    data: bytes, spans: Spans, data_length: int, filters_length: int, entry_count: int
) -> TableIndex:
    """The index ``data`` of a table that has the properties of one with ``spans``."""
    footer = Footer(data_length, 0, filters_length, len(data), 1, 0, 0)
    footer = footer._replace(dictionary_length=5000 - data_length - filters_length)  # its offset
    properties = TableProperties(
        number=1,
        smallest=spans[0][0],
        largest=spans[-1][1],
        smallest_seq=0,
        largest_seq=0,
        entry_count=entry_count,
        tombstone_count=0,
        has_versions=False,
        block_count=len(spans),
        raw_bytes=1,
        blocks_checksum=0,
        compression="none",
        filter_bytes=filters_length,
        filter_key="whole",
        granularity="block",
        error_rate=0.01,
        filter_key_count=0,
        probe_count=0,
        writer="test",
        filter_scheme=1,
    )
    return TableIndex(data, PATH, footer, properties)


def index_of(spans: Spans, filter_lengths: list[int] | None = None) -> TableIndex:
    return opened_whole(section(spans, filter_lengths), spans, sum(filter_lengths or [0]))


def opened_whole(data: bytes, spans: Spans, filters_length: int = 0) -> TableIndex:
    """The index ``data`` of a table with the blocks of :func:`section`."""
    lengths = [BLOCK_BYTES + number * number % 77 for number in range(len(spans))]
    counts = [number % 9 + 1 for number in range(len(spans))]
    return opened(data, spans, sum(lengths), filters_length, sum(counts))


def separators_of(spans: Spans) -> list[bytes]:
    """The shortest prefix of each block's first key that is above the last key of the block before."""
    found = [b""]
    for (_, last), (first, _) in pairwise(spans):
        prefixes = (first[:length] for length in range(len(first) + 1))
        found.append(next((prefix for prefix in prefixes if prefix > last), first))
    return found


def plain_find(spans: Spans, key: bytes) -> int:
    return bisect_right(separators_of(spans), key) - 1


DIGITS_AND_NEIGHBOURS = b"/09:@A`afg"
WORDS = [b"/reports-of-", b"summary", b"sum", b"\0\0\xff\xff", b"2", b"\xff", b"s"]


@st.composite
def span_lists(draw: st.DrawFn) -> Spans:
    """Blocks in order: some have one key, some start with the previous block's last key."""
    prefix = draw(st.sampled_from([b"", b"user:", b"\0" * 8, b"\xff" * 30, b"p" * 500]))
    alphabets = [b"ab", b"\0\1", b"\0\xff", b"0123456789abcdef", DIGITS_AND_NEIGHBOURS]
    alphabets.append(bytes(range(256)))
    parts = [[bytes([byte]) for byte in alphabet] for alphabet in alphabets]
    part = st.sampled_from(draw(st.sampled_from([*parts, WORDS, WORDS])))
    suffixes = st.lists(part, max_size=14).map(b"".join)
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
    near += [key[:-1] + bytes([other]) for key in fences[:9] for other in DIGITS_AND_NEIGHBOURS]
    near += [key + other for key in fences[:4] for other in drawn]
    return [key for key in fences + near + drawn if spans[0][0] <= key <= spans[-1][1]]


# --- search ---


@given(span_lists(), st.lists(st.binary(max_size=16), max_size=10))
def test_find_is_a_plain_search_for_the_last_separator_not_above_a_key(
    spans: Spans, drawn: list[bytes]
) -> None:
    index = index_of(spans)
    for key in probes_within(spans, drawn):
        assert index.find(key) == index.find_in(key, index.group_of(key)) == plain_find(spans, key)


@given(span_lists())
def test_each_key_of_a_block_is_found_there_or_where_its_older_versions_begin(spans: Spans) -> None:
    index = index_of(spans)
    for number, span in enumerate(spans):
        for key in span:
            assert index.find_first(key) <= number <= index.find(key)


@given(span_lists())
def test_a_key_that_blocks_share_begins_each_but_the_first(spans: Spans) -> None:
    index = index_of(spans)
    for number, ((_, last), (first, _)) in enumerate(pairwise(spans), 1):
        assert index.begins_at(number, last) == (first == last)
    assert not index.begins_at(len(spans), spans[-1][1])


@pytest.mark.parametrize("count", [1, 7, 15, 16, 17, 31, 32, 33, 64, 65, 171])
def test_every_block_of_few_and_many_is_found(count: int) -> None:
    spans = [(b"%06d" % (4 * number), b"%06d" % (4 * number + 2)) for number in range(count)]
    index = index_of(spans)
    for number, (first, last) in enumerate(spans):
        assert [index.find(first), index.find(last)] == [number, number]
        index.prefetch(index.group_of(first))


ZEROS = [b"a" + bytes(zeros) for zeros in range(6)]
LOWEST_BITS = [b"1234567" + bytes([last]) for last in range(0x10, 0x30)]  # a fence drops the last
ONE_FENCE = [b"a", *(b"xsame---fence%04d" % number for number in range(0, 400, 2)), b"z"]


@pytest.mark.parametrize(
    ("spans", "keys", "found"),
    [
        ([*zip(ZEROS[:2], ZEROS[:2], strict=True), (ZEROS[2], ZEROS[3]), (b"b", b"b")], ZEROS, 2),
        ([(key, key) for key in LOWEST_BITS], LOWEST_BITS, len(LOWEST_BITS)),
        ([(key, key) for key in ONE_FENCE], ONE_FENCE, len(ONE_FENCE)),
        ([(b"", b""), (b"\0", b"\1")], [b"", b"\0", b"\0\0", b"\1"], 1),
    ],
    ids=["zero bytes", "lowest bits", "one fence", "empty key"],
)
def test_neighbouring_keys_are_distinguished(spans: Spans, keys: list[bytes], found: int) -> None:
    index = index_of(spans)
    assert [index.find(key) for key in keys] == [min(at, found) for at in range(len(keys))]


def test_keys_of_the_greatest_length() -> None:
    keys = [b"k" * (MAX_KEY_BYTES - 1) + last for last in (b"a", b"b", b"c")]
    index = index_of([(keys[0], keys[0]), (keys[2], keys[2])])
    assert [index.find(key) for key in keys] == [0, 0, 1]
    assert index.separator(1) == keys[2]


@given(st.binary(max_size=30), st.binary(max_size=30), st.integers(0, 9))
def test_fences_never_descend_as_keys_ascend(a: bytes, b: bytes, prefix_length: int) -> None:
    shared = b"p" * prefix_length
    low, high = sorted((shared + a, shared + b))
    assert (
        0 <= fence(low, prefix_length, len(low)) <= fence(high, prefix_length, len(high)) < 1 << 63
    )


# --- one block ---


@given(span_lists())
def test_separators_come_back(spans: Spans) -> None:
    index = index_of(spans)
    found = [index.separator(number) for number in range(1, len(spans))]
    assert found == separators_of(spans)[1:]


@given(st.lists(st.integers(1, 1 << 32), min_size=1, max_size=70), st.data())
def test_places_and_counts_come_back(lengths: list[int], data: st.DataObject) -> None:
    each = st.lists(st.integers(0, 255), min_size=len(lengths), max_size=len(lengths))
    filters, parameters = data.draw(each), data.draw(each)
    lengths = [length & 0xFFFF_FFFF for length in lengths]
    builder = IndexBuilder()
    for number, length in enumerate(lengths):
        builder.add(b"%03d" % number, length, filters[number], length % 999 + 1, parameters[number])
    spans = numbered_spans(len(lengths))
    made = builder.finish(bytes(sum(filters)), spans[0][0], b"9")
    spans[-1] = spans[-1][0], b"9"
    index = opened(
        made, spans, sum(lengths), sum(filters), sum(length % 999 + 1 for length in lengths)
    )
    offset = start = 0
    for number, length in enumerate(lengths):
        assert index.offset(number) == offset
        assert index.entry_count(number) == length % 999 + 1
        assert index.filter_place(number) == (start, filters[number], parameters[number])
        offset += length
        start += filters[number]
    assert (index.offset(len(lengths)), index.filter_start(len(lengths))) == (offset, start)


KEYS = {
    "digits": [b"%016d" % (number * 7919 * 1_000_003 % 10**16) for number in range(40_000)],
    "hex": [hashlib.sha256(b"%d" % number).hexdigest()[:32].encode() for number in range(40_000)],
    "random": [hashlib.sha256(b"%d" % number).digest() for number in range(40_000)],
    "names": keys_of("names", 40_000, seed=1),
    "paths": keys_of("paths", 40_000, seed=1),
}


@pytest.mark.parametrize("kind", KEYS)
def test_find_is_a_plain_search_among_many_blocks(kind: str) -> None:
    keys = sorted(KEYS[kind])[:8_000]
    spans = [(keys[at], keys[at + 3]) for at in range(0, len(keys), 4)]
    index, separators = index_of(spans), separators_of(spans)
    assert [index.separator(number) for number in range(1, len(spans))] == separators[1:]
    for key in probes_within(spans, separators):
        assert index.find(key) == bisect_right(separators, key) - 1, key


@given(
    st.lists(st.text("\0ab\xff", min_size=1, max_size=9), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_texts_come_back_from_symbols(words: list[str], dice: random.Random) -> None:
    parts = [word.encode("latin-1") for word in words]
    texts = [b"".join(dice.choices(parts, k=dice.randrange(6))) for _ in range(300)]
    texts.append(dice.choice(parts)[: dice.randrange(9)])  # may end in a string's beginning
    symbols = Symbols(texts)
    at = len(symbols.section) + 1
    found = [
        decoded(b"-" + symbols.section + coded, at, at + len(coded), 1 if symbols.count else 0)
        for coded in symbols.coded
    ]
    assert found == texts


@pytest.mark.parametrize(
    "texts",
    [
        [bytes([byte % 200 for byte in key]) for key in KEYS["random"][:300]],
        [b"/reports/%d" % number for number in range(36)],
        [b"%d/reports" % (number * 7919**5) for number in range(36)],
        [b"%d" % (number * 7919**5) for number in range(64)],
    ],
    ids=["random", "few", "long", "digits"],
)
def test_symbols_take_no_more_than_they_save(texts: list[bytes]) -> None:
    symbols = Symbols(texts)
    assert len(symbols.section) + sum(map(len, symbols.coded)) <= sum(map(len, texts))


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("per_block", [4, 35])
def test_a_block_takes_at_most_ten_bytes_and_one_of_long_keys_fourteen(
    kind: str, per_block: int
) -> None:
    keys = sorted(KEYS[kind])
    blocks = [keys[at : at + per_block] for at in range(0, len(keys), per_block)]
    index = index_of(
        [(block[0], block[-1]) for block in blocks], [40 + len(keys) % 5] * len(blocks)
    )
    most = 14 if kind in ("names", "paths") else 10
    assert index.memory_bytes <= most * len(blocks)


# --- chunks of filters ---


filter_length_lists = st.lists(
    st.sampled_from([0, 1, 36, 600, 8000, 20_000, 40_000]), min_size=1, max_size=60
)


def numbered_spans(count: int) -> Spans:
    return [(b"%06d" % number, b"%06d" % number) for number in range(count)]


@given(filter_length_lists)
def test_chunks_cover_the_filters_each_with_its_own_checksum(lengths: list[int]) -> None:
    index = index_of(numbered_spans(len(lengths)), lengths)
    filters, end = filters_of(lengths), 0
    for chunk in range(index.chunk_count):
        low, high = index.chunk_span(chunk)
        assert low == end  # without gap or overlap
        assert high - low <= max(4 * 1024, *lengths)
        assert index.chunk_checksum(chunk) == checksum(filters[low:high], 0)
        end = high
    assert end == sum(lengths)
    for block in range(len(lengths)):
        low, high = index.chunk_span(index.chunk_of(block))
        assert low <= index.filter_start(block) <= index.filter_start(block + 1) <= high


def test_one_filter_for_the_whole_table_is_one_chunk() -> None:
    builder = IndexBuilder()
    for first, _ in numbered_spans(100):
        builder.add(first, 10, 0, 1, 0)
    filters = b"f" * 50_000
    spans = numbered_spans(100)
    data = builder.finish(filters, spans[0][0], spans[-1][1])
    index = opened(data, spans, 1000, len(filters), 100)
    assert index.chunk_count == 1
    assert index.chunk_checksum(0) == checksum(filters, 0)


# --- damage ---

SPANS: Spans = [(b"key%d" % number, b"key%d" % (number + 1)) for number in range(0, 8, 2)]
LENGTHS = [10, 10, 10, 12]
SECTION = section(SPANS, LENGTHS)
DATA_LENGTH = sum(BLOCK_BYTES + number * number % 77 for number in range(4))


def open_section(data: bytes) -> TableIndex:
    return opened(data, SPANS, DATA_LENGTH, sum(LENGTHS), 10)


PATHS = [b"/srv/%02d/reports-2024/summary-of-%d-pages-" % (n, n * n) for n in range(20)]
PATH_SPANS: Spans = [(path + b"5", after + b"2") for path, after in pairwise(PATHS)]


@pytest.mark.parametrize("spans", [SPANS, PATH_SPANS], ids=["codes", "symbols"])
def test_every_cut_is_noticed(spans: Spans) -> None:
    whole = section(spans)
    for length in range(len(whole)):
        with pytest.raises(CorruptionError) as caught:
            opened_whole(whole[:length], spans)
        assert (caught.value.path, caught.value.offset) == (PATH, 5000)


@pytest.mark.parametrize("extra", [b"\0", b"\0" * 8, b"\1"])
def test_bytes_too_many_are_noticed(extra: bytes) -> None:
    with pytest.raises(CorruptionError, match="index"):
        open_section(SECTION + extra)


@pytest.mark.parametrize("field", range(5))
@pytest.mark.parametrize("change", [-1, 1, 1 << 20, 0xFFFF_FFFF])
def test_a_wrong_number_in_the_header_is_noticed_before_memory_is_taken(
    field: int, change: int
) -> None:
    fields = list(struct.unpack_from("<IIIII", SECTION))
    fields[field] = fields[field] + change & 0xFFFF_FFFF
    if field == 1 and fields[1] == 2:
        return  # fewer shared bytes are a sound index of longer separators
    with pytest.raises(CorruptionError):
        open_section(struct.pack("<IIIII", *fields) + SECTION[20:])


KEYS_AT = 20 + 8 + 4 + 4 + 8 + 8
NUMBERS_AT = KEYS_AT + 2 + 4


@pytest.mark.parametrize(
    ("at", "data", "what"),
    [
        (20, struct.pack("<Q", 1 << 10), "fences .* are not those"),
        (20, struct.pack("<Q", 1 << 63), "do not fit"),
        (28, struct.pack("<I", 1), "separators .* do not fit"),
        (32, struct.pack("<I", 1), "numbers .* do not fit"),
        (36, struct.pack("<I", 1), "filter chunks"),
        (40, struct.pack("<I", 5), "filter chunks"),
        (KEYS_AT, b"\x08", "separators .* do not fit"),
        (KEYS_AT, b"\x07", "separators .* do not fit"),
        (KEYS_AT + 1, b"\x08", "separators .* do not fit"),
        (KEYS_AT, b"\x0d", "separators .* do not fit"),
        (KEYS_AT + 2, b"\x10", "fences .* are not those"),
        (KEYS_AT + 4, b"\x10", "separators .* do not ascend"),
        (KEYS_AT + 5, b"\x90", "end above its keys"),
        (NUMBERS_AT, struct.pack("<Q", 1), "do not follow one another"),
        (NUMBERS_AT, struct.pack("<Q", (1 << 64) - 1), "do not follow one another"),
        (NUMBERS_AT + 8, struct.pack("<I", 0xFFFF_FFFF), "blocks .* do not fit"),
        (NUMBERS_AT + 12, struct.pack("<I", 1), "do not follow one another"),
        (NUMBERS_AT + 16, struct.pack("<I", 0xFFFF_FFFF), "filters .* do not fit"),
        (NUMBERS_AT + 20, struct.pack("<I", 0), "entries .* are not those"),
        (NUMBERS_AT + 20, struct.pack("<I", 2), "entries .* are not those"),
        (NUMBERS_AT + 24, b"\xff", "parameter of a filter"),
        (NUMBERS_AT + 25, b"\x39", "too many bits"),
        (NUMBERS_AT + 26, b"\x09", "too many bits"),
        (NUMBERS_AT + 27, b"\x21", "too many bits"),
        (NUMBERS_AT + 28, b"\xff", "too many bits"),
    ],
)
def test_numbers_that_do_not_fit_together_are_noticed(at: int, data: bytes, what: str) -> None:
    with pytest.raises(CorruptionError, match=what):
        open_section(SECTION[:at] + data + SECTION[at + len(data) :])


SHARED = b"m" * 12
LONG_SPANS: Spans = [
    (b"a", SHARED + b"1"),
    (SHARED + b"2", SHARED + b"3"),
    (SHARED + b"4", SHARED + b"5"),
    (SHARED + b"6", b"z"),
]
LONG_SECTION = section(LONG_SPANS, LENGTHS)


@pytest.mark.parametrize(
    ("at", "data", "what"),
    [
        (KEYS_AT + 1, b"\x01", "first separator .* is not empty"),
        (KEYS_AT + 1, b"\xff\xff\xff\xff", "separators .* do not fit"),
        (KEYS_AT + 2, b"\x01", "separators .* do not fit"),
        (KEYS_AT + 3, b"\xff", "separators .* do not fit"),
        (KEYS_AT + 17, b"\xe1", "separators .* do not fit"),
        (KEYS_AT + 18, b"1", "separators .* do not ascend"),
        (KEYS_AT + 20, b"3", "separators .* do not ascend"),
    ],
)
def test_front_coded_separators_that_do_not_fit_are_noticed(
    at: int, data: bytes, what: str
) -> None:
    damaged = LONG_SECTION[:at] + data + LONG_SECTION[at + len(data) :]
    with pytest.raises(CorruptionError, match=what):
        opened(damaged, LONG_SPANS, DATA_LENGTH, sum(LENGTHS), 10)


LETTER_SPANS: Spans = [(b"k", b"p"), (b"q", b"r"), (b"s", b"sz"), (b"t", b"z")]


PATH_SECTION = section(PATH_SPANS)
SYMBOLS_AT = (
    20 + 2 * (8 + 4) + 4 + 8 + 8
)  # after two groups of separators, one of numbers, one chunk
SYMBOLS = PATH_SECTION[SYMBOLS_AT : SYMBOLS_AT + 256]
(COUNT,) = struct.unpack_from("<I", PATH_SECTION, 16)


@pytest.mark.parametrize(
    ("at", "byte"),
    [(SYMBOLS.index(1), COUNT + 1), (256 + 7, 1), (256 + 8 * COUNT - 1, 8), (256 + 7, 255)],
    ids=["number", "short", "long", "negative"],
)
def test_a_symbol_that_is_no_string_is_noticed(at: int, byte: int) -> None:
    data = bytearray(PATH_SECTION)
    data[SYMBOLS_AT + at] = byte
    with pytest.raises(CorruptionError, match="symbols of the index"):
        opened_whole(bytes(data), PATH_SPANS)


@pytest.mark.parametrize(
    ("spans", "filters"),
    [(SPANS, LENGTHS), (LETTER_SPANS, LENGTHS), (LONG_SPANS, LENGTHS), (PATH_SPANS, [0] * 19)],
    ids=["digits", "codes", "front-coded", "symbols"],
)
def test_no_changed_byte_makes_another_error(spans: Spans, filters: list[int]) -> None:
    sound = section(spans, filters)
    for at in range(20, len(sound), 1 + len(sound) // 200):
        for change in (1, 2, 16, 128, 255):
            data = bytearray(sound)
            data[at] ^= change
            try:
                index = opened_whole(bytes(data), spans, sum(filters))
            except CorruptionError as error:
                assert (error.path, error.offset) == (PATH, 5000)
                continue
            separators = [index.separator(number) for number in range(len(spans))]
            assert separators == sorted(separators)
            for number, (first, last) in enumerate(spans):
                assert index.offset(number) <= index.offset(number + 1)
                for key in (first, last):
                    assert index.find(key) == bisect_right(separators[1:], key)
                start, length, parameter = index.filter_place(number)
                assert 0 <= start <= start + length <= sum(filters)
                assert 0 <= parameter <= 255
