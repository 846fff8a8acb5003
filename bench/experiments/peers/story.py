"""The story of ``peers``: findings, and engines that disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import get_args

from bench.experiments.peers import charts, tables
from bench.experiments.peers.phases import LIMITED
from bench.experiments.peers.rows import Row
from bench.experiments.peers.tables import QUANTITIES, number
from bench.harness.intervals import rate_interval
from bench.harness.ratios import FEWEST, OURS, Figures, Ratio, Verdict
from bench.harness.story import Story
from lsmkv.filters.maths.sizing import rate_for
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
    drawn += charts.cold(rows, engines)
    return Story(
        [
            _versions(rows),
            *_time_findings(ratios),
            *_quantity_findings(rows),
            *_filter_findings(rows),
            *_warm_starts(rows),
            *_limited(rows),
        ],
        found,
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


def _limited(rows: Sequence[Row]) -> list[str]:
    """How much the page cache held where it was limited."""
    most: dict[str, int] = {}
    for row in rows:
        if row.phase in LIMITED and row.page_cache_bytes_most is not None:
            most[row.engine] = max(most.get(row.engine, 0), row.page_cache_bytes_most)
    if not most:
        return []
    limit = rows[0].page_cache_limit_bytes
    held = ", ".join(f"{engine} {number(size / MIB)}" for engine, size in most.items())
    above = [engine for engine, size in most.items() if size > 1.05 * limit]
    ahead = f" Above it by what a lookup reads ahead: {', '.join(above)}." if above else ""
    return [
        f"Where the page cache was limited to {number(limit / MIB)} MiB, it held at most, in MiB: "
        f"{held}.{ahead}"
    ]


def _warm_starts(rows: Sequence[Row]) -> list[str]:
    """Cold passes that began with pages of the store in the page cache."""
    begun = [row for row in rows if row.page_cache_bytes_before is not None]
    if not begun:
        return []
    warm = [row for row in begun if row.page_cache_bytes_before]
    if not warm:
        return ["No cold pass began with a page of its store in the page cache."]
    named = ", ".join(sorted({f"{row.phase} of {row.engine}" for row in warm}))
    most = max(row.page_cache_bytes_before or 0 for row in warm)
    return [f"Not cold: {named} began with up to {most:,} bytes in the page cache."]


def _versions(rows: Sequence[Row]) -> str:
    versions = {row.engine: row.engine_version for row in rows}
    named = ", ".join(f"{engine} {version}" for engine, version in versions.items())
    return (
        f"Measured: {named}; {rows[0].entries:,} entries, "
        f"repetitions: {len({row.repetition for row in rows})}, with up to "
        f"{max(row.passes for row in rows)} passes of a reading phase."
    )


def _time_findings(ratios: Sequence[Ratio]) -> list[str]:
    if not ratios:
        return []
    by_verdict = {
        verdict: [ratio.phase for ratio in ratios if ratio.verdict == verdict]
        for verdict in get_args(Verdict)
    }
    counts = "; ".join(
        f"{verdict} in {len(phases)}" + (f" ({', '.join(phases)})" if phases else "")
        for verdict, phases in by_verdict.items()
        if phases or verdict != "no verdict"
    )
    best = max(ratios, key=lambda ratio: ratio.ratio.median)
    worst = min(ratios, key=lambda ratio: ratio.ratio.median)
    return [
        f"Of {len(ratios)} timed phases lsmkv is, against the best peer of each: {counts}. "
        f"{_meaning(ratios)}",
        f"Highest ratio: {_ratio(best)}. Lowest: {_ratio(worst)}.",
    ]


def _meaning(ratios: Sequence[Ratio]) -> str:
    """How far the verdicts reach."""
    few = min(len(ratio.each) for ratio in ratios)
    if few < FEWEST:
        return f"With fewer than {FEWEST} repetitions no ratio has an interval, and none a verdict."
    return (
        "Level: the 95 % interval of the median ratio includes 1. Of twenty equal phases one would "
        "still be called ahead or behind, and another machine may say otherwise of any ratio near 1."
    )


def _ratio(ratio: Ratio) -> str:
    return (
        f"{ratio.phase}, {ratio.peer} takes {ratio.ratio.median:.2f} times lsmkv's time "
        f"(interval {tables.interval_text(ratio)})"
    )


def _quantity_findings(rows: Sequence[Row]) -> list[str]:
    found = []
    for quantity in QUANTITIES:
        figures = Figures([row for row in rows if row.phase == quantity.phase], quantity.figure)
        for ratio in figures.ratios():
            ours = figures.spread(quantity.phase, OURS)
            theirs = figures.spread(quantity.phase, ratio.peer)
            assert ours is not None and theirs is not None
            found.append(
                f"{quantity.label[0].upper()}{quantity.label[1:]}: lsmkv {number(ours.median)}, "
                f"{ratio.peer}, the best peer, {number(theirs.median)}: "
                f"{ratio.ratio.median:.2f} times ours."
            )
    return found


def _filter_findings(rows: Sequence[Row]) -> list[str]:
    """Data-block reads of absent lookups beside the rate in theory."""
    cold = [row for row in rows if row.phase == "readmissing_cold"]
    counted = [row for row in cold if row.data_block_reads is not None]
    if not counted or not counted[0].bits_per_key:
        return []
    parts = []
    for engine in dict.fromkeys(row.engine for row in counted):
        mine = [row for row in counted if row.engine == engine]
        asked = sum(row.operations for row in mine)
        reads = sum(row.data_block_reads or 0 for row in mine)
        passed = sum(row.filter_false_positives or 0 for row in mine)
        answers = passed + sum(row.filter_negatives or 0 for row in mine)
        # Repetitions have the same keys, and so nearly the same filters: this share of the absent keys
        # that one repetition asks for is in another's sample too, and gets the same answer.
        share = min(1.0, mine[0].operations / mine[0].entries)
        effective = answers / (1 + (len(mine) - 1) * share)
        low, high = rate_interval(passed, answers, effective=effective)
        parts.append(
            f"{engine}: its filters let {passed / max(1, answers):.3%} pass "
            f"({low:.3%} to {high:.3%}), and a lookup read {reads / asked:.4f} data blocks"
        )
    bits = counted[0].bits_per_key
    theory = rate_for(round(bits * 1000), 1000)
    return [
        f"Cold lookups of absent keys. {'; '.join(parts)}. In theory a Bloom filter of {bits:g} bits "
        f"per key lets {theory:.3%} pass. (A lookup asks a filter for each run of tables.)"
    ]
