"""Error rates with which filters and indexes fit a budget.

A lookup of an absent key asks every run.  The tables count how often they were asked for keys they lack,
and in how many lookups of the store.  New tables get better filters where these counts are high, and
inherit the counts of the tables that they replace, by key range, at half the weight: old ones fade.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from lsmkv.compaction.picker import Compaction
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.maths.allocation import budget_error_rates, memory_bits
from lsmkv.sstable.filter_plan import FilterPlan, PlannedPart
from lsmkv.sstable.format import TableFormat, TableMeta
from lsmkv.sstable.reader import TableReader
from lsmkv.tree.manifest import MOST_ASKS, Asks
from lsmkv.tree.version import Version
from lsmkv.tree.version_set import VersionSet, table_format

_MOST_SAMPLES: Final = 256  # of blocks, which are read to look for their first keys in older runs
_LEAST_SHARE: Final = 1 / 16  # of keys that stay
_MOST_EXCESS: Final = 1.25
_PRIOR_ASKS: Final = 8.0
_PRIOR_SHARE: Final = 1 / 16

_Place = tuple[int, int | None]  # a level, and a run; None is a new one


@dataclass(slots=True)
class _Part:
    """About a table's keys, from ``first`` on, and their counts."""

    first: bytes
    keys: float
    absent: float = 0.0
    lookups: float = 0.0


def of_output(tables: VersionSet, version: Version, chosen: Compaction) -> TableFormat:
    metas, place = chosen.tables(), (chosen.output_level, chosen.output_run)
    count = sum(meta.entry_count for meta in metas)
    runs = [tables.readers(run) for run in chosen.inputs]
    stay = _share_that_stays(runs, chosen.drop_deletions)
    size_bytes = sum(meta.size_bytes for meta in metas) * stay
    parts = _parts(tables, runs, count * stay, size_bytes)
    return _planned(tables, version, {meta.number for meta in metas}, place, parts)


def of_new_tables(
    tables: VersionSet, version: Version, count: int, size_bytes: int, place: _Place = (0, None)
) -> TableFormat:
    """The format of tables with ``count`` new entries, of about that size."""
    parts = _parts(tables, [run.tables for run in version.runs], count, size_bytes)
    return _planned(tables, version, set(), place, parts)


def _parts(
    tables: VersionSet, runs: Sequence[Sequence[TableReader]], count: float, size_bytes: float
) -> list[_Part]:
    """``count`` keys in parts of a table, spread like the largest run."""
    if not runs:
        return [_Part(b"", count)]
    largest = max(runs, key=lambda run: sum(table.meta.entry_count for table in run))
    metas = [table.meta for table in largest]
    keys = sum(meta.entry_count for meta in metas)
    most = max(1, round(size_bytes / tables.options.table_size_bytes))
    parts: list[_Part] = []
    done = 0
    for meta, (absent, lookups) in zip(metas, _spread(tables, runs, metas), strict=True):
        if len(parts) * keys <= done * most:
            parts.append(_Part(meta.smallest, 0.0))
        part, share = parts[-1], meta.entry_count / keys
        part.keys += count * share
        part.absent += absent
        part.lookups += lookups * share
        done += meta.entry_count
    for part in parts:
        part.lookups *= count / part.keys
    return parts


def _spread(
    tables: VersionSet, runs: Sequence[Sequence[TableReader]], metas: Sequence[TableMeta]
) -> list[tuple[float, float]]:
    """The counts of the tables of ``runs``, spread over one run, ``metas``.

    The keys of a table are taken to spread like those of the ``metas`` that it overlaps.
    """
    firsts = [meta.smallest for meta in metas]
    absent, lookups = [0.0] * len(metas), [0.0] * len(metas)
    for run in runs:
        keys, asked = [0.0] * len(metas), [0.0] * len(metas)
        for table in run:
            table_absent, table_lookups = tables.asks_of(table)
            low = max(0, bisect_right(firsts, table.smallest) - 1)
            high = max(low + 1, bisect_right(firsts, table.largest))
            over = sum(meta.entry_count for meta in metas[low:high])
            for at in range(low, high):
                share = metas[at].entry_count / over
                absent[at] += table_absent * share
                keys[at] += table.meta.entry_count * share
                asked[at] += table_lookups * table.meta.entry_count * share
        for at, there in enumerate(keys):
            if there:
                lookups[at] += asked[at] / there
    return list(zip(absent, lookups, strict=True))


