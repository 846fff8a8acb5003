"""Saved filters: golden bytes, and errors for damaged ones."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filter_kinds import KINDS, Build
from golden_support import Golden
from lsmkv import filters
from lsmkv.encoding.checksums import checksum
from lsmkv.errors import CorruptionError, UnsupportedFormatError
from lsmkv.filters.family import saved
from lsmkv.filters.policy import POLICIES

every_kind = pytest.mark.parametrize("build", KINDS.values(), ids=KINDS)
KEYS = [b"key %d" % number for number in range(20)]
HEAD_BYTES = 16


def saved_filters() -> dict[str, bytes]:
    return {name: build(KEYS, 0.01).to_bytes() for name, build in KINDS.items()}


def resealed(data: bytes) -> bytes:
    """``data`` with a right checksum."""
    return data[:-8] + checksum(data[:-8], 0).to_bytes(8, "little")


def with_parameter(data: bytes, index: int, value: int) -> bytes:
    at = HEAD_BYTES + 8 * index
    return resealed(data[:at] + struct.pack("<Q", value) + data[at + 8 :])


def parameter_count(data: bytes) -> int:
    return int.from_bytes(data[12:14], "little")


# --- golden ---


def test_golden_saved_filters(golden: Golden) -> None:
    golden.check("filters/saved_v1", saved_filters())


def test_golden_filters_of_policies(golden: Golden) -> None:
    hashes = [filters.hash_key(key) for key in KEYS]
    files = {}
    for policy in POLICIES:
        for rate in (0.1, 0.001):
            bits, parameter = policy.build(hashes, rate)
            files[f"{policy.name}-{rate}"] = bytes([policy.scheme << 5 | parameter]) + bits
    golden.check("filters/policies_v1", files)


def test_golden_probes_of_strategies(golden: Golden) -> None:
    files = {}
    for strategy in filters.STRATEGIES:
        probes = [strategy.probes(key, 1_000_003, 6) for key in KEYS]
        files[strategy.name] = b"".join(struct.pack("<6I", *bits) for bits in probes)
    golden.check("filters/strategies_v1", files)


def test_every_class_has_a_number_of_its_own() -> None:
    assert sorted(saved.KINDS) == list(range(1, len(saved.KINDS) + 1))
    assert all(number == kind.KIND for number, kind in saved.KINDS.items())
    with pytest.raises(TypeError, match="KIND=1 of Mine is BloomFilter's"):
        type("Mine", (filters.BloomFilter,), {"KIND": 1})


# --- damage ---


@every_kind
def test_every_damaged_byte_is_noticed(build: Build) -> None:
    data = build(KEYS[:3], 0.1).to_bytes()
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
        with pytest.raises(CorruptionError):
            filters.load(damaged)


@every_kind
def test_every_cut_is_noticed(build: Build) -> None:
    data = build(KEYS[:3], 0.1).to_bytes()
    for length in range(len(data)):
        with pytest.raises(CorruptionError):
            filters.load(data[:length])


@every_kind
def test_bytes_too_many_are_noticed(build: Build) -> None:
    data = build(KEYS[:3], 0.1).to_bytes()
    with pytest.raises(CorruptionError, match=r"wrong size of body|do not fill segments"):
        filters.load(resealed(data[:-8] + b"\0" + data[-8:]))


def test_errors_name_the_place() -> None:
    with pytest.raises(
        CorruptionError, match=r"^spam at offset 0: 3 bytes are too short"
    ) as raised:
        filters.load(b"abc", "spam")
    assert raised.value.path == "spam"


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [(8, 2, "filter format 2; this release reads format 1"), (10, 999, "unknown kind 999")],
)
def test_a_newer_version_and_an_unknown_kind_are_not_called_damage(
    at: int, value: int, reason: str
) -> None:
    data = filters.BloomFilter(8, 3).to_bytes()
    changed = resealed(data[:at] + struct.pack("<H", value) + data[at + 2 :])
    with pytest.raises(UnsupportedFormatError, match=reason):
        filters.load(changed)


def test_a_filter_of_another_kind_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedFormatError, match="kind 1, not a CuckooFilter"):
        filters.CuckooFilter.from_bytes(filters.BloomFilter(8, 3).to_bytes())


# --- hostile bytes, with a checksum that is right ---


def load_or_refuse(data: bytes) -> None:
    """Check that loading raises its documented error, or gives a working filter."""
    try:
        loaded = filters.load(data)
    except (CorruptionError, UnsupportedFormatError):
        return
    for key in KEYS:
        loaded.may_contain(key)
    assert len(loaded.to_bytes()) == len(data)


@every_kind
@pytest.mark.parametrize("value", [0, 1, 3, 63, 255, 1 << 20, 1 << 31, 1 << 40, (1 << 64) - 1])
def test_hostile_parameters_are_refused_or_harmless(build: Build, value: int) -> None:
    data = build(KEYS, 0.01).to_bytes()
    for index in range(parameter_count(data)):
        load_or_refuse(with_parameter(data, index, value))


@settings(deadline=None, max_examples=400)
@given(st.sampled_from(sorted(KINDS)), st.data())
def test_hostile_bytes_are_refused_or_harmless(kind: str, data: st.DataObject) -> None:
    saved = bytearray(KINDS[kind](KEYS, 0.01).to_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        saved[data.draw(st.integers(8, len(saved) - 9))] = data.draw(st.integers(0, 255))
    load_or_refuse(resealed(bytes(saved)))


@settings(deadline=None)
@given(st.integers(0, 15), st.binary(max_size=300))
def test_anything_behind_a_right_header_is_refused_or_harmless(kind: int, rest: bytes) -> None:
    load_or_refuse(resealed(b"lsmkvFLT" + struct.pack("<HH", 1, kind) + rest + bytes(8)))


def test_loading_takes_no_memory_out_of_proportion() -> None:
    """A short file that claims a huge filter is refused at once."""
    import tracemalloc

    tracemalloc.start()
    try:
        for build in KINDS.values():
            data = build(KEYS[:4], 0.01).to_bytes()
            for index in range(parameter_count(data)):
                for value in (1 << 20, (1 << 28) - 8, 1 << 28, 1 << 32):
                    load_or_refuse(with_parameter(data, index, value))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000


WINDOW = filters.Window(inserts=5)


@pytest.mark.parametrize(
    ("whole", "index", "value", "reason"),
    [
        (filters.BloomFilter(8, 3), 0, 9, "wrong size of body"),
        (filters.BloomFilter(8, 3), 1, 256, r"does not lie in 1\.\.255"),
        (filters.FoldableBloomFilter(8, 3, 3), 2, 4, "8 bytes cannot be halved 4 times"),
        (filters.PartitionedBloomFilter(1, 3), 1, 9, "1 bytes are too few for 9 arrays"),
        (filters.CountingBloomFilter(8, 3, 4), 2, 6, "8 counters of 6 bits are impossible"),
        (filters.BinaryFuseFilter([1, 2], 8), 0, 9, "do not fill segments"),
        (filters.BinaryFuseFilter([1, 2], 8), 1, 999, "999 keys do not fit"),
        (filters.RibbonFilter([1, 2], 7), 0, 32, r"parameter 32 does not lie in 1\.\.31"),
        (filters.RibbonFilter([1], 1), 0, 31, "no ribbon filter of 31 columns has 1 bytes"),
        (filters.RibbonFilter([1, 2], 7), 1, 999, "999 keys do not fit"),
        (filters.RibbonFilter([1, 2], 7), 2, 9, "wrong size of body"),
        (filters.RollingBloomFilter(8, 3, WINDOW), 2, 0, "a window needs inserts, seconds or both"),
    ],
)
def test_impossible_parameters_are_refused_with_the_reason(
    whole: filters.Save, index: int, value: int, reason: str
) -> None:
    with pytest.raises(CorruptionError, match=reason):
        filters.load(with_parameter(whole.to_bytes(), index, value))


@pytest.mark.parametrize(
    ("whole", "last", "reason"),
    [
        (
            filters.FingerprintFilter([1 << 60, 1 << 61], 8),
            b"\2\1",
            "fingerprint 1 is out of order",
        ),
        (
            filters.StrategyBloomFilter(9, 2, filters.strategy_named("djb2")),
            b"\4",
            "bits after the last one are set",
        ),
    ],
)
def test_impossible_bits_are_refused_with_the_reason(
    whole: filters.Save, last: bytes, reason: str
) -> None:
    data = whole.to_bytes()[: -8 - len(last)] + last + bytes(8)
    with pytest.raises(CorruptionError, match=reason):
        filters.load(resealed(data))
