"""Checks the parts of an index (:mod:`lsmkv.sstable.index_layout`) when it is loaded."""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_be, read_i64_le
from mypy_extensions import i64

from lsmkv.encoding.entries import MAX_KEY_BYTES
from lsmkv.encoding.fences import fence
from lsmkv.sstable.index_keys import UNFIT, first_bytes, front_coded, uncoded
from lsmkv.sstable.index_layout import (
    ALL_BITS,
    ENTRIES,
    ENTRY_BITS,
    FENCE_BYTES,
    FILTER_BITS,
    FILTER_START,
    FILTER_STEP,
    KEY_GROUP,
    MAX_BITS,
    MAX_BLOCK_BYTES,
    MAX_CODE,
    MAX_DIGITS,
    NUMBER_GROUP,
    NUMBERS_BYTES,
    OF_DIGITS,
    OFFSET_BITS,
    OFFSET_STEP,
    PADDING,
    PARAMETER,
    PARAMETER_BITS,
    number_at,
    row_bytes,
    u32,
)
from lsmkv.sstable.index_symbols import symbols_fit

_NUMBERS_UNFIT: Final = "numbers of the index do not fit their section"
_BROKEN: Final = "numbers of the index do not follow one another"
_DESCENDING: Final = "separators of the index do not ascend"
_NOT_ALL: Final = "entries of the index are not those of the table"


def why_separators_do_not_fit(
    data: bytes,
    fences: i64,
    starts: i64,
    symbols: i64,
    keys: i64,
    end: i64,
    block_count: i64,
    largest: bytes,
) -> str:
    """Why the groups of separators are not a table's, or "".

    The section ``data`` has their fences, where they start, their symbols unless ``symbols`` is 0, and
    them from ``keys`` to ``end``.  They must ascend from an empty one up to ``largest``.  O(blocks).
    """
    try:
        if symbols and not symbols_fit(data, symbols, keys):
            return "symbols of the index are not strings of 2 to 7 bytes"
        at = keys
        before = b""
        group: i64 = 0
        while group * KEY_GROUP < block_count:
            if keys + u32(data, starts + 4 * group) != at or at >= end:
                return UNFIT
            count = min(block_count - KEY_GROUP * group, i64(KEY_GROUP))
            stored: int = read_i64_le(data, fences + 8 * group)
            if data[at]:
                found, at = _outer_codes(data, at, end, count, stored)
            else:
                found, at = front_coded(data, at + 1, end, count, stored, symbols)
            if stored != fence(found[0], 0, len(found[0])):
                return "fences of the index are not those of its separators"
            if group == 0 and found[0]:
                return "first separator of the index is not empty"
            for each in found:
                if each < before or len(each) > MAX_KEY_BYTES:
                    return _DESCENDING
                before = each
            group += 1
        if at != end or before > largest:
            return "separators of the index do not fill their section, or end above its keys"
        return ""
    except ValueError as error:
        return str(error)


def _outer_codes(
    data: bytes, at: i64, end: i64, count: i64, stored: int
) -> tuple[list[bytes], i64]:
    """The outermost separators of a group with codes, and its end."""
    kind, base = i64(data[at]), i64(data[at + 1])
    of_digits = kind > OF_DIGITS
    width = kind - OF_DIGITS if of_digits else kind
    codes = at + 2
    stop = codes + count * width
    most = MAX_DIGITS // 2 if of_digits else MAX_CODE
    if stop > end or not 0 < width <= most or base > FENCE_BYTES or stored < 0:
        raise ValueError(UNFIT)
    mask = ALL_BITS >> (62 - 8 * width)
    before: i64 = 0
    place = codes + width - 8  # the 8 bytes that end with a code
    while place + 8 <= stop:
        code = read_i64_be(data, place) & mask
        if code < before:
            raise ValueError(_DESCENDING)
        before = code
        place += width
    head = first_bytes(stored)[:base]
    outer = data[codes : codes + width], data[stop - width : stop]
    return [head + uncoded(code, of_digits) for code in outer], stop


def why_numbers_do_not_fit(
    data: bytes,
    starts: i64,
    numbers: i64,
    block_count: i64,
    data_length: i64,
    filters_length: i64,
    entry_count: i64,
) -> str:
    """Why the groups of numbers are not a table's, or "".

    ``starts`` is where the section ``data`` has their starts, ``numbers`` where they begin.  Blocks and
    filters must ascend to the end of their sections.  O(blocks).
    """
    at = numbers
    end = len(data) - len(PADDING)
    offset: i64 = 0
    filter_end: i64 = 0
    entries_left = entry_count
    start: i64 = 0
    while start < block_count:
        blocks = min(block_count - start, i64(NUMBER_GROUP))
        if numbers + u32(data, starts) != at or at + NUMBERS_BYTES > end:
            return _NUMBERS_UNFIT
        starts += 4
        filter_bits, parameter_bits = i64(data[at + FILTER_BITS]), i64(data[at + PARAMETER_BITS])
        entry_bits, offset_bits = i64(data[at + ENTRY_BITS]), i64(data[at + OFFSET_BITS])
        filters = at + NUMBERS_BYTES
        parameters = filters + row_bytes(filter_bits)
        entries = parameters + 8 * parameter_bits
        offsets = entries + 8 * entry_bits
        following = offsets + row_bytes(offset_bits)
        if max(filter_bits, offset_bits) > MAX_BITS or parameter_bits > 8 or entry_bits > 32:
            return "a number of the index has too many bits"
        if following > end:
            return _NUMBERS_UNFIT
        if read_i64_le(data, at) != offset or u32(data, at + FILTER_START) != filter_end:
            return _BROKEN
        first, filter_first = offset, filter_end
        step, filter_step = u32(data, at + OFFSET_STEP), u32(data, at + FILTER_STEP)
        least, parameter = u32(data, at + ENTRIES), i64(data[at + PARAMETER])
        number: i64 = 0
        while number <= blocks:
            before, filter_before = offset, filter_end
            offset = first + number * step + number_at(data, offsets, offset_bits, number)
            filter_end = filter_first + number * filter_step
            filter_end += number_at(data, filters, filter_bits, number)
            if offset < before or offset - before > MAX_BLOCK_BYTES or offset > data_length:
                return "blocks of the index do not fit their section"
            if filter_end < filter_before or filter_end > filters_length:
                return "filters of the index do not fit their section"
            if number == 0 and (offset != before or filter_end != filter_before):
                return _BROKEN
            if number < blocks:
                block_entries = least + number_at(data, entries, entry_bits, number)
                if block_entries == 0 or block_entries > entries_left:
                    return _NOT_ALL
                entries_left -= block_entries
                if parameter + number_at(data, parameters, parameter_bits, number) > 0xFF:
                    return "parameter of a filter is out of range"
            number += 1
        start += blocks
        at = following
    if entries_left:
        return _NOT_ALL
    if at != end or offset != data_length or (filter_end and filter_end != filters_length):
        return "blocks or filters of the index do not fill their section"
    return ""
