"""The part of a key that a filter holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

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


SLASH = DelimitedPrefix(b"/")


@pytest.mark.parametrize(
    ("filter_key", "key", "part"),
    [
        (WholeKey(), b"key", b"key"),
        (FixedPrefix(3), b"abcdef", b"abc"),
        *((FixedPrefix(3), key, key) for key in (b"", b"ab", b"abc")),
        (SLASH, b"home/ann/notes", b"home/"),
        (DelimitedPrefix(b"/", 2), b"home/ann/notes", b"home/ann/"),
        (DelimitedPrefix(b"/", 3), b"home/ann/notes", b"home/ann/notes"),  # has too few
        (DelimitedPrefix(b"aa", 2), b"aaaaaa", b"aaaa"),  # they do not overlap
        (DelimitedPrefix(b"aa", 2), b"aaa", b"aaa"),
    ],
)
def test_a_filter_holds_this_part_of_a_key(filter_key: FilterKey, key: bytes, part: bytes) -> None:
    assert filter_key.part(key) == part


@pytest.mark.parametrize(
    ("filter_key", "prefix", "part"),
    [
        (WholeKey(), b"key", None),
        (FixedPrefix(3), b"abc", b"abc"),
        (FixedPrefix(3), b"abcd", b"abc"),
        (FixedPrefix(3), b"ab", None),
        (DelimitedPrefix(b"::", 2), b"a::b::c", b"a::b::"),
        (DelimitedPrefix(b"::", 2), b"a::b::", b"a::b::"),
        (DelimitedPrefix(b"::"), b"a:", None),  # ends inside a delimiter
    ],
)
def test_a_prefix_determines_this_part_or_none(
    filter_key: FilterKey, prefix: bytes, part: bytes | None
) -> None:
    assert filter_key.part_of_prefix(prefix) == part


def test_only_whole_keys_are_whole() -> None:
    assert [each.is_whole for each in (WholeKey(), FixedPrefix(8), SLASH)] == [True, False, False]


@pytest.mark.parametrize(
    ("kind", "arguments", "error", "said"),
    [
        *((FixedPrefix, (n,), ValueError, f"length_bytes={n}: must lie") for n in (0, -1, 65_536)),
        *((FixedPrefix, (n,), TypeError, "must be an int") for n in (True, 8.0, "8", None)),
        (DelimitedPrefix, (b"",), ValueError, "delimiter of 0 bytes: must have 1 to"),
        (DelimitedPrefix, (b"x" * 256,), ValueError, "delimiter of 256 bytes: must have 1 to"),
        *((DelimitedPrefix, (d,), TypeError, "must be bytes") for d in ("/", bytearray(b"/"), 47)),
        *((DelimitedPrefix, (b"/", n), ValueError, f"count={n}: must lie") for n in (0, 256)),
    ],
)
def test_wrong_arguments_are_named(
    kind: Callable[..., FilterKey], arguments: tuple[Any, ...], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        kind(*arguments)


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
