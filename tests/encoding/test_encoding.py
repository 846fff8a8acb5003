from __future__ import annotations

from array import array
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmkv.encoding.checksums import checksum
from lsmkv.encoding.entries import (
    MAX_KEY_BYTES,
    TAG_DELETE,
    TAG_PUT,
    TAGS_RESERVED,
    key_bytes,
    prefix_successor,
    value_bytes,
)
from lsmkv.encoding.words import common_prefix_length

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


def test_a_subclass_of_bytes_becomes_plain_bytes() -> None:
    class Tagged(bytes):
        pass

    assert type(key_bytes(Tagged(b"k"))) is bytes


def test_a_mutable_buffer_is_copied() -> None:
    buffer = bytearray(b"before")
    data = value_bytes(buffer)
    buffer[:] = b"after!"
    assert data == b"before"


@pytest.mark.parametrize("check", [key_bytes, value_bytes])
def test_str_is_refused_with_a_hint(check: object) -> None:
    assert callable(check)
    with pytest.raises(TypeError, match=r"not str: encode it, for example 'kéy'\.encode\(\)"):
        check("kéy")


@pytest.mark.parametrize("check", [key_bytes, value_bytes])
def test_int_is_refused_with_a_hint(check: object) -> None:
    assert callable(check)
    with pytest.raises(TypeError, match=r"not int: encode it, for example \(7\)\.to_bytes"):
        check(7)


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


@given(st.integers(0, 300), st.integers(0, 300))
def test_common_prefix_length_of_long_strings(shared: int, rest: int) -> None:
    keys = [b"s" * shared + b"a" * rest, b"s" * shared + b"b" * 9]
    assert common_prefix_length(keys) == shared
    assert common_prefix_length([*keys, b"s" * (shared // 2)]) == shared // 2


def test_checksums_depend_on_their_seed() -> None:
    assert checksum(b"data", 1) != checksum(b"data", 2)


def test_checksum_is_xxh3_64() -> None:
    assert checksum(b"", 0) == 0x2D06800538D394C2  # from the reference implementation


def test_reserved_tags_are_not_in_use() -> None:
    assert not {TAG_PUT, TAG_DELETE} & TAGS_RESERVED.keys()
