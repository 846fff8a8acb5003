"""A line of JSON with its checksum."""

from __future__ import annotations

import msgspec
import pytest

from lsmkv.encoding.checked_line import decode_line, encode_line
from lsmkv.errors import CorruptionError, UnsupportedFormatError


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    names: list[str]


class OtherNote(msgspec.Struct, frozen=True):
    format: int
    names: int


def decoded(data: bytes) -> Note:
    return decode_line(data, "NOTE", Note, 1, "note")


def test_it_comes_back() -> None:
    note = Note(1, ["a", "é\n"])
    data = encode_line(note)
    assert decoded(data) == note
    assert data.count(b"\n") == 2


def test_any_other_byte_is_damage() -> None:
    data = encode_line(Note(1, ["a"]))
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(CorruptionError, match=r"NOTE at offset \d+: checksum of a note fails"):
            decoded(changed)


def test_any_other_length_is_damage() -> None:
    data = encode_line(Note(1, ["a"]))
    for other in (*(data[:length] for length in range(len(data))), data + b"\n"):
        with pytest.raises(CorruptionError, match="checksum of a note fails"):
            decoded(other)


def test_a_newer_format_is_not_damage() -> None:
    with pytest.raises(
        UnsupportedFormatError, match="NOTE: note format 2; this release reads format 1"
    ):
        decoded(encode_line(OtherNote(2, 0)))


def test_other_fields_are_damage() -> None:
    with pytest.raises(CorruptionError, match="NOTE at offset 0: bad note: Expected `array`"):
        decoded(encode_line(OtherNote(1, 0)))
