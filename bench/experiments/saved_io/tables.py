"""The tables of ``saved-io``: absent keys of every store and each store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lsmkv.options import KIB

from ...harness.seeds import TOO_FEW
from ...harness.tables import Shown, Table, percent, table_of
from .rows import TRACE, Row


def requested_rate(row: Row) -> str:
    return "none" if row.error_rate_requested is None else percent(row.error_rate_requested)


def measured_rate(row: Row) -> str | None:
    if row.error_rate_measured is None:
        return None
    low, high = row.error_rate_low or 0.0, row.error_rate_high or 0.0
    ends = f"{percent(low)}-{percent(high)}" if row.tells_rate else TOO_FEW
    return f"{percent(row.error_rate_measured)} ({ends})"


def saved_share(row: Row, share: float | None) -> str:
    return "" if row.error_rate_requested is None else f"{(share or 0.0) * 100:.3f}"


_RATES: Final = (Shown("asked\np, %", requested_rate), "error_rate_exact")
_MEASURED: Final = Shown("measured, %\n(95 % interval)", measured_rate)
_SAVED: Final = Shown("reads\nsaved, %", lambda row: saved_share(row, row.reads_saved_gross_share))
_NET: Final = (
    Shown("net,\nreads, %", lambda row: saved_share(row, row.reads_saved_net_share)),
    Shown("net,\nbytes, %", lambda row: saved_share(row, row.page_bytes_saved_net_share)),
    Shown(
        "net of index,\nbytes, %",
        lambda row: saved_share(row, row.page_bytes_saved_net_of_index_share),
    ),
    "filter_bytes_per_key",
    "index_memory_bytes_per_key",
)
NET_NOTE: Final = (
    "Net: less the load of the filters, once for these lookups. Reads are read calls: a table's filters "
    "take one, whatever their size. Bytes are of whole 4 KiB pages, as a device reads them. Net of "
    "index: less the load of the indexes too, which a store without filters needs as well. Bytes a key "
    "are those in memory."
)


def shape_name(row: Row) -> str:
    """Data set, block size and runs."""
    runs = f"{row.run_count} run{'s' * (row.run_count != 1)}"
    return f"{row.dataset}, {(row.block_size_bytes or 0) // KIB} KiB blocks, {runs}"


def headline(rows: Sequence[Row]) -> Table:
    """The answer: lookups of absent keys, or those of a trace, in the stores of one shape."""
    first = rows[0]
    several = len({row.filter_policy for row in rows}) > 1
    asked = (
        f"lookups of a trace, {percent(first.hit_ratio)} % of present keys"
        if first.lookups_of == TRACE
        else "lookups of absent keys"
    )
    which = shape_name(first) if several else f"{shape_name(first)}, {first.filter_policy}"
    return table_of(
        f"{first.lookup_count:,} {asked} ({which})",
        rows,
        (
            *((Shown("filters", "filter_policy"),) if several else ()),
            Shown("asked\np, %", requested_rate),
            "error_rate_exact",
            _MEASURED,
            _SAVED,
            *_NET,
        ),
        NET_NOTE,
        left=int(several),
    )


def summary(rows: Sequence[Row]) -> Table:
    """The lookups of absent keys."""
    several = len({row.filter_policy for row in rows}) > 1

    def store(row: Row) -> str:
        name = f"{row.dataset} {(row.block_size_bytes or 0) // KIB} KiB x {row.run_count}"
        return f"{name}, {row.filter_policy}" if several else name

    return table_of(
        "Absent keys (data set, block size x runs)",
        rows,
        (Shown("store", store), *_RATES, _MEASURED, "data_block_reads", _SAVED, *_NET),
        f"p none: tables without filters. Reads are of data blocks, block cache off. {NET_NOTE}",
        brief=False,
    )
