"""Registered filter policies: written and read like built-in ones, and never confused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import fill, number_key, open_small

import lsmkv
from damage import spoil_first_block
from filter_kinds import own_registry
from lsmkv.filters import FilterPolicy, FixedPrefix, policies, policy_for, policy_named
from lsmkv.filters.policy import NONE, POLICIES, register
from lsmkv.options import Options


class Checksums(FilterPolicy):
    """A toy policy: the low byte of each hash; the parameter is unused."""

    def __init__(self, name: str = "checksums", scheme: int = 6, parameter: int = 9) -> None:
        self._name, self._scheme, self._parameter = name, scheme, parameter

    @property
    def scheme(self) -> int:
        return self._scheme

    @property
    def name(self) -> str:
        return self._name

    def build(self, hashes: list[int], error_rate: float) -> tuple[bytes, int]:
        return bytes(h & 0xFF for h in hashes), self._parameter

    def may_contain(self, bits: bytes, start: int, byte_count: int, parameter: int, h: int) -> bool:
        return byte_count == 0 or bits.find(h & 0xFF, start, start + byte_count) >= 0

    def exact_rate(self, byte_count: int, key_count: int, parameter: int) -> float:
        return 1.0 - (255 / 256) ** byte_count if byte_count else 1.0

    def is_possible(self, byte_count: int, parameter: int) -> bool:
        return byte_count >= 0


class Numbers(Checksums):
    """A toy policy for ranges: all numbers of keys of eight bytes, to the bit but one."""

    answers_ranges = True

    def hash_key(self, key: bytes) -> int:
        return int.from_bytes(key, "big") >> 1

    def build(self, hashes: list[int], error_rate: float) -> tuple[bytes, int]:
        return b"".join(h.to_bytes(8, "big") for h in hashes), 0

    def may_contain(self, bits: bytes, start: int, byte_count: int, parameter: int, h: int) -> bool:
        return byte_count == 0 or h in self._numbers(bits[start : start + byte_count])

    def may_contain_between(self, bits: bytes, parameter: int, least: bytes, stop: bytes) -> bool:
        low, high = self.hash_key(least), self.hash_key(stop.ljust(8, b"\0")[:8])
        return any(low <= h <= high for h in self._numbers(bits))

    def _numbers(self, bits: bytes) -> list[int]:
        return [int.from_bytes(bits[at : at + 8], "big") for at in range(0, len(bits), 8)]


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    with own_registry():
        yield


def options(**given: Any) -> Options:
    """Options of types that a type checker would refuse."""
    return Options(**given)


def write(path: Path, **given: Any) -> dict[bytes, bytes]:
    with open_small(path, **given) as db:
        contents = fill(db, range(0, 1000, 2))
        db.compact_range()
    return contents


def kinds(path: Path) -> set[str]:
    with open_small(path, read_only=True) as db:
        return {table.filter_kind for table in db.inspect().tables()}


# The registry


def test_a_registered_policy_is_found_by_scheme_and_name() -> None:
    mine = Checksums()
    register(mine)
    assert policy_for(6) is policy_for(6, "checksums") is policy_named("checksums") is mine
    assert policies() == [NONE, *POLICIES, mine]


@pytest.mark.parametrize("scheme", [-1, 0, 1, 3, 4, 5, 8, 255])
def test_reserved_schemes_are_refused(scheme: int) -> None:
    with pytest.raises(ValueError, match=rf"scheme {scheme} is not for registered .* 6 and 7"):
        register(Checksums(scheme=scheme))


@pytest.mark.parametrize("name", ["", "Upper", "with space", "a,b", "-dash", "x" * 41, "naïve"])
def test_names_that_no_option_or_file_name_could_hold_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a name is 1 to 40"):
        register(Checksums(name))


@pytest.mark.parametrize("name", ["none", "bloom", "taken"])
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    register(Checksums("taken", 6))
    with pytest.raises(ValueError, match=f"'{name}' is registered"):
        register(Checksums(name, 7))


def test_a_scheme_that_is_taken_is_refused() -> None:
    register(Checksums("first", 7))
    with pytest.raises(ValueError, match="'second', scheme 7: 'first' is registered"):
        register(Checksums("second", 7))
    assert [policy.name for policy in policies()][-1] == "first"


def test_the_error_for_an_unregistered_scheme_gives_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"scheme 6 is not registered .*policy\.register"):
        policy_for(6)
    register(Checksums("another", 6))
    with pytest.raises(ValueError, match="scheme 6 of policy 'checksums' is not registered"):
        policy_for(6, "checksums")


# Options


def test_options_take_registered_names_only() -> None:
    with pytest.raises(
        ValueError, match="filter_policy='checksums': must be one of 'auto', 'none'"
    ):
        Options(filter_policy="checksums")
    register(Checksums())
    assert Options(filter_policy="checksums").filter_policy == "checksums"
    with pytest.raises(
        ValueError, match=r"filter_policy='xor': .*'bloom', 'ribbon', 'grafite', 'checksums'"
    ):
        Options(filter_policy="xor")


# In a store


@pytest.mark.parametrize("granularity", ["block", "table"])
def test_tables_are_written_and_read_with_a_registered_policy(
    tmp_path: Path, granularity: str
) -> None:
    register(Checksums())
    contents = write(tmp_path / "db", filter_policy="checksums", filter_granularity=granularity)
    with open_small(tmp_path / "db") as db:
        assert all(db[key] == value for key, value in contents.items())
        assert {table.filter_kind for table in db.inspect().tables()} == {"checksums"}
        before = db.stats()
        assert all(db.get(number_key(number)) is None for number in range(1, 999, 2))
        spent = db.stats() - before
        assert spent.unfiltered_probes == 0
        assert spent.filter_negatives > 0
        assert db.verify().ok


@pytest.mark.parametrize("residency", ["resident", "cached"])
@pytest.mark.parametrize("by_merging", [False, True])
def test_a_registered_range_filter_spares_scans_a_block_and_loses_no_key(
    tmp_path: Path, residency: str, by_merging: bool
) -> None:
    register(Numbers("numbers", 7))
    keys = [(number * 1000).to_bytes(8, "big") for number in range(500)]
    with open_small(tmp_path / "db", filter_policy="numbers", filter_residency=residency) as db:
        for key in keys:
            db[key] = b"value"
        db.flush()
        if by_merging:
            db[keys[0]] = b"value"  # repeats a key
            db.compact_range()
        before = db.stats()
        for key in keys:
            number = int.from_bytes(key, "big")
            gap = (number + 2).to_bytes(8, "big"), (number + 900).to_bytes(8, "big")
            assert db[key] == b"value"
            assert db.get(gap[0]) is None
            assert list(db.keys(start=gap[0], stop=gap[1])) == []
            assert list(db.keys(start=key, stop=gap[1])) == [key]
        spent = db.stats() - before
        assert spent.range_filter_negatives > 400
        assert spent.filter_negatives > 400
        assert spent.filter_false_positives == 0
        assert db.verify().ok


@pytest.mark.parametrize("given", [{"filter_granularity": "table"}, {"filter_key": FixedPrefix(2)}])
def test_a_range_filter_holds_the_whole_keys_of_a_block(given: dict[str, Any]) -> None:
    register(Numbers("numbers"))
    with pytest.raises(ValueError, match="filter_policy='numbers': needs filter_granularity='bl"):
        options(filter_policy="numbers", **given)


def test_a_policy_hashes_the_prefixes_that_filters_hold(tmp_path: Path) -> None:
    class Own(Checksums):
        def hash_key(self, key: bytes) -> int:
            return sum(key)

    register(Own())
    contents = write(tmp_path / "db", filter_policy="checksums", filter_key=FixedPrefix(7))
    with open_small(tmp_path / "db") as db:
        assert all(db[key] == value for key, value in contents.items())
        for prefix in {key[:7] for key in contents}:
            assert list(db.keys(prefix=prefix)) == [key for key in contents if key[:7] == prefix]
        assert db.verify().ok


def test_a_negative_hash_is_refused_before_a_filter_would_deny_its_key(tmp_path: Path) -> None:
    class Negative(Checksums):
        def hash_key(self, key: bytes) -> int:
            return -1

    register(Negative())
    with open_small(tmp_path / "db", filter_policy="checksums") as db:
        db[b"key"] = db[b"other key"] = b"value"
        with pytest.raises(lsmkv.BackgroundError) as raised:
            db.flush()
    assert "'checksums': hash_key(b'key') is -1" in str(raised.value.__cause__)


def test_the_error_for_a_table_of_an_unregistered_policy_says_so(tmp_path: Path) -> None:
    with own_registry():
        register(Checksums())
        write(tmp_path / "db", filter_policy="checksums")
    with pytest.raises(
        lsmkv.UnsupportedFormatError,
        match=r"\.sst.*scheme 6 of policy 'checksums' .* lsmkv.filters.policy.register",
    ):
        lsmkv.open(tmp_path / "db")


def test_another_policy_with_the_same_number_does_not_read_the_table(tmp_path: Path) -> None:
    """It would misread the bits, and deny present keys."""
    with own_registry():
        register(Checksums())
        write(tmp_path / "db", filter_policy="checksums")
    register(Checksums("other", 6))
    with pytest.raises(lsmkv.UnsupportedFormatError, match="'checksums' is not registered"):
        lsmkv.open(tmp_path / "db")


def test_repair_leaves_a_store_alone_whose_policy_it_does_not_know(tmp_path: Path) -> None:
    with own_registry():
        register(Checksums())
        write(tmp_path / "db", filter_policy="checksums")
    with pytest.raises(lsmkv.UnsupportedFormatError, match=r"policy\.register"):
        lsmkv.repair(tmp_path / "db", in_place=True)
    register(Checksums())
    with open_small(tmp_path / "db") as db:
        assert len(db.keys()) == 500


def test_a_damaged_table_is_repaired_with_the_policy_that_it_had(tmp_path: Path) -> None:
    register(Checksums())
    write(tmp_path / "db", filter_policy="checksums")
    spoil_first_block(max((tmp_path / "db").glob("*.sst")))
    assert lsmkv.repair(tmp_path / "db", in_place=True).entries_lost
    assert kinds(tmp_path / "db") == {"checksums"}


@pytest.mark.parametrize("parameter", [-1, 32, 40, 256])
def test_a_parameter_that_would_change_the_scheme_is_refused(
    tmp_path: Path, parameter: int
) -> None:
    register(Checksums(parameter=parameter))
    with open_small(tmp_path / "db", filter_policy="checksums") as db:
        db[b"key"] = db[b"other key"] = b"value"
        with pytest.raises(lsmkv.BackgroundError) as raised:
            db.flush()
        assert db[b"key"] == b"value"
    assert f"'checksums' built a filter with the parameter {parameter}" in str(
        raised.value.__cause__
    )
