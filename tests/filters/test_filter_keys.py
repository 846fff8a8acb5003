"""The part of a key that a filter holds."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmkv.filters.keys import (
    DelimitedPrefix,
    FilterKey,
    FixedPrefix,
    WholeKey,
    filter_key_from_spec,
)

# Two letters, so that delimiters overlap themselves and straddle ends often.
letters = st.lists(st.sampled_from([b"a", b"b"]), max_size=12).map(b"".join)
delimiters = st.lists(st.sampled_from([b"a", b"b"]), min_size=1, max_size=4).map(b"".join)
small_filter_keys: st.SearchStrategy[FilterKey] = st.one_of(
    st.just(WholeKey()),
    st.builds(FixedPrefix, st.integers(1, 12)),
    st.builds(DelimitedPrefix, delimiters, st.integers(1, 4)),
)
all_filter_keys: st.SearchStrategy[FilterKey] = st.one_of(
    st.just(WholeKey()),
    st.builds(FixedPrefix, st.integers(1, 65_535)),
    st.builds(DelimitedPrefix, st.binary(min_size=1, max_size=255), st.integers(1, 255)),
)


# --- laws of all of them ---


@given(small_filter_keys, letters, letters)
def test_every_key_with_a_prefix_has_the_part_of_that_prefix(
    filter_key: FilterKey, prefix: bytes, suffix: bytes
) -> None:
    shared = filter_key.part_of_prefix(prefix)
    if shared is not None:
        assert filter_key.part(prefix + suffix) == shared


@given(small_filter_keys, letters)
def test_a_prefix_without_a_part_has_keys_that_differ_in_it(
    filter_key: FilterKey, prefix: bytes
) -> None:
    if filter_key.part_of_prefix(prefix) is None:
        assert filter_key.part(prefix) != filter_key.part(prefix + b"a")


@given(small_filter_keys, letters)
def test_the_part_is_a_prefix_of_the_key(filter_key: FilterKey, key: bytes) -> None:
    assert key.startswith(filter_key.part(key))


@given(small_filter_keys, letters)
def test_the_part_of_a_part_is_itself(filter_key: FilterKey, key: bytes) -> None:
    part = filter_key.part(key)
    assert filter_key.part(part) == part


@given(all_filter_keys)
def test_a_spec_gives_back_the_filter_key(filter_key: FilterKey) -> None:
    assert filter_key_from_spec(filter_key.to_spec()) == filter_key


@given(all_filter_keys)
def test_a_spec_needs_no_escapes_in_json(filter_key: FilterKey) -> None:
    spec = filter_key.to_spec()
    assert json.dumps(spec) == f'"{spec}"'


@pytest.mark.parametrize("filter_key", [WholeKey(), FixedPrefix(8), DelimitedPrefix(b"/")])
def test_filter_keys_are_frozen_and_hashable(filter_key: FilterKey) -> None:
    assert isinstance(filter_key, FilterKey)
    assert len({filter_key, filter_key_from_spec(filter_key.to_spec())}) == 1
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
        filter_key.length_bytes = 9  # type: ignore[attr-defined]  # the point of the test


# --- whole keys ---


def test_the_whole_key_is_its_own_part() -> None:
    assert WholeKey().part(b"key") == b"key"


def test_no_prefix_determines_a_whole_key() -> None:
    assert WholeKey().part_of_prefix(b"key") is None


def test_only_whole_keys_are_whole() -> None:
    assert WholeKey().is_whole
    assert not FixedPrefix(8).is_whole
    assert not DelimitedPrefix(b"/").is_whole


# --- fixed prefixes ---


def test_a_fixed_prefix_cuts_longer_keys() -> None:
    assert FixedPrefix(3).part(b"abcdef") == b"abc"


@pytest.mark.parametrize("key", [b"", b"ab", b"abc"])
def test_a_key_no_longer_than_the_fixed_prefix_is_held_whole(key: bytes) -> None:
    assert FixedPrefix(3).part(key) == key


def test_a_prefix_of_the_fixed_length_determines_the_part() -> None:
    assert FixedPrefix(3).part_of_prefix(b"abc") == b"abc"
    assert FixedPrefix(3).part_of_prefix(b"abcd") == b"abc"


def test_a_prefix_shorter_than_the_fixed_length_determines_nothing() -> None:
    assert FixedPrefix(3).part_of_prefix(b"ab") is None


@pytest.mark.parametrize("length_bytes", [0, -1, 65_536])
def test_a_length_out_of_range_is_refused(length_bytes: int) -> None:
    with pytest.raises(ValueError, match=f"length_bytes={length_bytes}: must lie between 1"):
        FixedPrefix(length_bytes)


@pytest.mark.parametrize("length_bytes", [True, 8.0, "8", None])
def test_a_length_that_is_no_int_is_refused(length_bytes: object) -> None:
    with pytest.raises(TypeError, match=r"length_bytes=.*: must be an int"):
        FixedPrefix(length_bytes)  # type: ignore[arg-type]  # the point of the test


# --- delimited prefixes ---


def test_a_delimited_prefix_ends_with_its_delimiter() -> None:
    assert DelimitedPrefix(b"/").part(b"home/ann/notes") == b"home/"


def test_a_delimited_prefix_counts_delimiters() -> None:
    assert DelimitedPrefix(b"/", 2).part(b"home/ann/notes") == b"home/ann/"


def test_a_key_with_too_few_delimiters_is_held_whole() -> None:
    assert DelimitedPrefix(b"/", 3).part(b"home/ann/notes") == b"home/ann/notes"


def test_delimiters_do_not_overlap() -> None:
    assert DelimitedPrefix(b"aa", 2).part(b"aaaaaa") == b"aaaa"
    assert DelimitedPrefix(b"aa", 2).part(b"aaa") == b"aaa"


def test_a_prefix_that_holds_the_delimiters_determines_the_part() -> None:
    assert DelimitedPrefix(b"::", 2).part_of_prefix(b"a::b::c") == b"a::b::"
    assert DelimitedPrefix(b"::", 2).part_of_prefix(b"a::b::") == b"a::b::"


def test_a_prefix_that_ends_inside_a_delimiter_determines_nothing() -> None:
    assert DelimitedPrefix(b"::").part_of_prefix(b"a:") is None


@pytest.mark.parametrize("delimiter", [b"", b"x" * 256])
def test_a_delimiter_of_a_wrong_length_is_refused(delimiter: bytes) -> None:
    with pytest.raises(ValueError, match=f"delimiter of {len(delimiter)} bytes: must have 1 to"):
        DelimitedPrefix(delimiter)


@pytest.mark.parametrize("delimiter", ["/", bytearray(b"/"), 47])
def test_a_delimiter_that_is_no_bytes_is_refused(delimiter: object) -> None:
    with pytest.raises(TypeError, match=r"delimiter=.*: must be bytes"):
        DelimitedPrefix(delimiter)  # type: ignore[arg-type]  # the point of the test


@pytest.mark.parametrize("count", [0, 256])
def test_a_delimiter_count_out_of_range_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"count={count}: must lie between 1 and 255"):
        DelimitedPrefix(b"/", count)


# --- specs ---


@pytest.mark.parametrize(
    ("filter_key", "spec"),
    [
        (WholeKey(), "whole"),
        (FixedPrefix(8), "fixed:8"),
        (DelimitedPrefix(b"/"), "delimited:2f:1"),
        (DelimitedPrefix(b"::", 2), "delimited:3a3a:2"),
    ],
)
def test_specs_stay_as_they_are_on_disk(filter_key: FilterKey, spec: str) -> None:
    assert filter_key.to_spec() == spec


@pytest.mark.parametrize(
    "spec",
    [
        *("", "Whole", "whole:", "whole ", "fixed", "fixed:", "fixed:0", "fixed:65536"),
        *("fixed:08", "fixed:+8", "fixed: 8", "fixed:1_0", "fixed:8.0", "fixed:8:1", "fixed:-1"),
        *("fixed:٨", "fixed:" + "9" * 5000, "delimited:2f", "delimited::1", "delimited:2F:1"),
        *("delimited:2f:0", "delimited:2f:256", "delimited:2 f:1", "delimited:2:1"),
        *("delimited:" + "00" * 256 + ":1", "delimited:zz:1", "delimited:2f:1:1", "prefix:8"),
    ],
)
def test_any_other_spec_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match="filter key "):
        filter_key_from_spec(spec)
