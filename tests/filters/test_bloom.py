"""Hashes of keys and bits of filters: no false negatives, golden bytes, error rates."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filter_kinds import assert_is_the_rate
from lsmkv.filters import bloom
from lsmkv.filters.hashing import MASK_63, digests, hash_key, murmur3_128
from lsmkv.filters.maths.sizing import exact_rate

hashes = st.integers(0, MASK_63)


def probed_bits(h: int, bit_count: int, probe_count: int) -> list[int]:
    """The bits of ``h``, by the definition in the module's docstring."""
    found = []
    for _ in range(probe_count):
        h = h * bloom.MULTIPLIER % 2**63
        found.append((h >> 31) * bit_count >> 32)
    return found


def is_set(bits: bytes, bit: int) -> bool:
    return bool(bits[bit // 8] >> (bit % 8) & 1)


# --- hashes ---


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"", 0),
        (b"\0", 0x4610ABE56EFF5CB5),
        (b"a", 0x05555565F6597889),
        (b"lsmkv", 0x3608A4B4E51E4D12),
        (b"0123456789abcde", 0x262DD5F6C0BF2351),
        (b"0123456789abcdef", 0x4BE06D94CF4AD1A7),
        (b"0123456789abcdefg", 0x0E32612DAA45F9DE),
        (bytes(range(256)), 0x1C99C313DC6F12B9),
        (b"\xff" * 65_535, 0x34805EEB02F9ED51),
    ],
    ids=lambda value: f"{len(value)}-bytes" if isinstance(value, bytes) else "",
)
def test_golden_hash(key: bytes, expected: int) -> None:
    assert hash_key(key) == expected


@given(st.lists(st.binary(max_size=50), max_size=5))
def test_digests_are_both_halves_of_murmur3(keys: list[bytes]) -> None:
    expected = b"".join(half.to_bytes(8, "little") for key in keys for half in murmur3_128(key))
    assert digests(keys) == expected


# --- bits ---


@pytest.mark.parametrize(
    ("key_count", "byte_count", "probe_count", "expected"),
    [
        (0, 4, 3, "00000000"),
        (1, 1, 1, "40"),
        (4, 6, 7, "0a4a450eb6c4"),
        (30, 36, 7, "c837e0b2f996277b8fcf5c1932ac933de21a53c7f196dce9d45b36fc49ed3e30c239f0fe"),
        (
            100,
            60,
            3,
            "39e2b36ba8870b6a6d41bfc2d84089bb299b584d16537e2ac71883f7a523"
            "10567ec8508df1852b49ead3cea90d34775048b98d0b781457d10e7061ae",
        ),
    ],
)
def test_golden_filter(key_count: int, byte_count: int, probe_count: int, expected: str) -> None:
    keys = [hash_key(b"key %d" % number) for number in range(key_count)]
    assert bloom.build(keys, byte_count, probe_count).hex() == expected


@given(st.lists(hashes, max_size=60), st.integers(1, 80), st.integers(1, 30))
def test_exactly_the_probed_bits_are_set(
    added: list[int], byte_count: int, probe_count: int
) -> None:
    bits = bloom.build(added, byte_count, probe_count)
    probed = {bit for h in added for bit in probed_bits(h, byte_count * 8, probe_count)}
    assert {bit for bit in range(byte_count * 8) if is_set(bits, bit)} == probed


@given(st.lists(hashes, max_size=60), hashes, st.integers(1, 40), st.integers(1, 30))
def test_a_hash_is_denied_exactly_when_one_of_its_bits_is_not_set(
    added: list[int], asked: int, byte_count: int, probe_count: int
) -> None:
    bits = bloom.build(added, byte_count, probe_count)
    expected = all(is_set(bits, bit) for bit in probed_bits(asked, byte_count * 8, probe_count))
    assert bloom.may_contain(bits, 0, byte_count, probe_count, asked) == expected


def test_the_largest_filter_does_not_overflow_a_machine_word() -> None:
    assert (MASK_63 >> 31) * bloom.MAX_BITS <= MASK_63


# --- error rate ---


@pytest.mark.parametrize("form", ["user%08d", "%d", "/a/long/path/that/all/keys/share/%06d"])
def test_numbered_keys_meet_the_exact_rate_too(form: str) -> None:
    key_count, byte_count, probe_count, asked = 30, 36, 7, 60_000
    numbers = count()
    passed = 0
    for _ in range(asked // 50):
        added = [hash_key((form % next(numbers)).encode()) for _ in range(key_count)]
        bits = bloom.build(added, byte_count, probe_count)
        for _ in range(50):
            h = hash_key((form % next(numbers)).encode())
            passed += bloom.may_contain(bits, 0, byte_count, probe_count, h)
    assert_is_the_rate(passed, asked, exact_rate(byte_count * 8, key_count, probe_count))


@given(st.lists(hashes, max_size=40), hashes, st.integers(1, 60), st.integers(1, 12))
def test_a_filter_that_grew_hash_by_hash_has_the_bits_and_answers_of_one_built_at_once(
    added: list[int], absent: int, byte_count: int, probe_count: int
) -> None:
    bits = bloom.build(added, byte_count, probe_count)
    grown = bytearray(byte_count)
    for h in added:
        bloom.set_bits(grown, probe_count, h)
    assert bytes(grown) == bits
    for h in (*added, absent):
        assert bloom.has_bits(bytearray(bits), probe_count, h) == bloom.may_contain(
            bits, 0, byte_count, probe_count, h
        )
