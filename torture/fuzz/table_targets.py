"""Fuzz targets: all decoders of a table file."""

from __future__ import annotations

import json
import struct
import tempfile
from bisect import bisect_left, bisect_right
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.encoding.expiry import Clock, Expiring, Moment
from lsmkv.errors import CorruptionError
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.keys import filter_key_from_spec
from lsmkv.inspection.table_check import check_table
from lsmkv.options import Options
from lsmkv.salvage.damaged_table import TableSalvage
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.block.codec import Compressor, Decompressor, train_dictionary
from lsmkv.sstable.block.trailer import decode_block_frame
from lsmkv.sstable.block.transposed import restore, transpose
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.format import FOOTER_BYTES, Footer, decode_footer, decode_properties
from lsmkv.sstable.index import TableIndex
from lsmkv.sstable.index_builder import IndexBuilder
from lsmkv.sstable.read_ahead import blocks_ahead
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.writer import TableWriter
from lsmkv.storage.storage import Storage
from lsmkv.tree.version_set import table_format
from torture.framework.part import expect
from torture.fuzz.encoded import comparable, encode_block, encode_block_frame
from torture.fuzz.memory_files import ReadOnlyMemoryStorage
from torture.fuzz.sealing import NUMBER, seal_footer, seal_frame, seal_index, seal_table
from torture.fuzz.target import Target

PATH: Final = "fuzzed"
_MOST_ASKED: Final = 24
_NOW_S: Final = 1000
_EXPIRING: Final = [Expiring(b"due", _NOW_S), Expiring(b"", _NOW_S + 1)]
_INDEX_HEAD: Final = struct.Struct("<QQQBB")
"""Before an index: lengths of blocks and filters, number of entries, lengths of the two end keys."""
_MOST_BYTES: Final = (1 << 40) - 1
_CODEC_HEAD: Final = struct.Struct("<BBI")
_DICTIONARY: Final = b"a dictionary of no form, which zstd takes as it is: key value"


def _fail(reason: str) -> NoReturn:
    raise CorruptionError(PATH, 0, reason)


# Blocks


