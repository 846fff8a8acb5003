"""The history of a store's tables: the edits of its manifest, read while another process writes it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import msgspec

from lsmkv.errors import CorruptionError
from lsmkv.explore import contract
from lsmkv.log.reader import LogReader, read_log
from lsmkv.storage.file_names import CURRENT, manifest_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.manifest import VersionEdit, read_current

_ATTEMPTS: Final = 20
_PAUSE_S: Final = 0.01


@dataclass(slots=True)
class _Totals:
    """What all steps so far wrote, and the tables that are left."""

    flushed_bytes: int = 0
    compacted_bytes: int = 0


class HistoryReader:
    """Follows the manifest of the store in ``directory``; ``poll`` returns the new steps.

    With ``is_recording`` each step gets the time at which a poll saw it, counted from the first poll.
    Steps that were there at the first poll get none.
    """

    def __init__(
        self, directory: str, storage: Storage | None = None, *, is_recording: bool = False
    ) -> None:
        self._directory = directory
        self._storage = storage or Storage()
        self._is_recording = is_recording
        self._began_s: float | None = None
        self._manifest = 0, 0  # number and salt: a new store in its place has the same number
        self._offset = 0
        self._live: dict[int, tuple[int, int]] = {}  # size and entries by number
        self._totals = _Totals()
        self.begins_empty = True

    def poll(self) -> list[contract.HistoryStep]:
        """The steps since the last call.

        Raises:
            CorruptionError, NotAStoreError, OSError: the manifest cannot be read.
        """
        is_first = self._began_s is None
        if self._began_s is None:
            self._began_s = time.monotonic()
        at_s = None
        if self._is_recording and not is_first:
            at_s = round(time.monotonic() - self._began_s, 3)
        number, log = self._read_manifest()
        steps: list[contract.HistoryStep] = []
        manifest = number, log.salt
        for offset, payload in log.records():
            if manifest == self._manifest and offset <= self._offset:
                continue
            is_whole_state = manifest != self._manifest
            self._manifest, self._offset = manifest, offset
            edit = _decode(payload, log.path, offset)
            step = self._whole_state(edit, is_first) if is_whole_state else self._change(edit, at_s)
            if step is not None:
                steps.append(step)
        return steps

    def live_tables(self) -> set[int]:
        """Numbers of the tables that the steps so far left."""
        return set(self._live)

    def _read_manifest(self) -> tuple[int, LogReader]:
        """The manifest that CURRENT names; it may be replaced between two reads."""
        for attempt in range(_ATTEMPTS):
            number = read_current(self._storage, self._directory)
            path = manifest_path(self._directory, number)
            try:
                log = read_log(self._storage, path, number, "manifest")
            except FileNotFoundError:
                time.sleep(_PAUSE_S * attempt)
                continue
            if log is not None:
                return number, log
            time.sleep(_PAUSE_S * attempt)
        raise CorruptionError(path, None, f"the manifest that {CURRENT} names is missing")

    def _whole_state(self, edit: VersionEdit, is_first: bool) -> contract.HistoryStep | None:
        """The step of a manifest's first record; a rewritten one repeats what is known."""
        known = {placed.meta.number for placed in edit.added}
        if known == self._live.keys():
            return None
        if is_first:
            self.begins_empty = False
        # Steps were missed, or another store took the place of the one before.
        gone = sorted(self._live.keys() - known)
        return self._step("state", msgspec.structs.replace(edit, removed=gone), set(), None)

    def _change(self, edit: VersionEdit, at_s: float | None) -> contract.HistoryStep | None:
        added = {placed.meta.number for placed in edit.added}
        if not added and not edit.removed:
            return None
        moved = added & set(edit.removed)
        if not edit.removed:
            return self._step("flush", edit, moved, at_s)
        return self._step("move" if added and added <= moved else "compaction", edit, moved, at_s)

    def _step(
        self, kind: contract.StepKind, edit: VersionEdit, moved: set[int], at_s: float | None
    ) -> contract.HistoryStep:
        for number in edit.removed:
            self._live.pop(number, None)
        for placed in edit.added:
            self._live[placed.meta.number] = placed.meta.size_bytes, placed.meta.entry_count
        written = 0
        if kind != "state":
            written = sum(
                placed.meta.size_bytes for placed in edit.added if placed.meta.number not in moved
            )
        if kind == "flush":
            self._totals.flushed_bytes += written
        else:
            self._totals.compacted_bytes += written
        return contract.HistoryStep(
            kind=kind,
            at_s=at_s,
            added=[
                contract.HistoryTable(
                    number=placed.meta.number,
                    level=placed.level,
                    run=placed.run,
                    size_bytes=placed.meta.size_bytes,
                    entry_count=placed.meta.entry_count,
                )
                for placed in edit.added
            ],
            removed=list(edit.removed),
            written_bytes=written,
            flushed_bytes=self._totals.flushed_bytes,
            compacted_bytes=self._totals.compacted_bytes,
            live_bytes=sum(size_bytes for size_bytes, _ in self._live.values()),
            live_entries=sum(entry_count for _, entry_count in self._live.values()),
        )


def _decode(payload: bytes, path: str, offset: int) -> VersionEdit:
    try:
        return msgspec.json.decode(payload, type=VersionEdit)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptionError(path, offset, f"bad manifest record: {error}") from error
