"""The tables of ``saved-requests``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...harness.tables import Table
from .rows import AT_ONCE, COLD, ONE_BY_ONE, OPENING, WARM, Row
from .tasks import BITS_PER_KEY

POWERS_OF_TEN: Final = (1.0, 0.1, 0.01, 0.001)  # the error rates of the tables; charts have all


def rate_text(rate: float) -> str:
    """
    >>> rate_text(1.0), rate_text(0.5), rate_text(0.001)
    ('no filters', '50 %', '0.1 %')
    """
    return "no filters" if rate == 1 else f"{rate * 100:g} %"


def rates(rows: Sequence[Row], run_count: int, keys: str) -> list[Row]:
    """The rows of one line of the chart, the highest error rate first."""
    found = [
        row
        for row in rows
        if row.part == "rates"
        and row.phase == COLD
        and (row.run_count, row.keys) == (run_count, keys)
    ]
    return sorted(found, key=lambda row: -row.error_rate)


def run_counts(rows: Sequence[Row]) -> list[int]:
    return sorted({row.run_count for row in rows if row.part == "rates"})


def tables(rows: Sequence[Row]) -> list[Table]:
    powers = [row for row in rows if row.error_rate in POWERS_OF_TEN]
    found = [_rates(powers, runs) for runs in run_counts(powers)]
    found += [_openings(rows), _engines(rows, COLD), _engines(rows, WARM), _parallel(rows)]
    return [table for table in found if table.cells]


def runs_text(run_count: int) -> str:
    return "1 run" if run_count == 1 else f"{run_count} runs"


def _rates(rows: Sequence[Row], run_count: int) -> Table:
    cells = []
    for absent, present in zip(
        rates(rows, run_count, "absent"), rates(rows, run_count, "present"), strict=True
    ):
        expected = absent.expected_gets or 0.0
        cells.append(
            [
                rate_text(absent.error_rate),
                f"{absent.lookups:,}",
                f"{absent.gets:,}",
                f"{expected:,.0f}",
                f"{absent.gets_per_lookup:.4f}",
                f"{absent.ms_per_lookup:,.2f}",
                f"{absent.usd_per_million:.4f}",
                f"{present.gets_per_lookup:.3f}",
                f"{present.ms_per_lookup:,.1f}",
                f"{present.usd_per_million:.3f}",
            ]
        )
    row = rates(rows, run_count, "absent")[0]
    return Table(
        f"{runs_text(run_count)}: what a lookup asks of the server",
        (
            "p", "absent: lookups", "GETs", "in theory", "GETs per lookup", "ms", "$ per million",
            "present: GETs per lookup", "ms", "$ per million",
        ),
        cells,
        f"Assumed: {row.get_ms:g} ms and ${row.get_usd * 1000:g} per 1,000 for a GET. Indexes and "
        "filters are in memory, and no block is cached.",
        left=1,
        timed=("seconds one by one", "seconds by multi_get", "times faster"),
    )  # fmt: skip


def name(row: Row) -> str:
    return f"{row.engine}, {runs_text(row.run_count)}"


def _bits(row: Row) -> str:
    return f"{row.filter_bits_per_key or BITS_PER_KEY:.2f}"


def of_engines(rows: Sequence[Row], phase: str, keys: str) -> list[Row]:
    return [
        row for row in rows if row.part == "engines" and row.phase == phase and row.keys == keys
    ]


def _engines(rows: Sequence[Row], phase: str) -> Table:
    cells = []
    both = zip(of_engines(rows, phase, "absent"), of_engines(rows, phase, "present"), strict=True)
    for absent, present in both:
        cells.append(
            [
                name(absent),
                f"{absent.lookups:,}",
                f"{absent.gets:,}",
                f"{absent.gets_per_lookup:.5f}",
                f"{absent.bytes_per_lookup:,.1f}",
                f"{present.lookups:,}",
                f"{present.gets:,}",
                f"{present.gets_per_lookup:.3f}",
                f"{present.bytes_per_lookup:,.0f}",
            ]
        )
    what = (
        "indexes and filters are loaded, no block is cached"
        if phase == COLD
        else ("the same keys again, with a cache that holds all blocks")
    )
    return Table(
        f"Side by side, {phase}: {what}",
        (
            "", "absent: lookups", "GETs", "GETs per lookup", "bytes", "present: lookups", "GETs",
            "GETs per lookup", "bytes",
        ),
        cells,
        left=1,
        brief=phase == COLD,
    )  # fmt: skip


def _openings(rows: Sequence[Row]) -> Table:
    cells = [
        [name(row), _bits(row), f"{row.gets:,}", f"{row.get_bytes:,}", f"{row.other_requests:,}"]
        for row in of_engines(rows, OPENING, "none")
    ]
    return Table(
        "Side by side: an opening, and one lookup in each run",
        ("", "bits per key", "GETs", "bytes", "other requests"),
        cells,
        f"slatedb is asked for {BITS_PER_KEY} bits per key, and does not tell what it took. Other "
        "requests: lists, GETs of objects that are not there, and slatedb's PUTs, which keep its tables "
        "from being removed.",
        left=1,
    )


def pairs(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """The same keys one by one, and at once, for each server."""
    found = [row for row in rows if row.part == "parallel"]
    return [
        (one, many)
        for one in found
        for many in found
        if (one.phase, many.phase) == (ONE_BY_ONE, AT_ONCE) and one.server == many.server
    ]


def _parallel(rows: Sequence[Row]) -> Table:
    cells = [
        [
            one.server,
            f"{one.lookups:,}",
            f"{one.gets:,}",
            f"{many.gets:,}",
            f"{one.elapsed_s or 0.0:.2f}",
            f"{many.elapsed_s or 0.0:.2f}",
            f"{(one.elapsed_s or 0.0) / (many.elapsed_s or 1.0):.1f}",
        ]
        for one, many in pairs(rows)
    ]
    return Table(
        "Cold lookups of random present keys, 20 ms added to each request",
        (
            "server", "keys", "GETs one by one", "GETs by multi_get", "seconds one by one",
            "seconds by multi_get", "times faster",
        ),
        cells,
        "Each in a new handle. moto is a Python program, and answers some hundreds of requests a second.",
        left=1,
        timed=("seconds one by one", "seconds by multi_get", "times faster"),
    )  # fmt: skip
