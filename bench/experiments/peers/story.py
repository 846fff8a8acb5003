"""The story of ``peers``: verdicts, and engines that disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ...harness.ratios import OURS, Figures, Ratio
from ...harness.story import Story
from . import charts, tables
from .rows import Row


def story(rows: list[Row]) -> Story:
    times = Figures(rows, lambda row: row.us_per_operation)
    engines = list(
        dict.fromkeys(row.engine for row in sorted(rows, key=lambda r: r.engine != OURS))
    )
    ratios = times.ratios()
    found = tables.tables(rows, times, ratios, engines)
    return Story(
        found,
        [charts.ratios(ratios)] if ratios else [],
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
