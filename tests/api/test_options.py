from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import pytest

import lsmkv
from lsmkv.filters.keys import FixedPrefix, WholeKey
from lsmkv.options import _NAMES_ELSEWHERE, Options, OptionsDict

NAMES = [field.name for field in dataclasses.fields(Options)]
NUMBERS = [field.name for field in dataclasses.fields(Options) if type(field.default) is int]
RANGES = {  # the smallest and the largest that are taken
    "write_buffer_size_bytes": (4096, 4 << 30),
    "max_immutable_memtables": (1, 64),
    "block_size_bytes": (256, 16 << 20),
    "block_cache_size_bytes": (0, 1 << 50),
    "memory_budget_bytes": (0, 1 << 50),
    "filter_memory_bytes": (0, 1 << 50),
    "compression_level": (-50, 22),
    "compression_dictionary_size_bytes": (0, 1 << 20),
    "size_ratio": (2, 100),
    "level0_compaction_trigger": (1, 12),
    "level0_slowdown_trigger": (4, 24),
    "level0_stop_trigger": (12, 10_000),
    "level1_size_bytes": (4096, 1 << 50),
    "read_compaction_rate_bytes": (0, 1 << 50),
    "table_size_bytes": (4096, 1 << 40),
    "process_job_size_bytes": (0, 1 << 50),
    "request_timeout_s": (1, 3600),
    "request_retries": (0, 100),
    "disk_cache_size_bytes": (1 << 20, 1 << 50),
    "max_open_files": (0, 1 << 30),
    "file_mode": (0o400, 0o777),
}
HIDDEN = {"path", "options", "storage", "overrides"}  # of `open`, no option
CHOICES = {
    "compression": ("none", "zstd"),
    "compaction": ("leveled", "tiered", "lazy-leveled"),
    "filter_residency": ("resident", "cached", "off"),
    "filter_granularity": ("block", "table"),
    "filter_allocation": ("uniform", "monkey"),
    "background": ("thread", "process"),
}


def make(**options: Any) -> Options:
    return Options(**options)


def test_options_are_given_by_name_only() -> None:
    with pytest.raises(TypeError, match=r"have names, as in error_rate=0\.01: 0\.1 has none"):
        Options(0.1)  # type: ignore[call-arg, arg-type]


def test_the_signature_of_options_names_them_with_their_defaults() -> None:
    parameters = inspect.signature(Options).parameters
    assert list(parameters) == NAMES
    assert parameters["error_rate"].default == 0.001


def test_options_for_type_checkers_are_those_of_the_class() -> None:
    assert get_type_hints(OptionsDict) == {
        name: hint for name, hint in get_type_hints(Options).items() if name in NAMES
    }
    assert OptionsDict.__optional_keys__ == {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_described(name: str) -> None:
    assert Options.__doc__ is not None
    assert name in Options.__doc__


def test_every_number_has_a_range() -> None:
    assert set(NUMBERS) == RANGES.keys()


@pytest.mark.parametrize("name", RANGES)
def test_both_ends_of_a_range_are_taken_and_what_is_beyond_is_refused(name: str) -> None:
    low, high = RANGES[name]
    for number in (low, high):
        assert getattr(make(**{name: number}), name) == number
    for number in (low - 1, high + 1):
        with pytest.raises(ValueError, match=name):
            Options().replace(**{name: number})  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [1.0, "4096", None, True], ids=repr)
@pytest.mark.parametrize("name", RANGES)
def test_a_number_of_another_type_is_refused_by_name(name: str, wrong: object) -> None:
    with pytest.raises(TypeError, match=f"{name}=.*must be an int"):
        make(**{name: wrong})


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("wrong", ["", "LEVELED", None, 1], ids=repr)
def test_an_unknown_choice_is_refused_with_those_there_are(name: str, wrong: object) -> None:
    with pytest.raises(ValueError, match=f"{name}=.*{CHOICES[name][0]}"):
        make(**{name: wrong})


@pytest.mark.parametrize(
    ("name", "choice"), [("filter_policy", "none"), ("filter_residency", "off")]
)
def test_a_budget_for_filters_that_are_not_used_is_refused(name: str, choice: str) -> None:
    with pytest.raises(ValueError, match=f"filter_memory_bytes=1000: {name}='{choice}' uses no"):
        make(filter_memory_bytes=1000, **{name: choice})


