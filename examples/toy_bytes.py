"""How the toy's files are written in bytes: both directions of each layout that docs/format.md lists.

``toy.py`` is the store, and is to be read first.  This file has no ideas, only fields and checksums: read
a part of it when you want to know a layout, beside what
`python -m tools.format_doc` says of it.
"""

from __future__ import annotations

import base64
import json
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import mmh3
import xxhash
import zstandard

DELETE, PUT, RANGE_DELETE, EXPIRING = 0, 1, 2, 4  # tags: what kind of write an entry is
PAYLOAD, MARK = 0, 1  # kinds of records in a log
BLOOM = 1  # the filter scheme that the toy knows
Row = tuple[bytes, int, int, bytes]
"""An entry in a file: key, sequence number, tag, and the bytes of the value, its expiry before it."""


class CorruptionError(Exception):
    """Bytes on disk are not those that were written."""

    def __init__(self, path: Path, offset: int, reason: str) -> None:
        super().__init__(f"{path}, offset {offset}: {reason}")
        self.path, self.offset = path, offset


class RefusedError(Exception):
    """The toy does not do this: open such a store or directory, or take such a write."""


# Checksums and hashing


def checksum(data: bytes, seed: int = 0) -> int:
    """XXH3-64.  The seed is the bytes' place: right bytes in a wrong place fail as well."""
    return xxhash.xxh3_64_intdigest(data, seed % 2**64)


def short_checksum(data: bytes, seed: int = 0) -> bytes:
    return u32s([checksum(data, seed) % 2**32])


def hash_of(key: bytes) -> int:
    """The hash of a key, 63 bits of MurmurHash3: each filter takes all its bit numbers from it."""
    return int(mmh3.hash64(key, signed=False)[0]) % 2**63


# Numbers


