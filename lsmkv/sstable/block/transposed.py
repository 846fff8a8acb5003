"""A block's payload as it is compressed: without derivable fields, keys by column.

It has the same sections as the payload, in the same order, with these differences::

    header         without values_length, which follows from the whole length; two more flags:
                   bit 6 set when all keys are equally long without the prefix,
                   bit 7 set when all values are equally long
    fingerprints   left out: they follow from the keys
    key_lengths    left out with flag bit 6: each is keys_length / n
    value_lengths  left out with flag bit 7: each is values_length / n
    seqs           by column: the first byte of each, then the second of each, ...
    keys           by column with flag bit 6

Within a column, the bytes of ascending keys mostly repeat, and so do the high bytes of numbers.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64, u8

from lsmkv.encoding.entries import MAX_KEY_BYTES
from lsmkv.encoding.words import COMPILED
from lsmkv.errors import CorruptionError
from lsmkv.sstable.block.layout import (
    EQUAL_KEYS,
    EQUAL_VALUES,
    FLAGS_AT,
    HEADER_BYTES,
    KEY_LENGTH_BYTES,
    MAX_BLOCK_BYTES,
    SEQ_WIDTH_AT,
    TRANSPOSED_HEADER_BYTES,
    VALUE_LENGTH_BYTES,
    common_width,
    section_offsets,
)

_MAX_COPIED_BYTES: Final = 64 * 1024


def transpose(payload: bytes) -> bytes:
    """The transposed form of a payload.  Never longer."""
    count, fingerprints, key_lengths, value_lengths, tags, seqs, keys, values = section_offsets(
        payload, False
    )
    flags: int = payload[FLAGS_AT]
    width = common_width(payload, key_lengths, value_lengths, KEY_LENGTH_BYTES)
    out = BytesWriter()
    out.write(payload[:TRANSPOSED_HEADER_BYTES])
    out.write(payload[HEADER_BYTES:fingerprints])
    if width >= 0:
        flags |= EQUAL_KEYS
    else:
        out.write(payload[key_lengths:value_lengths])
    if common_width(payload, value_lengths, tags, VALUE_LENGTH_BYTES) >= 0:
        flags |= EQUAL_VALUES
    else:
        out.write(payload[value_lengths:tags])
    out[FLAGS_AT] = u8(flags)
    out.write(payload[tags:seqs])
    _append_columns(out, payload, seqs, payload[SEQ_WIDTH_AT], count)
    if width >= 0:
        _append_columns(out, payload, keys, width, count)
    else:
        out.write(payload[keys:values])
    return _with_rest(out.getvalue(), payload, values)


def restore(transposed: bytes, raw_length: int, path: str, offset: int) -> bytes:
    """The payload of ``raw_length`` bytes that was transposed.

    Its fingerprints are zeros.  Raises CorruptionError if the sections cannot make a payload of that
    length; :class:`~lsmkv.sstable.block.block.Block` checks the rest.
    """
    length = i64(len(transposed))
    if length < TRANSPOSED_HEADER_BYTES:
        reason = f"transposed payload of {len(transposed)} bytes is shorter than its header"
        raise CorruptionError(path, offset, reason)
    count, _, key_lengths, value_lengths, tags, seqs, keys, values = section_offsets(
        transposed, True
    )
    keys_length = values - keys
    values_length = length - values
    # Entries differ in key or number, so each takes at least a byte; and whole keys were in memory.
    whole_keys_length = keys_length + count * (key_lengths - TRANSPOSED_HEADER_BYTES)
    if count == 0 or count > length or whole_keys_length > MAX_BLOCK_BYTES:
        reason = f"transposed payload of {len(transposed)} bytes cannot hold {count} entries"
        raise CorruptionError(path, offset, reason)
    lengths_left_out = (KEY_LENGTH_BYTES + VALUE_LENGTH_BYTES) * count - (tags - key_lengths)
    left_out = HEADER_BYTES - TRANSPOSED_HEADER_BYTES + count + lengths_left_out
    if values_length < 0 or length + left_out != raw_length:
        reason = f"sections of a transposed payload do not make a payload of {raw_length} bytes"
        raise CorruptionError(path, offset, reason)
    flags: int = transposed[FLAGS_AT]
    out = BytesWriter()
    out.write(transposed[:TRANSPOSED_HEADER_BYTES])
    write_i32_le(out, i32(values_length))
    out.write(transposed[TRANSPOSED_HEADER_BYTES:key_lengths])
    out[FLAGS_AT] = u8(flags & ~(EQUAL_KEYS | EQUAL_VALUES))
    out.write(bytes(count))
    width: i64 = -1
    if flags & EQUAL_KEYS:
        width = _equal_width(keys_length, count, MAX_KEY_BYTES, "keys", path, offset)
        _write_repeated(out, width, KEY_LENGTH_BYTES, count)
    else:
        out.write(transposed[key_lengths:value_lengths])
    if flags & EQUAL_VALUES:
        value_width = _equal_width(values_length, count, MAX_BLOCK_BYTES, "values", path, offset)
        _write_repeated(out, value_width, VALUE_LENGTH_BYTES, count)
    out.write(transposed[value_lengths:seqs])
    _append_rows(out, transposed, seqs, transposed[SEQ_WIDTH_AT], count)
    if width >= 0:
        _append_rows(out, transposed, keys, width, count)
    else:
        out.write(transposed[keys:values])
    return _with_rest(out.getvalue(), transposed, values)


def _equal_width(total: i64, count: i64, limit: i64, what: str, path: str, offset: int) -> i64:
    """The length of each of ``count`` equal pieces of ``total`` bytes."""
    width = total // count
    if width * count != total or width > limit:
        reason = f"{count} {what} of a transposed payload cannot share {total} bytes equally"
        raise CorruptionError(path, offset, reason)
    return width


def _with_rest(first: bytes, data: bytes, at: i64) -> bytes:
    """``first + data[at:]``; a long rest is copied only once."""
    if i64(len(data)) - at > _MAX_COPIED_BYTES:
        return b"".join([first, memoryview(data)[at:]])
    return first + data[at:]


def _write_repeated(out: BytesWriter, number: i64, width: i64, count: i64) -> None:
    """Append ``number`` in 2 or 4 bytes, ``count`` times."""
    packed: int = number
    out.write(packed.to_bytes(width, "little") * count)


def _append_columns(out: BytesWriter, data: bytes, at: i64, width: i64, count: i64) -> None:
    """Append the first bytes of all rows, then the second bytes, ...

    The ``count`` rows of ``width`` bytes start in ``data`` at ``at``, which is at least 7.
    """
    if not COMPILED:
        end = at + width * count
        out.write(b"".join([data[column:end:width] for column in range(at, at + width)]))
        return
    for column in range(at, at + width):
        _append_strided(out, data, column, width, count)


def _append_rows(out: BytesWriter, data: bytes, at: i64, width: i64, count: i64) -> None:
    """Undo :func:`_append_columns`: append the rows whose columns start at ``at``."""
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
    """Append ``count`` bytes of ``data``, every ``step``-th from ``at`` (7 or more)."""
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
    out.truncate(length)  # the last word may be longer than what was left
