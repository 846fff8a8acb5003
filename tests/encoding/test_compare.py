"""Byte ranges compared in place give the results of comparing slices."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from lsmkv.encoding.words import append_range, compare, find_byte, is_same

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


@given(_BYTES, _BYTES, st.integers(0, 40))
def test_is_same_finds_one_different_byte(before: bytes, data: bytes, place: int) -> None:
    if data:
        place %= len(data)
        other = bytearray(data)
        other[place] ^= 0x80
        assert is_same(before + data, len(before), data, 0, len(data))
        assert not is_same(before + data, len(before), bytes(other), 0, len(data))


@given(_stretches(), st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
@example((bytes(7) + b"\x80" + bytes(16), 0, 24), 0x80)
@example((b"\x01" * 15 + b"\x00\x01", 0, 17), 0)
def test_find_byte_finds_what_bytes_find_does(a: tuple[bytes, int, int], byte: int) -> None:
    data, start, end = a
    assert find_byte(data, byte, start, end) == data.find(byte, start, end)


@given(st.binary(min_size=1, max_size=60), st.data())
def test_find_byte_finds_every_byte_there_is(data: bytes, draw: st.DataObject) -> None:
    byte = draw.draw(st.sampled_from(sorted(set(data))))
    assert find_byte(data, byte, 0, len(data)) == data.find(byte)


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
