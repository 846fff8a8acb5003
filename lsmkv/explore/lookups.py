"""Lookups on the page: a key's path, and what it would have read without filters."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import msgspec

from lsmkv.api.db import DB
from lsmkv.explore import contract, messages
from lsmkv.explore.filters import filter_of
from lsmkv.explore.keys import KeyAxis, on_screen, text_of
from lsmkv.inspection.explain import Explanation, RunStep, explain_lookup
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.reader import TableReader

_VALUE_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class _Span:
    """The block of one run that spans a key; ``block`` is None if none does."""

    table: TableReader | None
    block: int | None
    length_bytes: int
    was_cached: bool


class Explorer:
    """Looks keys up step by step, and counts reads of each block.

    Any number of threads may use it.
    """

    def __init__(self, db: DB) -> None:
        self._db = db
        self.reads: Counter[tuple[int, int]] = Counter()

    def current(self) -> SuperVersion:
        """The store's present state; ClosedError if the handle is closed."""
        return self._db._engine.require_open()

    def look_up(self, key: bytes, kind: contract.LookupKind, axis: KeyAxis) -> contract.Lookup:
        """Look ``key`` up as :meth:`DB.explain` does.

        ``kind`` is what the key was picked as.  Filters that learn do so, as from any lookup.
        """
        current, pin = self._db._engine.pin_current()
        spans = [_span(table, key) for table in _tables_for(current, key)]
        explained = explain_lookup(current, key, pin.seq)
        for step in explained.runs:
            if step.table is not None:
                self.reads.update(
                    (step.table, block.number) for block in step.blocks if not block.was_cached
                )
        if explained.false_positives and self._db.options.adaptive_filters:
            self._db.get(key)  # filters learn from lookups, not from explanations
        return _as_lookup(explained, spans, kind, axis)

    def forget_all_but(self, tables: set[int]) -> None:
        """Forget the reads of other tables than these."""
        for place in [place for place in self.reads if place[0] not in tables]:
            del self.reads[place]

    def cached_blocks(self) -> list[messages.BlockPlace]:
        """The blocks that the block cache holds.

        Lookups brought it there, so it is among what they read.  O(blocks ever read).
        """
        tables = {table.meta.number: table for table in self.current().version.tables()}
        return [
            messages.BlockPlace(number, block)
            for number, block in self.reads
            if number in tables and tables[number].is_cached(block)
        ]

    def filters_asked(self, lookup: contract.Lookup) -> list[contract.Filter]:
        """The filters that a lookup asked, if their tables are still there."""
        tables = {table.meta.number: table for table in self.current().version.tables()}
        found = []
        for step in lookup.runs:
            table = None if step.table is None else tables.get(step.table)
            if table is None or step.filter is None or step.filter.verdict not in ("no", "maybe"):
                continue
            filter = filter_of(table, step.block or 0)
            if filter is not None:
                found.append(filter)
        return found


def _tables_for(current: SuperVersion, key: bytes) -> list[TableReader | None]:
    """For each run the table that spans ``key``, or None."""
    return [run.table_for(key) for run in current.version.runs]


def _span(table: TableReader | None, key: bytes) -> _Span:
    number = -1 if table is None else int(table.index.find(key))
    if table is None or number < 0:
        return _Span(table, None, 0, False)
    return _Span(table, number, table.block_length(number), table.is_cached(number))


def _as_lookup(
    explained: Explanation, spans: list[_Span], kind: contract.LookupKind, axis: KeyAxis
) -> contract.Lookup:
    reached = list(zip(explained.runs, spans, strict=False))
    unread = [span for _, span in reached if span.block is not None and not span.was_cached]
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
        runs=[_run_step(step, span) for step, span in reached],
        blocks_searched=explained.blocks_searched,
        blocks_read=explained.blocks_read,
        read_bytes=explained.read_bytes,
        filters_asked=explained.filters_asked,
        filter_negatives=explained.filter_negatives,
        false_positives=explained.false_positives,
        reads_without_filters=len(unread),
        read_bytes_without_filters=sum(span.length_bytes for span in unread),
    )


def _run_step(step: RunStep, span: _Span) -> contract.RunStep:
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
        spanning_block=span.block,
        spanning_bytes=span.length_bytes,
        spanning_was_cached=span.was_cached,
    )
