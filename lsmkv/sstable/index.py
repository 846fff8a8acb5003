"""A table's index, searched in place (:mod:`lsmkv.sstable.index_layout`)."""

from __future__ import annotations

from typing import NoReturn

from librt.strings import read_i32_le, read_i64_be, read_i64_le
from librt.vecs import vec
from mypy_extensions import i64

from lsmkv.encoding.fences import MASK_63, fence, first_head, lower_bound
from lsmkv.encoding.words import common_prefix_length
from lsmkv.errors import CorruptionError
from lsmkv.sstable.format import Footer, TableProperties
from lsmkv.sstable.index_check import why_numbers_do_not_fit, why_separators_do_not_fit
from lsmkv.sstable.index_keys import (
    EIGHT_ZEROS,
    digits_code,
    digits_code_below,
    first_bytes,
    front_coded_one,
    lengths,
    uncoded,
    varint,
)
from lsmkv.sstable.index_layout import (
    ALL_BITS,
    ENTRIES,
    FENCE_BYTES,
    FILTER_START,
    HEADER,
    KEY_GROUP,
    KEY_GROUP_BITS,
    LONG,
    MAX_PAIR_BITS,
    NUMBER_GROUP,
    NUMBER_GROUP_BITS,
    NUMBERS,
    NUMBERS_BYTES,
    OF_DIGITS,
    OFFSET_STEP,
    PADDING,
    PARAMETER,
    number_at,
    row_bytes,
    u32,
)
from lsmkv.sstable.index_symbols import compare, symbols_length


