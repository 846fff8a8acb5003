"""The manifest: a log of edits; and CURRENT, which names it.

Each record of a manifest is one :class:`VersionEdit` in JSON.  The first holds the whole state, and
each later one changes it.  ``CURRENT`` is one line: the manifest's file name, a space, and the XXH3-64
of the name in hexadecimal; it is replaced by a rename.

An edit counts once its record is synced.  Only then does the store use the new state, and remove the
tables that the edit removes.  A fresh manifest is synced, then gets its name, then its directory is
synced, then CURRENT is replaced, and only then is the old manifest removed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from lsmkv.encoding.checksums import checksum
from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.encoding.range_deletes import RangeDelete, why_impossible
from lsmkv.errors import CorruptionError, NotAStoreError, UnsupportedFormatError, unfit
from lsmkv.log.chain import ClosedLog
from lsmkv.log.reader import MARK_BYTES, LogReader, read_log, read_more
from lsmkv.log.writer import LogWriter
from lsmkv.storage.file_names import (
    CURRENT,
    MAX_FILE_NUMBER,
    UNFINISHED,
    manifest_path,
    parse_file_name,
)
from lsmkv.storage.storage import ReadKind, Storage
from lsmkv.tree.erased_file import read_erased, write_erased
from lsmkv.tree.levels import Levels, PlacedTable

_MAX_CURRENT_BYTES: Final = 200
# A manifest is rewritten once it is this many times as long as its first record.
_GROWTH: Final = 8
_STORE_ID: Final = re.compile("[0-9a-f]{32}")
_LEAST_BYTES: Final = 64 * 1024


def check_file_number(number: int, directory: str) -> None:
    """Raise CorruptionError if ``number`` leaves no higher file number."""
    if number >= MAX_FILE_NUMBER:
        reason = (
            f"its files have numbers up to {number - 1}, and no higher number is left: read it "
            "with read_only=True, and write what it holds to a new store"
        )
        raise CorruptionError(directory, None, reason)


MOST_ASKS: Final = 1 << 62
"""No count of lookups is higher: whoever adds to one at this limit leaves it there."""

Asks = tuple[int, int]
"""How often a table was asked for absent keys, in how many lookups of the store."""


class VersionEdit(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """One change of the store's state.  A number that is None does not change."""

    added: list[PlacedTable] = []  # tables that join the tree
    removed: list[int] = []  # numbers of tables that leave it
    next_file: int | None = None  # the lowest number that no file has had yet
    last_seq: int | None = None  # the highest in the tables; a lower one changes nothing
    log_number: int | None = None  # the oldest log with writes that are not in tables
    # Number and end of the last log, if the store was then closed properly; any other edit clears it.
    closed_log: tuple[int, int] | None = None
    closed_salt: int | None = None  # that log's, which tells it from another store's
    asks: dict[int, Asks] = {}  # new counts, by the numbers of tables that the tree then has
    # What tells the store from every other, 128 random bits in hexadecimal, in the first record alone.
    store_id: str | None = None
    # Those of memtables that became tables, while they hide entries of tables.
    range_deletes_added: list[RangeDelete] = []
    range_deletes_removed: list[RangeDelete] = []  # those that hide nothing any more