def _check_block(data: bytes) -> None:
    block = Block(data, _fail)
    count = int(block.count)
    keys, seqs = block.keys(), block.seqs()
    values = list(map(comparable, block.values()))
    expect(len(keys) == len(values) == len(seqs) == count, "columns of different lengths")
    moment = Moment(Clock(lambda: _NOW_S))
    shown = map(moment.value_of, block.values())
    wanted = [(key, value) for key, value in zip(keys, shown, strict=True) if value is not None]
    for step in (1, -1):
        entries: list[tuple[bytes, bytes]] = []
        at, end = (0, count) if step > 0 else (count - 1, -1)
        block.append_entries(entries, block.prefix(), block.key(at), at, end, step, _NOW_S)
        expect(entries == wanted[::step], "a scan with bounds differs from the block")
    for position in range(0, count, 1 + count // _MOST_ASKED):
        expect(comparable(block.value(position)) == values[position], "the value differs")
        expect(block.seq(position) == seqs[position], "the sequence number differs")
        found = int(block.find(keys[position], hash_key(keys[position])))
        expect(found == -1 or keys[found] == keys[position], "find gave another key's position")
        expect(0 <= block.lower_bound(keys[position]) <= count, "lower_bound is outside the block")
    block.check_order(_fail)
    if max(seqs) <= MAX_SEQUENCE:
        start = 24 + int.from_bytes(data[6:8], "little")
        has_versions = len(set(keys)) < count
        prints = data[start : start + count]
        again = encode_block(list(keys), block.values(), seqs, prints, has_versions=has_versions)
        block = Block(again, _fail)
        expect(
            (block.keys(), list(map(comparable, block.values())), block.seqs())
            == (keys, values, seqs),
            "encoding and decoding gives something else",
        )


@cache
def _payloads() -> tuple[bytes, ...]:
    keys = [b"key%03d" % number for number in range(12)]
    prints = bytes(hash_key(key) & 0xFF for key in keys)
    plain = encode_block(list(keys), [b"value"] * 12, [5] * 12, prints, has_versions=False)
    mixed = encode_block(
        list(keys), [None, *[b"x" * n for n in range(9)], *_EXPIRING],
        list(range(70_000, 70_012)), prints,
        has_versions=False,
    )  # fmt: skip
    versions = encode_block(
        [b"", b"", b"a"], [b"new", None, b""], [9, 1 << 40, 7][::-1], b"\0\0\1", has_versions=True
    )
    one = encode_block([b"k" * 300], [b"v"], [MAX_SEQUENCE], b"\7", has_versions=False)
    return plain, mixed, versions, one


def _check_frame(data: bytes) -> None:
    payload, bits, trailer = decode_block_frame(data, PATH, NUMBER, 0)
    expect(encode_block_frame(payload, bits, trailer, NUMBER, 0) == data, "it encodes to others")


def _frames() -> list[bytes]:
    table = _table("plain")
    return [table[start:end] for start, end in _spans(table)[:2]]


def _spans(table: bytes) -> list[tuple[int, int]]:
    index = _reader(table).index
    return [
        (index.offset(number), index.offset(number + 1)) for number in range(int(index.block_count))
    ]


# Compression


def _check_codec(data: bytes) -> None:
    if len(data) < _CODEC_HEAD.size:
        return
    codec, with_dictionary, raw_length = _CODEC_HEAD.unpack_from(data)
    unpack = Decompressor(_DICTIONARY if with_dictionary & 1 else b"")
    payload = data[_CODEC_HEAD.size :]
    raw = unpack.decompress_block(codec, payload, raw_length, PATH, 0)
    expect(len(raw) == raw_length, "the length differs from the one asked for")


def _codec_seeds() -> list[bytes]:
    raw = b"".join(_payloads()) * 4
    seeds = [_CODEC_HEAD.pack(0, 0, len(raw)) + raw]
    for with_dictionary, dictionary in enumerate((b"", _DICTIONARY)):
        for content in _payloads():
            codec, packed = Compressor(3, dictionary).compress_block(content)
            seeds.append(_CODEC_HEAD.pack(codec, with_dictionary, len(content)) + packed)
    return seeds


def _check_transposed(data: bytes) -> None:
    if len(data) < 4:
        return
    (raw_length,) = struct.unpack_from("<I", data)
    payload = restore(data[4:], raw_length, PATH, 0)
    expect(len(payload) == raw_length, "the length differs from the one asked for")
    block = Block(payload, _fail, lacks_fingerprints=True)
    if not block.ascends(True):  # the first lookup searches sorted keys
        return
    for position in (0, int(block.count) - 1):
        key = block.key(position)
        expect(block.find(key, hash_key(key)) >= 0, "find misses a key of the block")
    expect(restore(transpose(payload), raw_length, PATH, 0) == payload, "it transposes to others")


def _transposed_seeds() -> list[bytes]:
    return [struct.pack("<I", len(payload)) + transpose(payload) for payload in _payloads()]


def _zstd_most_bytes(size: int) -> int:
    """Memory for an input of ``size`` bytes: zstd can make 128 KiB of four bytes."""
    return (2 << 20) + (size // 4 + 1) * 128 * 1024


def _check_dictionary(data: bytes) -> None:
    payload = _payloads()[0]
    codec, packed = Compressor(3, b"").compress_block(payload)
    found = Decompressor(data).decompress_block(codec, packed, len(payload), PATH, 0)
    expect(len(found) == len(payload), "the length differs from the one asked for")


def _dictionary_seeds() -> list[bytes]:
    values = [b"%d of a shape that repeats, %d" % (n, n * n) for n in range(400)]
    samples = [encode_block([b"k"], [it], [1], b"\0", has_versions=False) for it in values]
    return [_DICTIONARY, train_dictionary(samples, 512), b"\x37\xa4\x30\xec" + bytes(60)]


# Sections


def _check_index(data: bytes) -> None:
    """Open an index; compare every number with the rest, and searches with plain ones."""
    if len(data) < _INDEX_HEAD.size:
        return
    *sizes, least, most = _INDEX_HEAD.unpack_from(data)
    data_length, filters_length, entry_count = (size & _MOST_BYTES for size in sizes)
    keys = data[_INDEX_HEAD.size :][:least], data[_INDEX_HEAD.size + least :][:most]
    section = data[_INDEX_HEAD.size + least + most :]
    count = int.from_bytes(section[:4], "little")
    ends = {"smallest": min(keys), "largest": max(keys)}
    counts = {"entry_count": entry_count, "block_count": count}
    properties = msgspec.structs.replace(_reader(_table("plain")).properties, **ends, **counts)
    footer = Footer(data_length, 0, filters_length, len(section), 1, 0, 0)
    index = TableIndex(section, PATH, footer, properties)
    expect(index.memory_bytes <= 2 * len(section), "it takes more than twice its bytes of memory")
    offsets = [index.offset(block) for block in range(count + 1)]
    lengths = [high - low for low, high in pairwise(offsets)]
    expect((offsets[0], offsets[-1]) == (0, data_length), "blocks do not fill their section")
    expect(0 <= min(lengths) <= max(lengths) < 1 << 32, "the length of a block is out of range")
    expect(sum(map(index.entry_count, range(count))) == entry_count, "entries do not add up")
    places = [index.filter_place(block) for block in range(count)]
    starts = list(accumulate((length for _, length, _ in places), initial=0))
    expect(starts == [index.filter_start(block) for block in range(count + 1)], "filters overlap")
    expect(starts[:-1] == [start for start, _, _ in places], "filters leave gaps")
    expect(starts == sorted(starts) and starts[-1] <= filters_length, "a filter lies outside")
    shapes = {(length, parameter) for _, length, parameter in places}
    expect(index.filter_shapes() == shapes, "shapes differ")
    expect(all(0 <= parameter < 256 for _, parameter in shapes), "a parameter is out of range")
    chunks = [
        chunk
        for chunk in range(int(index.chunk_count))
        for _ in range(int(index.chunk_start(chunk)), int(index.chunk_start(chunk + 1)))
    ]
    expect(chunks == [index.chunk_of(block) for block in range(count)], "chunks differ")
    for chunk in set(chunks):
        first, stop = index.chunk_start(chunk), index.chunk_start(chunk + 1)
        expect(index.chunk_span(chunk) == (starts[first], starts[stop]), "a chunk's span differs")
        expect(0 <= index.chunk_checksum(chunk) < 1 << 64, "a checksum is out of range")
    _check_searches(index, **ends)


def _check_searches(index: TableIndex, smallest: bytes, largest: bytes) -> None:
    separators = [index.separator(block) for block in range(int(index.block_count))]
    expect(separators == sorted(separators), "separators do not ascend")
    expect(separators[0] <= smallest and separators[-1] <= largest, "separators lead outside")
    asked = [smallest, largest, *separators]
    for key in filter(None, separators):
        asked += [key + b"\0", key + b"~" * 10, key[:-1], key[:-1] + bytes([max(1, key[-1]) - 1])]
    for key in asked:
        if smallest <= key <= largest:
            last = bisect_right(separators, key) - 1
            first = max(0, bisect_left(separators, key) - 1)
            group = index.group_of(key)
            index.prefetch(group)
            expect(index.find(key) == index.find_in(key, group) == last, "find differs")
            expect(index.find_first(key) == first, "find_first differs")
            expect(index.begins_at(last, key) == (separators[last] == key), "begins_at differs")


def _seal_index(data: bytes) -> bytes:
    """An index: correct it, and the sizes before it."""
    if len(data) < _INDEX_HEAD.size:
        return data
    *_, least, most = _INDEX_HEAD.unpack_from(data)
    start = _INDEX_HEAD.size + least + most
    section, offsets, filter_ends, entries = seal_index(data[start:])
    sizes = (number & _MOST_BYTES for number in (offsets[-1], filter_ends[-1], entries))
    return _INDEX_HEAD.pack(*sizes, least, most) + data[_INDEX_HEAD.size : start] + section


def _index_seeds() -> list[bytes]:
    """The indexes of tables, and one of several groups whose separators share and differ in much."""
    seeds = []
    for name in ("plain", "table-filter"):
        reader = _reader(_table(name))
        footer, said = reader.footer, reader.properties
        sizes = footer.data_length, footer.filters_length, said.entry_count
        seeds.append(_index_input(sizes, said.smallest, said.largest, reader.index.section))
    keys = sorted(b"%0*d" % (1 + 40 * (n % 3), n * n) + b"z" * (n % 20) for n in range(40))
    keys[9:12] = [keys[9]] * 3
    keys += [b"~key%03d" % (n * n) for n in range(30)]
    keys += [b"~srv/%02d/reports-2024/summary-of-%d" % (n, n * n) for n in range(30)]  # symbols
    builder, numbers = IndexBuilder(), [(4000 + n * n, n % 30, 1 + n % 7) for n in range(100)]
    for number, key in enumerate(keys):
        builder.add(key, *numbers[number], number % 9)
    sizes = sum(n[0] for n in numbers), sum(n[1] for n in numbers), sum(n[2] for n in numbers)
    section = builder.finish(bytes(sizes[1]), keys[0], keys[-1])
    return [*seeds, _index_input(sizes, keys[0], keys[-1], section)]


def _index_input(sizes: tuple[int, ...], smallest: bytes, largest: bytes, section: bytes) -> bytes:
    return _INDEX_HEAD.pack(*sizes, len(smallest), len(largest)) + smallest + largest + section


def _check_footer(data: bytes) -> None:
    footer = decode_footer(data, PATH, 5000)
    expect(footer.encode() == data, "it encodes to other bytes")
    expect(0 <= footer.data_length <= footer.properties_offset <= 5000, "a section lies outside")


def _footer_seeds() -> list[bytes]:
    return [seal_footer(_table("plain")[-FOOTER_BYTES:], 5000), seal_footer(bytes(72), 5000)]


def _check_properties(data: bytes) -> None:
    properties = decode_properties(data, PATH, 0)
    again = decode_properties(msgspec.json.encode(properties), PATH, 0)
    expect(again == properties, "it encodes to other properties")
    properties.meta(100, 0).problem()


def _properties_seeds() -> list[bytes]:
    found = []
    for name in ("plain", "table-filter"):
        table = _table(name)
        footer = decode_footer(table[-FOOTER_BYTES:], PATH, len(table))
        found.append(table[footer.properties_offset : -FOOTER_BYTES])
    return [*found, found[0][:-1] + b',"more":[[{"a":[1.5e9,null,"\\u00e9"]}]]}']


def _numbers_replaced(data: bytes) -> list[bytes]:
    """Properties with one number far out of range."""
    said = msgspec.json.decode(data)
    found = []
    for name, value in said.items():
        if type(value) is int:
            for number in (-1, 0, 1 << 31, 1 << 62, 1 << 63, 1 << 64, 10**30):
                found.append(json.dumps(said | {name: number}).encode())
    return found


# Whole tables


def _reader(data: bytes, residency: str = "resident") -> TableReader:
    storage = ReadOnlyMemoryStorage({PATH: data})
    cache_ = BlockCache(1 << 16, storage.stats)
    return TableReader(storage, PATH, cache_, meta=None, filter_residency=residency)


def _check_table(data: bytes) -> None:
    """Open a table, check it, look up keys, scan it."""
    table = _reader(data, ("resident", "cached", "off")[len(data) % 3])
    problems = check_table(table).problems
    count = int(table.index.block_count)
    numbers = range(0, count, 1 + count // _MOST_ASKED)
    for number in numbers:
        block = table.block(number, True)
        for key, value in list(zip(block.keys(), block.values(), strict=True))[:_MOST_ASKED]:
            if not table.smallest <= key <= table.largest:  # no lookup gets to the table
                expect(bool(problems), f"{key!r} is outside the table, which has no problems")
                continue
            got = table.get(key, hash_key(key), MAX_SEQUENCE)
            is_newest = max(block.seqs()) <= MAX_SEQUENCE and not table.properties.has_versions
            expect(
                bool(problems) or comparable(got) == comparable(value) or not is_newest,
                f"{key!r} is {value!r}, looked up {got!r}",
            )
        table.read_past_cache(number)
    for _ in blocks_ahead(table, numbers):
        pass
    for key in (table.smallest, b"key005x", table.largest):
        if table.smallest <= key <= table.largest:
            table.get(key, hash_key(key), 3)


def _check_salvage(data: bytes) -> None:
    """Salvaged blocks must be in order and inside the file."""
    salvage = TableSalvage(ReadOnlyMemoryStorage({PATH: data}), PATH, NUMBER)
    last = -1
    for offset, item in salvage.blocks():
        expect(last <= offset <= len(data), "a block is outside the file, or out of order")
        last = offset
        if isinstance(item, Block):
            item.keys()


def _check_said(data: bytes) -> None:
    table = _table("table-filter")
    footer = decode_footer(table[-FOOTER_BYTES:], PATH, len(table))
    head = struct.pack("<Q", len(data)) + table[-FOOTER_BYTES + 40 :]
    tail = table[-FOOTER_BYTES : -FOOTER_BYTES + 32] + head
    _check_table(seal_table(table[: footer.properties_offset] + data + tail))


FORMS: Final = {
    "plain": {"compression": "none"},
    "zstd": {"compression": "zstd"},
    "dictionary": {"compression": "zstd", "compression_dictionary_size_bytes": 256},
    "table-filter": {"filter_granularity": "table", "fit_pages": False},  # as the corpus has it
    "ribbon": {"filter_policy": "ribbon", "compression": "none"},
    "ribbon-table": {"filter_policy": "ribbon", "filter_granularity": "table"},
    "prefix": {"filter_key": filter_key_from_spec("fixed:4")},
    "grafite": {"filter_policy": "grafite", "compression": "none"},
}


@cache
def _table(form: str) -> bytes:
    """A table of a few blocks."""
    options = Options(block_size_bytes=256, **FORMS[form])  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "table"))
        writer = TableWriter(Storage(), path, NUMBER, table_format(options, 0.01))
        for number in range(80 if form == "dictionary" else 24):
            value = b"value of a shape that repeats %d" % number
            held = Expiring(value, 5_000_000_000) if number % 7 == 1 else value
            writer.add(b"key%03d" % number, held if number % 5 else None, 100 + number)
        writer.finish()
        return Path(path).read_bytes()


def _tables() -> list[bytes]:
    return [_table(form) for form in FORMS]


_WORDS: Final = (
    b'"granularity":"table"',
    b'"granularity":"block"',
    b'"filter_scheme":3',
    b'"expiry":[1,5,null,5]',
    b"18446744073709551616",
    b"9223372036854775807",
    b"4611686018427387904",
    b"99999999999999999999999",
    b"-1",
    b"[" * 500,
    b"1e999",
)

TARGETS: Final = (
    Target("block", _check_block, lambda: list(_payloads())),
    Target("frame", _check_frame, _frames, seal_frame),
    Target("reduced", _check_transposed, _transposed_seeds),
    Target("codec", _check_codec, _codec_seeds, most_bytes=_zstd_most_bytes),
    Target("dictionary", _check_dictionary, _dictionary_seeds, most_bytes=_zstd_most_bytes),
    Target("index", _check_index, _index_seeds, _seal_index),
    Target("footer", _check_footer, _footer_seeds, lambda data: seal_footer(data, 5000)),
    Target("properties", _check_properties, _properties_seeds, words=_WORDS),
    Target(
        "table-properties",
        _check_said,
        lambda: [*_properties_seeds(), *_numbers_replaced(_properties_seeds()[1])],
        words=_WORDS,
        most_bytes=_zstd_most_bytes,
    ),
    Target("table", _check_table, _tables, seal_table, most_bytes=_zstd_most_bytes),
    Target("salvage", _check_salvage, _tables, seal_table, most_bytes=_zstd_most_bytes),
)
