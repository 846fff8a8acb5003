"""The story of ``compaction``: findings and failures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from bench.experiments.compaction.charts import charts
from bench.experiments.compaction.decision import (
    COSTS,
    TOLERANCE,
    Decision,
    decide,
    dominators,
)
from bench.experiments.compaction.loads import CHUNK_ENTRIES
from bench.experiments.compaction.rows import Row
from bench.experiments.compaction.summary import (
    ALLOCATIONS,
    DEFAULT,
    MAIN_LOAD,
    STYLES,
    Config,
    Summary,
    at_default,
    loads_of,
    of_load,
    summarise,
)
from bench.experiments.compaction.tables import tables
from bench.harness.intervals import FEWEST_EVENTS
from bench.harness.story import Story

CYCLE_WRITE_BUFFERS: Final = DEFAULT.level0_compaction_trigger * DEFAULT.size_ratio**2
"""The cycle of a tiered tree of two levels, default shape; a shorter run gives no verdict."""
_CLEARLY: Final = 0.98  # a cost less than this times the default's is less


def story(rows: list[Row]) -> Story:
    summaries = summarise(rows)
    findings = [
        *_of_defaults(summaries),
        *_of_writes(summaries),
        *_of_absent_reads(rows),
        *_of_allocation(summaries),
        *_of_dominance(summaries),
        *_of_decision(summaries),
    ]
    wrong = sum(row.wrong_answers for row in rows)
    failures = [f"{wrong} lookups or scans had a wrong answer"] if wrong else []
    return Story(
        findings, tables(summaries), charts(summaries), failures, headline=_headline(summaries)
    )


def _headline(summaries: Sequence[Summary]) -> str:
    """The styles at the default, or at the first settings that were measured."""
    main = of_load(summaries, MAIN_LOAD)
    if not main:
        return ""
    usual = at_default(summaries, MAIN_LOAD, DEFAULT.filter_allocation)
    first = (usual or main)[0].config
    parts = [
        f"{each.config.style} {each.row.write_amplification:.2f} and "
        f"{each.row.absent_reads_expected_mean:.4f}"
        for each in main
        if replace(each.config, style=first.style) == first
    ]
    return (
        f"Bytes written per byte and blocks read per absent key, T = {first.size_ratio}: "
        f"{'; '.join(parts)}."
    )


def _of_defaults(summaries: Sequence[Summary]) -> list[str]:
    found = at_default(summaries, MAIN_LOAD, DEFAULT.filter_allocation)
    if not found:
        return []
    parts = [
        f"{each.config.style} writes {each.row.write_amplification:.2f} bytes per byte, "
        f"keeps {each.row.space_amplification_mean:.2f} (at most "
        f"{each.row.space_amplification_max:.2f}) and has {each.row.run_count_mean:.1f} runs "
        f"(at most {each.row.run_count_max:.0f}), and one write buffer can set off "
        f"{each.row.write_burst_max:.0f} times its bytes"
        for each in found
    ]
    return [
        f"At the default T = {DEFAULT.size_ratio} and p = {DEFAULT.error_rate * 100:g} %, "
        "random overwrites: " + "; ".join(parts) + "."
    ]


def _of_writes(summaries: Sequence[Summary]) -> list[str]:
    found = []
    every: list[float] = []
    for style in STYLES:
        ratios = [
            each.row.write_amplification / each.row.write_amplification_expected
            for each in of_load(summaries, MAIN_LOAD)
            if each.config.style == style
        ]
        if ratios:
            found.append(f"{style} {min(ratios):.2f} to {max(ratios):.2f}")
            every += ratios
    if not every:
        return []
    why = ""
    if min(every) < 1:
        why += " Below 1: levels are not full, and overwritten entries are merged away."
    if max(every) > 1:
        why += " Above 1: a level that stays nearly full is rewritten T times, not T/2."
    return [
        "Write amplification of random overwrites over what theory gives growing levels: "
        + ", ".join(found)
        + "."
        + why
    ]


def _of_absent_reads(rows: Sequence[Row]) -> list[str]:
    parts = []
    for rate in sorted({row.error_rate for row in rows}, reverse=True):
        own = [row for row in rows if row.error_rate == rate]
        seen = sum(row.absent_block_reads for row in own)
        promised = math.fsum(
            row.absent_reads_expected_mean * row.absent_lookup_count for row in own
        )
        more = f" ({seen / promised - 1:+.1%})" if seen >= FEWEST_EVENTS else ""
        parts.append(f"at p = {rate * 100:g} % {seen:,} for {promised:,.0f}{more}")
    return [
        "Blocks that absent lookups read, for those that the filters' exact rates promise: "
        + ", ".join(parts)
        + ". The stores of one seed share their keys and the tables flushed, so the errors of their "
        "filters are correlated; --repeat takes other seeds."
    ]


def _of_allocation(summaries: Sequence[Summary]) -> list[str]:
    by_config = {each.config: each for each in summaries}
    sentences = []
    for style in STYLES:
        pair = [
            by_config.get(
                Config(MAIN_LOAD, style, DEFAULT.size_ratio, DEFAULT.error_rate, allocation)
            )
            for allocation in ALLOCATIONS
        ]
        uniform, monkey = pair
        if uniform is None or monkey is None:
            continue
        bytes_uniform = uniform.row.filter_bytes_per_entry
        bytes_monkey = monkey.row.filter_bytes_per_entry
        reads_uniform = uniform.row.absent_reads_expected_mean
        reads_monkey = monkey.row.absent_reads_expected_mean
        # The uniform rate at Monkey's memory: p falls by a factor of e per 1/(ln 2)^2 bits.
        equal = reads_uniform * math.exp(-8 * (bytes_monkey - bytes_uniform) * math.log(2) ** 2)
        sentences.append(
            f"{style}: {reads_uniform / reads_monkey:.1f} times fewer wasted reads with "
            f"{bytes_monkey / bytes_uniform - 1:+.1%} filter memory per stored entry, "
            f"{equal / reads_monkey:.1f} times fewer than a uniform rate of that very memory"
        )
    if not sentences:
        return []
    excess, worst = max(
        (
            each.row.filter_bytes_per_entry / by_config[other].row.filter_bytes_per_entry - 1,
            each.config,
        )
        for each in summaries
        if each.config.allocation == "monkey"
        and (other := replace(each.config, allocation="uniform")) in by_config
    )
    return [
        "Monkey against uniform at the default T and p. "
        + "; ".join(sentences)
        + f". The most filter memory beyond uniform's, which should be equal: {excess:+.0%} per "
        f"stored entry ({worst.load}, {worst.style} T={worst.size_ratio})."
    ]


def _of_dominance(summaries: Sequence[Summary]) -> list[str]:
    sentences = []
    main = of_load(summaries, MAIN_LOAD)
    for allocation in dict.fromkeys(each.config.allocation for each in main):
        field = [each for each in main if each.config.allocation == allocation]
        beaten = {each.config: dominators(each, field) for each in field}
        lost = {config: others for config, others in beaten.items() if others}
        counts = ", ".join(
            f"{sum(1 for config in lost if config.style == style)} of "
            f"{sum(1 for config in beaten if config.style == style)} {style}"
            for style in STYLES
        )
        example = ""
        if lost:
            config, others = next(iter(lost.items()))
            example = f" (for one, {config} by {others[0].config})"
        sentences.append(f"{counts} with {allocation} filters{example}")
    if not sentences:
        return []
    return [
        f"Dominated, that is no better in any of {len(COSTS)} average costs (writes, three kinds of "
        "reads, space, filter memory) than another configuration of the same allocation: "
        + "; ".join(sentences)
        + "."
    ]


def _of_decision(summaries: Sequence[Summary]) -> list[str]:
    styles = at_default(summaries, MAIN_LOAD, DEFAULT.filter_allocation)
    if not styles:
        return ["No decision about the default: its T and p were not measured."]
    chosen = decide(styles)
    if chosen is None:
        return [f"No style's worst cases are all within {TOLERANCE:g} times the best."]
    winner = chosen.winner.style
    watched = min(row.operation_count for each in styles for row in each.rows) // CHUNK_ENTRIES // 2
    if watched < CYCLE_WRITE_BUFFERS:
        return [
            f"No verdict on the default: the {watched} write buffers that were watched are fewer than "
            f"the {CYCLE_WRITE_BUFFERS} of a whole cycle, so the worst moments may lie outside them. "
            f"(What was seen would choose {winner}. {_by_tolerance(chosen)})"
        ]
    verb = "confirms" if winner == DEFAULT.compaction else "speaks against"
    sentences = [
        f"The criterion (worst cases within {TOLERANCE:g} times the best, then least written) chooses "
        f"{winner} at the default T, p and {DEFAULT.filter_allocation} allocation, and {verb} the "
        f"present default, {DEFAULT.compaction}. {_by_tolerance(chosen)}"
    ]
    elsewhere: dict[str, list[str]] = {}
    free: dict[str, list[str]] = {}
    for load in loads_of(summaries):
        for allocation in ALLOCATIONS:
            decision = decide(at_default(summaries, load, allocation))
            if decision and (load, allocation) != (MAIN_LOAD, DEFAULT.filter_allocation):
                elsewhere.setdefault(decision.winner.style, []).append(f"{load}/{allocation}")
        decision = decide(_pairs(summaries, load))
        if decision:
            free.setdefault(_pair(decision.winner), []).append(load)
    for what, choices in (
        ("For other loads and allocations the same criterion chooses ", elsewhere),
        ("Were the allocation free too, it would choose ", free),
    ):
        if choices:
            listed = (f"{name} ({', '.join(where)})" for name, where in choices.items())
            sentences.append(what + "; ".join(listed) + ".")
    return [*sentences, *_of_rivals(summaries)]


def _pairs(summaries: Sequence[Summary], load: str) -> list[Summary]:
    """Each style with each allocation, at the defaults of the rest."""
    return [each for allocation in ALLOCATIONS for each in at_default(summaries, load, allocation)]


def _pair(config: Config) -> str:
    return f"{config.style} with {config.allocation} filters"


def _of_rivals(summaries: Sequence[Summary]) -> list[str]:
    """Sentences on configurations that are clearly cheaper than the default."""
    sentences = []
    for load in loads_of(summaries):
        pairs = _pairs(summaries, load)
        usual = DEFAULT.compaction, DEFAULT.filter_allocation
        present = [each for each in pairs if (each.config.style, each.config.allocation) == usual]
        if not present:
            continue
        for each in pairs:
            ratios = {
                name: getattr(each.row, name) / getattr(present[0].row, name) for name in COSTS
            }
            if sum(ratio < _CLEARLY for ratio in ratios.values()) > len(COSTS) / 2:
                costs = ", ".join(f"{COSTS[name]} {ratio:.2f}" for name, ratio in ratios.items())
                sentences.append(f"{load}: {_pair(each.config)} ({costs})")
    if not sentences:
        return []
    return [
        "Cheaper than the present default in most of the average costs, as multiples of the "
        "default's: " + "; ".join(sentences) + "."
    ]


def _by_tolerance(decision: Decision) -> str:
    steps = [f"{config.style} from {limit:.2f} on" for limit, config in decision.by_tolerance]
    return "By factor: " + ", ".join(steps) + "."
