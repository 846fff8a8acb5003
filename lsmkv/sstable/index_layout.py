"""A table's index: which block may hold a key, and where blocks and their filters are.

Between two blocks stands a *separator*: the shortest prefix of the upper block's first key that is above
the lower block's last key.  It is all that the index keeps of keys.  A key lies in the last block whose
separator is not above it, or nowhere in the table.  Where versions of a key stand in several blocks, all
separators between these are the key itself, and the newest version is in the first of these blocks.

The index is searched as it stands in the file.  Integers are little-endian::

    u32 block_count n, u32 prefix_length (bytes that every key of the table shares), u32 chunk_count c
    u32 keys_length, u32 symbol_count s
    fences          ceil(n / 16) u64   the fence of the first separator of each group of 16
    key_starts      ceil(n / 16) u32   where the group starts in ``keys``
    number_starts   ceil(n / 64) u32   where each group of 64 blocks starts in ``numbers``
    chunk_starts    c+1 u32            filters are read in chunks: chunk j holds those of the blocks
                                       chunk_starts[j] .. chunk_starts[j+1]; one filter of the
                                       whole table is one chunk
    chunk_checksums c u64              XXH3-64 of each chunk
    symbol_of       256 u8             only with symbols: the number of each byte's symbol from 1, or 0
    symbols         s times 7 bytes, u8    a symbol's string of 2 to 7 bytes, zero-padded, and its length
    keys            keys_length bytes
    numbers         the rest, without the last 8 bytes
    8 zero bytes

Separators are without the bytes that every key shares; the first of all is empty.  The *fence* of one
is its first 8 bytes, zero-padded, as a big-endian integer without its lowest bit (63 bits: the same in
a Python integer and in a signed machine word).  A search goes by fences to the group, and by codes to
the block.  A group has codes where its separators share their first ``base`` bytes, up to 7, and few
others follow::

    u8 width (1 to 7), or 8 + width (1 to 4) where all bytes after ``base`` are of 0123456789abcdef
    u8 base
    of each separator its code: the bytes after ``base``, or half a byte for each digit, zero-padded to
    ``width`` bytes

The ``base`` bytes are those of the fence.  No separator of such a group ends with a zero, or the digit 0,
so the zeros at the end of a code are padding.  All other groups are front-coded::

    u8 0, varint length of the first separator, its bytes without the 7 that the fence holds whole
    varint base    the fewest bytes that a separator here shares with the one before it; 0 without others
    of each other separator
        u8         s << 4 | t: it shares base + s bytes with the one before, and t bytes follow
        varint     only where s is 15: what s exceeds 15 by
        varint     only where t is 15: what t exceeds 15 by
        t bytes

In front-coded groups a byte that ``symbol_of`` gives a symbol stands for its string.  There t, and what
the length of the first separator exceeds 7 by, count such a byte once; s counts what it stands for.

A varint has 7 bits a byte, the lowest first, and 128 where more follow.

A group of numbers says where its blocks start by a straight line from below, and by how far each border
of theirs, the last one's end included, lies above it::

    u64 offset, u32 offset_step, u32 filter_start, u32 filter_step, u32 entries, u8 parameter,
    u8 filter_bits, u8 parameter_bits, u8 entry_bits, u8 offset_bits
    65 numbers of filter_bits bits      block i's filter is at filter_start + i * filter_step + number[i]
    64 numbers of parameter_bits bits   its filter's parameter is parameter + number[i]
    64 numbers of entry_bits bits       it has entries + number[i] entries
    65 numbers of offset_bits bits      it starts at offset + i * offset_step + number[i]

Numbers of bits stand one after another, the lowest bits first; each row begins with a byte.  In the last
group, those of blocks that are not there are 0.
"""

from __future__ import annotations

import struct
from typing import Final

from librt.strings import read_i32_le, read_i64_le
from mypy_extensions import i64

from lsmkv.encoding.words import common_prefix_length

HEADER: Final = struct.Struct("<IIIII")
NUMBERS: Final = struct.Struct("<QIIIIBBBBB")
NUMBERS_BYTES: Final = 29
# Where in a group of numbers its fields stand.
OFFSET_STEP: Final = 8
FILTER_START: Final = 12
FILTER_STEP: Final = 16
ENTRIES: Final = 20
PARAMETER: Final = 24
FILTER_BITS: Final = 25
PARAMETER_BITS: Final = 26
ENTRY_BITS: Final = 27
OFFSET_BITS: Final = 28
KEY_GROUP: Final = 16
KEY_GROUP_BITS: Final = 4
NUMBER_GROUP: Final = 64
NUMBER_GROUP_BITS: Final = 6
MAX_CODE: Final = 7
OF_DIGITS: Final = 8  # added to the width of codes of hexadecimal digits
MAX_DIGITS: Final = 8  # of a code: those of one word
FENCE_BYTES: Final = 7  # that a fence holds whole
PADDING: Final = bytes(8)  # a word is read wherever a byte is wanted
MAX_BITS: Final = 56  # of a number: with 7 bits before it, it lies in one word
MAX_PAIR_BITS: Final = 28  # of two numbers that lie in one word
LONG: Final = 15
MAX_BLOCK_BYTES: Final = 0xFFFF_FFFF
# ``>> (62 - n)`` leaves n; mypyc would shift a literal 1 as a C int.
ALL_BITS: Final = 0x3FFF_FFFF_FFFF_FFFF


def separator(below: bytes, key: bytes) -> bytes:
    """The shortest prefix of ``key`` that is above ``below``; ``key`` itself if they are equal.

    >>> separator(b"apple", b"banana"), separator(b"apple", b"apply"), separator(b"a", b"a")
    (b'b', b'apply', b'a')
    """
    length = common_prefix_length([below, key]) + 1
    return key[:length]


def u32(data: bytes, at: i64) -> i64:
    return i64(read_i32_le(data, at)) & 0xFFFF_FFFF


def number_at(data: bytes, row: i64, bits: i64, number: i64) -> i64:
    """A number of ``bits`` bits in the row at ``row``."""
    bit = bits * number
    return (read_i64_le(data, row + (bit >> 3)) >> (bit & 7)) & (ALL_BITS >> (62 - bits))


def row_bytes(bits: i64) -> i64:
    """The bytes of a row of 65 numbers."""
    return (65 * bits + 7) >> 3
