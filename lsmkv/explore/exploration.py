"""One store that is being explored: what the page asks of it.

It has two read-only handles: one for lookups, whose counters the page has, and one for drawing samples.
So the counters count the page's lookups alone.  Neither has a block cache: reads that a cache spares
would hide those that filters avoid.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self

import lsmkv
from lsmkv.explore import contract, messages
from lsmkv.explore.devices import DEVICES
from lsmkv.explore.history import HistoryReader
from lsmkv.explore.keys import on_screen, text_of
from lsmkv.explore.lookups import Explorer, filter_of
from lsmkv.explore.program import ProgramReader
from lsmkv.explore.samples import KeySampler, within
from lsmkv.explore.survey import Extent, Survey
from lsmkv.explore.what_if import RATES, what_if

SEED: Final = 1970

_WHAT_IF_S: Final = 5.0
_DRAWING_S: Final = 2.0  # the most for the keys of each kind on a page; most stores need less
_PICKING_S: Final = 1.0
_MOST_STEPS: Final = 3_000  # kept in memory; a live page may follow a store for days
HALVES: Final[dict[str, tuple[str, ...]]] = {
    "map": ("extent",),
    "filters": ("filters",),
    "lookups": ("present", "absent", "false_positives"),
    "history": ("steps",),
}
"""The parts of a page that can be smaller, and what of a :class:`Detail` makes each so."""


@dataclass(frozen=True, slots=True)
class Detail:
    """How much a page holds at most.

    Attributes:
        present, absent, false_positives: recorded lookups of each kind.
        tried: absent keys tried, at most, to find the false positives.
        filters: filters with their bits, besides those that recorded lookups asked.
        steps: steps of the history.
        rebuilding_s: the most for building filters anew for the lookups of each kind.
        checking_s: the most for finding damaged blocks; a page is no verification.
    """

    extent: Extent = Extent()
    present: int = 100
    absent: int = 100
    false_positives: int = 25
    tried: int = 20_000
    filters: int = 1200
    steps: int = 2000
    rebuilding_s: float = 1.0
    checking_s: float = 0.5

    def halved(self, part: str) -> Detail:
        """Half of a part of the page; at least one of each thing in it."""
        if part == "map":
            extent = Extent(*((n + 1) // 2 for n in (self.extent.cells, self.extent.tables)))
            return replace(self, extent=extent)
        return replace(self, **{name: (getattr(self, name) + 1) // 2 for name in HALVES[part]})

    def no_more_than(self, page: contract.Page) -> Detail:
        """At most what ``page`` has, so that half of it is less."""
        kinds = Counter(lookup.kind for lookup in page.lookups)
        tables = [table for level in page.map.levels for run in level.runs for table in run.tables]
        extent = Extent(sum(len(table.cells.start) for table in tables), len(tables))
        return replace(
            self,
            extent=Extent(
                min(self.extent.cells, extent.cells), min(self.extent.tables, extent.tables)
            ),
            present=kinds["present"],
            absent=kinds["absent"],
            false_positives=kinds["false positive"],
            filters=len(page.filters),
            steps=len(page.history.steps),
        )


def _kind_found(lookup: contract.Lookup) -> contract.LookupKind:
    """The kind of a lookup's key, as the lookup itself found it.

    A key that was picked for a filter's error is no fair sample of absent ones.
    """
    if lookup.outcome == "found":
        return "present"
    return lookup.kind if lookup.kind == "absent" or lookup.false_positives else "typed"


class Exploration:
    """Explores a store, for any number of threads; ``settings`` and errors are those of its opening.

    Its page records lookups of ``keys``, in place of sampled ones.
    """

    def __init__(
        self,
        path: str,
        *,
        is_live: bool = False,
        keys: Sequence[bytes] | None = None,
        **settings: Any,
    ) -> None:
        defaults = lsmkv.Options(read_around=False)
        options = defaults.replace(**settings).replace(block_cache_size_bytes=0)
        self._is_live, self._keys = is_live, keys
        self._lock = threading.RLock()
        with contextlib.ExitStack() as opened:

            def reader(options: lsmkv.Options) -> lsmkv.DB:
                return opened.enter_context(
                    lsmkv.open(path, options, create_if_missing=False, read_only=True)
                )

            self._db = reader(options)
            # Its filters must not learn from drawing: lookups ask those of the other handle.
            self._samples = reader(options.replace(adaptive_filters=False))
            self._handles = opened.pop_all()
        self._program = ProgramReader(self._db.path)
        self._explorer = Explorer(self._db, self._samples)
        self._sampler = KeySampler(self._samples, SEED)
        self._history = HistoryReader(self._samples, is_recording=is_live)
        self._steps: list[contract.HistoryStep] = []
        self._forgotten_steps = 0
        self._survey: Survey | None = None
        self._places: list[tuple[int, int, int]] = []
        self._codecs: dict[int, str] = {}  # by table
        self._checked: dict[tuple[int, int], contract.Damage | None] = {}  # by table and block
        self._revision = 0
        self._rebuilt: contract.WhatIf | None = None
        self._what_if_due_s = 0.0
        self._refresh_due_s = 0.0

    def close(self) -> None:
        self._handles.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # The page

    def page(self, detail: Detail) -> contract.Page:
        """The page's data, after lookups of sampled keys.  CorruptionError, OSError: it is unreadable."""
        with self._lock:
            if self._is_live:
                self._refresh_if_due()
            self._follow_history()  # also if the last refresh failed between tables and history
            self._note_shown()
            survey = self._survey = Survey(self._db, detail.extent)
            omitted: list[str] = []
            damage = self._damage(detail, omitted)
            lookups, tried = self._record(survey, detail)
            codec_of = partial(self._codec, self._uncounted_tables())
            store_map = survey.as_map(self._explorer.wasted, codec_of)
            # Before the pictures of filters, which may read some from disk.
            stats = self._stats()
            steps = self._steps_until(survey.tables.keys())
            left_out = max(0, len(steps) - detail.steps)
            skipped = self._forgotten_steps + left_out
            if store_map.blocks_per_cell > 1:
                omitted.append(
                    f"The map shows {store_map.blocks_per_cell} blocks as one cell, "
                    f"because the store has {store_map.block_count:,}."
                )
            filters = self._filters(survey, lookups, detail.filters, omitted)
            wanted = detail.present + detail.absent + detail.false_positives
            whole = Detail()
            if wanted < whole.present + whole.absent + whole.false_positives:
                omitted.append(
                    f"The page holds {len(lookups):,} recorded lookups, each with all of its steps."
                )
            if skipped:
                omitted.append(f"The history begins {skipped:,} steps after the first one known.")
            return contract.Page(
                version=contract.VERSION,
                revision=self._revision,
                source=self._source(),
                map=store_map,
                filters=filters,
                lookups=lookups,
                lookups_tried=tried,
                rates=list(RATES),
                what_if=self._what_if(),
                history=contract.History(
                    begins_empty=self._history.begins_empty, skipped=skipped, steps=steps[left_out:]
                ),
                devices=[contract.part_of(contract.Device, device) for device in DEVICES],
                stats=stats,
                damage=damage,
                omitted=omitted,
            )

    def _record(self, survey: Survey, detail: Detail) -> tuple[list[contract.Lookup], int]:
        if self._keys is not None:
            return self._replay(self._keys, survey, detail)
        sampler = self._sampler
        present = sampler.present(detail.present, within(_DRAWING_S))
        absent = sampler.absent(detail.absent, within(_DRAWING_S))
        wanted = detail.false_positives, detail.tried
        passed, tried = sampler.false_positives(*wanted, within(_DRAWING_S))

        def looked_up(keys: list[bytes], kind: contract.LookupKind) -> list[contract.Lookup]:
            found = []
            rebuilds = within(detail.rebuilding_s)
            for key in keys:
                with contextlib.suppress(lsmkv.CorruptionError):  # the page tells of the damage
                    lookup = self._explorer.look_up(key, kind, survey.axis, rebuilds)
                    lookup.kind = _kind_found(lookup)
                    found.append(lookup)
            return found

        # First those that filters may learn to deny.
        erred = looked_up(passed, "false positive")
        return [*looked_up(present, "present"), *looked_up(absent, "absent"), *erred], tried

    def _replay(
        self, keys: Sequence[bytes], survey: Survey, detail: Detail
    ) -> tuple[list[contract.Lookup], int]:
        """Look all ``keys`` up; the first of them, and the first that wasted reads, stay on the page."""
        first, erred = list[contract.Lookup](), list[contract.Lookup]()
        rebuilds = within(detail.rebuilding_s)
        for key in keys:
            lookup = self._explorer.look_up(key, "absent", survey.axis, rebuilds)
            lookup.kind = _kind_found(lookup)
            if len(first) < detail.present + detail.absent:
                first.append(lookup)
            if lookup.false_positives and len(erred) < detail.false_positives:
                erred.append(contract.part_of(contract.Lookup, lookup, kind="false positive"))
        return [*first, *erred], len(keys)

    def _damage(self, detail: Detail, omitted: list[str]) -> list[contract.Damage]:
        """Damaged blocks, among as many as there is time to read."""
        go_on = within(detail.checking_s)
        tables = self._samples.tables()
        shown = {table.number for table in tables}
        self._checked = {at: found for at, found in self._checked.items() if at[0] in shown}
        for table, number in ((t, n) for t in tables for n in range(t.block_count)):
            if (table.number, number) in self._checked:
                continue
            if not go_on():
                total = sum(table.block_count for table in tables)
                omitted.append(
                    f"{len(self._checked):,} of {total:,} blocks were checked for damage; "
                    "lsmkv verify checks all."
                )
                break
            damage = None
            try:
                table.block(number)
            except lsmkv.CorruptionError as error:
                name = os.path.basename(error.path)
                damage = contract.Damage(table.number, number, name, error.offset, error.reason)
            self._checked[table.number, number] = damage
        return [found for found in self._checked.values() if found is not None]

    def _filters(
        self, survey: Survey, lookups: list[contract.Lookup], most: int, omitted: list[str]
    ) -> list[contract.Filter]:
        """The filters that lookups asked, and as many others as fit."""
        found: dict[tuple[int, int | None], contract.Filter] = {}
        for lookup in lookups:
            for asked in self._explorer.filters_asked(lookup):
                found[asked.table, asked.block] = asked
        counts = [
            (table, 1 if table.filter(0).scope == "table" else table.block_count)
            for table in survey.tables.values()
        ]
        total = sum(count for _, count in counts)
        step = math.ceil(total / max(1, most)) or 1
        first = 0  # block of the next table; tables of a large store have millions
        for table, count in counts:
            for number in range(first, count, step):
                other = filter_of(table, number)
                if other is not None:
                    found.setdefault((other.table, other.block), other)
            first = (first - count) % step
        if step > 1:
            omitted.append(f"The page holds the bits of {len(found):,} of {total:,} filters.")
        return list(found.values())

    def _uncounted_tables(self) -> dict[int, lsmkv.Table]:
        """Tables by number, of the handle whose counters nobody sees."""
        return {table.number: table for table in self._samples.tables()}

    def _codec(self, uncounted: dict[int, lsmkv.Table], table: lsmkv.Table) -> str:
        """The codec of a table's first block, which is read once."""
        number = table.number
        if number not in self._codecs:
            try:
                self._codecs[number] = uncounted.get(number, table).block(0).codec
            except lsmkv.CorruptionError:
                self._codecs[number] = "unknown"
        return self._codecs[number]

    def _what_if(self) -> contract.WhatIf | None:
        """The rebuilt filters; not made anew for each of many flushes in a row."""
        if time.monotonic() >= self._what_if_due_s:
            self._rebuilt = what_if(self._samples.tables(), self._sampler, SEED)
            self._what_if_due_s = time.monotonic() + _WHAT_IF_S
        return self._rebuilt

    def _follow_history(self) -> None:
        self._steps += self._history.poll()
        too_many = len(self._steps) - _MOST_STEPS
        if too_many > 0:
            del self._steps[:too_many]
            self._forgotten_steps += too_many

    def _note_shown(self) -> tuple[lsmkv.Table, ...]:
        """The tables to show; a new revision if they are not those shown before."""
        tables = self._db.tables()
        places = [(table.level, table.run, table.number) for table in tables]
        if places != self._places:
            self._places = places
            self._revision += 1
            numbers = {table.number for table in tables}
            wasted = self._explorer.wasted
            for place in [place for place in wasted if place[0] not in numbers]:
                del wasted[place]
            for gone in self._codecs.keys() - numbers:
                del self._codecs[gone]
        return tables

    def _steps_until(self, shown: Set[int]) -> list[contract.HistoryStep]:
        """The steps that lead to the tables ``shown``; the manifest may have more by now."""
        live = self._history.live_tables()
        for count in range(len(self._steps), 0, -1):
            if live == shown:
                return self._steps[:count]
            step = self._steps[count - 1]
            if step.kind == "state":  # what was before it is not known
                return self._steps
            live -= {table.number for table in step.added}
            live |= set(step.removed)
        return [] if live == shown else self._steps

    def _refresh_if_due(self) -> None:
        """Show what other processes wrote; reading their logs anew takes a fifth of the time at most."""
        began_s = time.monotonic()
        if began_s < self._refresh_due_s:
            return
        try:
            for handle in (self._samples, self._db):
                handle.refresh()
            self._follow_history()
        finally:
            ended_s = time.monotonic()
            self._refresh_due_s = ended_s + 4 * (ended_s - began_s)

    def _source(self) -> contract.Source:
        name = os.path.basename(self._db.path.rstrip("/")) or self._db.path
        return contract.Source(
            name=text_of(os.fsencode(name)),
            path=text_of(os.fsencode(self._db.path), 200),
            made_at_s=time.time(),
            is_live=self._is_live,
            generation=self._db.generation,
            lsmkv_version=lsmkv.__version__,
        )

    def _stats(self) -> dict[str, int | float]:
        counters = self._db.stats().as_dict()
        return {name: n for name, n in counters.items() if isinstance(n, (int, float))}

    # What a live page asks for

    def look_up(self, key: bytes) -> messages.LookupReply:
        """Look up a key that somebody typed."""
        return self._reply(key, "typed")

    def pick(self, kind: contract.LookupKind) -> messages.LookupReply | None:
        """Look up a sampled key of a kind; None if there is none, or none was found in a second."""
        with self._lock:
            go_on = within(_PICKING_S)
            if kind == "present":
                keys = self._sampler.present(1, go_on)
            elif kind == "absent":
                keys = self._sampler.absent(1, go_on)
            else:
                keys, _ = self._sampler.false_positives(1, 1_000_000, go_on)
            return self._reply(keys[0], kind) if keys else None

    def _reply(self, key: bytes, kind: contract.LookupKind) -> messages.LookupReply:
        with self._lock:
            survey = self._survey or Survey(self._db, Extent())
            self._survey = survey
            lookup = self._explorer.look_up(key, kind, survey.axis)
            return messages.LookupReply(
                version=contract.VERSION,
                lookup=lookup,
                filters=self._explorer.filters_asked(lookup),
                stats=self._stats(),
            )

    def block(self, table_number: int, number: int) -> messages.BlockReply | None:
        """One block, read from disk; None if the store has no such block now."""
        shown = {table.number: table for table in self._db.tables()}
        table = shown.get(table_number)
        if table is None or not 0 <= number < table.block_count:
            return None
        info = self._uncounted_tables().get(table_number, table).block(number)
        return contract.part_of(
            messages.BlockReply,
            info,
            version=contract.VERSION,
            table=table_number,
            first_key=on_screen(info.first_key),
            last_key=on_screen(info.last_key),
            filter=filter_of(table, number),
        )

    def pulse(self) -> messages.Pulse:
        """Changes since the last call; ``failure`` says why the store cannot be read at the moment."""
        failure = None
        with self._lock:
            try:
                self._refresh_if_due()
            except (lsmkv.Error, OSError) as error:
                failure = str(error)
            tables = self._note_shown()
            return messages.Pulse(
                version=contract.VERSION,
                revision=self._revision,
                memtable_key_counts=list(self._db.memtable_key_counts),
                size_bytes=sum(table.size_bytes for table in tables),
                entry_count=sum(table.entry_count for table in tables),
                table_count=len(tables),
                stats=self._stats(),
                failure=failure,
                program=self._program.now(),
            )
