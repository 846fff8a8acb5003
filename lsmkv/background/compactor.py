"""The compactor: merges tables, or moves them down a level unchanged."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from lsmkv.background.background_thread import BackgroundThread, Shared
from lsmkv.background.events import CompactionEnded
from lsmkv.background.malloc_trim import trim_heap
from lsmkv.background.threads import Errand
from lsmkv.background.work import CompactionWork, Work
from lsmkv.compaction import budget, picker
from lsmkv.compaction.erased import applied, pick_erased
from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.errors import CorruptionError, untraced
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.multi_writer import CancelledError
from lsmkv.tree.levels import PlacedTable
from lsmkv.tree.manifest import VersionEdit
from lsmkv.tree.version import Version
from lsmkv.tree.version_set import table_format

_LEAST_READ_BUDGET: Final = 1 << 16  # so many wasted probes take as long as syncing a table's file


class Compactor(BackgroundThread):
    """Runs one compaction at a time, and holds ``running`` meanwhile."""

    def __init__(self, shared: Shared) -> None:
        super().__init__("lsmkv-compact", shared)
        options = self.store.options
        trigger = options.level0_compaction_trigger
        before_slowdown = options.level0_slowdown_trigger - trigger
        # Between the two triggers, whose ranges are the same, so that options take it.
        self._busy_level0_runs = trigger + before_slowdown // 2
        self._late_level0_runs = trigger + before_slowdown * 3 // 4
        self._busy_options = replace(options, level0_compaction_trigger=self._busy_level0_runs)
        self._urgent_level0_runs = 0  # of the running compaction
        self._picked = picker.PickState()
        self._compacts_for_reads = options.read_compaction_rate_bytes > 0
        self.running = threading.Lock()

    def run_once(self) -> bool:
        """Run the most urgent compaction, or nap; False when none is due."""
        may_be_more = self._run_once()
        self.tables.remove_unread()
        self.store.events.tell()
        return may_be_more

    def _run_once(self) -> bool:
        with self.running:
            current = self.store.super_version
            if current is None or self.is_stopping() or not self.store.may_compact():
                return False
            if not (self._may_gather(current) and self.writers_are_busy()):
                chosen = self.due(current.version, self._picked)
                if chosen is None:
                    return self._compact_for_reads(current)
                self._run(current, chosen, self.is_stopping)
                return True
        self.urgency.nap()
        return True

    def due(self, version: Version, state: picker.PickState) -> picker.Compaction | None:
        """The most urgent compaction; None when none is due, but for reads."""
        snapshots = self.store.snapshots.sequence_numbers()
        state.oldest_view = snapshots[0] if snapshots else MAX_SEQUENCE
        state.due_s = self.store.due_s()
        if version.range_deletes is not None:
            chosen = pick_erased(version, state.oldest_view)
            if chosen is not None:
                return chosen
        return picker.pick(version.levels, self.store.options, state)

    def _may_gather(self, current: SuperVersion) -> bool:
        """Whether busy writers let level 0 gather more runs."""
        options = self.store.options
        if self.urgency.waiting or self.runner or options.compaction != "leveled":
            return False
        levels = current.version.levels
        return (
            options.level0_compaction_trigger <= levels.level0_run_count
            and picker.pick(levels, self._busy_options, picker.PickState()) is None
        )

    # Compactions for reads

    def set_read_budget(self, version: Version) -> None:
        """Give the new ``version`` its budget of wasted probes."""
        if not self._compacts_for_reads:
            return
        chosen = picker.pick_for_reads(version.levels, self.store.options, picker.PickState())
        if chosen is not None:
            size_bytes = sum(meta.size_bytes for meta in chosen.tables())
            budget = size_bytes // self.store.options.read_compaction_rate_bytes
            budget = max(_LEAST_READ_BUDGET, budget)
            version.set_read_compaction_budget(budget, self._wake_for_reads)

    def _wake_for_reads(self) -> None:
        with contextlib.suppress(RuntimeError):  # a lookup must not fail because no thread starts
            self.worker.wake()

    def is_due_for_reads(self, version: Version) -> bool:
        return version.needs_read_compaction and self._compacts_for_reads

    def _compact_for_reads(self, current: SuperVersion) -> bool:
        """Run the compaction that saves lookups most, unless writers are busy; False when none is due."""
        if not self.is_due_for_reads(current.version):
            return False
        if self.writers_are_busy():
            self.set_read_budget(current.version)  # start again with a full budget
            return False
        chosen = picker.pick_for_reads(current.version.levels, self.store.options, self._picked)
        if chosen is None:
            return False
        started, tables = time.perf_counter(), chosen.tables()
        if not chosen.move:
            try:
                tables = self._merge(current, chosen, self.is_stopping)
            except OSError:
                self._compacts_for_reads = False
                return False
        self._install(chosen, tables, started)
        return True

    # Compactions of a range

    def compact_range(self, start: bytes | None, stop: bytes | None, force: bool) -> None:
        """Merge all between two keys into one run, :meth:`exclusively`; an interrupt cancels it."""

        def compact(is_cancelled: Callable[[], bool]) -> None:
            current = self.store.super_version
            assert current is not None, "closing waits for this"
            options = self.store.options
            version, snapshots = current.version, self.store.snapshots.sequence_numbers()
            erased = version.range_deletes
            if erased is not None and snapshots:
                erased = erased.as_of(snapshots[0])
            levels, due_s = version.levels, self.store.due_s()
            chosen = picker.pick_range(
                levels, options, start, stop, force=force, due_s=due_s, erased=erased
            )
            if chosen is None:
                return
            try:
                self._run(current, chosen, is_cancelled)
            except (OSError, CorruptionError) as error:
                self.store.work_failed(untraced(error))  # here: the caller may have given up
                raise

        self.exclusively("lsmkv-range", compact)

    def exclusively(
        self,
        name: str,
        action: Callable[[Callable[[], bool]], None],
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """Run ``action`` while no compaction runs.

        It runs in another thread, where no interrupt comes; one of the caller makes the function that
        ``action`` gets return True.  ``failed`` is called, in whichever thread, unless ``action``
        returns.  CancelledError: the store is closing.  RuntimeError: no thread can be started.
        """

        def is_cancelled() -> bool:
            return self.is_stopping() or errand.given_up

        def run() -> None:
            try:
                with self.running:
                    if self.store.super_version is None or is_cancelled():
                        raise CancelledError("the store is closing")
                    action(is_cancelled)
                    self.tables.remove_unread()
            except BaseException:
                failed()
                raise
            finally:
                self.store.events.tell()

        errand = Errand(name, run)
        try:
            errand.run()
        except RuntimeError:  # it may never have begun
            failed()
            raise

    # Running one

    def _run(
        self, current: SuperVersion, chosen: picker.Compaction, is_cancelled: Callable[[], bool]
    ) -> None:
        started = time.perf_counter()
        tables: list[TableMeta] = []
        if chosen.move:
            tables = chosen.tables()
        elif chosen.drop:
            if self.store.drop_due() < self._picked.due_s:
                return  # the clock was set back, and a snapshot taken
        else:
            tables = self._merge(current, chosen, is_cancelled)
        self._install(chosen, tables, started)

    def _install(self, chosen: picker.Compaction, tables: list[TableMeta], started: float) -> None:
        """Put ``tables`` in the place of the inputs; counts and notes it."""
        inputs, run = chosen.tables(), chosen.output_run
        if run is None and chosen.move:
            run = self.tables.manifest.allocate()
        elif run is None:
            run = tables[0].number if tables else 0
        numbers = {meta.number for meta in inputs}
        placed = self.tables.manifest.state.levels.placed()
        levels = {table.level for table in placed if table.meta.number in numbers}
        edit = VersionEdit(
            added=[PlacedTable(chosen.output_level, run, meta) for meta in tables],
            removed=[meta.number for meta in inputs],
            asks={}
            if chosen.move or chosen.drop
            else budget.inherited_asks(self.tables, chosen.inputs, tables),
        )
        self.tables.install(edit, lambda version: self.store.publish(version, None))
        stats = self.store.stats
        duration_s = time.perf_counter() - started
        if chosen.move:
            stats.tables_moved += len(tables)
        else:
            stats.compactions += 1
            stats.compaction_write_bytes += sum(meta.size_bytes for meta in tables)
            stats.compaction_us.add(duration_s * 1e6)
            trim_heap()
        event = CompactionEnded(
            self.store.directory,
            input_levels=tuple(sorted(levels)),
            output_level=chosen.output_level,
            input_tables=len(inputs),
            input_bytes=sum(meta.size_bytes for meta in inputs),
            output_tables=len(tables),
            output_bytes=sum(meta.size_bytes for meta in tables),
            moved=chosen.move,
            duration_s=duration_s,
        )
        self.store.events.note(event)

    def _merge(
        self, current: SuperVersion, chosen: picker.Compaction, is_cancelled: Callable[[], bool]
    ) -> list[TableMeta]:
        store = self.store
        inputs = chosen.tables()
        size = sum(meta.size_bytes for meta in inputs)
        entry_count = sum(meta.entry_count for meta in inputs)
        replaced = [meta.number for meta in inputs]
        if store.options.filter_memory_bytes:
            form = budget.of_output(self.tables, current.version, chosen)
        else:
            place = chosen.output_level, chosen.output_run
            levels, options = current.version.levels, store.options
            rate = picker.output_error_rate(levels, replaced, entry_count, options, place)
            form = table_format(options, rate)
        snapshots = store.snapshots.sequence_numbers()
        erased = applied(current.version, inputs, snapshots)
        form = replace(form, erased_seq=self._erased_seq(current, inputs, snapshots))
        work = CompactionWork(
            form=form,
            snapshots=snapshots,
            drop_deletions=chosen.drop_deletions,
            due_s=store.drop_due(),
            input_bytes=size,
            entry_count=entry_count,
            replaces=replaced,
            runs=[self.tables.readers(run) for run in chosen.inputs],
            may_copy=chosen.may_copy,
            erased=erased,
        )
        is_deep = chosen.output_level > 1
        self._urgent_level0_runs = self._busy_level0_runs if is_deep else self._late_level0_runs
        return self.do(work, self.runner_for(size), is_cancelled)

    def _erased_seq(
        self, current: SuperVersion, inputs: list[TableMeta], snapshots: list[int]
    ) -> int:
        """The highest number whose range deletes a merge has applied.

        It counts those that left the manifest, too: they hid nothing, but a repair may find them again.
        """
        before = max([meta.erased_seq for meta in inputs])
        if not self.tables.manifest.had_range_deletes:
            return before
        oldest = current.flushing[-1] if current.flushing else current.memtable
        return max(before, min([oldest.first_seq - 1, *snapshots[:1]]))

    def set_pace(self, work: Work) -> None:
        room = max(0, self._urgent_level0_runs - self._level0_run_count())
        allowance_bytes = room * self.store.options.write_buffer_size_bytes
        self.start(total=work.entry_count, allowance_bytes=allowance_bytes)

    def is_urgent(self) -> bool:
        return super().is_urgent() or self._level0_run_count() >= self._urgent_level0_runs

    def _level0_run_count(self) -> int:
        current = self.store.super_version
        return 0 if current is None else current.version.levels.level0_run_count
