"""Data larger than memory in ``saved-io``: lookups in a control group of an eighth of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import lsmkv
from lsmkv.options import KIB, MIB

from ...harness import page_cache
from ...harness.intervals import percentile
from ...harness.memory_group import memory_group, why_no_memory_group
from ...harness.process_meter import os_read_bytes
from ...harness.stopwatch import each_us
from ...harness.tables import Shown, Table, table_of
from .datasets import LIMITED
from .rows import Row
from .tables import requested_rate

SHARE: Final = 8  # the data, by the memory of the control group
LEAST_LIMIT_BYTES: Final = 16 * MIB  # in less memory a process does not run
_CACHE_SHARE: Final = 8
_MEASURED: Final = "measured"
TITLE: Final = "Data of eight times the memory"


@dataclass(frozen=True, slots=True)
class Limited:
    """Lookups in a control group.

    Attributes:
        us: microseconds of each lookup.
        read_bytes: what the system read from the device, with the load of indexes and filters.
        held_bytes: the store's bytes in the page cache at the end.
        check: ``measured``, or why nothing was.
    """

    limit_bytes: int
    us: Sequence[float] = ()
    read_bytes: int | None = None
    held_bytes: int | None = None
    check: str = _MEASURED


def limited_pass(directory: str, data_bytes: int, keys: Sequence[bytes]) -> Limited:
    """Look ``keys`` up with no page in memory at first, or say why not."""
    limit_bytes = data_bytes // SHARE
    if limit_bytes < LEAST_LIMIT_BYTES:
        least = SHARE * LEAST_LIMIT_BYTES
        return Limited(limit_bytes, check=f"{data_bytes:,} bytes of data are below {least:,}")
    if why := page_cache.why_not_dropped(directory) or why_no_memory_group():
        return Limited(limit_bytes, check=why)
    page_cache.drop(directory)
    with (
        memory_group(limit_bytes),
        lsmkv.open(
            directory, read_only=True, block_cache_size_bytes=limit_bytes // _CACHE_SHARE
        ) as db,
    ):
        before = os_read_bytes() or 0
        us = each_us(db.get, keys)
        read_bytes = (os_read_bytes() or 0) - before
        return Limited(limit_bytes, us, read_bytes, page_cache.resident_bytes(directory))


def limited_columns(found: Limited | None) -> dict[str, Any]:
    """The columns of a row; none of a data set whose lookups are not limited."""
    if found is None:
        return {}
    return {
        "limited_bytes": found.limit_bytes,
        "limited_lookup_count": len(found.us),
        "limited_us_mean": sum(found.us) / len(found.us) if found.us else None,
        "limited_us_p99": percentile(found.us, 99) if found.us else None,
        "limited_read_bytes": found.read_bytes,
        "limited_page_cache_bytes": found.held_bytes,
        "limited_check": found.check,
    }


def limited_story(rows: Sequence[Row]) -> tuple[list[Table], list[str]]:
    """Table and failures; none of a run without such data."""
    here = [row for row in rows if row.dataset == LIMITED and row.hit_ratio in (0.0, 1.0)]
    if not here:
        return [], []
    first = here[0]
    if first.limited_check != _MEASURED:
        why = first.limited_check or "counted only"
        return [Table(TITLE, ["not measured"], [[why]])], []
    table = table_of(
        f"{TITLE}: {(first.data_bytes or 0) / MIB:,.0f} MiB in a control group of "
        f"{(first.limited_bytes or 0) / MIB:,.0f} MiB",
        sorted(here, key=lambda row: row.hit_ratio),
        (
            Shown("lookups", lambda row: "present" if row.hit_ratio else "absent"),
            Shown("asked\np, %", requested_rate),
            Shown("blocks a\nlookup", _blocks, ".4f"),
            Shown("KiB read\na lookup", _kib, ".3g", is_timed=True),
            Shown("µs,\nmean", "limited_us_mean", ".0f"),
            Shown("µs,\np99", "limited_us_p99", ".0f"),
            Shown("page cache,\nMiB", _cached_mib, ".1f", is_timed=True),
        ),
        f"{first.limited_lookup_count:,} lookups from a cold start; {first.run_count} runs. The group "
        "has an eighth of the data, for page cache, block cache (an eighth of that), indexes and "
        "filters. Blocks are counted without any cache. KiB: read from the device by the system's count, "
        "with the load of indexes and filters. Times depend on the device.",
    )
    failures = [
        f"{TITLE}, p {requested_rate(row)}: {row.limited_page_cache_bytes:,} bytes were in the page "
        f"cache, and {row.limited_bytes:,} may be"
        for row in here
        if (row.limited_page_cache_bytes or 0) > (row.limited_bytes or 0)
    ]
    return [table], failures


def _blocks(row: Row) -> float:
    return (row.data_block_reads or 0) / row.lookup_count


def _kib(row: Row) -> float:
    return (row.limited_read_bytes or 0) / (row.limited_lookup_count or 1) / KIB


def _cached_mib(row: Row) -> float:
    return (row.limited_page_cache_bytes or 0) / MIB
