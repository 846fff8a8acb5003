"""Recovery: rebuilds a prefix of all writes from manifest and logs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from lsmkv.errors import BackgroundError, CorruptionError
from lsmkv.log.chain import MAX_READ_ATTEMPTS, log_numbers, trusted_logs
from lsmkv.log.reader import LogReader
from lsmkv.log.replay import replay
from lsmkv.memtable.memtable import Memtable
from lsmkv.read.view import SuperVersion
from lsmkv.storage.file_names import (
    CURRENT,
    UNFINISHED_COPY,
    is_staging_name,
    is_unfinished_name,
    manifest_path,
    parse_file_name,
)
from lsmkv.storage.storage import Storage
from lsmkv.tree.manifest import Manifest, State, read_current, read_manifest
from lsmkv.tree.ownership import is_unfinished_copy
from lsmkv.tree.version import Version

_Opened = TypeVar("_Opened")


@dataclass(frozen=True, slots=True)
class Recovered:
    """A store's state, as its directory holds it."""

    state: State  # the sum of the manifest's edits
    # logs, memtables: the logs that count and their writes, oldest first; never empty.
    logs: list[LogReader]
    memtables: list[Memtable]
    last_seq: int
    manifest: LogReader  # the manifest as it was read
    names: list[str]  # the names in the directory

    @property
    def was_closed(self) -> bool:
        """Whether the store was closed cleanly, with all of it on disk."""
        last = self.logs[-1]
        return (
            self.manifest.ends_marked
            and not last.torn_bytes
            and self.state.was_closed_at(last.number, last.end)
        )

    def super_version(self, version: Version) -> SuperVersion:
        """The first super version: the newest memtable is the live one."""
        *flushing, memtable = self.memtables
        return SuperVersion(memtable, tuple(reversed(flushing)), version)


def recover(storage: Storage, directory: str) -> Recovered:
    """Read manifest and logs; changes nothing."""
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
    storage: Storage, directory: str, open_tables: Callable[[State], _Opened]
) -> tuple[Recovered, _Opened]:
    """Recover and open the tables while another process may write.

    The writer changes the manifest before it removes a file that counts.  So if something is missing or
    does not fit, and the manifest has changed, the reader was too slow and tries again.  A missing file
    may also be a leftover that an opening writer removed.  The same failure twice in a row is damage,
    because file numbers are never used again.
    """
    previous = ""
    for _ in range(MAX_READ_ATTEMPTS):
        before = _manifest_extent(storage, directory)
        try:
            stamp = storage.fingerprint(os.path.join(directory, CURRENT))
            found = recover(storage, directory)
            opened = open_tables(found.state)
            # Another store may have taken the place of this one: then the tables may be that one's.
            if storage.fingerprint(os.path.join(directory, CURRENT)) == stamp:
                return found, opened
        except (FileNotFoundError, CorruptionError) as error:
            if str(error) == previous:
                raise
            is_damage = isinstance(error, CorruptionError)
            if is_damage and _manifest_extent(storage, directory) == before:
                raise
            previous = str(error)
    raise BackgroundError(
        f"{directory} changed during each of {MAX_READ_ATTEMPTS} attempts to read it"
    )


def _manifest_extent(storage: Storage, directory: str) -> tuple[int, int]:
    """Number and length of the manifest in force; -1 when it is missing."""
    number = read_current(storage, directory)
    try:
        return number, storage.file_size(manifest_path(directory, number))
    except FileNotFoundError:
        return number, -1


def remove_leftovers(
    storage: Storage, directory: str, names: list[str], manifest: Manifest
) -> list[int]:
    """Remove unfinished tables, staging directories, old logs and old manifests.

    A file that cannot be removed stays for the next opening.  Returns the numbers of the tables that
    stay: the first that could not be removed, and all newer ones, which may hide its entries.
    """
    needed = {("table", table.number) for table in manifest.state.levels.tables()}
    needed.add(("manifest", manifest.number))
    left: list[int] = []
    for name in sorted(names, key=lambda name: (parse_file_name(name) or ("", 0))[1]):
        parsed = parse_file_name(name)
        if is_staging_name(name):
            with contextlib.suppress(OSError):  # nothing in it counts
                storage.remove_tree(os.path.join(directory, name))
            continue
        if (
            parsed is None
            and not is_unfinished_name(name)
            and not (name == UNFINISHED_COPY and is_unfinished_copy(storage, directory))
        ):
            continue
        kind, number = parsed or ("", 0)
        if parsed in needed or (kind == "log" and number >= manifest.state.log_number):
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
