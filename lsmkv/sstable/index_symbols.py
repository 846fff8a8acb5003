"""Symbols: bytes that stand for strings in the separators of an index.

Long keys repeat themselves: paths have the same folders, identifiers the same words between numbers.
Bytes that occur in no separator are free to stand for what occurs often.  The strings are found as in
FSST (Boncz, Neumann, Leis: "FSST: Fast Random Access String Compression", VLDB 2020).  Each separator can
be read without the others.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i64_be, read_i64_le
from mypy_extensions import i64

_MAP_BYTES: Final = 256  # of each byte the number of its symbol from 1, or 0
_WORD_BYTES: Final = 8  # of a symbol: 7 bytes of its string, then the length of it
_MOST_BYTES: Final = 7
_WORDS: Final = _MAP_BYTES - _WORD_BYTES  # symbols are numbered from 1
_ROUNDS: Final = 4
_SAMPLES: Final = 512  # texts: at least as many, unless that is more than half
_SAMPLE_BYTES: Final = 64  # of each text
_LEAST_BYTES: Final = 512  # fewer are not worth their symbols


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
        free = bytes(sorted(set(range(256)) - set(joined)))
        if len(joined) < _LEAST_BYTES or not free:
            return
        border, codes = free[:1], free[1:]
        strings = _strings(texts, border, codes)
        if not strings:
            return
        self.count = len(strings)
        numbers = bytearray(_MAP_BYTES)
        for number, code in enumerate(codes[: self.count]):
            numbers[code] = number + 1
        words = [text.ljust(_MOST_BYTES, b"\0") + bytes([len(text)]) for text in strings]
        self.section = bytes(numbers) + b"".join(words)
        self.coded = _replaced(border.join(texts), strings, codes).split(border)


def _strings(texts: list[bytes], border: bytes, codes: bytes) -> list[bytes]:
    """The strings to stand for, the longest first; none if they save nothing.

    Each round counts parts of the texts and pairs of neighbours, and takes the best for the next.
    """
    step = max(2, len(texts) // _SAMPLES)
    sample = border.join([text[:_SAMPLE_BYTES] for text in texts[::step]])
    chosen: list[bytes] = []
    net = 0
    for last in (*[False] * _ROUNDS, True):
        parts = [bytes([byte]) for byte in range(256)]
        for code, text in zip(codes, chosen, strict=False):
            parts[code] = text
        counts: dict[bytes, int] = {}
        before = b""
        for code in _replaced(sample, chosen, codes):
            part = parts[code]
            if part == border:
                before = b""
                continue
            if len(part) > 1:
                counts[part] = counts.get(part, 0) + 1
            if before and not last and len(before) + len(part) <= _MOST_BYTES:
                pair = before + part
                counts[pair] = counts.get(pair, 0) + 1
            before = part
        found = list(counts)
        # Integers of what a string saves and its place sort faster than pairs of them.
        best = sorted(
            [(counts[text] * (len(text) - 1) << 20) + at for at, text in enumerate(found)],
            reverse=True,
        )
        least = -(-2 * _WORD_BYTES // step)  # twice what it takes: a sample promises too much
        best = [each for each in best[: len(codes)] if each >> 20 >= least]
        net = sum([(each >> 20) * step - _WORD_BYTES for each in best])
        chosen = sorted([found[each & 0xF_FFFF] for each in best], key=len, reverse=True)
    return chosen if net > _MAP_BYTES else []


def _replaced(text: bytes, strings: list[bytes], codes: bytes) -> bytes:
    """A text with codes in place of strings."""
    for at, string in enumerate(strings):
        text = text.replace(string, codes[at : at + 1])
    return text


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