@dataclass(frozen=True, slots=True)
class State:
    """The state that all edits of a manifest make; a store's ``store_id`` is never empty."""

    levels: Levels
    next_file: int
    last_seq: int
    log_number: int
    closed_log: tuple[int, int] | None = None
    closed_salt: int | None = None
    asks: Mapping[int, Asks] = field(default_factory=dict)
    store_id: str = ""
    range_deletes: tuple[RangeDelete, ...] = ()

    def changed(self, edit: VersionEdit) -> State:
        """The state after ``edit``; ValueError if the edit does not fit."""
        last_seq = self.last_seq if edit.last_seq is None else edit.last_seq
        if not 0 <= last_seq <= MAX_SEQUENCE:
            raise ValueError(f"last sequence number {last_seq} is out of range")
        store_id = self.store_id if edit.store_id is None else edit.store_id
        is_fit = edit.store_id is None or _STORE_ID.fullmatch(store_id)
        if not is_fit or self.store_id not in ("", store_id):
            raise ValueError(f"the store's identity is {store_id!r} after {self.store_id!r}")
        changed = replace(
            self,
            levels=self.levels.changed(edit.added, edit.removed),
            next_file=self.next_file if edit.next_file is None else edit.next_file,
            last_seq=max(self.last_seq, last_seq),
            log_number=self.log_number if edit.log_number is None else edit.log_number,
            closed_log=edit.closed_log,
            closed_salt=edit.closed_salt,
            store_id=store_id,
        )
        if edit.range_deletes_added or edit.range_deletes_removed:
            changed = replace(changed, range_deletes=_changed_ranges(changed, edit))
        asks = {**self.asks, **edit.asks}
        if asks:
            numbers = {table.number for table in changed.levels.tables()}
            changed = replace(changed, asks={n: asks[n] for n in asks if n in numbers})
            if any(not 0 <= min(edit.asks[n]) <= max(edit.asks[n]) <= MOST_ASKS for n in edit.asks):
                raise ValueError("counts of lookups are out of range")
            if not edit.asks.keys() <= numbers:
                raise ValueError("counts of lookups of a table that is not there")
        highest = max((table.number for table in changed.levels.tables()), default=0)
        if changed.log_number < 0:
            raise ValueError(f"log number {changed.log_number} is out of range")
        if changed.next_file > MAX_FILE_NUMBER:
            raise ValueError(f"next file number {changed.next_file} is out of range")
        if changed.next_file <= max(highest, changed.log_number):
            raise ValueError(f"next file number {changed.next_file} is in use")
        return changed

    def was_closed_at(self, number: int, end: int) -> bool:
        """Whether the store was closed with this log, marked or not."""
        closed, closed_end = self.closed_log or (0, 0)
        return closed == number and end - closed_end in (0, MARK_BYTES)

    @property
    def closed(self) -> ClosedLog:
        return ClosedLog(*(self.closed_log or (0, 0)), self.closed_salt)

    def as_edit(self) -> VersionEdit:
        return VersionEdit(
            added=list(self.levels.placed()),
            next_file=self.next_file,
            last_seq=self.last_seq,
            log_number=self.log_number,
            closed_log=self.closed_log,
            closed_salt=self.closed_salt,
            asks=dict(self.asks),
            store_id=self.store_id or None,
            range_deletes_added=list(self.range_deletes),
        )


def _with_needed_ranges(state: State, edit: VersionEdit) -> VersionEdit:
    """``edit`` without range deletes that hide nothing in the tables after it."""
    if not (state.range_deletes or edit.range_deletes_added):
        return edit
    hides = state.levels.changed(edit.added, edit.removed).has_hidden_by
    return msgspec.structs.replace(
        edit,
        range_deletes_added=list(filter(hides, edit.range_deletes_added)),
        range_deletes_removed=[known for known in state.range_deletes if not hides(known)],
    )


def _changed_ranges(state: State, edit: VersionEdit) -> tuple[RangeDelete, ...]:
    """The range deletes after ``edit``; ValueError if they cannot be."""
    for each in edit.range_deletes_added:
        if problem := why_impossible(each, state.last_seq):
            raise ValueError(problem)
    there = dict.fromkeys([*state.range_deletes, *edit.range_deletes_added])
    for gone in edit.range_deletes_removed:
        if gone not in there:
            raise ValueError(f"range delete {gone[2]} is removed, but is not there")
        del there[gone]
    return tuple(there)


_NOTHING_THERE: Final = ": nothing is there; lsmkv.open(path) makes a store"

EMPTY_STATE: Final = State(Levels(), next_file=1, last_seq=0, log_number=0)
NEW_STATE: Final = State(Levels(), next_file=2, last_seq=0, log_number=1)
"""The state of a new store.  Its log has the number 1, and its manifest the number 2."""


def no_store(storage: Storage, directory: str) -> NotAStoreError:
    """The error for a directory without CURRENT."""
    if not storage.exists(directory):
        return NotAStoreError(f"{directory} holds no lsmkv store{_NOTHING_THERE}")
    return NotAStoreError(f"{directory} holds no lsmkv store (it has no {CURRENT})")


