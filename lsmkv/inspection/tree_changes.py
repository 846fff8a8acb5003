"""The changes of a store's tree, read from its manifest.

Another process may write it meanwhile.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from lsmkv.errors import CorruptionError
from lsmkv.inspection.report import Report
from lsmkv.log.reader import LogReader, read_log
from lsmkv.storage.file_names import CURRENT, manifest_path
from lsmkv.storage.storage import Storage
from lsmkv.tree.manifest import decode_edit, read_current

_ATTEMPTS: Final = 20
_PAUSE_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class AddedTable(Report):
    """A table that a change added, and its place."""

    number: int
    level: int
    run: int
    size_bytes: int
    entry_count: int


@dataclass(frozen=True, slots=True)
class TreeChange(Report):
    """One change of a store's tree: a flush adds tables, a compaction replaces some.

    One that neither adds nor removes notes something else, such as a log that was closed or emptied.

    Attributes:
        added: the tables that joined the tree, or changed their place.
        removed: numbers of the tables that left it, or their old place.
        is_whole: whether it opens a manifest: ``added`` is then the whole tree, and what was before it is
            not recorded.
        manifest, offset: where it is recorded: number and salt of the manifest, and place in it.
    """

    added: tuple[AddedTable, ...]
    removed: tuple[int, ...]
    is_whole: bool
    manifest: tuple[int, int]
    offset: int


def tree_changes(storage: Storage, directory: str, after: TreeChange | None) -> list[TreeChange]:
    """The changes that the manifest records.  Raises as ``DB.tree_changes``."""
    number, log = _read_manifest(storage, directory)
    manifest = number, log.salt
    known = after.offset if after is not None and after.manifest == manifest else -1
    changes = []
    for place, (offset, payload) in enumerate(log.records()):
        if offset <= known:
            continue
        edit = decode_edit(payload, log.path, offset)
        added = tuple(
            AddedTable(meta.number, placed.level, placed.run, meta.size_bytes, meta.entry_count)
            for placed in edit.added
            for meta in [placed.meta]
        )
        changes.append(TreeChange(added, tuple(edit.removed), place == 0, manifest, offset))
    return changes


def _read_manifest(storage: Storage, directory: str) -> tuple[int, LogReader]:
    """The manifest that CURRENT names; it may be replaced between two reads."""
    for attempt in range(_ATTEMPTS):
        number = read_current(storage, directory)
        path = manifest_path(directory, number)
        try:
            log = read_log(storage, path, number, "manifest")
        except FileNotFoundError:
            log = None
        if log is not None:
            return number, log
        time.sleep(_PAUSE_S * attempt)
    raise CorruptionError(path, None, f"the manifest that {CURRENT} names is missing")
