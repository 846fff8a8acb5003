"""Lookups on the page: a key's path, and what else it could have read.

Each runs without a block cache: reads that a cache spares would hide those that filters spare.  It runs
once more on a second handle, whose small block cache tells which reads a cache would have spared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from lsmkv import DB, Explanation, RunStep, Table
from lsmkv.explore import contract
from lsmkv.explore.filters import filter_of
from lsmkv.explore.keys import KeyAxis, on_screen, text_of
from lsmkv.explore.what_if import Rebuilder

_VALUE_CHARACTERS = 200


class Explorer:
    """Looks keys up step by step, and counts reads of each block.  One thread uses it.

    ``db`` has no block cache, ``cached`` has one; what is read besides counts in ``aside``.
    """

    def __init__(self, db: DB, cached: DB, aside: DB) -> None:
        self._db, self._cached, self._aside = db, cached, aside
        self._rebuilder = Rebuilder()
        self.reads: Counter[tuple[int, int]] = Counter()

    def look_up(
        self,
        key: bytes,
        kind: contract.LookupKind,
        axis: KeyAxis,
        rebuilds: Callable[[], bool] = lambda: True,
    ) -> contract.Lookup:
        """Look ``key`` up as :meth:`DB.explain` does.

        ``kind`` is what the key was picked as.  Filters that learn do so, as from any lookup.  With
        ``rebuilds`` false, no filters are built anew for it.
        """
        explained = self._db.explain(key)
        for step in explained.runs:
            if step.table is not None:
                self.reads.update(
                    (step.table, block.number) for block in step.blocks if not block.was_cached
                )
        cached = self._cached.explain(key)
        for handle, found in ((self._db, explained), (self._cached, cached)):
            if found.false_positives and handle.options.adaptive_filters:
                handle.get(key)  # filters learn from lookups, not from explanations
        tables = {table.number: table for table in self._aside.tables()}
        lookup = _as_lookup(explained, kind, axis)
        lookup.cached_runs = _cached_runs(explained, cached)
        lookup.rebuilt = self._rebuilder.passing(explained, tables) if rebuilds() else []
        for step, run in zip(explained.runs, lookup.runs, strict=True):
            if step.table in tables and run.filter is not None:
                _tell_part(run.filter, tables[step.table], explained.key, step)
        return lookup

    def forget_all_but(self, tables: set[int]) -> None:
        """Forget the reads of other tables than these."""
        for place in [place for place in self.reads if place[0] not in tables]:
            del self.reads[place]

    def filters_asked(self, lookup: contract.Lookup) -> list[contract.Filter]:
        """The filters that a lookup asked, if their tables are still there."""
        tables = {table.number: table for table in self._db.tables()}
        found = []
        for step in lookup.runs:
            table = None if step.table is None else tables.get(step.table)
            if table is None or step.filter is None or step.filter.verdict not in ("no", "maybe"):
                continue
            filter = filter_of(table, step.block or 0)
            if filter is not None:
                found.append(filter)
        return found


def _as_lookup(explained: Explanation, kind: contract.LookupKind, axis: KeyAxis) -> contract.Lookup:
    spanning = [step.spanning for step in explained.runs if step.spanning is not None]
    value = explained.value
    return contract.Lookup(
        kind=kind,
        key=on_screen(explained.key),
        position=axis.start(explained.key),
        seq=explained.seq,
        outcome=explained.outcome,
        value_text=None if value is None else text_of(value, _VALUE_CHARACTERS),
        value_bytes=0 if value is None else len(value),
        memtables=[
            msgspec.convert(step, contract.MemtableStep, from_attributes=True)
            for step in explained.memtables
        ],
        runs=[_run_step(step) for step in explained.runs],
        blocks_searched=explained.blocks_searched,
        blocks_read=explained.blocks_read,
        read_bytes=explained.read_bytes,
        filters_asked=explained.filters_asked,
        filter_negatives=explained.filter_negatives,
        false_positives=explained.false_positives,
        reads_without_filters=len(spanning),
        read_bytes_without_filters=sum(block.length_bytes for block in spanning),
        cached_runs=[],
        rebuilt=[],
    )


def _cached_runs(explained: Explanation, cached: Explanation) -> list[int]:
    """The items of ``explained.runs`` whose block the other handle's cache held."""
    held = {
        (step.table, step.spanning.number)
        for step in cached.runs
        if step.spanning is not None and step.spanning.was_cached
    }
    return [
        at
        for at, step in enumerate(explained.runs)
        if step.spanning is not None and (step.table, step.spanning.number) in held
    ]


def _tell_part(filter: contract.FilterStep, table: Table, key: bytes, step: RunStep) -> None:
    """Note which prefix a filter was asked for; is it there?"""
    if table.filter_key.is_whole:
        return
    part = table.filter_key.part(key)
    filter.part = text_of(part)
    if step.is_false_positive and step.block is not None:
        filter.holds_part = part in map(table.filter_key.part, table.keys(step.block))


def _run_step(step: RunStep) -> contract.RunStep:
    spanning = step.spanning
    return contract.RunStep(
        level=step.level,
        run=step.run,
        table=step.table,
        file_name=step.file_name,
        block=step.block,
        filter=None
        if step.filter is None
        else msgspec.convert(step.filter, contract.FilterStep, from_attributes=True),
        blocks=[
            msgspec.convert(block, contract.BlockStep, from_attributes=True)
            for block in step.blocks
        ],
        outcome=step.outcome,
        seq=step.seq,
        is_false_positive=step.is_false_positive,
        spanning_block=None if spanning is None else spanning.number,
        spanning_bytes=0 if spanning is None else spanning.length_bytes,
        index_bytes_per_block=step.index_bytes_per_block,
    )
