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
_WORDS: Final = _MAP_BYTES - _WORD_BYTES  # where the word of symbol 1 would have one before it
_ROUNDS: Final = 3
_SAMPLES: Final = 256  # at most, and of every fourth text
_SAMPLE_BYTES: Final = 64  # of each text
_LEAST_BYTES: Final = 512  # fewer are not worth their symbols


class Symbols:
    """Symbols for some texts; none where they take more bytes than they save."""

    def __init__(self, texts: list[bytes]) -> None:
        self._by_start: dict[bytes, list[bytes]] = {}
        self._codes: dict[bytes, bytes] = {}
        self.count = 0
        self.section = b""
        joined = b"".join(texts)
        if len(joined) < _LEAST_BYTES:
            return
        used = set(joined)
        free = [byte for byte in range(256) if byte not in used]
        strings = _strings(texts, len(free))
        if not strings:
            return
        self._by_start = _by_start(strings)
        self._codes = {text: bytes([code]) for code, text in zip(free, strings, strict=False)}
        numbers = bytearray(_MAP_BYTES)
        for number, code in enumerate(free[: len(strings)]):
            numbers[code] = number + 1
        words = [text.ljust(_MOST_BYTES, b"\0") + bytes([len(text)]) for text in strings]
        self.count = len(strings)
        self.section = bytes(numbers) + b"".join(words)

    def coded(self, text: bytes) -> bytes:
        """``text`` with symbols for what they stand for."""
        if not self._by_start:
            return text
        return b"".join([self._codes.get(part, part) for part in _parts(text, self._by_start)])


def _strings(texts: list[bytes], most: int) -> list[bytes]:
    """At most ``most`` strings, which save more bytes than they take; or none.

    Each round counts parts of the texts and pairs of neighbours, and takes the best for the next.
    """
    sample = [text[:_SAMPLE_BYTES] for text in texts[:: max(4, len(texts) // _SAMPLES)]]
    weight = len(texts) / len(sample)
    chosen: list[bytes] = []
    net = 0.0
    for last in (*[False] * _ROUNDS, True):
        by_start = _by_start(chosen)
        counts: dict[bytes, int] = {}
        for text in sample:
            before = b""
            for part in _parts(text, by_start):
                counts[part] = counts.get(part, 0) + 1
                if before and not last and len(before) + len(part) <= _MOST_BYTES:
                    pair = before + part
                    counts[pair] = counts.get(pair, 0) + 1
                before = part
        saved = [
            (count * (len(text) - 1) * weight - _WORD_BYTES, text)
            for text, count in counts.items()
            if count > 1
        ]
        best = sorted([each for each in saved if each[0] > 0], reverse=True)[:most]
        chosen = [text for _, text in best]
        net = sum([bytes_saved for bytes_saved, _ in best])
    return chosen if net > _MAP_BYTES else []


def _by_start(strings: list[bytes]) -> dict[bytes, list[bytes]]:
    """Strings by their first two bytes, the longest first."""
    found: dict[bytes, list[bytes]] = {}
    for text in sorted(strings, key=len, reverse=True):
        found.setdefault(text[:2], []).append(text)
    return found


def _parts(text: bytes, by_start: dict[bytes, list[bytes]]) -> list[bytes]:
    """A text cut into the longest of the strings, and single bytes."""
    parts = []
    at = 0
    while at < len(text):
        part = text[at : at + 1]
        for string in by_start.get(text[at : at + 2], ()):
            if text.startswith(string, at):
                part = string
                break
        parts.append(part)
        at += len(part)
    return parts


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
