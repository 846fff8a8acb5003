"""The story of ``memory``: where filters pay against cache, where cached filters turn, the preset."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Sequence
from typing import Final

from bench.experiments.memory.charts import PICTURED, charts
from bench.experiments.memory.measure import EQUAL
from bench.experiments.memory.rows import Row
from bench.experiments.memory.tables import (
    LAW_NAMES,
    PAYS,
    best,
    budgets,
    key_counts,
    memories,
    number,
    of_part,
    page_bytes,
    preset_rows,
    run_counts,
    size,
    swept_rows,
    tables,
    told,
)
from bench.experiments.memory.tasks import DIRECT, LAWS, PRESENT_SHARES, PRESET, RESIDENCY
from bench.harness.experiment import Results
from bench.harness.story import Story
from bench.harness.tables import percent
from reports.document import provenance

PICTURES: Final = "pictures"
NEARLY: Final = 0.05
"""Cached filters are said to read hardly more than none within this part of the bytes."""


MOST_EQUAL: Final = 1.1
"""The command fails if resident filters read more than so much by cached ones in the same memory."""


def story(rows: Sequence[Row]) -> Story:
    """Findings, tables and charts, all computed from ``rows``."""
    findings = [_pays(rows, runs) for runs in run_counts(rows)]
    swept = of_part(rows, RESIDENCY)
    for block_bytes in sorted({row.block_size_bytes for row in swept}):
        findings.append(_turns(swept, block_bytes))
    findings += [_equal(swept)] if swept else []
    preset = of_part(rows, PRESET)
    if preset:
        findings += [_preset(preset, "uniform", share) for share in (0.0, 1.0)]
    return Story(findings, tables(rows), charts(rows), failures(rows), headline=_headline(rows))


def _headline(rows: Sequence[Row]) -> str:
    """What filters save of the reads of absent keys, evenly asked for, where they save most."""
    counts = run_counts(rows)
    if not counts:
        return ""
    found = [(budget, best(rows, counts[0], LAWS[0], 0.0, budget)) for budget in budgets(rows)]
    budget, here = max(found, key=lambda pair: pair[1].off.median - pair[1].reads.median)
    return (
        f"In a memory of {percent(budget)} % of the data, filters leave {number(here.reads.median)} "
        f"reads per absent key where cache alone leaves {number(here.off.median)} ({here.which.name})."
    )


def failures(rows: Sequence[Row]) -> list[str]:
    """The broken promises."""
    found = []
    for row in rows:
        name = f"{row.part}, {row.filters} {row.error_rate:g}, {row.residency}, {row.law}"
        if row.found_count != row.present_count:
            found.append(
                f"{name}: {row.found_count} of {row.present_count} present keys were found"
            )
        if row.residency not in ("cached",) and row.filter_reads:
            found.append(f"{name}: {row.filter_reads} reads of filters that are not cached")
    ratios = equal_ratios(of_part(rows, RESIDENCY))
    if ratios and ratios[-1] > MOST_EQUAL:
        found.append(
            f"resident filters read up to {ratios[-1]:.2f} times the bytes of cached ones in the same "
            "memory"
        )
    found += _page_failures(of_part(rows, DIRECT))
    return found


def _page_failures(rows: Sequence[Row]) -> list[str]:
    """Pages counted of ordinary reads must be those of direct reads."""
    if not rows:
        return []
    ordinary, direct = rows
    return [
        f"{what}: {getattr(ordinary, what):,} counted, {getattr(direct, what):,} read directly"
        for what in ("block_page_bytes", "filter_page_bytes")
        if getattr(ordinary, what) != getattr(direct, what)
    ]


def _pays(rows: Sequence[Row], runs: int) -> str:
    parts = [
        f"of {percent(share)} % present keys {_paying(rows, runs, share)}"
        for share in PRESENT_SHARES
    ]
    what = "1 run" if runs == 1 else f"{runs} runs"
    return (
        f"Equal memory, {what}: filters leave at most {PAYS:.0%} of the reads of a larger cache, for "
        f"lookups {'; '.join(parts)}."
    )


def _paying(rows: Sequence[Row], runs: int, share: float) -> str:
    """The budgets at which the best filters pay, by law, and what they save where they save most."""
    parts: dict[str, list[str]] = {}
    for law in LAWS:
        found = [(budget, best(rows, runs, law, share, budget)) for budget in budgets(rows)]
        paying = [(budget, here) for budget, here in found if here.pays]
        if not paying:
            parts.setdefault("at no memory", []).append(LAW_NAMES[law])
            continue
        where = f"from {percent(paying[0][0])} to {percent(paying[-1][0])} % of the data"
        budget, here = max(paying, key=lambda pair: pair[1].off.median - pair[1].reads.median)
        parts.setdefault(where, []).append(
            f"{LAW_NAMES[law]}: at {percent(budget)} %, {number(here.off.median)} reads become "
            f"{number(here.reads.median)} with {here.which.name}"
        )
    return ", and ".join(f"{where} ({', '.join(laws)})" for where, laws in parts.items())


def turn(rows: Sequence[Row], block_bytes: int, share: float, law: str) -> tuple[int | None, float]:
    """The least cache from which on cached filters read hardly more than none; the worst ratio.

    The latter is 0 where too few reads were counted to tell any.
    """
    worst = 0.0
    least: int | None = None
    for memory in memories(rows):
        cached = swept_rows(rows, block_bytes, share, law, "cached", memory)
        off = swept_rows(rows, block_bytes, share, law, "off", memory)
        mine, other = page_bytes(cached).median, page_bytes(off).median
        if told(cached, off):
            worst = max(worst, mine / other)
        if mine > (1.0 + NEARLY) * other:
            least = None
        elif least is None:
            least = memory
    return least, worst


def _turns(rows: Sequence[Row], block_bytes: int) -> str:
    here = [
        row for row in rows if row.block_size_bytes == block_bytes and row.granularity == "block"
    ]
    parts = []
    for share, what in ((0.0, "absent"), (1.0, "present")):
        each = []
        for law in LAWS:
            least, worst = turn(here, block_bytes, share, law)
            if least is None:
                where = "at no cache tried"
            else:
                where = f"from a cache of {size(least)} on" if least else "at every cache"
            most = f", at worst {worst:.2f} times the bytes" if worst else ""
            each.append(f"{LAW_NAMES[law]} {where}{most}")
        parts.append(f"{what} keys ({'; '.join(each)})")
    chunk = here[0].chunk_bytes or 0
    return (
        f"Blocks of {size(block_bytes)}, chunks of filters up to {chunk:,} bytes, all filters "
        f"{here[0].filter_bytes:,}: cached filters read at most {NEARLY:.0%} more than no filters for "
        f"{' and for '.join(parts)}."
    )


def equal_ratios(rows: Sequence[Row]) -> list[float]:
    """Bytes of resident filters by those of cached ones in the same memory, wherever the former fit.

    Only where either are more than a hundredth of the bytes without filters, and enough reads were
    counted for a ratio.
    """
    found = []
    for block_bytes in sorted({row.block_size_bytes for row in rows}):
        for share in (0.0, 1.0):
            for law in LAWS:
                for memory in memories(rows):
                    resident, cached, off = (
                        swept_rows(rows, block_bytes, share, law, kind, memory)
                        for kind in (EQUAL, "cached", "off")
                    )
                    if not resident:
                        continue
                    mine, other = page_bytes(resident).median, page_bytes(cached).median
                    is_much = max(mine, other) > page_bytes(off).median / 100
                    if is_much and told(resident, cached):
                        found.append(mine / other)
    return sorted(found)


def _equal(rows: Sequence[Row]) -> str:
    ratios = equal_ratios(rows)
    if not ratios:
        return "Too few reads to compare resident filters with cached ones in the same memory."
    return (
        "Where all filters fit into the memory, resident filters, with the rest for the cache, read "
        f"{ratios[0]:.2f} to {ratios[-1]:.2f} times the bytes of cached ones."
    )


def _preset(rows: Sequence[Row], law: str, share: float) -> str:
    pits = []
    for keys in key_counts(rows):
        both = [preset_rows(rows, keys, law, share, residency) for residency in ("cached", "off")]
        cached, off = (page_bytes(each).median for each in both)
        if cached > (1.0 + NEARLY) * off:
            pits.append(f"{keys:,} ({cached / off:.2f} times)" if told(*both) else f"{keys:,}")
    what = "present" if share else "absent"
    if not pits:
        return (
            f"small_memory(), {LAW_NAMES[law]}, {what} keys: cached filters read at most {NEARLY:.0%} "
            f"more than no filters, up to {key_counts(rows)[-1]:,} keys."
        )
    return (
        f"small_memory(), {LAW_NAMES[law]}, {what} keys: cached filters read over {NEARLY:.0%} more "
        f"than no filters with this number of keys: {', '.join(pits)}."
    )


def section(results: Results[Row]) -> str:
    """The section of a document: pictures, findings, and brief tables."""
    told = story(results.rows)
    parts = [f"Command: `{results.header['command']}`. {provenance(results.header)}"]
    parts += [
        f"![{chart.title}]({PICTURES}/{chart.name}.svg)"
        for chart in told.charts
        if chart.name in PICTURED
    ]
    parts.append("\n".join(f"- {finding}" for finding in told.findings))
    parts += [table.to_markdown() for table in told.tables if table.brief]
    return "\n\n".join(parts) + "\n"


def write_pictures(results: Results[Row], given: argparse.Namespace) -> list[str]:
    """With ``--into``: the charts as pictures beside the document."""
    if not given.into:
        return []
    folder = os.path.join(os.path.dirname(given.into), PICTURES)
    os.makedirs(folder, exist_ok=True)
    paths = []
    for chart in charts(results.rows):
        if chart.name in PICTURED:
            paths.append(os.path.join(folder, f"{chart.name}.svg"))
            shutil.copyfile(os.path.join(given.out, f"{chart.name}.svg"), paths[-1])
    return paths