class TableIndex:
    """An index section, searched in place.

    Raises CorruptionError if its parts do not fit together, or the table's footer and properties.
    """

    def __init__(self, data: bytes, path: str, footer: Footer, properties: TableProperties) -> None:
        if len(data) < HEADER.size:
            reason = "index is shorter than its header"
            raise CorruptionError(path, footer.index_offset, reason)
        count, prefix_length, chunk_count, keys_length, symbols = HEADER.unpack_from(data)
        # All attributes come before the first call of a method: reading them is cheaper then.
        self.section = data
        self._path = path
        self._offset = footer.index_offset
        self.memory_bytes = len(data)
        self.block_count: i64 = count
        self.prefix_length: i64 = prefix_length
        self.chunk_count: i64 = chunk_count
        self._prefix: bytes = properties.smallest[:prefix_length]
        self._groups: i64 = -(-count // KEY_GROUP)
        number_groups = -(-count // NUMBER_GROUP)
        self._fences: i64 = HEADER.size
        self._key_starts: i64 = self._fences + 8 * self._groups
        self._number_starts: i64 = self._key_starts + 4 * self._groups
        self._chunk_starts: i64 = self._number_starts + 4 * number_groups
        self._chunk_checksums: i64 = self._chunk_starts + 4 * (self.chunk_count + 1)
        self._keys: i64 = self._chunk_checksums + 8 * self.chunk_count
        self._symbols: i64 = self._keys if symbols else 0
        self._keys += symbols_length(symbols)
        self._numbers: i64 = self._keys + keys_length
        least = self._numbers + NUMBERS.size * number_groups + len(PADDING)
        if count == 0 or least > len(data) or data[-len(PADDING) :] != PADDING:
            self._fail(f"index of {len(data)} bytes cannot hold {count} blocks")
        if count != properties.block_count:
            self._fail(f"index of {count} blocks in a table of {properties.block_count}")
        if prefix_length > common_prefix_length([properties.smallest, properties.largest]):
            self._fail(f"keys of a table do not share {prefix_length} bytes")
        totals = footer.data_length, footer.filters_length, properties.entry_count
        if reason := why_numbers_do_not_fit(
            data, self._number_starts, self._numbers, self.block_count, *totals
        ):
            self._fail(reason)
        self._check_chunks()
        if reason := why_separators_do_not_fit(
            data,
            self._fences,
            self._key_starts,
            self._symbols,
            self._keys,
            self._numbers,
            self.block_count,
            properties.largest[prefix_length:],
        ):
            self._fail(reason)

    def _fail(self, reason: str) -> NoReturn:
        raise CorruptionError(self._path, self._offset, reason)

    def _check_chunks(self) -> None:
        before: i64 = 0
        for chunk in range(self.chunk_count + 1):
            start = self.chunk_start(chunk)
            if start < before or (chunk == 0 and start):
                self._fail("filter chunks of the index do not ascend")
            before = start
        if before != self.block_count:
            self._fail("filter chunks of the index do not fit their section")

    # Search

    def find(self, key: bytes) -> i64:
        """The last block whose separator is not above ``key``.

        ``key`` must lie between the table's smallest and largest key.  O(log n).
        """
        data, fences, groups = self.section, self._fences, self._groups
        start, length = self.prefix_length, len(key)
        if start + 8 <= length:  # fence and _group_of, without the cost of calls
            target = (read_i64_be(key, start) >> 1) & MASK_63
        else:
            target = fence(key, start, length)
        group = lower_bound(data, fences, groups, target)
        if group < groups and read_i64_le(data, fences + 8 * group) == target:
            group = self._last_among_equals(key, group, target)
        else:
            group -= 1
        return self._find(key, target, group)

    def find_first(self, key: bytes) -> i64:
        """The first block that may hold a version of ``key``."""
        last = self.find(key)
        if last == 0 or self.separator(last) != key:
            return last
        low: i64 = 1  # the first block with that separator follows the one that is looked for
        while low < last:
            middle = (low + last) >> 1
            if self.separator(middle) < key:
                low = middle + 1
            else:
                last = middle
        return low - 1

    def begins_at(self, block_number: i64, key: bytes) -> bool:
        """Whether ``key`` is a block's separator; False for ``block_count``."""
        return block_number < self.block_count and self.separator(block_number) == key

    def group_of(self, key: bytes) -> i64:
        """The group of separators to search for ``key``."""
        return self._group_of(key, fence(key, self.prefix_length, len(key)))

    def find_in(self, key: bytes, group: i64) -> i64:
        """:meth:`find` for a key whose group is known."""
        return self._find(key, fence(key, self.prefix_length, len(key)), group)

    def prefetch(self, group: i64) -> i64:
        """Fetch what :meth:`find_in` reads of ``group`` into the processor's cache."""
        at = self._group(group)
        return read_i64_le(self.section, at) ^ read_i64_le(self.section, at + 16)

    def _group_of(self, key: bytes, target: i64) -> i64:
        data, fences, groups = self.section, self._fences, self._groups
        group = lower_bound(data, fences, groups, target)
        if group < groups and read_i64_le(data, fences + 8 * group) == target:
            return self._last_among_equals(key, group, target)
        return group - 1

    def _last_among_equals(self, key: bytes, low: i64, target: i64) -> i64:
        """The last group of one fence, from ``low`` on, not above ``key``."""
        data, fences = self.section, self._fences
        high = self._groups
        low -= 1
        while low + 1 < high:
            middle = (low + high) >> 1
            if read_i64_le(data, fences + 8 * middle) == target and not self._is_above(middle, key):
                low = middle
            else:
                high = middle
        return low

    def _is_above(self, group: i64, key: bytes) -> bool:
        """Whether a group's first separator is above ``key``, which has its fence."""
        data = self.section
        at, start = self._group(group), self.prefix_length + FENCE_BYTES
        if read_i64_le(data, at) & 0xFF == 0 and start <= len(key):
            length, at = varint(data, at + 1, self._numbers)
            if length > FENCE_BYTES:  # what the fence holds whole is the same
                end = at + length - FENCE_BYTES
                return compare(data, at, end, self._symbols, key, start)[1]
        return self.separator(KEY_GROUP * group) > key

    def _find(self, key: bytes, target: i64, group: i64) -> i64:
        """The last block of ``group`` whose separator is not above ``key``."""
        data = self.section
        at = self._keys + (i64(read_i32_le(data, self._key_starts + 4 * group)) & 0xFFFF_FFFF)
        head = read_i64_le(data, at)
        width, base = head & 0xFF, (head >> 8) & 0xFF
        number = group << KEY_GROUP_BITS
        count = self.block_count - number
        if count > KEY_GROUP:
            count = KEY_GROUP
        differing = read_i64_le(data, self._fences + 8 * group) ^ target
        if width == 0:
            return number + self._find_front_coded(key, at + 1, count, differing)
        if differing >> (63 - 8 * base):
            return number + count - 1  # above the first separator, and so above the others
        start, key_length = self.prefix_length + base, len(key)
        if start + 8 <= key_length:
            word = read_i64_be(key, start)
        elif start < key_length and key_length >= 8:
            left = 8 * (key_length - start)
            word = (read_i64_be(key, key_length - 8) & (ALL_BITS >> (62 - left))) << (64 - left)
        else:
            word = fence(key, start, key_length) << 1
        if width > OF_DIGITS:
            width -= OF_DIGITS
            mask = ALL_BITS >> (62 - 8 * width)
            if start + 8 > key_length:  # padded as separators are
                word |= i64(EIGHT_ZEROS) >> (8 * max(0, key_length - start))
            code = digits_code(word, width)
            if code < 0:
                code = digits_code_below(key, start, width)
        else:
            mask = ALL_BITS >> (62 - 8 * width)
            code = (word >> (64 - 8 * width)) & mask
        if count < KEY_GROUP:
            return number + first_head(data, at + 2, width, count, width, code + 1) - 1
        # As first_head, without its loop; arithmetic on the sign instead of branches.
        at += width - 6  # the 8 bytes that end with a code
        skipped = ((read_i64_be(data, at + 8 * width) & mask) - code - 1) >> 63 & 8
        at += skipped * width
        number += skipped
        skipped = ((read_i64_be(data, at + 4 * width) & mask) - code - 1) >> 63 & 4
        at += skipped * width
        number += skipped
        skipped = ((read_i64_be(data, at + 2 * width) & mask) - code - 1) >> 63 & 2
        at += skipped * width
        number += skipped
        return number + (((read_i64_be(data, at + width) & mask) - code - 1) >> 63 & 1)

    def _find_front_coded(self, key: bytes, at: i64, count: i64, differing: i64) -> i64:
        """The last of a group's ``count`` separators that is not above ``key``.

        The group stands at ``at``; its first separator is not above it, and its fence has the bits
        ``differing`` from that of the key.  What two neighbours share tells most of the order: few bytes
        are compared.
        """
        data, prefix, end = self.section, self.prefix_length, self._numbers
        symbols = self._symbols
        length, at = varint(data, at, end)
        shared = prefix  # bytes in common with the separator at hand, which is not above the key
        most = min(prefix + min(length, FENCE_BYTES), i64(len(key)))
        shift: i64 = 55
        while shared < most and differing >> shift == 0:
            shared += 1
            shift -= 8
        if length > FENCE_BYTES:
            length -= FENCE_BYTES
            if shared == prefix + FENCE_BYTES:
                shared, _ = compare(data, at, at + length, symbols, key, shared)
            at += length
        base, at = varint(data, at, end)
        base += prefix
        number: i64 = 1
        while number < count:
            both = read_i64_le(data, at) & 0xFF
            at += 1
            kept, length = both >> 4, both & LONG
            if kept == LONG or length == LONG:
                kept, length, at = lengths(data, at, end, both)
            kept += base
            if kept < shared:
                break
            if kept == shared:
                shared, is_below = compare(data, at, at + length, symbols, key, shared)
                if is_below:
                    break
            at += length
            number += 1
        return number - 1

    def _group(self, group: i64) -> i64:
        return self._keys + u32(self.section, self._key_starts + 4 * group)

    def separator(self, block_number: i64) -> bytes:
        """The separator before a block: none of the block's keys is below it.

        All keys of the blocks before it are.  The exception is a key of which both the block and the one
        before have versions: it is the separator itself.
        """
        data, group = self.section, block_number >> KEY_GROUP_BITS
        at, number = self._group(group), block_number & (KEY_GROUP - 1)
        stored = read_i64_le(data, self._fences + 8 * group)
        width = i64(data[at])
        if width == 0:
            end, symbols = self._numbers, self._symbols
            return self._prefix + front_coded_one(data, at + 1, end, number, stored, symbols)
        of_digits = width > OF_DIGITS
        if of_digits:
            width -= OF_DIGITS
        code = at + 2 + number * width
        head = first_bytes(stored)[: data[at + 1]]
        return self._prefix + head + uncoded(data[code : code + width], of_digits)

    # One block

    # A group's five bytes from the parameter on are read as one word.

    def offset(self, block_number: i64) -> int:
        """Where in the file a block starts; of ``block_count``, where the blocks end."""
        data, block, beyond = self.section, block_number, i64(0)
        if block == self.block_count:
            block -= 1
            beyond = 1
        at = self._number_starts + 4 * (block >> NUMBER_GROUP_BITS)
        at = self._numbers + (i64(read_i32_le(data, at)) & 0xFFFF_FFFF)
        number = (block & (NUMBER_GROUP - 1)) + beyond
        start = read_i64_le(data, at)
        start += number * (i64(read_i32_le(data, at + OFFSET_STEP)) & 0xFFFF_FFFF)
        fields = read_i64_le(data, at + PARAMETER)
        bits = (fields >> 32) & 0xFF
        if bits:
            at += NUMBERS_BYTES + row_bytes((fields >> 8) & 0xFF)
            bit = bits * number
            word = read_i64_le(
                data, at + 8 * (((fields >> 16) & 0xFF) + ((fields >> 24) & 0xFF)) + (bit >> 3)
            )
            start += (word >> (bit & 7)) & (ALL_BITS >> (62 - bits))
        return start

    def entry_count(self, block_number: i64) -> int:
        data = self.section
        at = self._number_starts + 4 * (block_number >> NUMBER_GROUP_BITS)
        at = self._numbers + (i64(read_i32_le(data, at)) & 0xFFFF_FFFF)
        count = i64(read_i32_le(data, at + ENTRIES)) & 0xFFFF_FFFF
        fields = read_i64_le(data, at + PARAMETER)
        bits = (fields >> 24) & 0xFF
        if bits:
            row = at + NUMBERS_BYTES + row_bytes((fields >> 8) & 0xFF)
            row += 8 * ((fields >> 16) & 0xFF)
            count += number_at(data, row, bits, block_number & (NUMBER_GROUP - 1))
        return count

    def filter_place(self, block_number: i64) -> tuple[i64, i64, i64]:
        """Where a block's filter is in the filters: start, length; its parameter."""
        data, number = self.section, block_number & (NUMBER_GROUP - 1)
        at = self._number_starts + 4 * (block_number >> NUMBER_GROUP_BITS)
        at = self._numbers + (i64(read_i32_le(data, at)) & 0xFFFF_FFFF)
        line = read_i64_le(data, at + FILTER_START)  # and the step
        length = (line >> 32) & 0xFFFF_FFFF
        start = (line & 0xFFFF_FFFF) + number * length
        fields = read_i64_le(data, at + PARAMETER)
        parameter, bits = fields & 0xFF, (fields >> 8) & 0xFF
        row = at + NUMBERS_BYTES
        if bits:
            bit = bits * number
            mask = ALL_BITS >> (62 - bits)
            word = read_i64_le(data, row + (bit >> 3)) >> (bit & 7)
            above = word & mask
            start += above
            length -= above
            if bits <= MAX_PAIR_BITS:
                length += (word >> bits) & mask
            else:
                length += number_at(data, row, bits, number + 1)
        parameter_bits = (fields >> 16) & 0xFF
        if parameter_bits:
            bit = parameter_bits * number
            word = read_i64_le(data, row + row_bytes(bits) + (bit >> 3))
            parameter += (word >> (bit & 7)) & (ALL_BITS >> (62 - parameter_bits))
        return start, length, parameter

    def filter_start(self, block_number: i64) -> i64:
        """Where in the filters a block's filter starts; of ``block_count``, where the filters end."""
        if block_number < self.block_count:
            return self.filter_place(block_number)[0]
        place = self.filter_place(block_number - 1)
        return place[0] + place[1]

    def filter_shapes(self) -> set[tuple[int, int]]:
        """The distinct lengths of filters, with their parameters."""
        shapes: set[tuple[int, int]] = set()
        noted = vec[i64]([-1] * 256)  # shapes already in the set, which is slower to ask
        number: i64 = 0
        while number < self.block_count:
            place = self.filter_place(number)
            shape = place[1] << 8 | place[2]
            slot = (place[1] * 31 + place[2]) & 0xFF
            if noted[slot] != shape:
                noted[slot] = shape
                shapes.add((place[1], place[2]))
            number += 1
        return shapes

    # Filter chunks

    def chunk_of(self, block_number: i64) -> i64:
        """The chunk that holds a block's filter.  O(log chunk_count)."""
        low: i64 = 0
        high: i64 = self.chunk_count - 1
        while low < high:
            middle = (low + high + 1) >> 1
            if self.chunk_start(middle) <= block_number:
                low = middle
            else:
                high = middle - 1
        return low

    def chunk_start(self, chunk: i64) -> i64:
        """The first block whose filter is in ``chunk``; for ``chunk_count``, ``block_count``."""
        return u32(self.section, self._chunk_starts + 4 * chunk)

    def chunk_span(self, chunk: i64) -> tuple[i64, i64]:
        first, stop = self.chunk_start(chunk), self.chunk_start(chunk + 1)
        return self.filter_start(first), self.filter_start(stop)

    def chunk_checksum(self, chunk: i64) -> int:
        at = self._chunk_checksums + 8 * chunk
        return int.from_bytes(self.section[at : at + 8], "little")  # unsigned 64 bits
