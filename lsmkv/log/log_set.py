"""The write-ahead logs of an open store."""

from __future__ import annotations

import contextlib
import os

from lsmkv.log.reader import LogReader
from lsmkv.log.writer import LogWriter
from lsmkv.storage.file_names import UNFINISHED, log_path, parse_file_name
from lsmkv.storage.storage import Storage


class LogSet:
    """The current log, and those of memtables that wait for their flush.

    One thread at a time may use it (the engine's mutex), but any thread :meth:`remove`.
    """

    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage = storage
        self._directory = directory
        self._current: LogWriter | None = None
        self._waiting: dict[int, LogWriter] = {}
        self._finished: tuple[int, int, int] | None = None

    @property
    def current(self) -> LogWriter:
        assert self._current is not None, "a read-only store has no log to write to"
        return self._current

    @property
    def end(self) -> int | None:
        """Length of the current log; None in a read-only store."""
        return None if self._current is None else self._current.end

    def check_place(self) -> None:
        """Raise StoreReplacedError if nobody will find the logs any more."""
        self._storage.check_place(self._directory)

    def extents(self) -> list[tuple[int, int, int]]:
        """Number, salt and end of each log, oldest first."""
        logs = [*self._waiting.copy().values(), self.current]
        return sorted((log.number, log.salt, log.end) for log in logs)

    def create(self, number: int) -> None:
        """Make the first log; it has its name once it is whole."""
        path = log_path(self._directory, number)
        log = LogWriter.create(self._storage, path + UNFINISHED, number, "log")
        self.follow(log)
        log.rename(self._storage, path)

    def reopen(self, found: list[LogReader], names: list[str], is_synced: bool) -> None:
        """Append to the logs ``found``, remove later ones of ``names``; ``is_synced``: all is on disk."""
        for contents in found:
            self.follow(LogWriter.reopen(self._storage, contents, is_synced))
        newest = found[-1].number
        for name in names:
            parsed = parse_file_name(name)
            if parsed is not None and parsed[0] == "log" and parsed[1] > newest:
                self._storage.remove(os.path.join(self._directory, name))
                is_synced = False
        if not is_synced:
            self._storage.sync_directory(self._directory)

    def prepare(self, number: int) -> LogWriter:
        """A new log that may follow the current one: :meth:`follow` or :meth:`give_up` it."""
        path = log_path(self._directory, number)
        log = LogWriter.create(self._storage, path, number, "log", predecessor=self.current)
        try:
            self._storage.sync_directory(self._directory)
        except BaseException:
            self.give_up(log)
            raise
        return log

    def follow(self, log: LogWriter) -> None:
        """Make ``log`` the current one; the one before waits until :meth:`remove`."""
        # No call in here: an interrupt comes before all of it or after it.
        if self._current is not None:
            self._waiting[self._current.number] = self._current
        self._current = log

    def give_up(self, log: LogWriter) -> None:
        log.close()
        with contextlib.suppress(OSError):  # recovery passes over an unused log
            self._storage.remove(log_path(self._directory, log.number))

    def remove(self, number: int) -> None:
        """Remove a log whose writes are in tables.  For any thread."""
        log = self._waiting.pop(number, None)
        if log is not None:
            log.obsolete = True
            log.close()
        with contextlib.suppress(OSError):  # the next open removes leftovers
            self._storage.remove(log_path(self._directory, number))

    def finish(self, *, mark: bool) -> tuple[int, int, int]:
        """Sync the current log, with ``mark`` a mark, too; returns number, end before it, and salt."""
        log = self.current
        if self._finished is None:
            end = log.end
            log.sync_through(log.records_end)
            self._finished = log.number, end, log.salt
        if mark:
            log.close(mark=True)
        return self._finished

    def close(self) -> None:
        for log in [*self._waiting.values(), *filter(None, [self._current])]:
            log.close()
