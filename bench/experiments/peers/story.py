"""The story of ``peers``: verdicts, and engines that disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from bench.experiments.peers import charts, tables
from bench.experiments.peers.phases import LIMITED
from bench.experiments.peers.rows import Row
from bench.experiments.peers.tables import number
from bench.harness.ratios import OURS, Figures, Ratio
from bench.harness.story import Story, checked
from lsmkv.options import MIB


def story(rows: list[Row]) -> Story:
    times = Figures(rows, lambda row: row.us_per_operation)
    engines = list(
        dict.fromkeys(row.engine for row in sorted(rows, key=lambda r: r.engine != OURS))
    )
    ratios = times.ratios()
    found = tables.tables(rows, times, ratios, engines)
    drawn = [charts.times(times, engines)]
    if ratios:
        drawn.insert(0, charts.ratios(ratios))
    return Story(
        [*found, *checked(*_warm_starts(rows), *_limited(rows))],
        drawn if times.phases else [],
        disagreements(rows),
        headline=_headline(ratios),
    )


def _headline(ratios: Sequence[Ratio]) -> str:
    if not ratios:
        return ""
    counts = Counter(ratio.verdict for ratio in ratios)
    if counts["no verdict"]:
        few = counts["no verdict"]
        return f"Too few repetitions to tell who is ahead in {few} of {len(ratios)} timed phases."
    return (
        f"lsmkv is ahead of the best peer in {counts['ahead']} of {len(ratios)} timed phases, level in "
        f"{counts['level']} and behind in {counts['behind']}."
    )


def disagreements(rows: Iterable[Row]) -> list[str]:
    """Phases in which engines did not find the same."""
    found: dict[tuple[int, str], dict[tuple[int, int, int], list[str]]] = {}
    for row in rows:
        results = found.setdefault((row.repetition, row.phase), {})
        what = (row.operations, row.result_count, row.result_checksum)
        results.setdefault(what, []).append(row.engine)
    return [
        f"{phase}, repetition {repetition + 1}: results differ: "
        + ", ".join(
            f"{'/'.join(names)} {count} (CRC-32 {checksum:08x})"
            for (_, count, checksum), names in results.items()
        )
        for (repetition, phase), results in found.items()
        if len(results) > 1
    ]


def _limited(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """How much the page cache held where it was limited."""
    most: dict[str, int] = {}
    for row in rows:
        if row.phase in LIMITED and row.page_cache_bytes_most is not None:
            most[row.engine] = max(most.get(row.engine, 0), row.page_cache_bytes_most)
    if not most:
        return []
    limit = rows[0].page_cache_limit_bytes
    held = ", ".join(f"{engine} {number(size / MIB)}" for engine, size in most.items())
    what = f"page cache, MiB at most, where {number(limit / MIB)} were the limit"
    return [(what, held)]


def _warm_starts(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Cold passes that began with pages of the store in the page cache."""
    begun = [row for row in rows if row.page_cache_bytes_before is not None]
    if not begun:
        return []
    what = "cold passes that began with pages of their store in the page cache"
    warm = [row for row in begun if row.page_cache_bytes_before]
    if not warm:
        return [(what, "none")]
    named = ", ".join(sorted({f"{row.phase} of {row.engine}" for row in warm}))
    most = max(row.page_cache_bytes_before or 0 for row in warm)
    return [(what, f"{named}: up to {most:,} bytes")]