def read_current(storage: Storage, directory: str) -> int:
    """Number of the manifest that CURRENT names; NotAStoreError without CURRENT."""
    path = os.path.join(directory, CURRENT)
    try:
        data = storage.read_whole(path, ReadKind.LOG, _MAX_CURRENT_BYTES)
    except FileNotFoundError:
        raise no_store(storage, directory) from None
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise CorruptionError(path, 0, "it is too long") from error
        raise
    name, _, rest = data.partition(b" ")
    parsed = parse_file_name(name.decode("ascii", "replace"))
    if parsed is None or parsed[0] != "manifest" or rest != _current_check(name):
        raise CorruptionError(path, 0, "it does not name a manifest, or is damaged")
    return parsed[1]


def _current_check(name: bytes) -> bytes:
    return b"%016x\n" % checksum(name, 0)


def read_state(storage: Storage, directory: str, number: int) -> State:
    """The state of manifest ``number``; raises as :func:`read_manifest`."""
    return read_manifest(storage, directory, number)[0]


def read_manifest(storage: Storage, directory: str, number: int) -> tuple[State, LogReader]:
    """The state of manifest ``number``, and the manifest as a log.

    CorruptionError if it is missing or damaged, UnsupportedFormatError for another format version.
    """
    path = manifest_path(directory, number)
    try:
        contents = read_log(storage, path, number, "manifest")
    except FileNotFoundError:
        raise CorruptionError(path, None, f"the manifest that {CURRENT} names is missing") from None
    if contents is None:
        raise CorruptionError(path, 0, "the manifest is cut short inside its header")
    state = _state_after(EMPTY_STATE, contents)
    if state is EMPTY_STATE:
        raise CorruptionError(path, contents.end, "the manifest holds no record")
    if not state.store_id:
        reason = "manifest format 1, without store_id; this release reads format 2"
        raise UnsupportedFormatError(path, reason)
    return state, contents


def read_more_manifest(storage: Storage, state: State, known: LogReader) -> tuple[State, LogReader]:
    """The state after the edits that a manifest has behind ``known``.

    ``state`` is the one that ``known`` gave.  CorruptionError, FileNotFoundError: the manifest must be
    read from its start.
    """
    contents = read_more(storage, known)
    return _state_after(state, contents), contents


def _state_after(state: State, contents: LogReader) -> State:
    for offset, payload in contents.records():
        edit = decode_edit(payload, contents.path, offset)
        try:
            state = state.changed(edit)
        except ValueError as error:
            raise _bad_record(contents.path, offset, error) from error
    return state


def decode_edit(payload: bytes, path: str, offset: int) -> VersionEdit:
    """A record of a manifest, whose checksum holds.

    CorruptionError if it is none, UnsupportedFormatError if it has other fields.
    """
    try:
        return msgspec.json.decode(payload, type=VersionEdit)
    except msgspec.ValidationError as error:
        raise unfit(path, offset, "manifest record", error) from error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _bad_record(path, offset, error) from error


def _bad_record(path: str, offset: int, error: Exception) -> CorruptionError:
    return CorruptionError(path, offset, f"bad manifest record: {error}")


