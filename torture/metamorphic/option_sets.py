"""Random options of a store, which must not change its answers."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, Final, get_args

from lsmkv import DelimitedPrefix, FixedPrefix, Options
from lsmkv.options import (
    CompactionStyle,
    FilterAllocation,
    FilterGranularity,
    FilterPolicyName,
    FilterResidency,
)

OptionSet = dict[str, Any]  # options that differ from their defaults, by name
_KIB: Final = 1024

# Probability that an option differs from its default, and its other values.
_CHOICES: Final[dict[str, tuple[float, tuple[Any, ...]]]] = {
    # Sizes so small that a few hundred writes make several levels; rarely the defaults.
    "write_buffer_size_bytes": (0.9, (4 * _KIB, 4 * _KIB, 8 * _KIB, 32 * _KIB)),
    "max_immutable_memtables": (0.3, (1, 4)),
    "block_size_bytes": (0.7, (256, 300, 512, 1024, 64 * _KIB)),
    "fit_pages": (0.3, (False,)),
    "block_cache_size_bytes": (0.6, (0, 0, 1000, 4 * _KIB, 100 * _KIB, 1 << 40)),
    "memory_budget_bytes": (0.3, (128 * _KIB, 1 << 20)),
    "compression": (0.4, ("none",)),
    "compression_level": (0.2, (-50, -5, 1, 7)),
    "compression_dictionary_size_bytes": (0.3, (256, 512, 4 * _KIB)),
    "direct_reads": (0.1, (True,)),
    "error_rate": (0.7, (0.999, 0.9, 0.5, 0.1, 0.001, 1e-9)),
    "filter_residency": (0.6, get_args(FilterResidency)),
    "filter_granularity": (0.5, get_args(FilterGranularity)),
    "filter_allocation": (0.5, get_args(FilterAllocation)),
    "filter_policy": (0.75, get_args(FilterPolicyName)),
    "filter_key": (
        0.5,
        (
            *map(FixedPrefix, (1, 2, 4, 20)),
            DelimitedPrefix(b"/"),
            DelimitedPrefix(b"/", 2),
            DelimitedPrefix(b"aa"),
        ),
    ),
    "compaction": (0.75, get_args(CompactionStyle)),
    "size_ratio": (0.7, (2, 2, 3, 5)),
    "level0_compaction_trigger": (0.7, (1, 2, 3, 8)),
    "level1_size_bytes": (0.85, (4 * _KIB, 8 * _KIB, 64 * _KIB)),
    "table_size_bytes": (0.8, (4 * _KIB, 4 * _KIB, 16 * _KIB, 100 * _KIB)),
    "file_mode": (0.1, (0o640,)),
    "read_around": (0.3, (False,)),
    "max_open_files": (0.2, (1, 4, 64)),
}


def option_set(dice: random.Random) -> OptionSet:
    drawn: OptionSet = {}
    for name, (share, choices) in _CHOICES.items():
        is_taken, choice = dice.random() < share, dice.choice(choices)
        if is_taken and choice != getattr(Options(), name):
            drawn[name] = choice
    first = drawn.get("level0_compaction_trigger", Options().level0_compaction_trigger)
    if dice.random() < 0.2:
        drawn["level0_slowdown_trigger"] = first + dice.choice((0, 1, 4))
        drawn["level0_stop_trigger"] = drawn["level0_slowdown_trigger"] + dice.choice((0, 2))
    if dice.random() < 0.25:  # which needs filters
        drawn = without(drawn, ["filter_residency", "filter_policy"])
        drawn |= {"filter_policy": dice.choice(("bloom", "ribbon")), "adaptive_filters": True}
    if dice.random() < 0.25 and is_allowed(drawn | {"filter_memory_bytes": 1}):
        drawn["filter_memory_bytes"] = dice.choice((1, 300, 4 * _KIB, 1 << 40))
    return drawn if is_allowed(drawn) else option_set(dice)


def in_helper_processes(options: OptionSet) -> OptionSet:
    """The same set, with every flush and compaction in a process."""
    return options | {"background": "process", "process_job_size_bytes": 0}


def without(options: OptionSet, names: Iterable[str]) -> OptionSet:
    """The same set, with some options at their defaults."""
    left_out = set(names)
    return {name: choice for name, choice in options.items() if name not in left_out}


def is_allowed(options: OptionSet) -> bool:
    """Whether a store opens with these options, some of which limit others."""
    try:
        Options(**options)
    except ValueError:
        return False
    return True


def as_arguments(options: OptionSet) -> str:
    return ", ".join(f"{name}={choice!r}" for name, choice in options.items())
