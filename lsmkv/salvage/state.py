"""Finding the manifest that tells which tables of a damaged store count."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final

from lsmkv.errors import CorruptionError, NotAStoreError, UnsupportedFormatError
from lsmkv.inspection.report import Problem
from lsmkv.log.reader import read_log
from lsmkv.salvage.report import left_out, raise_unless_damage
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.reader import TableReader
from lsmkv.storage.file_names import CURRENT, manifest_path, table_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.manifest import State, read_current, read_state

_ORDER_LOST: Final = (
    "the list of live tables is lost, so every table file was used but those that others say they "
    "replaced"
)


@dataclass(slots=True)
class FoundState:
    """What the manifest tells.

    Attributes:
        manifest, state: name of the manifest to go by, and what it adds up to; None when there is
            none.
        problems: what is wrong with manifest and CURRENT.
        notes: what follows for the repaired store.
    """

    manifest: str | None = None
    state: State | None = None
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find_state(storage: Storage, directory: str, numbers: dict[str, list[int]]) -> FoundState:
    """The manifest to go by, and what it adds up to.

    Without a CURRENT that can be read it is the newest manifest, provided that every file that it
    names is there, and no table is newer than it.

    Args:
        numbers: of the files in the directory, by kind.

    Raises:
        UnsupportedFormatError: the manifest is in another format version.
        OSError: a file may not be read.
    """
    found = FoundState()
    number = _current(storage, directory, found)
    is_named = number is not None
    if number is None:
        number = max(numbers["manifest"], default=None)
    if number is not None:
        path = manifest_path(directory, number)
        found.state = _state(storage, directory, number, numbers, is_named, found)
        if found.state is not None:
            found.manifest = os.path.basename(path)
            if not is_named:
                found.notes.append(f"{CURRENT} is lost; the newest manifest was used instead")
    if found.state is None:
        found.notes.append(_ORDER_LOST)
    return found


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
    """What manifest ``number`` adds up to; None when it is damaged or outdated."""
    path = manifest_path(directory, number)
    try:
        state = read_state(storage, directory, number)
        contents = read_log(storage, path, number, "manifest")
    except (CorruptionError, OSError) as error:
        raise_unless_damage(error)
        found.problems.append(Problem.of(error, path))
        return None
    tables = {table.number for table in state.levels.tables()}
    is_missing_files = (
        not tables.issubset(numbers["table"]) or state.log_number not in numbers["log"]
    )
    torn_bytes = 0 if contents is None else contents.torn_bytes
    if contents is not None and torn_bytes:
        found.problems.append(Problem(path, contents.end, left_out(torn_bytes)))
    if is_named:  # an edit at its end is lost, or many: the files that they removed are gone
        is_outdated = is_missing_files and (
            torn_bytes > 0 or _was_left_behind(storage, directory, state, numbers)
        )
    else:
        is_outdated = is_missing_files or max(numbers["table"], default=0) >= state.next_file
    if is_outdated:
        reason = "not used: it names files that are gone, or knows nothing of newer ones"
    elif _is_of_another_store(storage, directory, state):
        reason = (
            "not used: it is of another store, for it describes none of the tables that are here"
        )
    else:
        return state
    found.problems.append(Problem(path, None, reason))
    return None


def _is_of_another_store(storage: Storage, directory: str, state: State) -> bool:
    """Whether the tables that it names are there, and all of them others than it says."""
    cache = BlockCache(0, storage.stats)
    are_others = False
    for table in state.levels.tables():
        path = table_path(directory, table.number)
        try:
            found = TableReader(storage, path, cache, meta=None, filter_residency="off").meta
        except (CorruptionError, UnsupportedFormatError, OSError):
            continue  # damaged, or gone: it tells nothing
        if found == table:
            return False
        if found.number == table.number:  # or the table itself is out of place
            are_others = True
    return are_others


def _was_left_behind(
    storage: Storage, directory: str, state: State, numbers: dict[str, list[int]]
) -> bool:
    """Whether this is an old copy of the manifest, or lost edits at its end.

    The store has finished tables that are newer, or was closed then and has any newer file.
    """
    newer = [number for number in numbers["table"] if number >= state.next_file]
    if any(_is_finished(storage, table_path(directory, number)) for number in newer):
        return True
    newest = max(numbers["table"] + numbers["log"], default=0)
    return state.closed_log is not None and newest >= state.next_file


def _is_finished(storage: Storage, path: str) -> bool:
    try:
        cache = BlockCache(0, storage.stats)
        TableReader(storage, path, cache, meta=None, filter_residency="off").load()
    except (CorruptionError, UnsupportedFormatError, OSError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Liveness:
    """Which of the tables count, as far as they tell themselves.

    Attributes:
        live: the tables to use.
        uncertain: those of them that a compaction may have replaced, for all that is known.
    """

    live: list[int]
    uncertain: list[int]


def liveness(storage: Storage, directory: str, numbers: list[int]) -> Liveness:
    """Tell the tables ``numbers`` that count from those that compaction has replaced.

    The last table that a compaction writes notes which ones it took the place of, and which tables
    beside it did.  The note counts if all of these are there: a power failure may have kept some.  It
    outlasts the files that it is about, which are removed before the table can be replaced itself.  A
    table without a note is of an older release, or damaged: it may be one that was replaced.
    """
    replaced: set[int] = set()
    unnoted: list[int] = []
    for number in numbers:
        replaces, beside = _note(storage, table_path(directory, number), number)
        if replaces is None:
            unnoted.append(number)
        elif set(beside).issubset(numbers):
            replaced.update(older for older in replaces if older < number)
    live = [number for number in numbers if number not in replaced]
    return Liveness(live, [number for number in unnoted if number not in replaced])


def _note(storage: Storage, path: str, number: int) -> tuple[list[int] | None, list[int]]:
    """The tables that table ``number`` says it replaced (None: it does not say), and those beside it."""
    try:
        cache = BlockCache(0, storage.stats)
        properties = TableReader(storage, path, cache, meta=None, filter_residency="off").properties
    except (CorruptionError, UnsupportedFormatError, OSError):
        return None, []
    if properties.number != number:
        return None, []
    return properties.replaces, properties.beside
