"""Keys and values as bytes, byte ranges compared in place, and a line of JSON with its checksum."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from lsmkv.encoding.checked_line import decode_line, encode_line
from lsmkv.encoding.checksums import checksum
from lsmkv.encoding.entries import MAX_KEY_BYTES, key_bytes, prefix_successor, value_bytes
from lsmkv.encoding.words import append_range, common_prefix_length, compare, find_byte, is_same
from lsmkv.errors import CorruptionError, UnsupportedFormatError

few_bytes = st.binary(max_size=4) | st.lists(st.sampled_from([0, 0xFE, 0xFF]), max_size=5).map(
    bytes
)


def test_bytes_pass_through_as_the_same_object() -> None:
    data = b"some bytes"
    assert key_bytes(data) is data
    assert value_bytes(data) is data


@pytest.mark.parametrize(
    "buffer",
    [bytearray(b"abcd"), memoryview(b"abcd"), array("B", b"abcd"), memoryview(b"a-b-c-d")[::2]],
    ids=["bytearray", "memoryview", "array", "strided"],
)
def test_bytes_like_objects_become_bytes(buffer: object) -> None:
    assert key_bytes(buffer) == b"abcd"
    assert type(value_bytes(buffer)) is bytes


def test_a_mutable_buffer_is_copied() -> None:
    buffer = bytearray(b"before")
    data = value_bytes(buffer)
    buffer[:] = b"after!"
    assert data == b"before"


@pytest.mark.parametrize("check", [key_bytes, value_bytes])
@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ("kéy", r"not str: encode it, for example 'kéy'\.encode\(\)"),
        (7, r"not int: encode it, for example \(7\)\.to_bytes"),
    ],
)
def test_str_and_int_are_refused_with_a_hint(
    check: Callable[[object], bytes], wrong: object, hint: str
) -> None:
    with pytest.raises(TypeError, match=hint):
        check(wrong)


@pytest.mark.parametrize("wrong", [None, 1.5, [1], range(2), ("a", 1)], ids=repr)
def test_the_error_for_an_object_without_a_buffer_names_its_type(wrong: object) -> None:
    with pytest.raises(TypeError, match=f"another bytes-like object, not {type(wrong).__name__}; "):
        key_bytes(wrong)


@pytest.mark.parametrize(
    ("check", "wrong", "remedy"),
    [
        (key_bytes, slice(b"a", b"b"), r"a range is db\.items\(start=\.\.\., stop=\.\.\.\)"),
        (key_bytes, [b"a"], r"for several keys: db\.multi_get\(keys\)"),
        (value_bytes, None, r"to remove a key: delete\(key\)"),
        (value_bytes, {"a": 1}, r"lsmkv\.typed has codecs for other types"),
        (key_bytes, ("a", 1), r"lsmkv\.typed has codecs for other types"),
    ],
    ids=["slice", "list of keys", "None for a value", "object", "tuple"],
)
def test_the_error_says_what_to_do_instead(
    check: Callable[[object], bytes], wrong: object, remedy: str
) -> None:
    with pytest.raises(TypeError, match=f"{type(wrong).__name__}; {remedy}$") as caught:
        check(wrong)
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_the_longest_key_passes_and_one_byte_more_does_not() -> None:
    assert len(key_bytes(bytes(MAX_KEY_BYTES))) == 65_535
    with pytest.raises(ValueError, match="65536 bytes is over the limit of 65535"):
        key_bytes(bytes(MAX_KEY_BYTES + 1))


def test_a_long_str_is_not_quoted_in_full() -> None:
    with pytest.raises(TypeError) as caught:
        key_bytes("x" * 10_000)
    assert len(str(caught.value)) < 200


@given(few_bytes, few_bytes)
def test_prefix_successor_is_the_end_of_the_prefix(prefix: bytes, key: bytes) -> None:
    end = prefix_successor(prefix)
    assert (key >= prefix and (end is None or key < end)) == key.startswith(prefix)


@given(few_bytes, few_bytes)
def test_common_prefix_length_is_that_of_a_plain_loop(a: bytes, b: bytes) -> None:
    expected = 0
    while expected < min(len(a), len(b)) and a[expected] == b[expected]:
        expected += 1
    assert common_prefix_length([a, b]) == expected


def test_checksum_is_xxh3_64() -> None:
    assert checksum(b"", 0) == 0x2D06800538D394C2  # from the reference implementation


# Few different bytes, so that ranges often share a prefix; some have the high bit.
_BYTES = st.lists(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]), max_size=40).map(bytes)


@st.composite
def _stretches(draw: st.DrawFn) -> tuple[bytes, int, int]:
    data = draw(_BYTES)
    start = draw(st.integers(0, len(data)))
    return data, start, draw(st.integers(start, len(data)))


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


@given(_stretches(), _stretches())
@example((b"\xff" * 8, 0, 8), (b"\x01" * 8, 0, 8))
@example((b"\x00" * 9, 1, 9), (b"\x00" * 8, 0, 7))
def test_compare_orders_as_slices_do(a: tuple[bytes, int, int], b: tuple[bytes, int, int]) -> None:
    left, right = a[0][a[1] : a[2]], b[0][b[1] : b[2]]
    assert _sign(compare(*a, *b)) == (left > right) - (left < right)


@given(_BYTES, _BYTES, _BYTES, _BYTES)
def test_compare_finds_what_is_the_same_in_different_places(
    before: bytes, same: bytes, elsewhere: bytes, after: bytes
) -> None:
    a, b = before + same + after, elsewhere + same
    assert compare(a, len(before), len(before) + len(same), b, len(elsewhere), len(b)) == 0


@given(_stretches(), _BYTES, st.integers(0, 40))
def test_is_same_agrees_with_slices(a: tuple[bytes, int, int], b: bytes, b_at: int) -> None:
    data, start, stop = a
    length = min(stop - start, max(0, len(b) - b_at))
    b_at = min(b_at, len(b))
    expected = data[start : start + length] == b[b_at : b_at + length]
    assert is_same(data, start, b, b_at, length) == expected


@given(_stretches(), st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
@example((bytes(7) + b"\x80" + bytes(16), 0, 24), 0x80)
@example((b"\x01" * 15 + b"\x00\x01", 0, 17), 0)
def test_find_byte_finds_what_bytes_find_does(a: tuple[bytes, int, int], byte: int) -> None:
    data, start, end = a
    assert find_byte(data, byte, start, end) == data.find(byte, start, end)


@given(_BYTES, _stretches())
@example(b"", (b"\x01\x02\x03", 1, 3))
@example(b"", (bytes(range(20)), 0, 17))
def test_append_range_appends_what_a_slice_holds(
    before: bytes, stretch: tuple[bytes, int, int]
) -> None:
    data, start, end = stretch
    out = BytesWriter()
    out.write(before)
    append_range(out, data, start, end)
    assert out.getvalue() == before + data[start:end]


def test_one_higher_byte_is_seen_at_every_length_and_place() -> None:
    for length in range(1, 25):
        for at in (0, 1, 8):
            low = bytes(at) + bytes(length) + b"\xff" * 3
            for place in range(length):
                high = bytearray(low)
                high[at + place] = 1
                assert not is_same(low, at, bytes(high), at, length)
                assert compare(low, at, at + length, bytes(high), at, at + length) < 0
                assert compare(bytes(high), at, at + length, low, at, at + length) > 0


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
