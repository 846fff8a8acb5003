"""The Grafite filter: answers for keys and for short ranges of keys, with a bound for any data.

A key's *granule* is the key without its last byte, and its *place* is that byte.  A filter of n keys has
r codes, at least 256.  A key's code is its place after the code of its granule, which the granule's hash
chooses: ``code = (((g >> 31) * r >> 32) + place) mod r``, where g is the granule's 63-bit hash.  So the
keys of a granule have codes of their own, in order, and different granules are independent.  The filter
holds the codes of its keys, ascending, in Elias-Fano (:mod:`lsmkv.filters.elias_fano`): log2(r/n) + 2
bits for each key.

Over the choice of a hash function, an absent key passes at most with the chance n/r, and an empty range
of k keys in one or two neighbouring granules at most with k * n/r, whatever the data are and wherever
the range lies.  Here the hash function is published, and its seed is always 0: who computes it can choose
absent keys that all pass.  So the bound holds for keys and questions that were not chosen by their hash.

A filter is n, in 7 bits a byte (the lowest first, and 128 where more follow), then a byte with the
length of all keys, then B bytes of codes in Elias-Fano.  The length is 0 if keys have several, or one
over 255: then ranges cannot be asked.  The codes have l low bits each, the probe_count beside the
filter.  r follows from these: ``r = min((8 * B - n * (l + 1)) << l, 2^31 - 1)``.  A filter with r below
256 may hold anything.

In place of a key's hash stands that of its granule, with the place in the lowest 8 bits
(:func:`hash_key`); an empty key has 0.  ``g >> 31`` does not reach these bits.

Source: M. Costa, P. Ferragina, G. Vinciguerra, "Grafite: taming adversarial queries with optimal range
filters", PACMMOD 2(1) (SIGMOD), 2024, arXiv:2311.15380.  There, granules have r numbers.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i64_le
from mypy_extensions import i64, u8

from lsmkv.filters import hashing
from lsmkv.filters.bloom import MAX_BYTES
from lsmkv.filters.elias_fano import build as build_sequence
from lsmkv.filters.elias_fano import first_between
from lsmkv.filters.hashing import DIGEST_BYTES, MASK_63
from lsmkv.filters.maths.layouts import (
    GRANULE_KEYS,
    MAX_GRAFITE_CODES,
    MAX_GRAFITE_LOW_BITS,
    grafite_header_bytes,
)

_PLACES: Final = 0xFF
_MAX_LENGTH: Final = 0xFF
_GRANULES: Final = MASK_63 ^ 0xFF
_MAX_HEADER_BYTES: Final = 5


def is_shape(byte_count: int, low_bits: int) -> bool:
    return 2 <= byte_count <= MAX_BYTES and 0 <= low_bits <= MAX_GRAFITE_LOW_BITS


def hash_key(key: bytes) -> i64:
    """The hash that stands for ``key``: its granule's, with its place in the lowest 8 bits."""
    length = len(key)
    if length == 0:
        return 0
    place: i64 = key[length - 1]
    return (hashing.hash_key(key[: length - 1]) & _GRANULES) | place


def build_from_digests(packed: bytes, low_bits: i64, byte_count: i64) -> bytes:
    """A filter of hashes and key lengths; for ranges if all are one from 1 to 255.  O(n log n)."""
    key_length = read_i64_le(packed, 8)
    if key_length > _MAX_LENGTH:
        key_length = 0
    at: i64 = 8
    while at < len(packed):
        if read_i64_le(packed, at) != key_length:
            key_length = 0
        at += DIGEST_BYTES
    count: i64 = len(packed) // DIGEST_BYTES
    body: i64 = byte_count - grafite_header_bytes(count)
    r = _code_count(body, count, low_bits)
    assert r >= GRANULE_KEYS
    codes: list[int] = []
    at = 0
    while at < len(packed):
        codes.append(_code(read_i64_le(packed, at) & MASK_63, r))
        at += DIGEST_BYTES
    codes.sort()
    header = BytesWriter()
    rest: i64 = count
    while rest > 0x7F:
        header.append(u8(0x80 | (rest & 0x7F)))
        rest >>= 7
    header.append(u8(rest))
    header.append(u8(key_length))
    return header.getvalue() + build_sequence(codes, low_bits, body)


