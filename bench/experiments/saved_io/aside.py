"""Beside the main stores of ``saved-io``: skewed lookups, sizes of values, and what devices make of it.

Counts are measured.  Times of devices are modelled from what their makers state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lsmkv.explore.devices import DEVICES, HARD_DISK, OBJECT_STORE, SSD, Device

from ...harness.intervals import FEWEST_EVENTS
from ...harness.tables import Shown, Table, percent, table_of
from .datasets import (
    SKEWED,
    STRETCHES,
    TENANT_LOOKUPS,
    TENANT_RANGE,
    TENANTS,
    VALUES,
    ZIPF,
)
from .rows import DRAWN, REFERENCE_RATE, TRACE, Row
from .tables import measured_rate, requested_rate, saved_share

DEPTHS: Final = (1, 32)
_LOOKUPS: Final = 1_000_000
_DEVICES_TITLE: Final = "Data larger than memory: counted reads, modelled times"
_SKEW_TITLE: Final = (
    "Absent keys, by how lookups are spread: evenly, skewed over the key range, a hot tenant"
)
_VALUES_TITLE: Final = "Filters of 1 % by the size of values"


def on_devices(rows: Sequence[Row]) -> Table:
    """What the counts of these lookups would take, with no block in memory."""
    asked = "lookups of a trace" if rows[0].lookups_of == TRACE else "absent keys"
    return table_of(
        f"{_DEVICES_TITLE} ({asked}, the stores of the first table)",
        [row for row in rows if (row.data_block_reads or 0) >= FEWEST_EVENTS],
        (
            Shown("filters", lambda row: row.filter_policy if row.error_rate_requested else "none"),
            Shown("asked\np, %", requested_rate),
            Shown("reads a lookup,\ncounted", _reads, ".4f"),
            _seconds_on(HARD_DISK),
            *(_seconds_on(device, depth) for device in (SSD, OBJECT_STORE) for depth in DEPTHS),
        ),
        "Reads are counted, block cache off; s: seconds of the device for "
        f"{_LOOKUPS:,} lookups, modelled from what makers state, none is measured. Depth: lookups under "
        "way at once, each of which reads one block after the other. "
        + "; ".join(device.source for device in DEVICES)
        + ".",
    )


def _reads(row: Row) -> float:
    return (row.data_block_reads or 0) / row.lookup_count


def _seconds_on(device: Device, depth: int | None = None) -> Shown:
    """The column of a device; without a depth, of one that serves a read at a time."""

    def seconds(row: Row) -> str:
        found = _LOOKUPS * _reads(row) / device.reads_per_s(depth or 1)
        return f"{found:,.0f}" if found >= 10 else f"{found:.2g}"

    return Shown(
        f"{device.name}, s" if depth is None else f"{device.name}, s,\ndepth {depth}", seconds
    )


def skew(rows: Sequence[Row], even: Sequence[Row]) -> list[Table]:
    """Skewed lookups beside ``even``, lookups spread over all keys of the same stores."""
    here = [row for row in rows if row.dataset in SKEWED and ZIPF.get(row.dataset) != 0]
    if not here:
        return []
    rates = [rate for rate in dict.fromkeys(row.error_rate_requested for row in here) if rate]
    spread = [
        row
        for row in even
        if (row.block_size_bytes, row.run_count) == (here[0].block_size_bytes, here[0].run_count)
    ]
    shown = [row for rate in rates for row in (*spread, *here) if row.error_rate_requested == rate]
    table = table_of(
        _SKEW_TITLE,
        shown,
        (
            Shown("lookups", _asker),
            Shown("asked\np, %", requested_rate),
            "error_rate_exact",
            Shown("measured, %\n(95 % interval)", measured_rate),
            Shown("reads\nsaved, %", lambda row: saved_share(row, row.reads_saved_gross_share)),
            "filters_asked_half",
            Shown("design\neffect", "design_effect", ".1f"),
        ),
        f"Zipf: the key range has {STRETCHES} equal stretches, whose popularity follows the law of that "
        "exponent, shuffled; all lookups are of absent keys. "
        f"The tenant has {TENANT_RANGE:.0%} of the keys, in one stretch, and gets {TENANT_LOOKUPS:.0%} "
        "of the lookups. In one run: the other runs have no key in its stretch, and "
        "one block in each spans all of it. A few filters get most questions there, and their own bits "
        "decide; the interval, by how filters differ, has too few of them. Design effect: by how much "
        "more the measured rate varies than that of as many independent trials.",
    )
    return [table]


def _asker(row: Row) -> str:
    if row.lookups_of == DRAWN:
        return "evenly spread"
    if row.dataset in ZIPF:
        return f"Zipf {ZIPF[row.dataset]:g}"
    return "tenant in all runs" if row.dataset == TENANTS[0] else "tenant in one run"


def value_sizes(rows: Sequence[Row]) -> list[Table]:
    """What a filter costs for each read that it saves, by the size of values."""
    here = [
        row
        for row in rows
        if row.dataset in VALUES
        and not row.hit_ratio
        and row.error_rate_requested == REFERENCE_RATE
    ]
    if not here:
        return []
    table = table_of(
        f"{_VALUES_TITLE}: absent keys, one lookup for each key of the store",
        here,
        (
            Shown("value,\nbytes", lambda row: f"{VALUES[row.dataset]:,}"),
            Shown("keys a\nblock", lambda row: row.entry_count / (row.block_count or 1), ".1f"),
            "filter_bytes_per_key",
            "index_memory_bytes_per_key",
            Shown("filters, %\nof data", _data_share),
            Shown("reads saved\na lookup", _saved_reads, ".3f"),
            Shown("filter bytes\na read saved", lambda row: _bytes_a_read(row) or "-"),
        ),
        "One run, blocks of 4 KiB, no compression. Filters are one copy, as held in memory, by the bytes "
        "of tables less both copies of filters. The index is that in memory.",
        left=0,
    )
    return [table]


def _data_share(row: Row) -> str:
    filters = row.filter_bytes or 0
    disk = (row.filter_disk_bytes_per_key or 0.0) * row.entry_count
    return percent(filters / ((row.data_bytes or 0) - disk))


def _saved_reads(row: Row) -> float:
    return (row.reads_saved_gross or 0) / row.lookup_count


def _bytes_a_read(row: Row) -> str | None:
    if (row.reads_saved_gross or 0) < FEWEST_EVENTS:
        return None
    return f"{row.filter_bytes_per_key / _saved_reads(row):.2f}"
