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

_MOST_SAMPLES: Final = 256  # of blocks, which are read to look for some keys in older runs
_KEYS_OF_BLOCK: Final = 8
_PLACES_OF_TABLE: Final = 16  # of the oldest run, which is not read
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
    runs = [tables.readers(run) for run in chosen.inputs]
    keys = _keys_that_stay(runs, _largest(runs), chosen.drop_deletions)
    stay = sum(keys) / sum(meta.entry_count for meta in metas)
    size_bytes = sum(meta.size_bytes for meta in metas) * stay
    parts = _parts(tables, runs, keys, size_bytes)
    return _planned(tables, version, {meta.number for meta in metas}, place, parts)


def of_new_tables(
    tables: VersionSet, version: Version, count: int, size_bytes: int, place: _Place = (0, None)
) -> TableFormat:
    """The format of tables with ``count`` new entries, of about that size."""
    runs = [run.tables for run in version.runs]
    if runs:
        entries = [meta.entry_count for meta in _largest(runs)]
        keys = [count * number / sum(entries) for number in entries]
        parts = _parts(tables, runs, keys, size_bytes)
    else:
        parts = [_Part(b"", count)]
    return _planned(tables, version, set(), place, parts)


def _largest(runs: Sequence[Sequence[TableReader]]) -> list[TableMeta]:
    """The tables of the run with most entries."""
    largest = max(runs, key=lambda run: sum(table.meta.entry_count for table in run))
    return [table.meta for table in largest]


def _parts(
    tables: VersionSet,
    runs: Sequence[Sequence[TableReader]],
    keys: Sequence[float],
    size_bytes: float,
) -> list[_Part]:
    """Parts of about a table; ``keys`` are those of the largest run's tables."""
    metas, count = _largest(runs), sum(keys)
    most = max(1, round(size_bytes / tables.options.table_size_bytes))
    parts: list[_Part] = []
    done = 0.0
    for meta, number, (absent, lookups) in zip(
        metas, keys, _spread(tables, runs, metas), strict=True
    ):
        if len(parts) * count <= done * most:
            parts.append(_Part(meta.smallest, 0.0))
        part = parts[-1]
        part.keys += number
        part.absent += absent
        part.lookups += lookups * number / count
        done += number
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


def _keys_that_stay(
    runs: Sequence[Sequence[TableReader]], metas: Sequence[TableMeta], drop_deletions: bool
) -> list[float]:
    """The number of keys that a merge keeps, by ranges of ``metas``.

    It drops deletions and, as samples tell, repeated keys.
    """
    firsts = [meta.smallest for meta in metas]
    keys = [0.0] * len(metas)
    blocks = sum(int(table.index.block_count) for run in runs[:-1] for table in run)
    step = max(1, -(-blocks // _MOST_SAMPLES))
    for number, run in enumerate(runs):
        older = runs[number + 1 :]
        for table in run:
            sampled = _sampled_keys(table, step) if older else _places(table)
            deletions = table.meta.tombstone_count if drop_deletions else 0
            for key in sampled:
                kept = table.meta.entry_count * _unseen(older, key) - deletions
                keys[max(0, bisect_right(firsts, key) - 1)] += kept / len(sampled)
    return [
        max(number, _LEAST_SHARE * meta.entry_count)
        for number, meta in zip(keys, metas, strict=True)
    ]


def _sampled_keys(table: TableReader, step: int) -> list[bytes]:
    """Some keys of every ``step``-th block, in order."""
    found: list[bytes] = []
    for number in range(0, int(table.index.block_count), step):
        block = table.read_past_cache(number)[0]
        places = range(0, int(block.count), max(1, int(block.count) // _KEYS_OF_BLOCK))
        found += [block.key(place) for place in places]
    return found


def _places(table: TableReader) -> list[bytes]:
    """Where some blocks of the table begin, without a read."""
    count = int(table.index.block_count)
    numbers = range(0, count, max(1, count // _PLACES_OF_TABLE))
    return [table.index.separator(number) if number else table.smallest for number in numbers]


def _unseen(runs: Sequence[Sequence[TableReader]], key: bytes) -> float:
    """0 if a run may have ``key``; else 1 and more.

    On average it is the share of keys that no run has.
    """
    unseen, h = 1.0, hash_key(key)
    for run in runs:
        at = bisect_right(run, key, key=lambda table: table.smallest) - 1
        if at < 0 or key > run[at].largest:
            continue
        filters, rate = run[at].filters, run[at].properties.error_rate
        block = filters.index.find(key)
        if rate > 0.5 or not filters.filter_key.is_whole or not filters.bits_of(block):
            continue
        if filters.may_hold(block, filters.hash_of(key, h)):
            return 0.0
        unseen /= 1.0 - rate
    return unseen