def _planned(
    tables: VersionSet, version: Version, gone: set[int], place: _Place, parts: list[_Part]
) -> TableFormat:
    """The format of tables that replace ``gone``: a rate each.

    It is what they would get if all filters were made anew.  Once all filters would exceed the budget by
    a quarter, it is less in proportion: tables that stay keep what was right for a smaller store.
    """
    options = tables.options
    own = [part.keys for part in parts]
    own_run_keys = count = sum(own)
    held_bits = 0.0
    index_share = _index_share(version)
    index_bytes = count * index_share
    keys: list[float] = []  # of each other table, and how often it is asked
    asks: list[float] = []
    for run in version.runs:
        left = [table for table in run.tables if table.meta.number not in gone]
        run_keys: float = sum(table.meta.entry_count for table in left)
        if (run.level, run.number) == place:
            own_run_keys = run_keys = run_keys + count
        for table in left:
            held_bits += 8 * table.footer.filters_length
            index_bytes += table.footer.index_length
            keys.append(table.meta.entry_count)
            asks.append(_asks(keys[-1] / run_keys, *tables.asks_of(table)))
    own_asks = [_asks(part.keys / own_run_keys, part.absent, part.lookups) for part in parts]
    overhead = _overhead(version)
    budget = 8 * max(1.0, options.filter_memory_bytes - index_bytes) / overhead
    best = budget_error_rates([*own, *keys], [*own_asks, *asks], budget)
    spare_bits = budget - memory_bits([*own, *keys], best)  # if all rates are at the floor
    rates = best[: len(own)]
    bits = memory_bits(own, rates)
    excess = (held_bits / overhead + bits) / (_MOST_EXCESS * budget)
    if excess > 1:
        rates = budget_error_rates(own, own_asks, bits / excess)
    sizes = [memory_bits([n], [rate]) * overhead / 8 for n, rate in zip(own, rates, strict=True)]
    index_share += max(0.0, spare_bits) * overhead / 8 / count
    indexes = [n * index_share for n in own]
    planned = map(PlannedPart, [part.first for part in parts], own, rates, sizes, indexes)
    plan = FilterPlan(list(planned)).packed()
    return replace(table_format(options, options.error_rate), plan=plan)


def _index_share(version: Version) -> float:
    """The bytes of index for each key of the store; 0 where there is no table to tell."""
    tables = list(version.tables())
    entries = sum(table.meta.entry_count for table in tables)
    return sum(table.footer.index_length for table in tables) / entries if entries else 0.0


def _overhead(version: Version) -> float:
    """What the filters of all tables take, by what the formula says: they are of whole bytes."""
    tables = [table for table in version.tables() if table.footer.filters_length]
    if not tables:
        return 1.0
    counts = [table.meta.entry_count for table in tables]
    rates = [min(1.0, table.properties.error_rate) for table in tables]
    formula = memory_bits(counts, rates)
    taken = 8 * sum(table.footer.filters_length for table in tables)
    return min(max(taken / formula, 0.5), 2.0) if formula else 1.0


def _asks(share: float, absent: float, lookups: float) -> float:
    """How often a lookup asks here for an absent key.

    Prior: all runs are asked alike.  It weighs as 8 lookups, or 1/16 of those counted: few counts tell
    little, and a part that nobody asks keeps some bits.
    """
    prior = max(_PRIOR_ASKS, _PRIOR_SHARE * share * lookups)
    return (absent + prior) / (lookups + prior / share)


def inherited_asks(
    tables: VersionSet,
    inputs: Sequence[tuple[TableMeta, ...]],
    outputs: Sequence[TableMeta],
) -> dict[int, Asks]:
    """Half of the counts of a compaction's inputs, by output table."""
    if not tables.options.filter_memory_bytes or not outputs:
        return {}
    spread = _spread(tables, [tables.readers(run) for run in inputs], outputs)
    return {
        meta.number: (min(round(absent / 2), MOST_ASKS), min(round(lookups / 2), MOST_ASKS))
        for meta, (absent, lookups) in zip(outputs, spread, strict=True)
        if lookups
    }


def _share_that_stays(runs: Sequence[Sequence[TableReader]], drop_deletions: bool) -> float:
    """The share of entries that a merge keeps: it drops deletions and, as samples tell, repeated keys."""
    inputs = [table for run in runs for table in run]
    dropped = 0.0
    if drop_deletions:
        dropped += sum(table.meta.tombstone_count for table in inputs)
    blocks = sum(int(table.index.block_count) for run in runs[:-1] for table in run)
    step = max(1, -(-blocks // _MOST_SAMPLES))
    for number, run in enumerate(runs[:-1]):
        for table in run:
            sampled = range(0, int(table.index.block_count), step)
            weight = table.meta.entry_count / len(sampled)
            for block in sampled:
                key = table.read_past_cache(block)[0].key(0)
                h = hash_key(key)
                dropped += weight * max(_seen(older, key, h) for older in runs[number + 1 :])
    return max(1 - dropped / sum(table.meta.entry_count for table in inputs), _LEAST_SHARE)


def _seen(run: Sequence[TableReader], key: bytes, h: int) -> float:
    """1 if a run may have ``key``, else just below 0: on average, what share it has."""
    at = bisect_right(run, key, key=lambda table: table.smallest) - 1
    if at < 0 or key > run[at].largest:
        return 0.0
    filters, rate = run[at].filters, run[at].properties.error_rate
    block = filters.index.find(key)
    if rate > 0.5 or not filters.filter_key.is_whole or not filters.bits_of(block):
        return 0.0
    passes = filters.may_hold(block, filters.hash_of(key, h))
    return ((1.0 if passes else 0.0) - rate) / (1.0 - rate)
