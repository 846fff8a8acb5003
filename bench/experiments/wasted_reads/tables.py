"""The tables of ``wasted-reads``: two for each set of keys, and the controls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...harness.intervals import FEWEST_EVENTS
from ...harness.tables import Shown, Table, percent, table_of
from .rows import Row, least_index_bits
from .tasks import NO_FILTER, PACKED

OURS: Final = "lsmkv"
DOCUMENTED_BYTES: Final = 100  # of the largest values whose tables stand in the documentation
_GREW: Final = "grew\nKiB"

NOTE: Final = (
    "index: bits a key of the index in memory. In the columns of a budget, of bits a key of filters "
    "and index together: wasted reads, data blocks read by the lookups, which are all of absent keys; "
    '"-": the index alone, or with the least filters, exceeds the budget. told, grew: KiB of filters '
    "and index in the largest budget, and by how much a process grew that loaded them, with the "
    "engine's own objects. the least: what no filters and index of exactly the budget can be below, "
    "for random keys in as few blocks. the others / lsmkv: how many times fewer wasted reads the best "
    "lsmkv has than the best of the others, or of those without packed index; behind, where it has more; "
    "too few, where both have fewer than 20."
)


def shown(rows: Sequence[Row]) -> list[Row]:
    """The rows without the controls."""
    return [row for row in rows if row.filters != NO_FILTER]


def key_sets(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """The rows of each kind of keys and size of values."""
    for keys, value_bytes in dict.fromkeys((row.keys, row.value_bytes) for row in shown(rows)):
        yield [row for row in shown(rows) if (row.keys, row.value_bytes) == (keys, value_bytes)]


def budgets(rows: Sequence[Row]) -> list[float]:
    return sorted({row.budget_bits_per_key for row in shown(rows)})


def at_budget(rows: Sequence[Row], bits: float) -> list[Row]:
    return [row for row in shown(rows) if row.budget_bits_per_key == bits]


def named(rows: Sequence[Row], name: str) -> Row | None:
    return next((row for row in rows if row.name == name), None)


def best_two(rows: Sequence[Row]) -> tuple[int | None, int | None]:
    """The fewest wasted reads of lsmkv and of the others; None where none fits its budget."""
    return _fewest(rows, is_ours=True), _fewest(rows, is_ours=False)


def _fewest(rows: Sequence[Row], *, is_ours: bool) -> int | None:
    reads = [
        row.block_reads
        for row in rows
        if row.block_reads is not None and (row.engine == OURS) == is_ours
    ]
    return min(reads, default=None)


def least_rate(rows: Sequence[Row], bits: float) -> float:
    """The least share of absent keys that any filters and index of so many bits a key let pass."""
    blocks = min((row.block_count for row in rows if row.block_count), default=1)
    return float(min(1.0, 2.0 ** (least_index_bits(rows[0].entries, blocks) - bits)))


def tables(rows: Sequence[Row]) -> list[Table]:
    sets = list(key_sets(rows))
    found = [_compared(each) for each in sets]
    found += map(_detailed, sets)
    controls = [row for row in rows if row.filters == NO_FILTER]
    return [*found, *([_controls(controls)] if controls else [])]


def _title(row: Row) -> str:
    return (
        f"{row.keys}, values of {row.value_bytes:,} bytes: {row.lookups:,} lookups of absent keys "
        f"in {row.entries:,} entries"
    )


def _compared(rows: Sequence[Row]) -> Table:
    every = budgets(rows)
    headings = [
        "store, filters",
        "index",
        *(f"{bits:g} bits" for bits in every),
        "told\nKiB",
        _GREW,
    ]
    cells = []
    for name in dict.fromkeys(row.name for row in rows):
        mine = [row for row in rows if row.name == name]
        largest = mine[-1]
        cells.append(
            [
                name,
                f"{largest.index_bits_per_key:.2f}",
                *(_count(row.block_reads) for row in mine),
                _kib(largest.bits_per_key * largest.entries / 8),
                _kib(largest.grown_bytes),
            ]
        )
    least = [least_rate(rows, bits) for bits in every]
    blocks = min((row.block_count for row in rows if row.block_count), default=1)
    cells += [
        [
            "the least",
            f"{least_index_bits(rows[0].entries, blocks):.2f}",
            *(f"{rate * rows[0].lookups:,.0f}" for rate in least),
            "-",
            "-",
        ]
    ]
    default = [row for row in rows if row.form != PACKED]
    for title, compared in (("without packed index", default), ("the others", rows)):
        ratios = [_ahead(at_budget(compared, bits)) for bits in every]
        cells.append([f"{title} / lsmkv", "-", *ratios, "-", "-"])
    is_brief = rows[0].value_bytes <= DOCUMENTED_BYTES
    return Table(_title(rows[0]), headings, cells, NOTE, brief=is_brief, timed=(_GREW,))


def _count(reads: int | None) -> str:
    return "-" if reads is None else f"{reads:,}"


def _kib(size_bytes: float | None) -> str:
    return "-" if size_bytes is None else f"{size_bytes / 1024:,.0f}"


def _ahead(rows: Sequence[Row]) -> str:
    """How many times fewer reads lsmkv wastes than the best of the others."""
    ours, others = best_two(rows)
    if ours is None:
        return "-" if others is None else "behind"
    if others is None:
        return "alone"
    if max(ours, others) < FEWEST_EVENTS:
        return "equal" if ours == others else "too few"
    if not ours:
        return "none"
    return f"{others / ours:.2f}" + (" behind" if others < ours else "")


def _exact(row: Row) -> str:
    return "-" if row.error_rate_exact is None else percent(row.error_rate_exact)


def _detailed(rows: Sequence[Row]) -> Table:
    return table_of(
        _title(rows[0]),
        [row for bits in budgets(rows) for row in at_budget(rows, bits)],
        (
            Shown("store, filters", "name"),
            Shown("budget,\nbits/key", "budget_bits_per_key", "g"),
            "index_bytes",
            "filter_bytes",
            Shown("bits\n/key", "bits_per_key", ".2f"),
            "block_reads",
            "outside_reads",
            Shown("exact\n%", _exact),
            "reported_bytes",
            "grown_bytes",
        ),
        "bits/key: of filters and index. told by an outsider: read calls of the store's files during "
        "the same lookups, counted between the process and its C library. exact: what theory expects "
        "of filters of the sizes of lsmkv's.",
        empty="-",
        brief=False,
    )


def _controls(rows: Sequence[Row]) -> Table:
    return table_of(
        "Without filters: every lookup must read a block",
        rows,
        (
            Shown("store", "engine"),
            Shown("lookups", "lookups", ","),
            Shown("read", "block_reads", ","),
            "outside_reads",
        ),
        "RocksDB reads two blocks for some keys that lie between these.",
        empty="-",
        brief=False,
    )
