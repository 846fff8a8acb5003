"""Plans the filters of new tables: one error rate, or a budget that follows the lookups.

A lookup of an absent key asks every run.  The tables count how often they were asked for keys they lack,
and in how many lookups of the store.  The counts tell where filters spare the most reads.  New tables
inherit those of the tables that they replace, by key range, at half the weight: old ones fade.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import Final

from lsmkv.compaction.picker import Compaction, output_error_rate
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.maths.allocation import budget_error_rates, memory_bits
from lsmkv.sstable.filter_budget import FilterBudget, Stretch
from lsmkv.sstable.format import TableFormat, TableMeta
from lsmkv.sstable.reader import TableReader
from lsmkv.tree.manifest import MOST_ASKS, Asks
from lsmkv.tree.version import Version
from lsmkv.tree.version_set import VersionSet, table_format

_MOST_STRETCHES: Final = 256
_LEAST_KEYS: Final = 128  # of a stretch: the number in a shorter one is left to chance
_MOST_SAMPLES: Final = 1024  # of blocks, whose first keys are looked for in older runs
_GROUP: Final = 16  # stretches, which share their samples
_LEAST_SHARE: Final = 1 / 16  # of keys that stay
_MOST_EXCESS: Final = 1.25
_PRIOR_ASKS: Final = 8.0
_PRIOR_SHARE: Final = 1 / 16

_Place = tuple[int, int | None]  # a level, and a run; None is a new one


def output_format(tables: VersionSet, version: Version, chosen: Compaction) -> TableFormat:
    """The format of the tables that a compaction writes."""
    options, metas = tables.options, chosen.tables()
    place = chosen.output_level, chosen.output_run
    if not options.filter_memory_bytes:
        numbers = [meta.number for meta in metas]
        count = sum(meta.entry_count for meta in metas)
        rate = output_error_rate(version.levels, numbers, count, options, place)
        return table_format(options, rate)
    runs = [tables.readers(run) for run in chosen.inputs]
    counted = _stretches(_counted(tables, [table for run in runs for table in run]))
    _leave_out(counted, runs, chosen.drop_deletions)
    gone = {meta.number for meta in metas}
    budget = _budget(tables, version, gone, place, counted)
    return table_format(options, options.error_rate, budget)


def new_tables_format(
    tables: VersionSet, version: Version, count: int, place: _Place = (0, None)
) -> TableFormat:
    """The format of tables with ``count`` new entries; 0: nobody knows how many."""
    options = tables.options
    if not options.filter_memory_bytes or not count:
        rate = output_error_rate(version.levels, (), count, options, place)
        return table_format(options, rate)
    known = [table for table in version.tables() if tables.asks_of(table)[1]]
    counted = _stretches(_counted(tables, known), count) if known else [_Counted(b"", count)]
    factor = count / sum(each.keys for each in counted)  # spread like the entries that are there
    for each in counted:
        each.keys *= factor
    budget = _budget(tables, version, set(), place, counted)
    return table_format(options, options.error_rate, budget)


def _budget(
    tables: VersionSet, version: Version, gone: set[int], place: _Place, counted: list[_Counted]
) -> FilterBudget:
    """The part of the budget for tables that replace ``gone``.

    It is what they would get if all filters were made anew.  Once all filters would exceed the budget by
    a quarter, it is less in proportion: tables that stay keep what was right for a smaller store.
    """
    count = sum(each.keys for each in counted)
    own_run_keys, held_bytes = count, 0
    keys: list[float] = []  # of each other table, and how often it is asked
    asks: list[float] = []
    for run in version.runs:
        left = [table for table in run.tables if table.meta.number not in gone]
        run_keys: float = sum(table.meta.entry_count for table in left)
        if (run.level, run.number) == place:
            own_run_keys = run_keys = run_keys + count
        for table in left:
            held_bytes += table.footer.filters_length
            keys.append(table.meta.entry_count)
            asks.append(_asks(keys[-1] / run_keys, *tables.asks_of(table)))
    own = [
        Stretch(each.first, each.keys, _asks(each.keys / own_run_keys, each.absent, each.lookups))
        for each in counted
    ]
    rates = budget_error_rates(
        [*(stretch.keys for stretch in own), *keys],
        [*(stretch.asks for stretch in own), *asks],
        8 * tables.options.filter_memory_bytes,
    )
    size_bytes = memory_bits([stretch.keys for stretch in own], rates[: len(own)]) / 8
    excess = (held_bytes + size_bytes) / tables.options.filter_memory_bytes
    return FilterBudget(size_bytes / max(1.0, excess / _MOST_EXCESS), own)


def _asks(share: float, absent: float, lookups: float) -> float:
    """How often a lookup asks here for an absent key.

    Without counts each lookup asks every run, anywhere alike.  That is worth a few counts, or a sixteenth
    of all: few counts tell little, and a part that nobody asks keeps some bits.
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
    firsts = [meta.smallest for meta in outputs[1:]]
    counted = _counted(tables, [table for run in inputs for table in tables.readers(run)], firsts)
    starts = [0, *(bisect_left(counted, first, key=lambda each: each.first) for first in firsts)]
    asks = {}
    for meta, (start, stop) in zip(outputs, pairwise([*starts, len(counted)]), strict=True):
        found = _joined(counted[start:stop])
        if found.lookups:
            halves = round(found.absent / 2), round(found.lookups / 2)
            asks[meta.number] = min(halves[0], MOST_ASKS), min(halves[1], MOST_ASKS)
    return asks


