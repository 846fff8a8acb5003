"""Finds the manifest of a damaged store, or else its live tables."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from typing import Final

from lsmkv.encoding.range_deletes import RangeDelete
from lsmkv.errors import CorruptionError, NotAStoreError
from lsmkv.inspection.report import Problem
from lsmkv.inspection.table_check import UNREADABLE, open_uncached
from lsmkv.salvage.report import left_out, raise_unless_damage
from lsmkv.sstable.reader import TableReader
from lsmkv.storage.file_names import CURRENT, ERASED, manifest_path, table_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.erased_file import read_erased
from lsmkv.tree.manifest import State, read_current, read_manifest

_ORDER_LOST: Final = (
    "the list of live tables is lost, so every table file was used except those that other tables "
    "say they replaced"
)
_RANGES_IN_LOGS: Final = (
    f"there is no file {ERASED}, so no range deletes were known but those in logs"
)


@dataclass(slots=True)
class FoundState:
    """The manifest to use and its state, or None; ``outdated`` is a state that cannot be used.

    Without a state ``range_deletes`` are those of ERASED; None if that is damaged.
    """

    manifest: str | None = None
    state: State | None = None
    outdated: State | None = None
    range_deletes: list[RangeDelete] | None = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find_state(storage: Storage, directory: str, numbers: dict[str, list[int]]) -> FoundState:
    """Find the manifest to use: that of CURRENT, or the newest if its files are there and none newer."""
    found = FoundState()
    number = _current(storage, directory, found)
    is_named = number is not None
    if number is None:
        number = max(numbers["manifest"], default=None)
    if number is not None:
        found.state = _state(storage, directory, number, numbers, is_named, found)
        if found.state is not None:
            found.manifest = os.path.basename(manifest_path(directory, number))
            if not is_named:
                found.notes.append(f"{CURRENT} is lost; the newest manifest was used instead")
    if found.state is None:
        found.notes.append(_ORDER_LOST)
        _find_range_deletes(storage, directory, found)
    return found


def _find_range_deletes(storage: Storage, directory: str, found: FoundState) -> None:
    try:
        record = read_erased(storage, directory)
    except (CorruptionError, OSError) as error:
        raise_unless_damage(error)
        found.problems.append(Problem.of(error, os.path.join(directory, ERASED)))
        found.range_deletes = None
        return
    if record is None:
        found.notes.append(_RANGES_IN_LOGS)
    else:
        found.range_deletes = record.range_deletes


def _current(storage: Storage, directory: str, found: FoundState) -> int | None:
    path = os.path.join(directory, CURRENT)
    try:
        return read_current(storage, directory)
    except NotAStoreError:
        found.problems.append(Problem(path, None, "it is missing"))
    except (CorruptionError, OSError) as error:
        raise_unless_damage(error)
        found.problems.append(Problem.of(error, path))
    return None


def _state(
    storage: Storage,
    directory: str,
    number: int,
    numbers: dict[str, list[int]],
    is_named: bool,
    found: FoundState,
) -> State | None:
    """The state in manifest ``number``; None if it is damaged or outdated."""
    path = manifest_path(directory, number)
    try:
        state, manifest = read_manifest(storage, directory, number)
    except (CorruptionError, OSError) as error:
        raise_unless_damage(error)
        found.problems.append(Problem.of(error, path))
        return None
    tables = {table.number for table in state.levels.tables()}
    is_missing_files = not tables.issubset(numbers["table"])
    is_missing_files |= state.log_number not in numbers["log"]
    if manifest.torn_bytes:
        found.problems.append(Problem(path, manifest.end, left_out(manifest.torn_bytes)))
    if is_named:  # edits at its end may be lost, and the files that they removed are gone
        is_outdated = is_missing_files and (
            manifest.torn_bytes > 0 or _was_left_behind(storage, directory, state, numbers)
        )
        if manifest.torn_bytes and not is_outdated:
            is_outdated = _has_newer_adopted(storage, directory, state, numbers["table"])
    else:
        is_outdated = is_missing_files or max(numbers["table"], default=0) >= state.next_file
    if is_outdated:
        found.outdated = state
        reason = "not used: it names files that are gone, or does not name newer ones"
    elif _is_of_another_store(storage, directory, state):
        reason = "not used: it is of another store, for it describes none of the tables here"
    else:
        return state
    found.problems.append(Problem(path, None, reason))
    return None


def _is_of_another_store(storage: Storage, directory: str, state: State) -> bool:
    """Whether tables that the manifest names are there, but all differ."""
    differ = False
    for table in state.levels.tables():
        found = _open(storage, directory, table.number)
        if found is None:
            continue
        if found.meta == table:
            return False
        if found.meta.number == table.number:  # otherwise the table itself is out of place
            differ = True
    return differ


def _was_left_behind(
    storage: Storage, directory: str, state: State, numbers: dict[str, list[int]]
) -> bool:
    """Whether the manifest is old or lost edits: newer tables are finished, or it was closed before."""
    for number in numbers["table"]:
        if number >= state.next_file and (table := _open(storage, directory, number)) is not None:
            with contextlib.suppress(*UNREADABLE):
                table.load()
                return True
    newest = max(numbers["table"] + numbers["log"], default=0)
    return state.closed_log is not None and newest >= state.next_file


def _has_newer_adopted(storage: Storage, directory: str, state: State, numbers: list[int]) -> bool:
    """Whether ingested tables are there that the manifest does not name.

    Its lost end may have named them.  No log has what they hold, as it has what a flush wrote.
    """
    newer = [_open(storage, directory, number) for number in numbers if number >= state.next_file]
    return any(table is not None and table.one_seq for table in newer)


def live_tables(
    storage: Storage, directory: str, numbers: list[int], *, are_staged: bool
) -> tuple[list[int], list[int], set[int]]:
    """The tables that count; of these, those that may be out of place; and the replaced ones.

    The last table of a compaction notes the tables that it replaced, and those written beside it.  The
    note counts if all of the latter are there: a power failure may have kept only some.  It outlasts
    the files that it is about, which are removed before this table can be replaced.  A table without a
    note is of an older release, or damaged: it may be replaced.

    While files ``are_staged``, the newest tables may be a part of those that were to be adopted at once.
    """
    replaced: set[int] = set()
    without_note: list[int] = []
    adopted: list[tuple[int, int]] = []
    newest_seq = 0
    for number in numbers:
        table = _open(storage, directory, number)
        note = None if table is None else table.properties
        if note is None or note.number != number or note.replaces is None:
            without_note.append(number)
        elif set(note.beside).issubset(numbers):
            replaced.update(older for older in note.replaces if older < number)
        if note is not None:
            newest_seq = max(newest_seq, note.largest_seq)
            adopted += [(note.largest_seq, number)] if note.one_seq and are_staged else []
    live = [number for number in numbers if number not in replaced]
    uncertain = [*without_note, *(number for seq, number in adopted if seq == newest_seq)]
    return live, [number for number in uncertain if number not in replaced], replaced


def _open(storage: Storage, directory: str, number: int) -> TableReader | None:
    try:
        return open_uncached(storage, table_path(directory, number))
    except UNREADABLE:
        return None