class Manifest:
    """The manifest of an open store.  One thread edits at a time (the caller's lock).

    ``state`` is the committed one; a store without an identity gets one.  ``number`` is the file's; 0
    before the first ``rewrite``.
    """

    def __init__(self, storage: Storage, directory: str, state: State) -> None:
        self._storage = storage
        self._directory = directory
        self._log: LogWriter | None = None
        self._next_file = state.next_file
        self._number_lock = threading.Lock()
        self._longest = 0
        self._noted: list[RangeDelete] | None = None  # what ERASED holds, once that is known
        self.state = replace(state, store_id=state.store_id or os.urandom(16).hex())
        self.number = 0

    def allocate(self, count: int = 1) -> int:
        """The first of ``count`` unused file numbers; CorruptionError if none are left.  Thread-safe."""
        with self._number_lock:
            number = self._next_file
            check_file_number(number + count - 1, self._directory)
            self._next_file += count
            return number

    def resume(self, contents: LogReader) -> None:
        """Append to the synced manifest that ``state`` was read from."""
        self._take_up_erased()
        _, whole_state = next(contents.records())
        self._longest = len(whole_state) * _GROWTH + _LEAST_BYTES
        self._log = LogWriter.reopen(self._storage, contents, is_synced=True)
        self.number = contents.number

    def note_closed_log(self, number: int, end: int, salt: int, asks: dict[int, Asks]) -> None:
        is_known = asks.items() <= self.state.asks.items()
        if not self.state.was_closed_at(number, end) or not is_known:
            self.append(VersionEdit(closed_log=(number, end), closed_salt=salt, asks=asks))

    def rewrite(self) -> None:
        """Write the state to a fresh manifest, durably; CURRENT names it.

        After an OSError, CURRENT names the old manifest or the new one.
        """
        self._take_up_erased()
        number = self.allocate()
        state = replace(self.state, next_file=self._next_file)
        path = manifest_path(self._directory, number)
        log = LogWriter.create(self._storage, path + UNFINISHED, number, "manifest")
        try:
            log.sync_through(log.append(msgspec.json.encode(state.as_edit())))
            log.rename(self._storage, path)
            self._storage.sync_directory(self._directory)
        except BaseException:
            log.close()
            with contextlib.suppress(OSError):  # the next open removes what is left over
                self._storage.remove(log.path)
            raise
        self._drop_log()  # if the next step fails, CURRENT may name either
        try:
            name = os.path.basename(path).encode()
            self._storage.write_atomically(
                os.path.join(self._directory, CURRENT), name + b" " + _current_check(name)
            )
        except BaseException:
            log.close()
            raise
        previous = self.number
        self._log = log
        self._longest = log.end * _GROWTH + _LEAST_BYTES
        self.number = number
        self.state = state
        if previous:
            with contextlib.suppress(OSError):  # the next open removes what is left over
                self._storage.remove(manifest_path(self._directory, previous))

    @property
    def had_range_deletes(self) -> bool:
        """Whether ERASED may hold range deletes that the manifest has no more."""
        return bool(self._noted)

    def append(self, edit: VersionEdit, *, files_stay: bool = False) -> None:
        """Commit ``edit``: record it durably, then change the state.

        Range deletes that hide nothing any more go.  ``files_stay``: files of tables that left the tree
        are still there, so that ERASED forgets nothing.

        After an OSError the edit may be on disk: files that it adds must stay until ``rewrite``, with
        which the next ``append`` starts, has succeeded.  ValueError if the edit does not fit the state;
        then nothing was written.
        """
        edit = _with_needed_ranges(self.state, edit)
        edit = msgspec.structs.replace(edit, next_file=self._next_file)
        self.state.changed(edit)
        if self._log is None or self._log.end > self._longest:
            self.rewrite()
            edit = msgspec.structs.replace(edit, next_file=self._next_file)
        changed = self.state.changed(edit)
        log = self._log
        assert log is not None
        if edit.range_deletes_added:
            known = (files_stay and self._noted) or self.state.range_deletes
            self._note_erased([*known, *edit.range_deletes_added])
        try:
            log.sync_through(log.append(msgspec.json.encode(edit)))
            self.state = changed
        except BaseException:  # an interrupt too: file and state must agree
            self._drop_log()
            raise

    def _take_up_erased(self) -> None:
        """Have ERASED hold the manifest's range deletes.

        What it holds besides stays, but not those above the last write in tables: their log is lost,
        or they are in the log still.
        """
        if self._noted is not None:
            return
        state = self.state
        noted: list[RangeDelete] = []
        try:
            record = read_erased(self._storage, self._directory)
        except CorruptionError:
            self._note_erased([*state.range_deletes])
            return
        if record is not None and record.store_id == state.store_id:
            noted = [each for each in record.range_deletes if each[2] <= state.last_seq]
        noted = list(dict.fromkeys([*noted, *state.range_deletes]))
        if noted != ([] if record is None else record.range_deletes):
            self._note_erased(noted)
        self._noted = noted

    def _note_erased(self, ranges: list[RangeDelete]) -> None:
        ranges = list(dict.fromkeys(ranges))
        write_erased(self._storage, self._directory, self.state.store_id, ranges)
        self._noted = ranges

    def _drop_log(self) -> None:
        """Close the file, so that the next edit starts a fresh one."""
        log, self._log = self._log, None
        if log is not None:
            log.close()

    def close(self) -> None:
        if self._log is not None:
            self._log.close(mark=True)
            self._log = None
