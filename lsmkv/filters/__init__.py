"""Filters: sets that take a few bits per key and are wrong at a known rate, one way only.

The package can be used by itself: ``from lsmkv import filters``.  ``docs/filters.md`` tells which
filter is for what.

* Maths, no bits: :mod:`~lsmkv.filters.maths.sizing` (Bloom filters, exact),
  :mod:`~lsmkv.filters.maths.rates` and
  :mod:`~lsmkv.filters.maths.layouts` (the others), :mod:`~lsmkv.filters.maths.allocation` (memory
  among many).
* Filters: one module for each kind.  What a filter can do is what it has methods for;
  :mod:`~lsmkv.filters.family.protocols` names these abilities for annotations.
* :mod:`~lsmkv.filters.family.strategies`: other people's ways to hash, for comparison.
* In the store: :mod:`~lsmkv.filters.hashing` and :mod:`~lsmkv.filters.bloom` (what a block embeds),
  :mod:`~lsmkv.filters.keys` (which part of a key), :mod:`~lsmkv.filters.policy` (what else a block
  could embed).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lsmkv.runtime import loaded_when_used

if TYPE_CHECKING:
    from lsmkv.filters.family.blocked import BlockedBloomFilter
    from lsmkv.filters.family.classic import BloomFilter, SingleHashFilter
    from lsmkv.filters.family.counting import CountingBloomFilter
    from lsmkv.filters.family.cuckoo import CuckooFilter, FilterFullError
    from lsmkv.filters.family.folding import FoldableBloomFilter
    from lsmkv.filters.family.fuse import BinaryFuseFilter
    from lsmkv.filters.family.known import GrowingKnownFalsePositives, KnownFalsePositives
    from lsmkv.filters.family.loading import load
    from lsmkv.filters.family.partitioned import PartitionedBloomFilter
    from lsmkv.filters.family.protocols import (
        CountEstimate,
        Delete,
        Fold,
        HashInsert,
        HashMembership,
        Insert,
        KeyCount,
        Membership,
        Save,
        Union,
    )
    from lsmkv.filters.family.rolling import RollingBloomFilter, RollingCountingFilter, Window
    from lsmkv.filters.family.sorted_fingerprints import FingerprintFilter
    from lsmkv.filters.family.strategies import (
        STRATEGIES,
        HashStrategy,
        StrategyBloomFilter,
        strategy_named,
    )
    from lsmkv.filters.fuse import FilterBuildError
    from lsmkv.filters.hashing import hash_key
    from lsmkv.filters.keys import (
        DelimitedPrefix,
        FilterKey,
        FixedPrefix,
        WholeKey,
        filter_key_from_spec,
    )
    from lsmkv.filters.maths.allocation import (
        expected_wasted_reads,
        memory_bits,
        monkey_error_rates,
    )
    from lsmkv.filters.maths.layouts import (
        blocked_bits_for,
        blocked_lines_for,
        blocked_probes_for,
        blocked_rate,
        cuckoo_bits_for,
        cuckoo_buckets_for,
        cuckoo_fingerprint_bits_for,
        cuckoo_rate,
        fuse_bits_for,
        fuse_fingerprint_bits_for,
        fuse_rate,
    )
    from lsmkv.filters.maths.rates import (
        crossover_keys,
        each_rate,
        either_rate,
        fingerprint_bits_for,
        fingerprint_rate,
        keys_that_fit,
        over_lower_bound,
        partitioned_bits_for,
        partitioned_bits_roughly,
        partitioned_probes_for,
        partitioned_rate,
        rate_that_fits,
        single_hash_bits_for,
        single_hash_rate,
        sorted_bits_for,
    )
    from lsmkv.filters.maths.sizing import (
        MAX_PROBES,
        bits_for,
        classic_rate,
        exact_rate,
        filter_bytes_for,
        keys_for,
        lower_bound_bits,
        probes_for,
        rate_for,
    )
    from lsmkv.filters.policy import FilterPolicy, policies, policy_for, policy_named

__all__ = [
    "MAX_PROBES",
    "STRATEGIES",
    "BinaryFuseFilter",
    "BlockedBloomFilter",
    "BloomFilter",
    "CountEstimate",
    "CountingBloomFilter",
    "CuckooFilter",
    "Delete",
    "DelimitedPrefix",
    "FilterBuildError",
    "FilterFullError",
    "FilterKey",
    "FilterPolicy",
    "FingerprintFilter",
    "FixedPrefix",
    "Fold",
    "FoldableBloomFilter",
    "GrowingKnownFalsePositives",
    "HashInsert",
    "HashMembership",
    "HashStrategy",
    "Insert",
    "KeyCount",
    "KnownFalsePositives",
    "Membership",
    "PartitionedBloomFilter",
    "RollingBloomFilter",
    "RollingCountingFilter",
    "Save",
    "SingleHashFilter",
    "StrategyBloomFilter",
    "Union",
    "WholeKey",
    "Window",
    "bits_for",
    "blocked_bits_for",
    "blocked_lines_for",
    "blocked_probes_for",
    "blocked_rate",
    "classic_rate",
    "crossover_keys",
    "cuckoo_bits_for",
    "cuckoo_buckets_for",
    "cuckoo_fingerprint_bits_for",
    "cuckoo_rate",
    "each_rate",
    "either_rate",
    "exact_rate",
    "expected_wasted_reads",
    "filter_bytes_for",
    "filter_key_from_spec",
    "fingerprint_bits_for",
    "fingerprint_rate",
    "fuse_bits_for",
    "fuse_fingerprint_bits_for",
    "fuse_rate",
    "hash_key",
    "keys_for",
    "keys_that_fit",
    "load",
    "lower_bound_bits",
    "memory_bits",
    "monkey_error_rates",
    "over_lower_bound",
    "partitioned_bits_for",
    "partitioned_bits_roughly",
    "partitioned_probes_for",
    "partitioned_rate",
    "policies",
    "policy_for",
    "policy_named",
    "probes_for",
    "rate_for",
    "rate_that_fits",
    "single_hash_bits_for",
    "single_hash_rate",
    "sorted_bits_for",
    "strategy_named",
]

_HOMES: Final = {
    "lsmkv.filters.maths.allocation": (
        "expected_wasted_reads",
        "memory_bits",
        "monkey_error_rates",
    ),
    "lsmkv.filters.family.blocked": ("BlockedBloomFilter",),
    "lsmkv.filters.family.classic": ("BloomFilter", "SingleHashFilter"),
    "lsmkv.filters.family.counting": ("CountingBloomFilter",),
    "lsmkv.filters.family.cuckoo": ("CuckooFilter", "FilterFullError"),
    "lsmkv.filters.family.sorted_fingerprints": ("FingerprintFilter",),
    "lsmkv.filters.family.folding": ("FoldableBloomFilter",),
    "lsmkv.filters.family.fuse": ("BinaryFuseFilter",),
    "lsmkv.filters.fuse": ("FilterBuildError",),
    "lsmkv.filters.hashing": ("hash_key",),
    "lsmkv.filters.keys": (
        "DelimitedPrefix",
        "FilterKey",
        "FixedPrefix",
        "WholeKey",
        "filter_key_from_spec",
    ),
    "lsmkv.filters.family.known": ("GrowingKnownFalsePositives", "KnownFalsePositives"),
    "lsmkv.filters.maths.layouts": (
        "blocked_bits_for",
        "blocked_lines_for",
        "blocked_probes_for",
        "blocked_rate",
        "cuckoo_bits_for",
        "cuckoo_buckets_for",
        "cuckoo_fingerprint_bits_for",
        "cuckoo_rate",
        "fuse_bits_for",
        "fuse_fingerprint_bits_for",
        "fuse_rate",
    ),
    "lsmkv.filters.family.loading": ("load",),
    "lsmkv.filters.family.partitioned": ("PartitionedBloomFilter",),
    "lsmkv.filters.policy": ("FilterPolicy", "policies", "policy_for", "policy_named"),
    "lsmkv.filters.family.protocols": (
        "CountEstimate",
        "Delete",
        "Fold",
        "HashInsert",
        "HashMembership",
        "Insert",
        "KeyCount",
        "Membership",
        "Save",
        "Union",
    ),
    "lsmkv.filters.maths.rates": (
        "crossover_keys",
        "each_rate",
        "either_rate",
        "fingerprint_bits_for",
        "fingerprint_rate",
        "keys_that_fit",
        "over_lower_bound",
        "partitioned_bits_for",
        "partitioned_bits_roughly",
        "partitioned_probes_for",
        "partitioned_rate",
        "rate_that_fits",
        "single_hash_bits_for",
        "single_hash_rate",
        "sorted_bits_for",
    ),
    "lsmkv.filters.family.rolling": ("RollingBloomFilter", "RollingCountingFilter", "Window"),
    "lsmkv.filters.maths.sizing": (
        "MAX_PROBES",
        "bits_for",
        "classic_rate",
        "exact_rate",
        "filter_bytes_for",
        "keys_for",
        "lower_bound_bits",
        "probes_for",
        "rate_for",
    ),
    "lsmkv.filters.family.strategies": (
        "STRATEGIES",
        "HashStrategy",
        "StrategyBloomFilter",
        "strategy_named",
    ),
}
"""Where the names come from.  Each is loaded when it is first used: a store needs few of them."""

if not TYPE_CHECKING:  # they would take any name for one of ours
    __getattr__, __dir__ = loaded_when_used(__name__, _HOMES)
