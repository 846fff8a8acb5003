"""Opening what is on disk: manifest, logs, and what to make of them.

What comes back is a prefix of what was written, with no hole: a torn tail of the last log is
dropped, and so is a log whose predecessor lost its tail; damage to anything that had been synced is
an error that says where.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from lsmkv.errors import BackgroundError, CorruptionError
from lsmkv.log.chain import MAX_READ_ATTEMPTS, log_numbers, trusted_logs
from lsmkv.log.reader import LogReader
from lsmkv.log.replay import replay
from lsmkv.memtable.memtable import Memtable
from lsmkv.storage.file_names import CURRENT, manifest_path, parse_file_name
from lsmkv.storage.storage import UNFINISHED, Storage
from lsmkv.tree.levels import Levels
from lsmkv.tree.manifest import State, read_current, read_manifest

_Opened = TypeVar("_Opened")


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a store's directory holds.

    Attributes:
        state: what the manifest adds up to.
        logs: the logs that count, oldest first; never empty.
        memtables: what each of them holds.
        last_seq: number of the last write.
        manifest: the manifest as it was read.
        names: what is in the directory.
    """

    state: State
    logs: list[LogReader]
    memtables: list[Memtable]
    last_seq: int
    manifest: LogReader
    names: list[str]

    @property
    def was_closed(self) -> bool:
        """Whether it is as a store left it that was closed in good order: all of it on disk."""
        last = self.logs[-1]
        return (
            self.manifest.ends_marked
            and not last.torn_bytes
            and self.state.was_closed_at(last.number, last.end)
        )


def recover(storage: Storage, directory: str) -> Recovered:
    """Read manifest and logs.  Changes nothing.

    Raises:
        NotAStoreError: there is no store.
        CorruptionError: something that had been synced is damaged or missing.
        UnsupportedFormatError: a file is in another format version.
        FileNotFoundError: a file went away meanwhile (a writer beside this reader removed it).
    """
    state, manifest = read_manifest(storage, directory, read_current(storage, directory))
    names = storage.list_directory(directory)
    first = state.log_number
    logs = trusted_logs(storage, directory, log_numbers(names, first), first, state.closed)
    expected = state.last_seq + 1
    memtables: list[Memtable] = []
    for contents in logs:
        memtable = Memtable(expected, contents.number)
        expected = replay(contents, memtable, expected, None)
        memtable.log_bytes = contents.end
        memtables.append(memtable)
    return Recovered(state, logs, memtables, expected - 1, manifest, names)


def recover_beside_writer(
    storage: Storage, directory: str, open_tables: Callable[[Levels], _Opened]
) -> tuple[Recovered, _Opened]:
    """As :func:`recover`, with the tables opened too, while another process may write.

    The writer changes the manifest before it removes anything that counts.  So when something is
    missing or does not fit, and the manifest has changed meanwhile, it is only out of date, and
    looked at again.  A file that is missing may also be a leftover that an opening writer removes.
    What fails in the same way twice in a row is damage: no number of a file is used again.

    Raises: as :func:`recover`; and BackgroundError when the store changed every time.
    """
    earlier = ""
    for _ in range(MAX_READ_ATTEMPTS):
        before = _manifest_extent(storage, directory)
        try:
            found = recover(storage, directory)
            return found, open_tables(found.state.levels)
        except (FileNotFoundError, CorruptionError) as error:
            is_damage = isinstance(error, CorruptionError)
            if str(error) == earlier or (
                is_damage and _manifest_extent(storage, directory) == before
            ):
                raise
            earlier = str(error)
    raise BackgroundError(
        f"{directory} changed whenever it was looked at, {MAX_READ_ATTEMPTS} times in a row"
    )


def _manifest_extent(storage: Storage, directory: str) -> tuple[int, int]:
    """Number and length of the manifest in force; the length is -1 when it is missing.

    (It is for a moment, to a reader who saw CURRENT just before it was replaced.)
    """
    number = read_current(storage, directory)
    try:
        return number, storage.file_size(manifest_path(directory, number))
    except FileNotFoundError:
        return number, -1


def remove_leftovers(
    storage: Storage, directory: str, names: list[str], state: State, manifest: int
) -> list[int]:
    """Remove those of ``names`` that are the store's and that nothing needs: unfinished tables, old
    logs and manifests.

    A file that cannot be removed is left for the next time; other files are not touched.

    Returns:
        The numbers of tables that are left: the first that could not be removed, and all newer ones,
        which may hide what it holds.
    """
    tables = {table.number for table in state.levels.tables()}
    left: list[int] = []
    for name in sorted(names, key=_age):
        parsed = parse_file_name(name)
        if parsed is None and name != CURRENT + UNFINISHED:
            continue
        kind, number = parsed or ("", 0)
        needed = (
            (kind == "table" and number in tables)
            or (kind == "log" and number >= state.log_number)
            or (kind == "manifest" and number == manifest)
        )
        if needed:
            continue
        if kind == "table" and left:
            left.append(number)
            continue
        try:
            storage.remove(os.path.join(directory, name))
        except OSError:
            if kind == "table":
                left.append(number)
    return left


def _age(name: str) -> int:
    """The number in the name of a file: the older, the lower."""
    parsed = parse_file_name(name)
    return 0 if parsed is None else parsed[1]
