"""The write-ahead logs of an open store: the one written to, and those whose memtables wait."""

from __future__ import annotations

import contextlib
import os

from lsmkv.log.reader import LogReader
from lsmkv.log.writer import LogWriter
from lsmkv.storage.file_names import log_path, parse_file_name
from lsmkv.storage.storage import Storage


class LogSet:
    """Logs by age.

    For one thread at a time (the engine's mutex), but for ``mark_obsolete`` and ``release_gil``.
    """

    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage = storage
        self._directory = directory
        self._current: LogWriter | None = None
        self._waiting: dict[int, LogWriter] = {}
        self.releases_gil = False
        self._finished: tuple[int, int, int] | None = None

    @property
    def current(self) -> LogWriter:
        """The log that writes go to."""
        assert self._current is not None, "a read-only store has no log to write to"
        return self._current

    @property
    def end(self) -> int | None:
        """How long the current log is; None when there is none (of a read-only store)."""
        return None if self._current is None else self._current.end

    def create(self, number: int) -> None:
        """Start the first log of a new store.

        Raises:
            OSError: it cannot be made.
        """
        path = log_path(self._directory, number)
        self._set_current(LogWriter.create(self._storage, path, number, "log"))

    def reopen(self, found: list[LogReader], names: list[str], is_synced: bool) -> None:
        """Go on with logs that were read, oldest first; later ones are removed for good.

        Args:
            names: what is in the directory.
            is_synced: whether the logs are known to be on disk, with the directory that names them.

        Raises:
            OSError: one cannot be opened, synced or removed.
        """
        for contents in found:
            self._set_current(LogWriter.reopen(self._storage, contents, is_synced))
        newest = found[-1].number
        for name in names:
            parsed = parse_file_name(name)
            if parsed is not None and parsed[0] == "log" and parsed[1] > newest:
                self._storage.remove(os.path.join(self._directory, name))
                is_synced = False
        if not is_synced:
            self._storage.sync_directory(self._directory)

    def prepare(self, number: int) -> LogWriter:
        """A fresh log that may follow the current one: see :meth:`follow` and :meth:`give_up`.

        Raises:
            OSError: it cannot be made.
        """
        path = log_path(self._directory, number)
        log = LogWriter.create(self._storage, path, number, "log", predecessor=self.current)
        try:
            self._storage.sync_directory(self._directory)
        except BaseException:
            self.give_up(log)
            raise
        log.release_gil(self.releases_gil)
        return log

    def follow(self, log: LogWriter) -> None:
        """Put ``log`` in the place of the current one, which is kept until it is retired."""
        # No call in here: an interrupt comes before all of it or after it.
        if self._current is not None:
            self._waiting[self._current.number] = self._current
        self._current = log

    def give_up(self, log: LogWriter) -> None:
        """Remove a log that was prepared, and not used."""
        log.close()
        with contextlib.suppress(OSError):  # recovery passes over what is left
            self._storage.remove(log_path(self._directory, log.number))

    def _set_current(self, log: LogWriter) -> None:
        log.release_gil(self.releases_gil)
        self.follow(log)

    def release_gil(self, wanted: bool) -> None:
        """Whether other threads are to get their turn in each append.  Any thread may call this."""
        self.releases_gil = wanted
        log = self._current
        if log is not None:
            log.release_gil(wanted)

    def mark_obsolete(self, number: int) -> None:
        """What the log holds is in tables now: remove it.  Any thread may call this."""
        log = self._waiting.pop(number, None)
        if log is not None:
            log.obsolete = True
            log.close()
        with contextlib.suppress(OSError):  # the next open removes what is left over
            self._storage.remove(log_path(self._directory, number))

    def finish(self, *, mark: bool) -> tuple[int, int, int]:
        """Sync the current log; with ``mark``, close it with a sync mark.  It may be done again.

        Returns:
            Its number, where it ends (without the mark), and its salt.

        Raises:
            OSError: it could not be synced.
        """
        log = self.current
        if self._finished is None:
            end = log.end
            log.sync_through(end)
            self._finished = log.number, end, log.salt
        if mark:
            log.close(mark=True)
        return self._finished

    def close(self) -> None:
        """Close every log; a second call does nothing."""
        for log in [*self._waiting.values(), *filter(None, [self._current])]:
            log.close()
