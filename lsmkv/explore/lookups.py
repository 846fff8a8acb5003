"""Lookups on the page: a key's path, and what else it could have read.

Each runs without a block cache: reads that a cache spares would hide those that filters spare.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable
from typing import Final

from lsmkv import DB, Explanation, RunStep, Table
from lsmkv.explore import contract
from lsmkv.explore.keys import KeyAxis, on_screen, text_of
from lsmkv.explore.what_if import Rebuilder

MOST_SHOWN_BYTES: Final = 2048  # of a larger filter, such as a table's, the page shows this part
_VALUE_CHARACTERS: Final = 200


class Explorer:
    """Looks keys up in ``db``; reads what else it needs from ``aside``."""

    def __init__(self, db: DB, aside: DB) -> None:
        self._db, self._aside = db, aside
        self._rebuilder = Rebuilder()
        self.wasted: Counter[tuple[int, int]] = Counter()

    def look_up(
        self,
        key: bytes,
        kind: contract.LookupKind,
        axis: KeyAxis,
        rebuilds: Callable[[], bool] = lambda: True,
    ) -> contract.Lookup:
        """Look ``key`` up as :meth:`DB.explain` does; filters that learn do so.

        ``kind`` is what it was picked as; no filters are built anew for it unless ``rebuilds()``.
        """
        explained = self._db.explain(key)
        for step in explained.runs:
            if step.table is not None and step.outcome == "absent":
                self.wasted.update((step.table, block.number) for block in step.blocks)
        if explained.false_positives and self._db.options.adaptive_filters:
            self._db.get(key)  # filters learn from lookups, not from explanations
        tables = {table.number: table for table in self._aside.tables()}
        lookup = _as_lookup(explained, kind, axis)
        lookup.rebuilt = self._rebuilder.passing(explained, tables) if rebuilds() else []
        for step, run in zip(explained.runs, lookup.runs, strict=True):
            if step.table in tables and run.filter is not None:
                _tell_part(run.filter, tables[step.table], explained.key, step)
        return lookup

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
    return contract.part_of(
        contract.Lookup,
        explained,
        kind=kind,
        key=on_screen(explained.key),
        position=axis.start(explained.key),
        value_text=None if value is None else text_of(value, _VALUE_CHARACTERS),
        value_bytes=0 if value is None else len(value),
        runs=[_run_step(step) for step in explained.runs],
        reads_without_filters=len(spanning),
        read_bytes_without_filters=sum(block.length_bytes for block in spanning),
        rebuilt=[],
    )


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
    return contract.part_of(
        contract.RunStep,
        step,
        spanning_block=None if spanning is None else spanning.number,
        spanning_bytes=0 if spanning is None else spanning.length_bytes,
        index_bytes_per_block=step.index_bytes_per_block,
    )


def filter_of(table: Table, number: int) -> contract.Filter | None:
    """The filter of a block, or of its table; None without one that lookups ask."""
    content = table.filter_bits(number)
    if not content:
        return None
    filter = table.filter(number)
    shown = content[:MOST_SHOWN_BYTES]
    return contract.Filter(
        table=table.number,
        block=None if filter.scope == "table" else number,
        policy=filter.policy,
        key_count=filter.key_count,
        bit_count=filter.bit_count,
        parameter=filter.probe_count,
        rate=filter.expected_rate,
        set_bits=int.from_bytes(content, "little").bit_count(),
        shown_bits=8 * len(shown),
        bits=base64.b64encode(shown).decode("ascii"),
    )