class Reader:
    """Takes one field after another from bytes, all little-endian."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, length: int) -> bytes:
        self.at += length
        return self.data[self.at - length : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def numbers(self, form: str) -> tuple[int, ...]:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def varint(self) -> int:
        """A number in 7 bits a byte, the lowest first, and 128 where more follow."""
        byte = self.byte()
        return byte if byte < 128 else byte - 128 + 128 * self.varint()

    def bits(self, count: int, width: int) -> list[int]:
        """Numbers of ``width`` bits each, the lowest first."""
        word = int.from_bytes(self.take((count * width + 7) // 8), "little")
        return [word >> width * number & (1 << width) - 1 for number in range(count)]

    def pieces(self, lengths: Iterable[int]) -> list[bytes]:
        return [self.take(length) for length in lengths]


def u32s(numbers: Sequence[int], count: int = 0) -> bytes:
    """Numbers of 32 bits, and zeros up to ``count`` numbers."""
    return struct.pack(f"<{len(numbers)}I", *numbers).ljust(4 * count, b"\0")


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number % 128 + 128]) + varint(number // 128)


def shared_length(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return at
    return min(len(one), len(other))


# Logs


class LogHeader(NamedTuple):
    number: int
    salt: int  # random: tells the log's records from those of any other
    number_before: int  # of the log before it, 0 for none
    end_before: int  # where that one ended


def encode_log_header(kind: int, header: LogHeader) -> bytes:
    head = struct.pack("<8sIIQQQQ", b"lsmkvLOG", 1, kind, *header)
    return head + checksum(head).to_bytes(8, "little")


def decode_log_header(path: Path, data: bytes, kind: int) -> LogHeader:
    if len(data) < 56 or checksum(data[:48]) != int.from_bytes(data[48:56], "little"):
        raise CorruptionError(path, 0, "the header of a log is damaged")
    magic, version, found_kind, *fields = struct.unpack("<8sIIQQQQ", data[:48])
    if (magic, version, found_kind) != (b"lsmkvLOG", 1, kind):
        raise CorruptionError(path, 0, "this is another kind of log, or another format")
    return LogHeader(*fields)


def encode_record(kind: int, payload: bytes, salt: int, offset: int) -> bytes:
    body = struct.pack("<IB", len(payload), kind) + payload
    return short_checksum(body, salt + offset) + body


def decode_record(data: bytes, salt: int, offset: int) -> tuple[int, bytes] | None:
    """Kind and payload of the record at an offset; None if there is no good one."""
    if 0 <= offset <= len(data) - 9:
        length, kind = struct.unpack_from("<IB", data, offset + 4)
        record = data[offset : offset + 9 + length]
        if record == encode_record(kind, record[9:], salt, offset):
            return kind, record[9:]
    return None


def marks_behind(data: bytes, salt: int, offset: int) -> Iterator[bytes]:
    """The payloads of sync marks from an offset on, where no record need begin."""
    at = offset - 1
    while (at := data.find(struct.pack("<IB", 8, MARK), at + 1)) >= 0:
        if record := decode_record(data, salt, at - 4):
            yield record[1]


# Write batches


def encode_batch(row: Row) -> bytes:
    """A batch of one entry."""
    key, seq, tag, stored = row
    return struct.pack("<QIBHI", seq, 1, tag, len(key), len(stored)) + key + stored


def decode_batch(payload: bytes) -> Iterator[Row]:
    reader = Reader(payload)
    first_seq, count = reader.numbers("QI")
    for seq in range(first_seq, first_seq + count):
        tag, key_length, length = reader.numbers("BHI")
        if tag == RANGE_DELETE:
            raise RefusedError("this store has range deletes: lsmkv compact applies them")
        yield reader.take(key_length), seq, tag, reader.take(length)


# Data blocks, transposed payloads, blocks in their place


def encode_payload(rows: list[Row]) -> bytes:
    n, prefix = len(rows), rows[0][0][: shared_length(rows[0][0], rows[-1][0])]
    whole_keys, seqs, tags, values = zip(*rows, strict=True)
    keys = [key[len(prefix) :] for key in whole_keys]
    has_tags, base = {*tags} != {PUT}, min(seqs)
    lengths = sum(map(len, keys)), sum(map(len, values))
    parts = [struct.pack("<IBBHQII", n, has_tags, 8, len(prefix), base, *lengths), prefix]
    parts.append(bytes([hash_of(key) % 256 for key in whole_keys]))
    parts.append(struct.pack(f"<{n}H{n}I", *map(len, keys), *map(len, values)))
    parts.append(bytes(tags) if has_tags else b"")
    parts.append(struct.pack(f"<{n}Q", *[seq - base for seq in seqs]))
    return b"".join([*parts, *keys, *values])


def decode_payload(payload: bytes, is_transposed: bool) -> list[Row]:
    reader = Reader(payload)
    n, flags, width, prefix_length, base, keys_length = reader.numbers("IBBHQI")
    reader.take(0 if is_transposed else 4)
    prefix = reader.take(prefix_length)
    reader.take(0 if is_transposed else n)
    has_equal_keys, has_equal_values = flags & 64, flags & 128
    key_lengths = (keys_length // n,) * n if has_equal_keys else reader.numbers(f"{n}H")
    value_lengths = () if has_equal_values else reader.numbers(f"{n}I")
    tags = reader.take(n) if flags & 1 else bytes([PUT]) * n
    seqs, keys = reader.take(n * width), reader.take(keys_length)
    if is_transposed:  # by column: every n-th byte is of the same row
        seqs = b"".join([seqs[row::n] for row in range(n)])
    if has_equal_keys:
        keys = b"".join([keys[row::n] for row in range(n)])
    if has_equal_values:
        value_lengths = ((len(payload) - reader.at) // n,) * n
    columns = (
        [prefix + key for key in Reader(keys).pieces(key_lengths)],
        [base + int.from_bytes(seq, "little") for seq in Reader(seqs).pieces([width] * n)],
        tags,
        reader.pieces(value_lengths),
    )
    return list(zip(*columns, strict=True))


def encode_block(
    payload: bytes, entry_count: int, bits: bytes, probes: int, number: int, offset: int
) -> bytes:
    """Payload, filter and trailer of a block of table ``number``."""
    kind = BLOOM << 5 | probes if bits else 0
    lengths = len(payload), len(payload), len(bits), entry_count, entry_count
    trailer = struct.pack("<IIIIIBBH", *lengths, 0, kind, 0x4B62)
    seed = checksum(trailer, (number << 40) + offset)
    return payload + bits + trailer + short_checksum(payload, seed) + short_checksum(bits, seed)


def decode_block(path: Path, tail: TableTail, offset: int, data: bytes) -> list[Row]:
    about, trailer = tail.properties, data[-32:]
    if len(trailer) < 32:
        raise CorruptionError(path, offset, "the file ends within a block")
    length, raw_length, _, _, _, codec, *_ = struct.unpack("<IIIIIBBHII", trailer)
    seed = checksum(trailer[:24], ((about.get("sealed_number") or about["number"]) << 40) + offset)
    payload = data[:length]
    if trailer[24:28] != short_checksum(payload, seed):  # the filter behind it is not looked at
        raise CorruptionError(path, offset, "a block is damaged")
    if codec:
        trained = zstandard.ZstdCompressionDict(tail.dictionary) if tail.dictionary else None
        zstd = zstandard.ZstdDecompressor(dict_data=trained)
        rows = decode_payload(zstd.decompress(b"\x28\xb5\x2f\xfd" + payload), True)
    else:
        rows = decode_payload(payload[:raw_length], False)
    if about.get("one_seq"):  # the table was written outside the store, which gave it one number
        return [(key, about["largest_seq"], tag, stored) for key, _, tag, stored in rows]
    return rows


# Index


class Line(NamedTuple):
    """A line of the index.  A block has the keys from its separator up to that of the next line."""

    separator: bytes
    start: int  # of the block in the file; the next one starts where it ends
    filter_start: int  # of its filter in the section of filters, likewise
    probes: int  # of its filter
    entry_count: int


Chunk = tuple[int, int, int]
"""Filters that share a checksum: where they start and end in their section, and the checksum."""


def encode_index(
    lines: list[Line], data_length: int, filters: bytes, smallest: bytes, largest: bytes
) -> bytes:
    n, prefix_length = len(lines), shared_length(smallest, largest)
    fences, key_starts, number_starts = list[int](), list[int](), list[int]()
    keys = numbers = b""
    for first in range(0, n, 16):  # each separator without what it shares with the one before
        group = [line.separator[prefix_length:] for line in lines[first : first + 16]]
        fences.append(int.from_bytes(group[0][:8].ljust(8, b"\0"), "big") >> 1)
        key_starts.append(len(keys))
        keys += b"\0" + varint(len(group[0])) + group[0][7:] + b"\0"
        for before, key in pairwise(group):
            shared = shared_length(before, key)
            lengths = shared, len(key) - shared
            keys += bytes([min(lengths[0], 15) << 4 | min(lengths[1], 15)])
            keys += b"".join([varint(length - 15) for length in lengths if length >= 15])
            keys += key[shared:]
    borders = [*lines, Line(b"", data_length, len(filters), 0, 0)]
    for first in range(0, n, 64):  # each number in 32 bits, where lsmkv takes as few as will do
        blocks, ends = lines[first : first + 64], borders[first : first + 65]
        start, filter_start = blocks[0].start, blocks[0].filter_start
        number_starts.append(len(numbers))
        numbers += struct.pack("<QIIIIBBBBB", start, 0, filter_start, 0, 0, 0, 32, 8, 32, 32)
        numbers += u32s([each.filter_start - filter_start for each in ends], 65)
        numbers += bytes([line.probes for line in blocks]).ljust(64, b"\0")
        numbers += u32s([line.entry_count for line in blocks], 64)
        numbers += u32s([each.start - start for each in ends], 65)
    head = struct.pack(f"<IIIII{len(fences)}Q", n, prefix_length, 1, len(keys), 0, *fences)
    head += u32s([*key_starts, *number_starts, 0, n])  # 0 to n: one chunk has all filters
    return head + checksum(filters).to_bytes(8, "little") + keys + numbers + bytes(8)


def decode_index(index: bytes, last: Line, smallest: bytes) -> tuple[list[Line], list[Chunk]]:
    """The lines of all blocks and ``last``, and the chunks of the filters."""
    reader = Reader(index)
    n, prefix_length, chunk_count, _, symbol_count = reader.numbers("IIIII")
    fences = reader.numbers(f"{-(-n // 16)}Q")
    reader.take(4 * len(fences) + 4 * -(-n // 64))  # for those who do not read it from the start
    chunk_starts = reader.numbers(f"{chunk_count + 1}I")
    checksums = reader.numbers(f"{chunk_count}Q")
    symbols = _decode_symbols(reader, symbol_count)
    separators, lines = list[bytes](), list[Line]()
    for number, fence in enumerate(fences):
        group = _decode_separators(reader, fence, min(16, n - 16 * number), symbols)
        separators += [smallest[:prefix_length] + separator for separator in group]
    for first in range(0, n, 64):
        start, step, filter_start, filter_step, entries, probes = reader.numbers("QIIIIB")
        forms = zip((65, 64, 64, 65), reader.numbers("BBBB"), strict=True)
        filters, parameters, counts, starts = [reader.bits(*form) for form in forms]
        for i, separator in enumerate(separators[first : first + 64]):
            at = start + i * step + starts[i], filter_start + i * filter_step + filters[i]
            lines.append(Line(separator, *at, probes + parameters[i], entries + counts[i]))
    lines.append(last)
    borders = [*[lines[block].filter_start for block in chunk_starts[:-1]], last.filter_start]
    chunks = zip(pairwise(borders), checksums, strict=True)
    return lines, [(*each, check) for each, check in chunks]


def _decode_symbols(reader: Reader, count: int) -> list[bytes]:
    """What each byte of a front-coded separator stands for."""
    numbers = reader.take(256) if count else bytes(256)
    strings = [word[: word[7]] for word in reader.pieces([8] * count)]
    return [strings[n - 1] if n else bytes([byte]) for byte, n in enumerate(numbers)]


def _decode_separators(
    reader: Reader, fence: int, count: int, symbols: list[bytes]
) -> Iterator[bytes]:
    """A group of up to 16 separators.  It begins with its kind; here is what the usual one has.

    The *fence* is the first 63 bits of the first separator, as a number: lsmkv searches among these.  It
    has 7 whole bytes, so only what is behind them is stored: of fruit/apr its length 09, and ``pr``.

    *Front-coding*: each other separator is without the bytes that it shares with the one before it.  One
    byte has both lengths, 4 bits each: behind fruit/apr, 61 b is fruit/b, by 6 shared bytes and 1 more.
    (15: the rest of the length follows.  ``base`` bytes are shared by the whole group, and not counted.)

    A *symbol* is a byte that stands for several: where ~ is ``anan``, 62 b~ is fruit/banan.
    """
    kind, head = reader.byte(), (fence >> 7).to_bytes(7, "big")
    if kind:  # codes of equal length: bytes, or hexadecimal digits
        head = head[: reader.byte()]
        for code in reader.pieces([kind - 8 if kind > 8 else kind] * count):
            yield head + (code.hex().encode().rstrip(b"0") if kind > 8 else code.rstrip(b"\0"))
        return
    length = reader.varint()
    separator = head[:length] + b"".join(symbols[b] for b in reader.take(max(0, length - 7)))
    base = reader.varint()
    yield separator
    for _ in range(count - 1):
        shared, length = divmod(reader.byte(), 16)
        shared += reader.varint() if shared == 15 else 0
        length += reader.varint() if length == 15 else 0
        separator = separator[: base + shared] + b"".join(symbols[b] for b in reader.take(length))
        yield separator


# Tables


def expiry_of(due: list[int], entry_count: int) -> list[int | None] | None:
    """When entries of a table expire: how many, the first, half of all, and the last."""
    due, half = sorted(due), (entry_count + 1) // 2
    half_due_s = due[half - 1] if half <= len(due) else None
    return [len(due), due[0], half_due_s, due[-1]] if due else None


def table_meta(number: int, rows: list[Row]) -> dict[str, Any]:
    """What manifest and properties both tell of a table."""
    seqs = [seq for _, seq, _, _ in rows]
    due = [expiry_in(stored) for _, _, tag, stored in rows if tag == EXPIRING]
    return {
        "number": number,
        "smallest": base64.b64encode(rows[0][0]).decode(),
        "largest": base64.b64encode(rows[-1][0]).decode(),
        "smallest_seq": min(seqs),
        "largest_seq": max(seqs),
        "entry_count": len(rows),
        "tombstone_count": [tag for _, _, tag, _ in rows].count(DELETE),
        "expiry": expiry_of(due, len(rows)),
    }


def expiry_in(stored: bytes) -> int:
    return int.from_bytes(stored[:5], "little")


def encode_table_tail(
    meta: dict[str, Any],
    lines: list[Line],
    trailers: bytes,
    data_length: int,
    raw_bytes: int,
    filters: bytes,
) -> tuple[bytes, int]:
    """All behind the blocks, and its checksum; ``raw_bytes`` is the size of all payloads."""
    keys = base64.b64decode(meta["smallest"]), base64.b64decode(meta["largest"])
    index = encode_index(lines, data_length, filters, *keys)
    about = {
        **meta,
        "has_versions": False,
        "block_count": len(lines),
        "raw_bytes": raw_bytes,
        "blocks_checksum": (1 << 60) + (checksum(trailers) >> 4),
        "compression": "none",
        "filter_bytes": len(filters),
        "filter_key": "whole",
        "granularity": "block",
        "error_rate": 0.01,
        "filter_key_count": 0,
        "probe_count": 0,
        "writer": "toy",
        "filter_scheme": BLOOM,
    }
    tail = index + json.dumps(about).encode()
    lengths = data_length, 0, len(filters), len(index), len(tail) - len(index)
    footer = struct.pack("<QQQQQQQI", *lengths, checksum(b""), checksum(tail), 2)
    return filters + tail + footer + short_checksum(footer) + b"lsmkvSST", checksum(tail)


class TableTail(NamedTuple):
    """All that stands behind the blocks of a table, checked."""

    lines: list[Line]  # of the blocks, and one more, for where they end
    filters: bytes  # empty if they are of a kind that the toy does not know
    dictionary: bytes  # that its compressed blocks need
    properties: dict[str, Any]
    checksum: int  # of index and properties: it tells the table from any other
    smallest: bytes
    largest: bytes


def read_table_tail(path: Path, descriptor: int) -> TableTail:
    """Read it with two calls."""
    footer_at = os.fstat(descriptor).st_size - 72
    footer = os.pread(descriptor, 72, max(0, footer_at))
    if len(footer) < 72 or footer[64:] != b"lsmkvSST":
        raise CorruptionError(path, max(0, footer_at), "this is not the end of a table")
    *lengths, dictionary_sum, tail_sum, version = struct.unpack("<QQQQQQQI", footer[:60])
    if footer[60:64] != short_checksum(footer[:60]) or version != 2 or sum(lengths) != footer_at:
        raise CorruptionError(path, footer_at, "the footer is damaged, or of another format")
    reader = Reader(os.pread(descriptor, footer_at - lengths[0], lengths[0]))
    dictionary, filters, index, about = reader.pieces(lengths[1:])
    if checksum(index + about) != tail_sum:
        raise CorruptionError(path, sum(lengths[:3]), "the index or the properties are damaged")
    if checksum(dictionary) != dictionary_sum:
        raise CorruptionError(path, lengths[0], "the dictionary is damaged")
    properties = json.loads(about)
    smallest, largest = (base64.b64decode(properties[name]) for name in ("smallest", "largest"))
    last = Line(b"", lengths[0], len(filters), 0, 0)
    lines, chunks = decode_index(index, last, smallest)
    for start, stop, check in chunks:
        if checksum(filters[start:stop]) != check:
            raise CorruptionError(path, sum(lengths[:2]) + start, "filters are damaged")
    kind = properties["filter_scheme"], properties["filter_key"], properties["granularity"]
    known = filters if kind == (BLOOM, "whole", "block") else b""
    return TableTail(lines, known, dictionary, properties, tail_sum, smallest, largest)
