"""Bloom filters: what they hold, how large they are, how often they are wrong.

``sizing`` is the maths of one filter, ``allocation`` shares memory out among many, and ``keys``
says which part of a key a filter holds.  None of them reads, writes or hashes anything.
"""

from __future__ import annotations

from lsmkv.filters.allocation import expected_wasted_reads, memory_bits, monkey_error_rates
from lsmkv.filters.keys import (
    DelimitedPrefix,
    FilterKey,
    FixedPrefix,
    WholeKey,
    filter_key_from_spec,
)
from lsmkv.filters.sizing import (
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

__all__ = [
    "MAX_PROBES",
    "DelimitedPrefix",
    "FilterKey",
    "FixedPrefix",
    "WholeKey",
    "bits_for",
    "classic_rate",
    "exact_rate",
    "expected_wasted_reads",
    "filter_bytes_for",
    "filter_key_from_spec",
    "keys_for",
    "lower_bound_bits",
    "memory_bits",
    "monkey_error_rates",
    "probes_for",
    "rate_for",
]
