"""The story of ``replay``: tables and chart by engine and window, and the broken promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...harness.charts import Chart, Line, Panel
from ...harness.colours import named_series
from ...harness.story import Story
from ...harness.tables import Shown, Table, table_of
from .rows import Row

_OURS: Final = "lsmkv"
_KIB: Final = 1024
_MIB: Final = 1024 * _KIB

NOTE: Final = (
    "In the columns of who asks: read calls. compaction: with flushes; one call may read many blocks. "
    "mapped: the engine reads through a map, which makes no calls. told by an outsider: all read calls "
    "of the store's files, counted between the process and its C library. -: there is none, or no "
    "counting library."
)
_PANELS: Final[tuple[tuple[str, Callable[[Row], int]], ...]] = (
    ("absent\nkeys", lambda row: row.absent_reads),
    ("present\nkeys", lambda row: row.present_reads),
    ("several\nkeys", lambda row: row.multi_get_reads),
    ("scans", lambda row: row.scan_reads),
    ("compac-\ntion", lambda row: row.compaction_reads),
)


def story(rows: Sequence[Row]) -> Story:
    return Story(
        [_over_time(rows), _detailed(rows)],
        _charts(rows),
        failures(rows),
        _whole(rows),
        _headline(rows),
    )


def _by_name(rows: Sequence[Row]) -> dict[str, list[Row]]:
    names = dict.fromkeys(row.name for row in rows)
    return {name: [row for row in rows if row.name == name] for name in names}


def _sum(rows: Sequence[Row], of: Callable[[Row], int]) -> int:
    return sum(map(of, rows))


def _headline(rows: Sequence[Row]) -> str:
    """What lookups and scans read in the best store of ours and of the others."""
    told = {
        name: _sum(of, lambda row: row.asked_reads)
        for name, of in _by_name(rows).items()
        if not of[-1].maps or of[0].engine == _OURS
    }
    ours = [name for name in told if name.partition(",")[0] == _OURS]
    best = [min(group, key=told.__getitem__) for group in (ours, told.keys() - set(ours)) if group]
    reads = ", ".join(f"{told[name]:,} times in {name.replace(',', '')}" for name in best)
    return f"Lookups and scans of {rows[0].trace} read {reads}." if best else ""


def _whole(rows: Sequence[Row]) -> Table:
    first = _by_name(rows).values()
    asked = next(iter(first))
    title = (
        f"{rows[0].trace} ({rows[0].format}): {_sum(asked, lambda row: row.puts):,} puts, "
        f"{_sum(asked, lambda row: row.absent_lookups):,} lookups of absent keys and "
        f"{_sum(asked, lambda row: row.present_lookups):,} of present ones, "
        f"{_sum(asked, lambda row: row.multi_gets):,} of several, "
        f"{_sum(asked, lambda row: row.scans):,} scans; memory {rows[0].memory_bytes / _KIB:,.0f} KiB"
    )
    headings = (
        "store, filters", "filters,\nindex\nKiB", "cache\nKiB", *(name for name, _ in _PANELS),
        "read\nMiB", "written\nMiB", "told by an\noutsider",
    )  # fmt: skip
    return Table(title, headings, [_whole_cells(of) for of in first], NOTE, timed=headings[1:])


def _whole_cells(rows: Sequence[Row]) -> list[str]:
    row = rows[-1]
    if row.maps:
        shown = ["-", "mapped", *("mapped" for _ in _PANELS), "mapped"]
    else:
        read_bytes = _sum(
            rows,
            lambda row: row.lookup_read_bytes + row.scan_read_bytes + row.compaction_read_bytes,
        )
        shown = [
            f"{row.metadata_bytes / _KIB:,.0f}",
            f"{row.cache_bytes / _KIB:,.0f}",
            *(f"{_sum(rows, of):,}" for _, of in _PANELS),
            f"{read_bytes / _MIB:,.1f}",
        ]
    outside = [row.outside_reads for row in rows if row.outside_reads is not None]
    written = _sum(rows, lambda row: row.written_bytes)
    told = f"{sum(outside):,}" if outside else "-"
    return [row.name, *shown, f"{written / _MIB:,.1f}", told]


def _over_time(rows: Sequence[Row]) -> Table:
    by_name = _by_name(rows)
    windows = range(max(row.window for row in rows) + 1)
    cells = [
        [name, *(f"{_sum([row], lambda row: row.asked_reads):,}" for row in of)]
        for name, of in by_name.items()
        if not of[-1].maps
    ]
    headings = ("store, filters", *(f"{window + 1}" for window in windows))
    return Table(
        "Reads of lookups and scans, by window of the trace", headings, cells, timed=headings[1:]
    )


def _detailed(rows: Sequence[Row]) -> Table:
    return table_of(
        "By window",
        rows,
        (
            Shown("store, filters", "name"),
            *("window", "puts", "deletes", "absent_lookups", "absent_reads", "present_lookups"),
            *("present_reads", "multi_gets", "multi_get_reads", "scans", "scan_reads"),
            *("compaction_reads", "lookup_block_reads", "outside_reads"),
        ),
        empty="-",
        brief=False,
    )


def _charts(rows: Sequence[Row]) -> list[Chart]:
    by_name = {name: of for name, of in _by_name(rows).items() if not of[-1].maps}
    looks = named_series(list(by_name), ())

    def panel(title: str, of: Callable[[Row], int]) -> Panel:
        lines = [
            Line(name, [(row.window + 1, of(row)) for row in mine], looks[name])
            for name, mine in by_name.items()
        ]
        flat = title.replace("-\n", "").replace("\n", " ")
        return Panel(lines=lines, title=flat, x="window of the trace", y="read calls")

    panels = [panel(title, of) for title, of in _PANELS if _sum(rows, of)]
    if not panels:
        return []
    caption = "Read calls by who asks for them, in windows of equally many operations of the trace."
    title = f"Reads of {rows[0].trace} over time"
    return [Chart("replay", title, caption, panels, columns=2, same_y=False, is_published=True)]


def failures(rows: Sequence[Row]) -> list[str]:
    """The broken promises: answers are the trace's, and all counts of reads agree."""
    found = []
    for row in rows:
        name = f"{row.name}, window {row.window + 1}"
        if row.wrong_answers:
            found.append(f"{name}: {row.wrong_answers:,} answers differ from the trace's")
        if row.outside_reads not in (None, row.all_reads):
            found.append(
                f"{name}: {row.all_reads:,} read calls, but an outsider counts {row.outside_reads:,}"
            )
        if row.lookup_block_reads not in (None, row.absent_reads + row.present_reads):
            found.append(
                f"{name}: lookups made {row.absent_reads + row.present_reads:,} read calls, but the "
                f"store counts {row.lookup_block_reads:,}"
            )
    return found
