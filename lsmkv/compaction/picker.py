"""Picks the next compaction, as pure functions of the levels.

There are three styles, chosen by ``Options.compaction``, all with size ratio T between levels:

leveled
    Every level below 0 is one run.  Level 0 is merged into level 1 when it has enough runs; a level
    over its target size (level 1's, times T for each deeper level) merges one table into the next.
    Fewest runs for a lookup, most rewriting.
tiered
    Every level gathers up to T runs, which are then merged into one run of the next level.
    Least rewriting, most runs.
lazy-leveled
    Tiered, but the deepest level is kept one run (Dayan and Idreos, "Dostoevsky", SIGMOD 2018).
    Most data is in one run, so most lookups and long scans cost the same as in a leveled tree.

Tables that overlap nothing change their level as they are, so ascending keys leave one for each flush.
In every style neighbours in a run are merged once the run has too many tables for its size, and a table
of mostly deletions is merged with what these hide, so that the space of erased entries comes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.encoding.range_deletes import RangeDeletes
from lsmkv.filters.maths.allocation import monkey_error_rates
from lsmkv.options import Options
from lsmkv.sstable.format import TableMeta
from lsmkv.tree.levels import Levels, RunMeta

LEVELED_RUN = 0  # the number of the one run of a level that has only one

# A run may have as many tables as the larger of these says.  Counted for time series: more free ones, or
# fewer for each table_size_bytes, rewrite more.
_FREE_TABLES: Final = 48, 2  # whatever their size, and for each table_size_bytes in the run
_LOOSE_TABLES: Final = 8  # for each table_size_bytes
_LEAST_GROWTH: Final = 8
_LATE: Final = 4  # with so many times as many tables, neighbours of different series are merged
_MOST_PER_DELETION: Final = 4  # entries that are merged to drop a deletion and what it hides


@dataclass(frozen=True, slots=True)
class Compaction:
    """One compaction to run."""

    inputs: tuple[tuple[TableMeta, ...], ...]  # the tables of each input run, newest run first
    output_level: int  # the level of the merged tables
    output_run: int | None  # number of the run that they join or make; None for a new run
    # Whether no older table overlaps the inputs, so that nothing is left for a deletion to hide.
    drop_deletions: bool
    # Whether the inputs change their level without being rewritten: neither each other nor any table of
    # the output run overlaps them.
    move: bool = False
    may_copy: bool = True  # whether blocks that nothing overlaps may stay as they are stored
    # Whether the inputs leave the tree unread: each of their entries is due for every reader, and hides
    # none; or range deletes hide all of them.
    drop: bool = False

    def tables(self) -> list[TableMeta]:
        return [table for run in self.inputs for table in run]


@dataclass(slots=True)
class PickState:
    """What the picker remembers, and is told."""

    # The key up to which each level was compacted.
    compacted_to: dict[int, bytes] = field(default_factory=dict)
    # The sequence number of the oldest snapshot, whose deletions must stay.
    oldest_view: int = MAX_SEQUENCE
    due_s: int = 0  # the time by which entries are due for every reader


def pick(levels: Levels, options: Options, state: PickState) -> Compaction | None:
    """The most urgent compaction; None when none is due.  Changes nothing but ``state``."""
    due = _pick_due(levels, state)
    if due is not None:
        return due
    gathering = _pick_neighbours(levels, options)
    if gathering is not None:  # first: it is rare, and never larger than a table
        return gathering
    if options.compaction == "leveled":
        chosen = _pick_leveled(levels, options, state)
    else:
        chosen = _pick_tiered(levels, options, lazy=options.compaction == "lazy-leveled")
    return chosen or _pick_deletions(levels, options, state)


def level_target_bytes(level: int, options: Options) -> int:
    """Target size of a level, 1 or deeper, of a leveled tree."""
    return options.level1_size_bytes * int(options.size_ratio ** (level - 1))


def most_tables(size_bytes: int, options: Options) -> int:
    free, loose = _FREE_TABLES
    size = options.table_size_bytes
    return max(free + loose * size_bytes // size, _LOOSE_TABLES * size_bytes // size)


def _pick_neighbours(levels: Levels, options: Options) -> Compaction | None:
    """Merge neighbours in a run of too many tables."""
    for level, runs in enumerate(levels.by_depth):
        for run in runs:
            if len(run.tables) <= _FREE_TABLES[0]:
                continue
            most = most_tables(run.size_bytes, options)
            if len(run.tables) > most:
                is_late = len(run.tables) > _LATE * most
                tables = _neighbours(run.tables, options.table_size_bytes, in_order=not is_late)
                if tables:
                    return _whole_runs(levels, level, (tables,), level, run.number)
    return None


def _neighbours(
    tables: tuple[TableMeta, ...], most_bytes: int, *, in_order: bool
) -> tuple[TableMeta, ...]:
    """The neighbours that grow most if they are merged; or none.

    A byte is rewritten the fewer times, the more each merge makes of the largest input.  With
    ``in_order`` they were written in the order of their keys, or the reverse: between two series,
    later keys of the first would overlap the merged table.
    """
    growth = float(_LEAST_GROWTH)
    found: tuple[TableMeta, ...] = ()
    for bits in sorted({table.size_bytes.bit_length() for table in tables}):
        for part in _parts(tables, 1 << bits, most_bytes, in_order=in_order):
            sizes = [table.size_bytes for table in part]
            if sum(sizes) / max(sizes) > growth:
                growth, found = sum(sizes) / max(sizes), tuple(part)
    return found


def _parts(
    tables: tuple[TableMeta, ...], limit_bytes: int, most_bytes: int, *, in_order: bool
) -> Iterator[list[TableMeta]]:
    """Neighbours below ``limit_bytes`` each, and up to ``most_bytes`` together."""
    part: list[TableMeta] = []
    size_bytes = 0
    for table in tables:
        is_small = table.size_bytes < limit_bytes
        if part and (
            not is_small
            or size_bytes + table.size_bytes > most_bytes
            or (in_order and _turns(part, table))
        ):
            yield part
            part, size_bytes = [], 0
        if is_small:
            part.append(table)
            size_bytes += table.size_bytes
    if part:
        yield part


def _turns(part: list[TableMeta], following: TableMeta) -> bool:
    """Whether file numbers change their direction after ``part``."""
    if len(part) < 2:
        return False
    return (following.number > part[-1].number) != (part[1].number > part[0].number)


def _pick_leveled(levels: Levels, options: Options, state: PickState) -> Compaction | None:
    # A deeper level with several runs is left over from another style: merge it first.
    for level, runs in enumerate(levels.by_depth):
        if level > 0 and (len(runs) > 1 or any(run.number != LEVELED_RUN for run in runs)):
            return _whole_runs(levels, level, _tables_of(runs), level, LEVELED_RUN)
    due: list[tuple[float, int]] = []
    if levels.by_depth and len(levels.by_depth[0]) >= options.level0_compaction_trigger:
        due.append((len(levels.by_depth[0]) / options.level0_compaction_trigger, 0))
    for level in range(1, len(levels.by_depth)):
        size, target = levels.level_bytes(level), level_target_bytes(level, options)
        if size > target:
            due.append((size / target, level))
    if not due:
        return None
    _, level = max(due)
    if level == 0:
        return _with_next_level(levels, 0, _tables_of(levels.by_depth[0]))
    return _table_with_next_level(levels, level, levels.by_depth[level][0].tables, state)


def _pick_due(levels: Levels, state: PickState) -> Compaction | None:
    """Drop tables in which all is due, and that hide nothing."""
    dropped: list[TableMeta] = []
    staying: list[TableMeta] = []  # of older runs
    for run in reversed(list(levels.runs())):
        due = [table for table in run.tables if _due_count(table, state.due_s) == table.entry_count]
        found = [table for table in due if _fit_between(((table,),), tuple(staying))]
        dropped += found
        staying += [table for table in run.tables if table not in found]
    return Compaction((tuple(dropped),), 0, None, True, drop=True) if dropped else None


def _due_count(table: TableMeta, due_s: int) -> int:
    """How many entries are due: none, half of them, or all, at the least."""
    expiry = table.expiry
    if expiry is None:
        return 0
    if expiry.latest_s <= due_s:
        return expiry.count
    is_half_due = expiry.half_due_s is not None and expiry.half_due_s <= due_s
    return (table.entry_count + 1) // 2 if is_half_due else 0


def _is_soon_due(table: TableMeta, due_s: int) -> bool:
    """Whether all will be due soon: then it is dropped unread before a merge would pay."""
    expiry = table.expiry
    if expiry is None or expiry.half_due_s is None or expiry.count < table.entry_count:
        return False
    if expiry.latest_s <= due_s:  # it hides something, or it would be gone
        return False
    return expiry.latest_s - expiry.half_due_s <= 2 * (expiry.half_due_s - expiry.earliest_s)


def _pick_deletions(levels: Levels, options: Options, state: PickState) -> Compaction | None:
    """Merge a table of mostly deletions or due entries with its range."""
    for run in levels.runs():
        for table in run.tables:
            gone = table.tombstone_count + _due_count(table, state.due_s)
            if (
                2 * gone < table.entry_count
                or table.largest_seq > state.oldest_view
                or (table.tombstone_count == 0 and _is_soon_due(table, state.due_s))
            ):
                continue
            chosen = pick_range(levels, options, table.smallest, table.above, due_s=state.due_s)
            if chosen is not None:
                tables = chosen.tables()
                deletions = sum(
                    each.tombstone_count + _due_count(each, state.due_s) for each in tables
                )
                if sum(each.entry_count for each in tables) <= _MOST_PER_DELETION * deletions:
                    return chosen
    return None


def pick_for_reads(levels: Levels, options: Options, state: PickState) -> Compaction | None:
    """A compaction that spares lookups a run, when none is due; None when none would.

    It takes the topmost level that overlaps anything below it: all of level 0, or one table.
    """
    if options.compaction != "leveled":
        return None
    for level, runs in enumerate(levels.by_depth):
        if level == 0 and runs:
            chosen = _with_next_level(levels, 0, _tables_of(runs))
            if len(chosen.inputs) > 1 and not chosen.move:
                return chosen
            continue
        for run in runs:
            covering = tuple(
                table
                for table in run.tables
                if _overlaps_below(levels, level + 1, table.smallest, table.largest)
            )
            if covering:
                return _table_with_next_level(levels, level, covering, state)
    return None


def _table_with_next_level(
    levels: Levels, level: int, tables: tuple[TableMeta, ...], state: PickState
) -> Compaction:
    """Merge the first table beyond those compacted before into the next level; at the end, the first."""
    after = state.compacted_to.get(level, b"")
    table = next((table for table in tables if table.largest > after), tables[0])
    state.compacted_to[level] = table.largest
    return _with_next_level(levels, level, ((table,),))


def _with_next_level(
    levels: Levels, level: int, inputs: tuple[tuple[TableMeta, ...], ...]
) -> Compaction:
    """Merge ``inputs`` of ``level`` into the one run of the next level."""
    smallest, largest = _key_range(inputs)
    run = [run for runs in levels.by_depth[level + 1 : level + 2] for run in runs[:1]]
    below = run[0].overlapping(smallest, largest) if run else ()
    deletes = any(table.tombstone_count for run in inputs for table in run)
    drop = not _overlaps_below(levels, level + 2, smallest, largest)
    # A deletion with nothing below it is dropped by a merge, not moved: no later one may reach it.
    if not (deletes and drop) and _disjoint(inputs) and _fit_between(inputs, below):
        return Compaction(inputs, level + 1, LEVELED_RUN, False, move=True)
    inputs = (*inputs, below) if below else inputs
    smallest, largest = _key_range(inputs)
    drop = not _overlaps_below(levels, level + 2, smallest, largest)
    return Compaction(inputs, level + 1, LEVELED_RUN, drop)


def _pick_tiered(levels: Levels, options: Options, *, lazy: bool) -> Compaction | None:
    for level in range(len(levels.by_depth)):
        runs = levels.by_depth[level]
        deepest = level == levels.deepest
        limit = options.level0_compaction_trigger if level == 0 else options.size_ratio
        if lazy and deepest and level > 0:
            if len(runs) > 1:
                return _whole_runs(levels, level, _tables_of(runs), level, None)
            continue
        if len(runs) < limit:
            continue
        inputs = _tables_of(runs)
        target = level + 1
        if lazy and target == levels.deepest:
            last = _tables_of(levels.by_depth[target])
            flushed = options.write_buffer_size_bytes * options.level0_compaction_trigger
            if levels.level_bytes(target) < flushed * int(options.size_ratio**target):
                inputs += last
            elif len(last) == 1:  # the deepest level is full: it moves down, and leaves room
                return Compaction(last, target + 1, None, False, move=True)
            else:  # so it does when it has several runs, which become one
                level, inputs, target = target, last, target + 1
        return _whole_runs(levels, level, inputs, target, None)
    return None


def _whole_runs(
    levels: Levels,
    level: int,
    inputs: tuple[tuple[TableMeta, ...], ...],
    output_level: int,
    output_run: int | None,
) -> Compaction:
    """Merge whole runs of ``level``, and of deeper levels down to ``output_level``."""
    taken = {table.number for run in inputs for table in run}
    smallest, largest = _key_range(inputs)
    older_left = any(
        table.number not in taken
        for deeper in levels.by_depth[level:]
        for run in deeper
        for table in run.overlapping(smallest, largest)
    )
    return Compaction(inputs, output_level, output_run, not older_left)


def in_place(levels: Levels, level: int, run: int, table: TableMeta) -> Compaction:
    return _whole_runs(levels, level, ((table,),), level, run)


def pick_range(
    levels: Levels,
    options: Options,
    start: bytes | None,
    stop: bytes | None,
    *,
    force: bool = False,
    due_s: int = 0,
    erased: RangeDeletes | None = None,
) -> Compaction | None:
    """The compaction that merges everything between two keys into one run.

    None if nothing is there, or if it is merged already, nothing is due and ``erased`` hides nothing,
    unless ``force``.  The range grows until no table reaches across its ends.
    """
    runs: list[tuple[TableMeta, ...]] = []
    low, high = start, stop
    while True:
        found = [_between(run, low, high) for run in levels.runs()]
        runs_now = [tables for tables in found if tables]
        if not runs_now:
            return None
        smallest, largest = _key_range(tuple(runs_now))
        if runs_now == runs:
            break
        runs = runs_now
        low = None if low is None else min(low, smallest)
        high = None if high is None else max(high, largest + b"\0")
    deepest = levels.deepest
    # A sequence number above 0 is left only where an entry may hide an older one, or be hidden.
    untidy = any(
        table.tombstone_count
        or table.largest_seq
        or (table.expiry is not None and table.expiry.earliest_s <= due_s)
        or (erased is not None and erased.touches(table.smallest, table.above, table.least_seq))
        for table in runs[0]
    )
    if len(runs) == 1 and not untidy and not force:
        only = runs[0][0].number
        if any(table.number == only for run in levels.by_depth[deepest] for table in run.tables):
            return None
    level = max(1, deepest)
    if options.compaction == "leveled":
        total = sum(table.size_bytes for run in runs for table in run)
        while level_target_bytes(level, options) < total:
            level += 1
    output_run = LEVELED_RUN if options.compaction == "leveled" else None
    return Compaction(tuple(runs), level, output_run, True, may_copy=not force)


def _tables_of(runs: Iterable[RunMeta]) -> tuple[tuple[TableMeta, ...], ...]:
    return tuple(run.tables for run in runs)


def _between(run: RunMeta, start: bytes | None, stop: bytes | None) -> tuple[TableMeta, ...]:
    return tuple(
        table
        for table in run.tables
        if (start is None or table.largest >= start) and (stop is None or table.smallest < stop)
    )


def _key_range(inputs: Iterable[tuple[TableMeta, ...]]) -> tuple[bytes, bytes]:
    tables = [table for run in inputs for table in run]
    return min(table.smallest for table in tables), max(table.largest for table in tables)


def _disjoint(inputs: tuple[tuple[TableMeta, ...], ...]) -> bool:
    tables = sorted((table for run in inputs for table in run), key=lambda table: table.smallest)
    return all(left.largest < right.smallest for left, right in pairwise(tables))


def _fit_between(inputs: Iterable[tuple[TableMeta, ...]], below: tuple[TableMeta, ...]) -> bool:
    """Whether no table of ``inputs`` overlaps one of ``below``."""
    return not any(
        table.smallest <= other.largest and other.smallest <= table.largest
        for run in inputs
        for table in run
        for other in below
    )


def _overlaps_below(levels: Levels, level: int, smallest: bytes, largest: bytes) -> bool:
    return any(
        run.overlapping(smallest, largest) for runs in levels.by_depth[level:] for run in runs
    )


def output_error_rate(
    levels: Levels,
    removed: Iterable[int],
    new_entries: int,
    options: Options,
    joined: tuple[int, int | None] = (0, None),
) -> float:
    """The error rate of filters in new tables.

    They replace the tables ``removed`` and join the run of level and number ``joined``, if it exists.
    The rate depends on the size of the whole run, not of the part that is rewritten.
    """
    if options.filter_allocation == "uniform":
        return options.error_rate
    gone = set(removed)
    own, others = new_entries, []
    for level, runs in enumerate(levels.by_depth):
        for run in runs:
            left = sum(table.entry_count for table in run.tables if table.number not in gone)
            if (level, run.number) == joined:
                own += left
            elif left:
                others.append(left)
    return monkey_error_rates([own, *others], options.error_rate)[0]
