"""Symbols: bytes that stand for strings in the separators of an index.

Long keys repeat themselves: paths have the same folders, identifiers the same words between numbers.
Bytes that occur in no separator are free to stand for what occurs often.  The strings are found as in
FSST (Boncz, Neumann, Leis: "FSST: Fast Random Access String Compression", VLDB 2020).  Each separator can
be read without the others.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from librt.strings import BytesWriter, read_i64_be, read_i64_le
from librt.vecs import vec
from mypy_extensions import i64

_MAP_BYTES: Final = 256  # of each byte the number of its symbol from 1, or 0
_WORD_BYTES: Final = 8  # of a symbol: 7 bytes of its string, then the length of it
_MOST_BYTES: Final = 7
_WORDS: Final = _MAP_BYTES - _WORD_BYTES  # symbols are numbered from 1
_ROUNDS: Final = 3
_SAMPLES: Final = 512  # texts: at least as many, unless that is more than half
_SAMPLE_BYTES: Final = 64  # of each text
_LEAST_BYTES: Final = 512  # fewer are not worth their symbols
# While they are looked for, strings are numbers: their bytes, and their length above.
_STRING_BITS: Final = 56
_ONE_BYTE: Final = 1 << 56  # the length of a string of one byte
_STRING: Final = _ONE_BYTE - 1
_FIRST: Final = 48  # bits after the first of 7 bytes
_COUNTERS: Final = 2048


class Symbols:
    """Symbols for some texts; none where they take more bytes than they save.

    Attributes:
        section: how they are stored.
        coded: the texts, in their order, with symbols for what these stand for.
    """

    def __init__(self, texts: list[bytes]) -> None:
        self.count = 0
        self.section = b""
        self.coded = texts
        joined = b"".join(texts)
        free = bytes([byte for byte in range(256) if byte not in joined])
        if len(joined) < _LEAST_BYTES or not free:
            return
        border, codes = free[:1], free[1:]
        strings = _trained(texts, border, len(codes))
        self.count = len(strings.numbers)
        if not self.count:
            return
        numbers = bytearray(_MAP_BYTES)
        for number, code in enumerate(codes[: self.count]):
            numbers[code] = number + 1
        self.section = bytes(numbers) + b"".join(map(_word, strings.numbers))
        self.coded = _coded(border.join(texts), border, strings, codes).split(border)


class _Strings:
    """Strings in the order of their first bytes, 2 bytes or longer.

    Attributes:
        numbers: the strings; of the same first byte, the longest come first.
        starts: for each byte, where strings that begin with it start.
    """

    def __init__(self, numbers: list[int]) -> None:
        ordered = sorted(sorted(numbers, reverse=True), key=_first_byte)
        self.numbers = vec[i64](ordered)
        starts = [0] * 257
        for number in ordered:
            starts[_first_byte(number) + 1] += 1
        self.starts = vec[i64](list(accumulate(starts)))

    def longest(self, ahead: i64) -> i64:
        """The place of the longest string at the beginning of 7 bytes; -1: none is."""
        first = ahead >> _FIRST
        place, end = self.starts[first], self.starts[first + 1]
        while place < end:
            number = self.numbers[place]
            bits = 8 * (number >> _STRING_BITS)
            if ahead >> (_STRING_BITS - bits) == number & _STRING:
                return place
            place += 1
        return -1


def _first_byte(number: int) -> int:
    length = number >> _STRING_BITS
    return (number & _STRING) >> 8 * (length - 1)


def _word(number: int) -> bytes:
    """A string as stored."""
    length = number >> _STRING_BITS
    return (number & _STRING).to_bytes(length, "big").ljust(_MOST_BYTES, b"\0") + bytes([length])


class _Counters:
    """About how often strings occur.  Of two in one place the frequent one stays."""

    def __init__(self) -> None:
        self.numbers = vec[i64]([0] * _COUNTERS)
        self.counts = vec[i64]([0] * _COUNTERS)

    def add(self, number: i64) -> None:
        mixed = number ^ number >> 11 ^ number >> 22 ^ number >> 45
        place = mixed & (_COUNTERS - 1)
        if self.numbers[place] == number:
            self.counts[place] += 1
        elif self.counts[place] <= 1:
            self.numbers[place] = number
            self.counts[place] = 1

    def best(self, most: int, least: int) -> list[tuple[int, int]]:
        """What strings save, and which.  They save most, at least ``least`` bytes each."""
        found: list[tuple[int, int]] = []
        place: i64 = 0
        while place < _COUNTERS:
            count = self.counts[place]
            if count:
                saved = count * ((self.numbers[place] >> _STRING_BITS) - 1)
                if saved >= least:
                    found.append((saved, self.numbers[place]))
            place += 1
        return sorted(found, reverse=True)[:most]


def _trained(texts: list[bytes], border: bytes, most: int) -> _Strings:
    """At most ``most`` strings; none if they save nothing.

    Each round counts parts of a sample and pairs of neighbours, and takes the best for the next.
    """
    step = max(2, len(texts) // _SAMPLES)
    sample = border.join([text[:_SAMPLE_BYTES] for text in texts[::step]])
    least = -(-2 * _WORD_BYTES // step)  # twice what it takes: a sample promises too much
    strings = _Strings([])
    net = 0
    for last in (*[False] * _ROUNDS, True):
        counters = _Counters()
        _count(sample, border, strings, counters, not last)
        best = counters.best(most, least)
        net = sum([saved * step - _WORD_BYTES for saved, _ in best])
        strings = _Strings([number for _, number in best])
    return strings if net > _MAP_BYTES else _Strings([])


def _count(
    sample: bytes, border: bytes, strings: _Strings, counters: _Counters, with_pairs: bool
) -> None:
    """Count the strings of a sample, and pairs of neighbours."""
    length: i64 = len(sample)
    padded = sample + 8 * border  # no string reaches beyond it
    end = i64(border[0])
    before: i64 = 0
    at: i64 = 0
    while at < length:
        ahead = (read_i64_be(padded, at) >> 8) & _STRING
        place = strings.longest(ahead)
        part = _ONE_BYTE | ahead >> _FIRST if place < 0 else strings.numbers[place]
        size = part >> _STRING_BITS
        at += size
        if ahead >> _FIRST == end:
            before = 0
            continue
        if size > 1:
            counters.add(part)
        pair_size = (before >> _STRING_BITS) + size
        if with_pairs and before and pair_size <= _MOST_BYTES:
            pair = (before & _STRING) << 8 * size | part & _STRING
            counters.add(pair_size << _STRING_BITS | pair)
        before = part


def _coded(text: bytes, border: bytes, strings: _Strings, codes: bytes) -> bytes:
    """A text with codes in place of strings.  None of them has the border."""
    length: i64 = len(text)
    padded = text + 8 * border
    out = BytesWriter()
    at: i64 = 0
    while at < length:
        ahead = (read_i64_be(padded, at) >> 8) & _STRING
        place = strings.longest(ahead)
        if place < 0:
            out.append(padded[at])
            at += 1
        else:
            out.append(codes[place])
            at += strings.numbers[place] >> _STRING_BITS
    return out.getvalue()


def symbols_length(count: i64) -> i64:
    """The bytes that ``count`` symbols take."""
    return _MAP_BYTES + _WORD_BYTES * count if count else 0


def symbols_fit(data: bytes, symbols: i64, end: i64) -> bool:
    """Whether symbols of 2 to 7 bytes each fill ``data[symbols:end]``."""
    count = (end - symbols - _MAP_BYTES) // _WORD_BYTES
    if max(data[symbols : symbols + _MAP_BYTES]) > count or count >= _MAP_BYTES:
        return False
    number: i64 = 1
    while number <= count:
        if not 2 <= i64(data[symbols + _WORDS + _WORD_BYTES * number + _MOST_BYTES]) <= _MOST_BYTES:
            return False
        number += 1
    return True


def decoded(data: bytes, at: i64, end: i64, symbols: i64) -> bytes:
    """What ``data[at:end]`` stands for, by the symbols at ``symbols``; 0 is none."""
    if symbols == 0:
        return data[at:end]
    out = BytesWriter()
    while at < end:
        code = data[at]
        at += 1
        number = i64(data[symbols + code])
        if number == 0:
            out.append(code)
            continue
        place = symbols + _WORDS + _WORD_BYTES * number
        stop = place + i64(data[place + _MOST_BYTES])
        while place < stop:
            out.append(data[place])
            place += 1
    return out.getvalue()


def compare(
    data: bytes, at: i64, end: i64, symbols: i64, key: bytes, shared: i64
) -> tuple[i64, bool]:
    """Compare ``key[shared:]`` with what ``data[at:end]`` stands for.

    Returns where in ``key`` they begin to differ, and whether the key is below.
    """
    key_length = len(key)
    last_word = key_length - 8
    while at < end:
        code = read_i64_le(data, at) & 0xFF
        at += 1
        number: i64 = 0
        if symbols:
            number = read_i64_le(data, symbols + code) & 0xFF
        if number == 0:
            if shared == key_length:
                return shared, True
            byte = i64(key[shared])
            if byte != code:
                return shared, byte < code
            shared += 1
            continue
        place = symbols + _WORDS + _WORD_BYTES * number
        word = read_i64_be(data, place)
        length = word & 0xFF
        if shared <= last_word:
            own = read_i64_be(key, shared)
            differing = word ^ own
            if differing >> (64 - 8 * length) == 0:
                shared += length
                continue
            shift: i64 = 56
            while differing >> shift == 0:
                shift -= 8
                shared += 1
            return shared, (own >> shift) & 0xFF < (word >> shift) & 0xFF
        length += place
        while place < length:
            if shared == key_length or key[shared] < data[place]:
                return shared, True
            if key[shared] > data[place]:
                return shared, False
            shared += 1
            place += 1
    return shared, False
