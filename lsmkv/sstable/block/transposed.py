"""A block's payload as it is compressed: without what follows from the rest, keys by column.

The payload (:mod:`lsmkv.sstable.block.block`) is made of it again when the block is read, but for the
fingerprints, which :mod:`lsmkv.sstable.block.fingerprints` makes once a key is looked up in the block.
It has the sections of a payload, in their order, but for these::

    header         without values_length, which is what the rest leaves of the whole; two more flags:
                   bit 6 set when all keys are equally long without the prefix,
                   bit 7 set when all values are equally long
    fingerprints   left out: they follow from the keys
    key_lengths    left out with flag bit 6: each is keys_length / n
    value_lengths  left out with flag bit 7: each is values_length / n
    seqs           by column: the first byte of each, then the second of each, ...
    keys           by column with flag bit 6

No compression shortens fingerprints, which are as good as random.  Within a column, bytes of keys in
order mostly repeat, and so do high bytes of numbers.
"""

from __future__ import annotations

from typing import Final

from librt.strings import (
    BytesWriter,
    read_i16_le,
    read_i64_le,
    write_i16_le,
    write_i32_le,
    write_i64_le,
)
from mypy_extensions import i16, i32, i64, u8

from lsmkv.encoding.entries import MAX_KEY_BYTES
from lsmkv.encoding.words import COMPILED
from lsmkv.errors import CorruptionError
from lsmkv.sstable.block.block import HAS_TAGS, HEADER_BYTES, MAX_BLOCK_BYTES
from lsmkv.sstable.block.lengths import common_width, u32

_EQUAL_KEYS: Final = 64
_EQUAL_VALUES: Final = 128
_FLAGS_AT: Final = 4
_SEQ_WIDTH_AT: Final = 5
_KEY_LENGTH_BYTES: Final = 2
_VALUE_LENGTH_BYTES: Final = 4
_REDUCED_HEADER_BYTES: Final = HEADER_BYTES - 4  # values_length is the last in a payload's
_MOST_COPIED_BYTES: Final = 64 * 1024


def reduce(payload: bytes) -> bytes:
    """The reduced form of a payload whose fingerprints are those of its keys.  Never longer."""
    count: i64 = u32(payload, 0)
    flags: int = payload[_FLAGS_AT]
    prefix_length = i64(read_i16_le(payload, 6)) & 0xFFFF
    fingerprints = HEADER_BYTES + prefix_length
    key_lengths = fingerprints + count
    value_lengths = key_lengths + _KEY_LENGTH_BYTES * count
    tags = value_lengths + _VALUE_LENGTH_BYTES * count
    values = i64(len(payload)) - u32(payload, 20)
    keys = values - u32(payload, 16)
    width = common_width(payload, key_lengths, value_lengths, _KEY_LENGTH_BYTES)
    value_width = common_width(payload, value_lengths, tags, _VALUE_LENGTH_BYTES)
    out = BytesWriter()
    out.write(payload[:_REDUCED_HEADER_BYTES])
    out.write(payload[HEADER_BYTES:fingerprints])
    if width >= 0:
        flags |= _EQUAL_KEYS
    else:
        out.write(payload[key_lengths:value_lengths])
    if value_width >= 0:
        flags |= _EQUAL_VALUES
    else:
        out.write(payload[value_lengths:tags])
    out[_FLAGS_AT] = u8(flags)
    seqs = keys - payload[_SEQ_WIDTH_AT] * count
    out.write(payload[tags:seqs])
    _append_columns(out, payload, seqs, payload[_SEQ_WIDTH_AT], count)
    if width < 0:
        out.write(payload[keys:values])
    else:
        _append_columns(out, payload, keys, width, count)
    return _followed(out.getvalue(), payload, values)


