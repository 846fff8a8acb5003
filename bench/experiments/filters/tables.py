"""The tables of ``filters``: one for each number of keys and requested rate."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Final

from ...harness.tables import Shown, Table, table_of
from .rows import Row, error_rates, key_counts, rows_of

DOCUMENTED: Final = (30, 0.01)  # number of keys and rate of the documentation's table
LEGEND: Final = (
    "store/...: the filters of tables, through the functions that a table calls, with the hash of "
    "each key; the others are objects for programs. compiled: whether machine code probes the filter in "
    "this build; partly: it does, called by an interpreted object. "
    "exact: the rate in theory of the filter as built; after ~ that of independent probes, which "
    "the filter may miss. measured: false positives by absent keys asked; ! if the 95 % interval "
    "excludes the rate in theory. of bound: bits per key by log2(1/p) at the exact rate (after ~ "
    "at the measured one), below which no filter can go. Times of adding a key, and of asking for a "
    "present and an absent one, are medians in ns, loop included; of store/..., "
    "fingerprints, binary fuse and ribbon an add is a key's share of the build."
)


def _exact(row: Row) -> str:
    return ("~" if row.error_rate_basis == "ideal" else "") + rate_percent(row.error_rate_exact)


def _measured(row: Row) -> str:
    return rate_percent(row.error_rate_measured) + ("" if row.exact_in_interval else " !")


def _interval(row: Row) -> str:
    return f"{rate_percent(row.error_rate_low)} to {rate_percent(row.error_rate_high)}"


_COMPILED: Final = {"compiled": "yes", "partly": "partly", "interpreted": "no"}
_COLUMNS: Final = (
    "filter",
    Shown("compiled", lambda row: _COMPILED[row.code]),
    "bits_per_key",
    "over_lower_bound",
    Shown("exact %", _exact),
    Shown("measured %", _measured),
    Shown("95 % interval", _interval),
    "add_ns_median",
    "query_present_ns_median",
    "query_absent_ns_median",
)


def tables(rows: Sequence[Row], missing_names: Sequence[str]) -> list[Table]:
    """Every table; each names the missing contenders, and explains the columns."""
    missing = [[name, "not installed", *[""] * (len(_COLUMNS) - 2)] for name in missing_names]
    found = []
    for key_count in key_counts(rows):
        for error_rate in error_rates(rows):
            here = rows_of(rows, key_count, error_rate)
            is_brief = (key_count, error_rate) == DOCUMENTED
            table = table_of(heading(here[0]), here, _COLUMNS, left=2, empty="-", brief=is_brief)
            found.append(dataclasses.replace(table, cells=[*table.cells, *missing]))
    return [dataclasses.replace(table, note=LEGEND) for table in found]


def heading(row: Row) -> str:
    """The settings that the rows of one table share."""
    return f"{row.key_count:,} keys, {row.error_rate_requested * 100:.3g} % requested"


def rate_percent(rate: float) -> str:
    """A rate in per cent with three digits and no exponent."""
    if not rate:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(rate * 100)))
    return f"{rate * 100:.{digits}f}"
