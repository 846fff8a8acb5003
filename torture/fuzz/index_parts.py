"""A table's index as it stands in its section, part by part, to change any of them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from lsmkv.encoding.checksums import checksum

_HEADER: Final = struct.Struct("<IIIII")
_NUMBERS: Final = struct.Struct("<QIIIIBBBBB")
_ARRAYS: Final = {
    "fences": "Q",
    "key_starts": "I",
    "number_starts": "I",
    "chunk_starts": "I",
    "chunk_checksums": "Q",
}
BLOCK_COUNT, PREFIX_LENGTH, CHUNK_COUNT, KEYS_LENGTH = range(4)  # positions in the header
OFFSET, OFFSET_STEP, FILTER_START, FILTER_STEP, ENTRIES, PARAMETER = range(6)
"""Positions in the fields of a group of numbers; the bits of its rows follow."""
FILTERS_ROW, PARAMETERS_ROW, ENTRIES_ROW, OFFSETS_ROW = range(4)
"""Positions in the rows of a group of numbers, as in its bits."""
_KEY_GROUP: Final = 16
_OF_DIGITS: Final = 8
_FENCE_BYTES: Final = 7
_NUMBER_GROUP: Final = 64
_ROW_LENGTHS: Final = (65, 64, 64, 65)  # also in the last group, whose rows end with zeros
_PADDING: Final = bytes(8)


@dataclass
class NumberGroup:
    """Numbers of up to 64 blocks."""

    fields: list[int]
    rows: list[list[int]]

    @classmethod
    def at(cls, data: bytes, at: int, blocks: int) -> tuple[NumberGroup, int]:
        """The group at ``at``, and where it ends."""
        fields = list(_NUMBERS.unpack_from(data, at))
        at += _NUMBERS.size
        rows = []
        counts = blocks + 1, blocks, blocks, blocks + 1
        for bits, count, stored in zip(fields[6:], counts, _ROW_LENGTHS, strict=True):
            length = (bits * stored + 7) >> 3
            packed = int.from_bytes(data[at : at + length], "little")
            rows.append([packed >> bits * n & (1 << bits) - 1 for n in range(count)])
            at += length
        return cls(fields, rows), at

    def encoded(self) -> bytes:
        """The group, whose numbers lose what is beyond their bits."""
        sizes = (64, 32, 32, 32, 32, 8, 8, 8, 8, 8)
        fields = [field & (1 << size) - 1 for field, size in zip(self.fields, sizes, strict=True)]
        out = _NUMBERS.pack(*fields)
        for bits, row, stored in zip(fields[6:], self.rows, _ROW_LENGTHS, strict=True):
            packed = sum((number & (1 << bits) - 1) << bits * n for n, number in enumerate(row))
            out += packed.to_bytes((bits * stored + 7) >> 3, "little")
        return out

    def widen(self, row: int, bits: int) -> list[int]:
        """The numbers of a row, which have ``bits`` bits from now on."""
        self.fields[6 + row] = bits
        return self.rows[row]


@dataclass
class IndexParts:
    """All parts of an index: header, arrays by name, symbols, bytes of separators, groups of numbers."""

    head: list[int]
    arrays: dict[str, list[int]]
    symbols: bytes
    keys: bytes
    groups: list[NumberGroup]

    @classmethod
    def of(cls, section: bytes, *, walks: bool = False) -> IndexParts:
        """The parts of an index; with ``walks`` separators end where the last one does."""
        head = list(_HEADER.unpack_from(section))
        count, _, chunk_count, keys_length, symbol_count = head
        groups = -(-count // _KEY_GROUP)
        lengths = groups, groups, -(-count // _NUMBER_GROUP), chunk_count + 1, chunk_count
        at = _HEADER.size
        arrays: dict[str, list[int]] = {}
        for (name, form), length in zip(_ARRAYS.items(), lengths, strict=True):
            arrays[name] = list(struct.unpack_from(f"<{length}{form}", section, at))
            at += length * struct.calcsize(form)
        symbols = section[at : at + (256 + 8 * symbol_count if symbol_count else 0)]
        body = section[at + len(symbols) :]
        if walks:
            *_, keys_length = _key_groups(body, count)
        numbers, at = [], keys_length
        for start in range(0, count, _NUMBER_GROUP):
            group, at = NumberGroup.at(body, at, min(_NUMBER_GROUP, count - start))
            numbers.append(group)
        return cls(head, arrays, symbols, body[:keys_length], numbers)

    def encoded(self) -> bytes:
        return b"".join(
            (
                _packed(self.head, "I"),
                *(_packed(self.arrays[name], form) for name, form in _ARRAYS.items()),
                self.symbols,
                self.keys,
                *(group.encoded() for group in self.groups),
                _PADDING,
            )
        )

    def follow(self) -> tuple[list[int], list[int], int]:
        """Correct fences and groups; where blocks and filters start, and how many entries."""
        count = self.head[BLOCK_COUNT]
        *key_starts, self.head[KEYS_LENGTH] = _key_groups(self.keys, count)
        self.arrays["key_starts"] = key_starts
        self.arrays["fences"] = list(map(self._fence, key_starts, self.arrays["fences"]))
        starts = accumulate((len(group.encoded()) for group in self.groups), initial=0)
        self.arrays["number_starts"] = list(starts)[:-1]
        chunk_starts = self.arrays["chunk_starts"]
        if len(chunk_starts) > 1:
            chunk_starts[0], chunk_starts[-1] = 0, count
        offsets, filter_ends, entries = [0], [0], 0
        for group in self.groups:
            fields, rows = group.fields, group.rows
            fields[OFFSET], fields[FILTER_START] = offsets[-1], filter_ends[-1]
            for number in range(1, len(rows[OFFSETS_ROW])):
                above = rows[OFFSETS_ROW][number], rows[FILTERS_ROW][number]
                offsets.append(fields[OFFSET] + number * fields[OFFSET_STEP] + above[0])
                filter_ends.append(fields[FILTER_START] + number * fields[FILTER_STEP] + above[1])
                entries += fields[ENTRIES] + rows[ENTRIES_ROW][number - 1]
        return offsets, filter_ends, entries

    def _fence(self, at: int, stored: int) -> int:
        """The fence of the group of separators at ``at``; codes lack bytes that the stored one has."""
        head = (stored >> 7 & (1 << 56) - 1).to_bytes(7, "big")
        if kind := self.keys[at]:
            code = self.keys[at + 2 : at + 2 + _width(kind)]
            if kind > _OF_DIGITS:
                code = code.hex().encode().rstrip(b"0")
            first = head[: self.keys[at + 1]] + code
        else:
            length, at = _varint(self.keys, at + 1)
            rest = self.keys[at : at + max(0, length - _FENCE_BYTES)]
            first = head[:length] + b"".join(map(self._stands_for, rest))
        return int.from_bytes(first[:8].ljust(8, b"\0"), "big") >> 1

    def _stands_for(self, byte: int) -> bytes:
        if not self.symbols or not (number := self.symbols[byte]):
            return bytes([byte])
        word = self.symbols[248 + 8 * number : 256 + 8 * number]
        return word[: word[7]] if len(word) == 8 else b""

    def seal_chunks(self, filters: bytes, ends: list[int]) -> None:
        """Correct the checksums of chunks; ``ends`` are those of :meth:`follow`."""
        starts = self.arrays["chunk_starts"]
        if ends[-1] == 0:  # one filter for the whole table
            ends = [0] * (len(ends) - 1) + [len(filters)]
        self.arrays["chunk_checksums"] = [
            checksum(filters[ends[low] : ends[high]], 0) if max(low, high) < len(ends) else 0
            for low, high in pairwise(starts)
        ]


def _packed(numbers: list[int], form: str) -> bytes:
    mask = (1 << 8 * struct.calcsize(form)) - 1
    return struct.pack(f"<{len(numbers)}{form}", *(number & mask for number in numbers))


def _key_groups(keys: bytes, block_count: int) -> list[int]:
    """Where each group of separators starts, and where the last one ends."""
    starts = [0]
    for start in range(0, block_count, _KEY_GROUP):
        count, at = min(_KEY_GROUP, block_count - start), starts[-1]
        if keys[at]:  # codes of that width
            starts.append(at + 2 + count * _width(keys[at]))
            continue
        length, at = _varint(keys, at + 1)
        _, at = _varint(keys, at + max(0, length - _FENCE_BYTES))
        for _ in range(count - 1):
            both = keys[at]
            at += 1
            if both >> 4 == 15:
                _, at = _varint(keys, at)
            length, more = both & 15, 0
            if length == 15:
                more, at = _varint(keys, at)
            at += length + more
        starts.append(at)
    return starts


def _width(kind: int) -> int:
    return kind - _OF_DIGITS if kind > _OF_DIGITS else kind


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while data[at] >= 128:
        number |= (data[at] & 127) << shift
        shift += 7
        at += 1
    return number | data[at] << shift, at + 1