def restore(reduced: bytes, raw_length: int, path: str, offset: int) -> bytes:
    """The payload, ``raw_length`` bytes, that was reduced, with zeros in place of its fingerprints.

    It is of the block at ``offset``.

    Raises:
        CorruptionError: it is the reduced form of no payload of that length.  What a payload shows as
            well is left for :class:`~lsmkv.sstable.block.block.Block` to check.
    """
    length = i64(len(reduced))
    if length < _REDUCED_HEADER_BYTES:
        reason = f"reduced payload of {len(reduced)} bytes is shorter than its header"
        raise CorruptionError(path, offset, reason)
    count: i64 = u32(reduced, 0)
    flags: int = reduced[_FLAGS_AT]
    seq_width: i64 = reduced[_SEQ_WIDTH_AT]
    prefix_length = i64(read_i16_le(reduced, 6)) & 0xFFFF
    keys_length: i64 = u32(reduced, 16)
    # Entries differ in key or number, so each takes a byte at least; and whole keys were in memory.
    if count == 0 or count > length or keys_length + count * prefix_length > MAX_BLOCK_BYTES:
        reason = f"reduced payload of {len(reduced)} bytes cannot hold {count} entries"
        raise CorruptionError(path, offset, reason)
    key_lengths = _REDUCED_HEADER_BYTES + prefix_length
    value_lengths = key_lengths + (0 if flags & _EQUAL_KEYS else _KEY_LENGTH_BYTES * count)
    tags = value_lengths + (0 if flags & _EQUAL_VALUES else _VALUE_LENGTH_BYTES * count)
    seqs = tags + (count if flags & HAS_TAGS else 0)
    keys = seqs + seq_width * count
    values = keys + keys_length
    all_lengths = (_KEY_LENGTH_BYTES + _VALUE_LENGTH_BYTES) * count
    values_length = length - values
    header_left_out = HEADER_BYTES - _REDUCED_HEADER_BYTES
    left_out = header_left_out + count + all_lengths - (tags - key_lengths)
    if values_length < 0 or length + left_out != raw_length:
        reason = f"sections of a reduced payload do not make a payload of {raw_length} bytes"
        raise CorruptionError(path, offset, reason)
    width: i64 = -1
    if flags & _EQUAL_KEYS:
        width = keys_length // count
        if width * count != keys_length or width > MAX_KEY_BYTES:
            reason = f"{count} keys of a reduced payload cannot share {keys_length} bytes equally"
            raise CorruptionError(path, offset, reason)
    value_width = values_length // count
    if flags & _EQUAL_VALUES and value_width * count != values_length:
        reason = f"{count} values of a reduced payload cannot share {values_length} bytes equally"
        raise CorruptionError(path, offset, reason)
    out = BytesWriter()
    out.write(reduced[:_REDUCED_HEADER_BYTES])
    write_i32_le(out, i32(values_length))
    out.write(reduced[_REDUCED_HEADER_BYTES:key_lengths])
    out[_FLAGS_AT] = u8(flags & ~(_EQUAL_KEYS | _EQUAL_VALUES))
    out.write(bytes(count))
    if width >= 0:
        _write_repeated(out, width, _KEY_LENGTH_BYTES, count)
    else:
        out.write(reduced[key_lengths:value_lengths])
    if flags & _EQUAL_VALUES:
        _write_repeated(out, value_width, _VALUE_LENGTH_BYTES, count)
    out.write(reduced[value_lengths:seqs])
    _append_rows(out, reduced, seqs, seq_width, count)
    if width >= 0:
        _append_rows(out, reduced, keys, width, count)
    else:
        out.write(reduced[keys:values])
    return _followed(out.getvalue(), reduced, values)


def _followed(first: bytes, data: bytes, at: i64) -> bytes:
    """``first`` and ``data[at:]``, of which only what is short is copied twice."""
    if i64(len(data)) - at > _MOST_COPIED_BYTES:
        return b"".join([first, memoryview(data)[at:]])
    return first + data[at:]


def _write_repeated(out: BytesWriter, number: i64, width: i64, count: i64) -> None:
    """Append ``number`` in 2 or 4 bytes, ``count`` times; in 4 it is below 2**31."""
    if not COMPILED:
        packed: int = number
        out.write(packed.to_bytes(width, "little") * count)
        return
    while count > 0:
        if width == _KEY_LENGTH_BYTES:
            write_i16_le(out, i16((number ^ 0x8000) - 0x8000))
        else:
            write_i32_le(out, i32(number))
        count -= 1


def _append_columns(out: BytesWriter, data: bytes, at: i64, width: i64, count: i64) -> None:
    """Append the first byte of each of ``count`` rows of ``width`` bytes, then the second of each, ...

    The rows begin in ``data`` at ``at``, which is at least 7.
    """
    if not COMPILED:
        end = at + width * count
        out.write(b"".join([data[column:end:width] for column in range(at, at + width)]))
        return
    for column in range(at, at + width):
        _append_strided(out, data, column, width, count)


def _append_rows(out: BytesWriter, data: bytes, at: i64, width: i64, count: i64) -> None:
    """Undo :func:`_append_columns`: append the rows whose columns begin at ``at``."""
    if not COMPILED:
        end = at + width * count
        out.write(b"".join([data[row:end:count] for row in range(at, at + count)]))
        return
    start = i64(len(out))
    out.write(bytes(width * count))
    for column in range(width):
        to = start + column
        end = at + count
        while at < end:
            out[to] = u8((read_i64_le(data, at - 7) >> 56) & 0xFF)  # the byte at ``at``
            at += 1
            to += width


def _append_strided(out: BytesWriter, data: bytes, at: i64, step: i64, count: i64) -> None:
    """Append ``count`` bytes of ``data``, the first at ``at``, at least 7, and each ``step`` further."""
    length = len(out) + count
    while count > 0:
        word: i64 = 0
        last = at + (min(count, 8) - 1) * step
        while last >= at:
            word = (word << 8) | ((read_i64_le(data, last - 7) >> 56) & 0xFF)
            last -= step
        write_i64_le(out, word)
        at += 8 * step
        count -= 8
    out.truncate(length)  # of the last word too much may have been written
