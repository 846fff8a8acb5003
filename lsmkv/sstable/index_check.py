"""Checks the numbers of an index (:mod:`lsmkv.sstable.index_layout`) when it is loaded."""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_le
from mypy_extensions import i64

from lsmkv.sstable.index_layout import (
    ENTRIES,
    ENTRY_BITS,
    FILTER_BITS,
    FILTER_START,
    FILTER_STEP,
    MAX_BITS,
    MAX_BLOCK_BYTES,
    NUMBER_GROUP,
    NUMBERS_BYTES,
    OFFSET_BITS,
    OFFSET_STEP,
    PADDING,
    PARAMETER,
    PARAMETER_BITS,
    number_at,
    row_bytes,
    u32,
)

_UNFIT: Final = "numbers of the index do not fit their section"
_BROKEN: Final = "numbers of the index do not follow one another"
_NOT_ALL: Final = "entries of the index are not those of the table"


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
            return _UNFIT
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
            return _UNFIT
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
