"""The history of a store's tables: each flush, compaction and move."""

from __future__ import annotations

import time
from dataclasses import replace

from lsmkv import DB, TreeChange
from lsmkv.explore import contract


class HistoryReader:
    """Follows the changes of a store's tree; when recording, steps after the first poll have times."""

    def __init__(self, db: DB, *, is_recording: bool = False) -> None:
        self._db = db
        self._is_recording = is_recording
        self._began_s: float | None = None
        self._last: TreeChange | None = None
        self._live: dict[int, tuple[int, int]] = {}  # size and entries by number
        self._flushed_bytes = self._compacted_bytes = 0  # written by all steps so far
        self.begins_empty = True

    def poll(self) -> list[contract.HistoryStep]:
        """The steps since the last call.  Raises as ``DB.tree_changes``."""
        is_first = self._began_s is None
        if self._began_s is None:
            self._began_s = time.monotonic()
        at_s = None
        if self._is_recording and not is_first:
            at_s = round(time.monotonic() - self._began_s, 3)
        steps: list[contract.HistoryStep] = []
        for change in self._db.tree_changes(self._last):
            self._last = change
            step = self._whole(change, is_first) if change.is_whole else self._change(change, at_s)
            if step is not None:
                steps.append(step)
        return steps

    def live_tables(self) -> set[int]:
        """Numbers of the tables that the steps so far left."""
        return set(self._live)

    def _whole(self, change: TreeChange, is_first: bool) -> contract.HistoryStep | None:
        """The step of a manifest's first record; a rewritten one repeats what is known."""
        known = {table.number for table in change.added}
        if known == self._live.keys():
            return None
        if is_first:
            self.begins_empty = False
        # Steps were missed, or another store took the place of the one before.
        gone = tuple(sorted(self._live.keys() - known))
        return self._step("state", replace(change, removed=gone), set(), None)

    def _change(self, change: TreeChange, at_s: float | None) -> contract.HistoryStep | None:
        added = {table.number for table in change.added}
        if not added and not change.removed:
            return None
        moved = added & set(change.removed)
        if not change.removed:
            return self._step("flush", change, moved, at_s)
        return self._step("move" if added and added <= moved else "compaction", change, moved, at_s)

    def _step(
        self, kind: contract.StepKind, change: TreeChange, moved: set[int], at_s: float | None
    ) -> contract.HistoryStep:
        for number in change.removed:
            self._live.pop(number, None)
        for table in change.added:
            self._live[table.number] = table.size_bytes, table.entry_count
        written = 0
        if kind != "state":
            written = sum(table.size_bytes for table in change.added if table.number not in moved)
        if kind == "flush":
            self._flushed_bytes += written
        else:
            self._compacted_bytes += written
        return contract.part_of(
            contract.HistoryStep,
            change,
            kind=kind,
            at_s=at_s,
            written_bytes=written,
            flushed_bytes=self._flushed_bytes,
            compacted_bytes=self._compacted_bytes,
            live_bytes=sum(size_bytes for size_bytes, _ in self._live.values()),
            live_entries=sum(entry_count for _, entry_count in self._live.values()),
        )