@dataclass(slots=True)
class _Counted:
    """The entries from ``first`` on, and their counts, in all tables."""

    first: bytes
    keys: float = 0.0
    absent: float = 0.0
    lookups: float = 0.0


def _counted(
    tables: VersionSet, readers: Sequence[TableReader], firsts: Sequence[bytes] = ()
) -> list[_Counted]:
    """The counts of these tables by stretch.  A table has all or nothing of a stretch.

    Stretches begin at ``firsts``, too.  O(tables log blocks).
    """
    blocks = sum(int(table.index.block_count) for table in readers)
    step = max(1, -(-blocks // _MOST_STRETCHES))
    bounds = {b"", *firsts}
    for table in readers:
        bounds.update(map(table.index.first_key, range(0, int(table.index.block_count), step)))
        bounds.add(table.largest + b"\0")
    ordered = sorted(bounds)
    found = [_Counted(first) for first in ordered]
    for table in readers:
        absent, lookups = tables.asks_of(table)
        for at, share in _shares(table, ordered):
            found[at].keys += table.meta.entry_count * share
            found[at].absent += absent * share
            found[at].lookups += lookups
    return found


def _stretches(counted: Sequence[_Counted], count: float = math.inf) -> list[_Counted]:
    """Stretches of about as many keys each, for ``count`` keys or all.

    The first begins at ``b""``.
    """
    counted = [each for each in counted if each.keys]
    keys = sum(each.keys for each in counted)
    most = max(1, min(int(min(count, keys)) // _LEAST_KEYS, _MOST_STRETCHES))
    before = accumulate((each.keys for each in counted), initial=0.0)
    numbered = zip(
        (min(int(most * done / keys), most - 1) for done in before), counted, strict=False
    )
    groups = groupby(numbered, lambda pair: pair[0])
    found = [_joined([each for _, each in group]) for _, group in groups]
    found[0].first = b""
    return found


def _joined(counted: Sequence[_Counted]) -> _Counted:
    """Stretches as one.  Where nothing was counted, it is taken to be as elsewhere."""
    keys = sum(each.keys for each in counted)
    known = [each for each in counted if each.lookups]
    if not known:
        return _Counted(counted[0].first, keys)
    lookups = sum(each.lookups * each.keys for each in known) / keys
    rate = sum(each.absent / each.lookups for each in known)
    rate *= keys / sum(each.keys for each in known)
    return _Counted(counted[0].first, keys, rate * lookups, lookups)


def _leave_out(
    counted: list[_Counted], runs: Sequence[Sequence[TableReader]], drop_deletions: bool
) -> None:
    """Leave out the entries that a merge drops: repeated keys, as samples tell, and deletions."""
    firsts = [each.first for each in counted]
    left_out = [0.0] * len(counted)
    blocks = sum(int(table.index.block_count) for run in runs[:-1] for table in run)
    step = max(1, -(-blocks // _MOST_SAMPLES))
    for table in (table for run in runs for table in run if drop_deletions):
        for at, share in _shares(table, firsts):
            left_out[at] += table.meta.tombstone_count * share
    for number, run in enumerate(runs[:-1]):
        for table in run:
            sampled = range(0, int(table.index.block_count), step)
            weight = table.meta.entry_count / len(sampled)
            for key in map(table.index.first_key, sampled):
                seen = max(_seen(older, key, hash_key(key)) for older in runs[number + 1 :])
                left_out[bisect_right(firsts, key) - 1] += seen * weight
    for low in range(0, len(counted), _GROUP):
        group = counted[low : low + _GROUP]
        share = 1 - sum(left_out[low : low + _GROUP]) / sum(each.keys for each in group)
        for each in group:
            each.keys *= max(share, _LEAST_SHARE)


def _seen(run: Sequence[TableReader], key: bytes, h: int) -> float:
    """1 if a run may have ``key``, else just below 0: on average, what share it has."""
    at = bisect_right(run, key, key=lambda table: table.smallest) - 1
    if at < 0 or key > run[at].largest:
        return 0.0
    filters, rate = run[at].filters, run[at].properties.error_rate
    block = filters.index.find(key)
    if block < 0 or rate > 0.5 or not filters.filter_key.is_whole:
        return 0.0
    if not filters.bits_of(block):
        return float(filters.index.first_key(block) == key)
    passes = filters.may_hold(block, filters.hash_of(key, h))
    return ((1.0 if passes else 0.0) - rate) / (1.0 - rate)


def _shares(table: TableReader, firsts: list[bytes]) -> Iterator[tuple[int, float]]:
    """The stretches that a table is in, and its share in each.

    Stretches that begin in one block are taken to divide it evenly.
    """
    index, count = table.index, int(table.index.block_count)
    low = bisect_right(firsts, table.smallest) - 1
    high = bisect_right(firsts, table.largest)
    cuts = [0.0]
    for block, group in groupby(
        firsts[low + 1 : high],
        lambda first: bisect_right(range(count), first, key=index.first_key) - 1,
    ):
        inside = list(group)
        before = 0 if inside[0] == index.first_key(block) else 1
        parts = before + len(inside)
        cuts += [block + part / parts for part in range(before, parts)]
    for at, (start, stop) in enumerate(pairwise([*cuts, float(count)]), low):
        yield at, (stop - start) / count
