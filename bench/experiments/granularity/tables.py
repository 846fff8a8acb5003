"""The tables of ``granularity``: a summary, RocksDB's own counts, and each tree in detail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...harness.tables import Shown, Table, table_of
from . import groups, verdict
from .rows import Row


def summary(rows: Sequence[Row], style: str) -> Table:
    """One tree at about 10 bits per key: what each granularity wastes, reads, searches and holds."""
    bits = groups.typical_budget(rows)
    here = [row for row in rows if row.style == style and groups.kind(row) == "no filters"]
    here += [groups.at_budget(rows, style, wanted, "uniform", bits) for wanted in groups.KINDS]
    return table_of(
        f"{bits:g} bits per key, {style}, {here[0].runs} runs, {here[0].entries:,} entries",
        here,
        (
            Shown("filters", groups.kind),
            Shown("wasted\nreads", "absent_block_reads_per_lookup", ".4f"),
            Shown("95 %\ninterval", _reads_ends),
            Shown(
                "cached: filter\nreads", lambda row: _filtered(row, verdict.filter_reads), _count
            ),
            Shown("\nbytes", lambda row: _filtered(row, verdict.filter_read_bytes), ",.0f"),
            Shown("index searches:\nblocks", "absent_index_searches_per_lookup", ".3f"),
            Shown("\nchunks", "absent_chunk_searches_per_lookup", ".2f"),
            Shown("memory,\nbytes/key", _memory),
        ),
        SUMMARY_NOTE.format(share=here[0].cached_share),
    )


SUMMARY_NOTE: Final = (
    "Per lookup of an absent key, uniform rates. wasted reads: data blocks read, all filters in memory, "
    "no block cache; their interval is Clopper and Pearson's of all filters asked, and takes these "
    "filters as given. cached: filters read on demand through a block cache of {share:.0%} of their "
    "size, random keys. memory: filters + indexes, all of them in memory. Ribbon filters per table have "
    "sizes of their own."
)


def _filtered(row: Row, figure: Callable[[Row, str], float]) -> float | None:
    return figure(row, "uniform") if row.filter_bytes else None


def _count(value: float) -> str:
    return f"{value:.2f}"


def _reads_ends(row: Row) -> str:
    if not row.filter_probes:
        return ""
    low, high = groups.reads_interval(row)
    return f"{low:.4f}-{high:.4f}"


def _memory(row: Row) -> str:
    indexes = (row.index_bytes + row.chunk_index_bytes) / row.entries
    return f"{row.filter_bytes_per_key:.3f} + {indexes:.3f}"


def beside_rocksdb(rows: Sequence[Row]) -> list[Table]:
    """RocksDB's own counts beside those of the same filters here; none without RocksDB."""
    bits, cells = groups.typical_budget(rows), []
    for style in groups.styles(rows):
        for wanted in groups.KINDS:
            row = groups.at_budget(rows, style, wanted, "uniform", bits)
            if row.rocksdb_filter_bits_per_key is None:
                continue
            for order, words in verdict.ORDERS.items():
                theirs = verdict.rocksdb_read_bytes(row, order) or 0.0
                ours = verdict.filter_read_bytes(row, order)
                ratio = verdict.rocksdb_by_ours(row, order)
                cells.append(
                    [
                        style,
                        groups.kind(row),
                        words,
                        f"{verdict.filter_reads(row, order):.2f}",
                        f"{ours:,.0f}",
                        f"{verdict.rocksdb_reads(row, order):.2f}",
                        f"{theirs:,.0f}",
                        "" if ratio is None else f"{ratio:.2f}",
                    ]
                )
    if not cells:
        return []
    headings = [
        "tree",
        "filters",
        "order",
        "here:\nreads",
        "\nbytes",
        "RocksDB:\nreads",
        "\nbytes",
        "bytes,\nRocksDB/here",
    ]
    note = (
        "Filter reads and their bytes per lookup of an absent key, cached, the same tables and cache "
        "size. RocksDB keeps its index of blocks in that cache too, and a filter that is larger than "
        "the cache drives everything else out of it; lsmkv's cache refuses such a filter."
    )
    return [Table("RocksDB's own counts", headings, cells, note, left=3, brief=False)]


def tables(rows: Sequence[Row]) -> list[Table]:
    found = []
    if groups.budgets(rows):
        found += [summary(rows, style) for style in groups.styles(rows)[1:]]
        found += beside_rocksdb(rows)
    return found