@pytest.mark.parametrize("flag", ["direct_reads", "read_around", "adaptive_filters"])
@pytest.mark.parametrize("wrong", [0, 1, None, "yes"], ids=repr)
def test_a_flag_is_a_bool(flag: str, wrong: object) -> None:
    with pytest.raises(TypeError, match=flag):
        make(**{flag: wrong})


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.01, 1.5, 0, 1, float("nan"), float("inf")])
def test_error_rates_outside_zero_and_one_are_refused(rate: float) -> None:
    with pytest.raises(ValueError, match=r"error_rate=.*between 0 and 1"):
        Options(error_rate=rate)
    for wrong in ("0.01", None, True):
        with pytest.raises(TypeError, match="error_rate"):
            make(error_rate=wrong)
    for right in (1e-12, 0.01, 0.999999):
        assert Options(error_rate=right).error_rate == right


@pytest.mark.parametrize("wrong", ["whole", None, WholeKey], ids=repr)
def test_a_filter_key_is_a_filter_key(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"filter_key=.*FixedPrefix\(n\)"):
        make(filter_key=wrong)


@pytest.mark.parametrize(
    "other", [{"filter_granularity": "table"}, {"filter_key": FixedPrefix(4)}], ids=repr
)
def test_grafite_filters_are_of_blocks_and_whole_keys(other: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match="filter_policy='grafite': needs filter_granularity='block'"
    ):
        make(filter_policy="grafite", **other)


def test_level_0_triggers_must_not_descend() -> None:
    with pytest.raises(ValueError, match="must not descend"):
        Options(level0_compaction_trigger=9, level0_slowdown_trigger=8, level0_stop_trigger=10)
    with pytest.raises(ValueError, match="must not descend"):
        Options(level0_slowdown_trigger=11, level0_stop_trigger=10)


def test_replace_names_every_unknown_option() -> None:
    with pytest.raises(TypeError, match=r"no such option: blok_size \(.*\), erorr_rate \("):
        Options().replace(erorr_rate=0.1, blok_size=1, size_ratio=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("blok_size", r"did you mean 'block_size_bytes'\?"),
        ("write_buffer_size", r"did you mean 'write_buffer_size_bytes'\?"),
        ("cache_size", r"did you mean 'block_cache_size_bytes'\?"),
        ("lru_cache_size", r"did you mean 'block_cache_size_bytes'\?"),
        ("memtable_size_bytes", r"did you mean 'write_buffer_size_bytes'\?"),
        ("bits_per_key", r"10 bits a key are error_rate=0\.01"),
        ("bloom_filter_bits", r"10 bits a key are error_rate=0\.01"),
        ("size_limit", "leave it out"),
        ("create_if_missing", r"an argument of lsmkv\.open"),
        ("zzz", r"see lsmkv\.Options"),
    ],
)
def test_an_unknown_name_is_an_error_that_says_what_to_do(given: str, advice: str) -> None:
    message = rf"^no such option: {given} \(.*{advice}\)$"
    with pytest.raises(TypeError, match=message):
        make(**{given: 1})
    with pytest.raises(TypeError, match=message):
        Options().replace(**{given: 1})  # type: ignore[arg-type]


def test_the_names_of_other_stores_lead_to_what_is_there() -> None:
    assert not _NAMES_ELSEWHERE.keys() & {*NAMES}
    single = {advice for advice in _NAMES_ELSEWHERE.values() if advice.isidentifier()}
    assert single <= {*NAMES}
    parameters = {name for name in inspect.signature(lsmkv.open).parameters if name not in HIDDEN}
    assert {
        name for name, advice in _NAMES_ELSEWHERE.items() if advice.endswith("lsmkv.open")
    } == parameters


@pytest.mark.parametrize(
    "preset", [Options.hbase, Options.small_memory, Options.write_heavy], ids=lambda p: p.__name__
)
def test_presets_are_valid_and_can_be_replaced(preset: Callable[[], Options]) -> None:
    assert preset().replace(error_rate=0.5).error_rate == 0.5