def _code_count(body: i64, count: i64, low_bits: i64) -> i64:
    """r: the numbers that so many bytes can hold, ``count`` at a time."""
    most: i64 = MAX_GRAFITE_CODES
    unary_zeros = (body << 3) - count * (low_bits + 1)
    if unary_zeros <= 0:
        return 0
    if unary_zeros > most >> low_bits:  # first: a shift may wrap
        return most
    return unary_zeros << low_bits


def _code(h: i64, r: i64) -> i64:
    code = (((h >> 31) * r) >> 32) + (h & _PLACES)
    if code >= r:
        code -= r
    return code


def may_contain(bits: bytes, start: i64, byte_count: i64, low_bits: i64, h: i64) -> bool:
    """Whether ``bits[start : start + byte_count]`` may hold the hash ``h``.  O(n / 64)."""
    return _may_hold(bits, start, byte_count, low_bits, h, 1)


def may_contain_between(bits: bytes, low_bits: i64, least: bytes, stop: bytes) -> bool:
    """Whether a filter may hold a key from ``least`` to below ``stop``; True if it cannot tell."""
    byte_count = len(bits)
    at: i64 = 0
    while at < byte_count and bits[at] > 0x7F:
        at += 1
    if at + 1 >= byte_count or bits[at + 1] == 0:
        return True
    key_length: i64 = bits[at + 1]
    least_granule = _granule(least, key_length)
    stop_granule = _granule(stop, key_length)
    first, end = _place(least, key_length), _place(stop, key_length)
    h = hashing.hash_key(least_granule) & _GRANULES
    if least_granule == stop_granule:
        return first < end and _may_hold(bits, 0, byte_count, low_bits, h | first, end - first)
    if int.from_bytes(stop_granule, "big") - int.from_bytes(least_granule, "big") != 1:
        return least_granule < stop_granule
    if first <= _PLACES and _may_hold(
        bits, 0, byte_count, low_bits, h | first, GRANULE_KEYS - first
    ):
        return True
    h = hashing.hash_key(stop_granule) & _GRANULES
    return end > 0 and _may_hold(bits, 0, byte_count, low_bits, h, end)


def _granule(bound: bytes, key_length: i64) -> bytes:
    """The granule of the first key not below a bound; the next one if :func:`_place` is 256."""
    return bound[: key_length - 1].ljust(key_length - 1, b"\0")


def _place(bound: bytes, key_length: i64) -> i64:
    """The place of that key in :func:`_granule`; 256 is behind the last."""
    length = len(bound)
    if length < key_length:
        return 0
    place: i64 = bound[key_length - 1]
    if length > key_length:
        place += 1
    return place


def _may_hold(bits: bytes, start: i64, byte_count: i64, low_bits: i64, h: i64, length: i64) -> bool:
    """Whether a filter may hold one of ``length`` neighbours from ``h`` on."""
    header: i64 = 0
    count: i64 = 0
    while True:
        if header >= byte_count or header >= _MAX_HEADER_BYTES:
            return True
        byte: i64 = bits[start + header]
        count |= (byte & 0x7F) << (7 * header)
        header += 1
        if byte < 0x80:
            break
    header += 1  # the length of the keys
    start += header
    byte_count -= header
    r = _code_count(byte_count, count, low_bits)
    if r < GRANULE_KEYS:
        return True
    code = _code(h, r)
    last = code + length - 1
    if last >= r:
        last -= r
        if first_between(bits, start, byte_count, count, low_bits, 0, last) >= 0:
            return True
        last = r - 1
    return first_between(bits, start, byte_count, count, low_bits, code, last) >= 0
