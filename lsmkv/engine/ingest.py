"""Ingests table files: checks and stages them, then has the engine adopt them.

All checks that need only the ends of the files come first; then each table is read whole, and linked or
copied.  ``move`` links a file if its end can be rewritten in place, so that a crash leaves the file
valid under its old name, and if it has no other name that may be another store's.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

from lsmkv.encoding.entries import MAX_SEQUENCE, TAG_DELETE
from lsmkv.engine.adoption import NOTHING, IngestReport, Staging
from lsmkv.engine.upkeep import Upkeep
from lsmkv.errors import CorruptionError
from lsmkv.inspection.table_check import open_uncached
from lsmkv.sstable.format import TABLE_MAGIC, expiry_of
from lsmkv.sstable.read_ahead import every_block
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.table_end import TableEnd, adopted_end, read_end
from lsmkv.storage.file_names import CURRENT, MAX_FILE_NUMBER, parse_file_name, table_path
from lsmkv.storage.storage import PathLike, ReadKind, Storage, absolute_path

_BLOCKS_ASKED: Final = 16  # of a table, whose filters are asked for every key


def ingest(upkeep: Upkeep, paths: Iterable[PathLike], move: bool, verify: bool) -> IngestReport:
    """Adopt the tables at ``paths``.  Raises as ``DB.ingest``."""
    upkeep.check_for_adopting()
    storage = upkeep.tables.storage
    found = _absolute(paths)
    if not found:
        return NOTHING
    _check_of_no_store(upkeep, found)
    _check_apart([_examined(upkeep, path) for path in found])
    if move:
        for path in found:
            _check_removable(path)
    staging = Staging(storage, upkeep.tables.directory)
    try:
        for path in found:
            if verify:
                _verify(upkeep, open_uncached(storage, path))
            _stage(storage, staging, path, move)
    except BaseException:
        staging.remove()
        raise
    report = upkeep.adopt(staging)
    if move:
        _remove_sources(storage, found)
    return report


def _absolute(paths: Any) -> list[str]:
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise TypeError("paths is an iterable of paths, not one path: put it into a list")
    found = [absolute_path(path) for path in paths]
    for path, count in Counter(found).items():
        if count > 1:
            raise ValueError(f"{path} is given {count} times")
    return found


# Checks that change nothing


def _examined(upkeep: Upkeep, path: str) -> tuple[bytes, bytes, str]:
    """Check what the end of a file tells; returns its first key, last key and path."""
    _check_kind(upkeep.tables.storage, path)
    table = open_uncached(upkeep.tables.storage, path)
    if table.has_versions:
        raise ValueError(
            f"{path} has several versions of a key: it is a table of a store with snapshots, and its "
            "entries cannot get one sequence number; write its newest entries with a TableWriter"
        )
    policy = table.filter_policy
    if policy.is_registered and upkeep.tables.options.background == "process":
        raise ValueError(
            f"{path}: its filter policy {policy.name!r} is registered in this process alone, and "
            'compactions run in another; open the store with background="thread"'
        )
    return table.smallest, table.largest, path


def _check_kind(storage: Storage, path: str) -> None:
    """Refuse a file that is no table at all."""
    with storage.open_random(path) as file:
        offset = max(0, file.size - len(TABLE_MAGIC))
        if file.pread(offset, file.size - offset, ReadKind.INDEX) != TABLE_MAGIC:
            reason = (
                "not a table file: lsmkv.TableWriter writes those; of CSV, TSV and JSON lines the "
                'command "lsmkv load" puts the entries into a store'
            )
            raise CorruptionError(path, offset, reason)


def _check_of_no_store(upkeep: Upkeep, paths: list[str]) -> None:
    storage = upkeep.tables.storage
    own: dict[tuple[int, int], int] = {}
    for table in upkeep.state.require_open().version.tables():
        path = table_path(upkeep.tables.directory, table.meta.number)
        with contextlib.suppress(FileNotFoundError):  # a compaction has just removed it
            device, number, _ = storage.identity(path)
            own[device, number] = table.meta.number
    for path in paths:
        device, number, _ = storage.identity(path)
        if (device, number) in own:
            raise ValueError(
                f"{path} is table {own[device, number]} of this store already: remove the file, if an "
                "ingest with move=True was cut short"
            )
        folder, name = os.path.split(path)
        if parse_file_name(name) is not None and storage.exists(os.path.join(folder, CURRENT)):
            raise ValueError(
                f"{path} belongs to the store {folder}, and holds a part of what that store has; copy "
                "its entries with bulk_load or a TableWriter instead"
            )


def _check_apart(tables: list[tuple[bytes, bytes, str]]) -> None:
    """Refuse tables whose key ranges overlap: none is newer than the other."""
    for (_, last, left), (first, _, right) in pairwise(sorted(tables)):
        if last >= first:
            raise ValueError(
                f"{left} (keys to {last[:40]!r}) and {right} (keys from {first[:40]!r}) overlap: "
                "ingest them one after the other, the newer last"
            )


def _check_removable(path: str) -> None:
    folder = os.path.dirname(path)
    if not os.access(folder, os.W_OK | os.X_OK, follow_symlinks=True) and os.path.isdir(folder):
        raise PermissionError(13, "move=True needs leave to remove files there", folder)


# Staging


def _stage(storage: Storage, staging: Staging, path: str, move: bool) -> None:
    with storage.open_random(path) as file:
        staged = staging.path(staging.allocate())
        in_place = move and _links(storage, path, staged, read_end(file))
        if not in_place:
            with storage.create(staged) as copy:
                copy.append_from(file, file.size)
                copy.sync()
    staging.add(staged, in_place=in_place)


def _verify(upkeep: Upkeep, table: TableReader) -> None:
    """Read every byte of a table; CorruptionError if it is damaged."""
    entries = tombstones = raw_bytes = 0
    expiries: list[int] = []
    for block in every_block(table):
        entries += block.count
        raw_bytes += len(block.raw)
        if block.has_tags:
            tombstones += block.tags().count(TAG_DELETE)
            expiries += block.expiries()
        upkeep.state.check_not_ending()
    table.verify_sections()
    stored, footer, block_count = table.properties, table.footer, table.index.block_count
    for what, expected, got in (
        ("entries", (stored.entry_count, stored.tombstone_count), (entries, tombstones)),
        ("times of expiry", stored.expiry, expiry_of(expiries, entries)),
        ("bytes before compression", stored.raw_bytes, raw_bytes),
        ("blocks", stored.block_count, block_count),
        ("bytes of filters", stored.filter_bytes, footer.filters_length),
    ):
        if expected != got:
            offset, reason = footer.properties_offset, f"properties of a table count other {what}"
            raise CorruptionError(table.path, offset, reason, expected=expected, got=got)
    # Filters that the properties describe wrongly deny most keys of any block.  To ask for every key
    # would take ten times as long as all the rest.
    for number in range(0, block_count, -(-block_count // _BLOCKS_ASKED)):
        table.verify_block(number)


def _links(storage: Storage, path: str, staged: str, end: TableEnd) -> bool:
    """Link a file that can be adopted in place to ``staged``; sync it."""
    if not adopted_end(end, MAX_FILE_NUMBER, MAX_SEQUENCE).in_place:
        return False
    before = storage.identity(path)
    if before[2] != 1:  # it has another name: whose it is, nobody knows
        return False
    try:
        storage.link(path, staged)
        size_bytes = storage.file_size(staged)
        with storage.open_append(staged, size_bytes) as file:
            file.sync()
        if storage.identity(staged) == (*before[:2], 2):
            return True
    except OSError:  # another file system, or one without links; or it may not be written to
        pass
    storage.remove(staged)
    return False


def _remove_sources(storage: Storage, paths: list[str]) -> None:
    kept = []
    for path in paths:
        try:
            storage.remove(path)
        except OSError as error:
            kept.append(f"{path} ({error.strerror or error})")
    for folder in sorted({os.path.dirname(path) for path in paths}):
        with contextlib.suppress(OSError):  # the store has them, whatever becomes of the old names
            storage.sync_directory(folder)
    if kept:
        warnings.warn(
            f"the tables were ingested, but could not be removed: {', '.join(kept)}",
            RuntimeWarning,
            stacklevel=4,
        )
