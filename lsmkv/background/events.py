"""Events: what a store tells the logger ``lsmkv`` and the function given as ``on_event``.

An event is noted where it happens, under whatever lock, and told by the same thread once it holds none.
A call that a callback makes may note more: these are told after the callback has returned, but for the
stalls of its own writes, which are only logged.  (Else each stall might cause the next, for ever.)
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import get_ident
from typing import Final, Literal

from lsmkv.background.threads import in_worker
from lsmkv.background.worker import Worker

STALL_S: Final = 1.0  # a write that waits so long is logged as a warning
_DEBUG: Final = 10  # the levels of logging, which most programs need not import
_INFO: Final = 20
_WARNING: Final = 30
_ERROR: Final = 40

_PATIENCE_S: Final = 1.0  # for the log, when a store is closed
_LOOK_S: Final = 0.001

StallReason = Literal["flush", "compaction", "ingest", "slowdown"]


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to the store at ``path``; ``str(event)`` is its line in the log."""

    path: str


@dataclass(frozen=True, slots=True)
class FlushEnded(Event):
    """A memtable was written to tables on level 0, which readers see.

    Attributes:
        tables, entries, size_bytes: the new tables; none if there was nothing to keep.
        duration_s: how long it took, with the pauses that it made for writers.
    """

    tables: int
    entries: int
    size_bytes: int
    duration_s: float

    def __str__(self) -> str:
        return (
            f"{self.path}: flushed a memtable into {_count(self.tables, 'table')} on level 0, "
            f"{_count(self.entries, 'entry', 'entries')}, {self.size_bytes:,} bytes, "
            f"in {self.duration_s:.3f} s"
        )


@dataclass(frozen=True, slots=True)
class CompactionEnded(Event):
    """Tables were merged, or moved to a deeper level unchanged; readers see the new ones.

    Attributes:
        input_levels: the levels of the tables that it replaced, ascending.
        output_level: the level of the new ones.
        input_tables, input_bytes: the tables that it replaced, and their size.
        output_tables, output_bytes: those in their place.
        moved: nothing was rewritten.
        duration_s: how long it took, with the pauses that it made for writers.
    """

    input_levels: tuple[int, ...]
    output_level: int
    input_tables: int
    input_bytes: int
    output_tables: int
    output_bytes: int
    moved: bool
    duration_s: float

    def __str__(self) -> str:
        levels = ", ".join(map(str, self.input_levels))
        done = "moved" if self.moved else "compacted"
        return (
            f"{self.path}: {done} {_count(self.input_tables, 'table')} of level {levels} "
            f"({self.input_bytes:,} bytes) into {_count(self.output_tables, 'table')} "
            f"on level {self.output_level} ({self.output_bytes:,} bytes), in {self.duration_s:.3f} s"
        )


@dataclass(frozen=True, slots=True)
class WriteStalled(Event):
    """A write had to wait; it goes on after the callback.

    Attributes:
        reason: ``"flush"``, for too many full memtables; ``"compaction"``, for too many runs on level
            0; ``"ingest"``, for the commit of ``DB.ingest``; ``"slowdown"``, the write was delayed for
            a second or more because level 0 is crowded (shorter delays are only counted).
        duration_s: how long it waited.
    """

    reason: StallReason
    duration_s: float

    def __str__(self) -> str:
        return f"{self.path}: a write waited {self.duration_s:.3f} s ({self.reason})"


@dataclass(frozen=True, slots=True)
class BackgroundFailed(Event):
    """A flush, compaction or log write failed by ``error``: no more writes until ``DB.resume``."""

    error: BaseException

    def __str__(self) -> str:
        return (
            f"{self.path} takes no more writes after a failure: "
            f"{type(self.error).__name__}: {self.error}"
        )


@dataclass(frozen=True, slots=True)
class HelperFailed(Event):
    """With ``background="auto"``, a helper process failed: a thread does its job, and the store goes on.

    Attributes:
        reason: how it failed.
        pause_s: how long no such process is given a job.
    """

    reason: str
    pause_s: float

    def __str__(self) -> str:
        return (
            f"{self.path}: background work goes on in a thread for {self.pause_s:.0f} s, "
            f"because a helper process failed: {self.reason}"
        )


@dataclass(frozen=True, slots=True)
class Resumed(Event):
    """The store takes writes again, after ``DB.resume``."""

    def __str__(self) -> str:
        return f"{self.path} takes writes again"


@dataclass(frozen=True, slots=True)
class Ingested(Event):
    """``DB.ingest`` or ``DB.bulk_load`` committed tables; fields as in its report."""

    tables: int
    entries: int
    size_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.path}: ingested {_count(self.tables, 'table')}, "
            f"{_count(self.entries, 'entry', 'entries')}, {self.size_bytes:,} bytes"
        )


@dataclass(frozen=True, slots=True)
class Refreshed(Event):
    """A read-only handle shows new writes, up to number ``sequence_number``."""

    sequence_number: int

    def __str__(self) -> str:
        return f"{self.path}: refreshed, up to write {self.sequence_number:,}"


_LEVELS: Final = {BackgroundFailed: _ERROR, HelperFailed: _WARNING, Refreshed: _DEBUG}


def _level(event: Event) -> int:
    if isinstance(event, WriteStalled):
        return _WARNING if event.duration_s >= STALL_S else _DEBUG
    return _LEVELS.get(type(event), _INFO)


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


OnEvent = Callable[[Event], object]


class EventTeller:
    """Notes events of any thread, and tells them.  Takes no lock."""

    def __init__(self, callback: OnEvent | None) -> None:
        self.callback = callback
        self._noted: dict[int, list[Event]] = {}  # by thread, oldest first
        self._telling: set[int] = set()
        self._log = EventLog()

    @property
    def is_telling(self) -> bool:
        """Whether this thread is inside a callback."""
        return get_ident() in self._telling

    def note(self, event: Event) -> None:
        """Keep ``event`` until this thread calls :meth:`tell`."""
        self._noted.setdefault(get_ident(), []).append(event)

    def log(self, text: str) -> None:
        """Give the logger a text that is no event."""
        self._log.add(_INFO, text)

    def tell(self) -> None:
        """Log this thread's events, and call the callback.  The thread holds no lock."""
        if not self._noted:
            return
        thread = get_ident()
        events = self._noted.get(thread)
        if events is None or thread in self._telling:
            return
        try:
            self._telling.add(thread)
            told = len(events)  # the others were caused by callbacks
            while events:
                event = events.pop(0)
                told -= 1
                own = told < 0 and isinstance(event, WriteStalled)
                self._log.add(_level(event), event)
                if self.callback is not None and not own:
                    self._call(self.callback, event)
        finally:
            self._telling.discard(thread)
            if not events:
                self._noted.pop(thread, None)

    def _call(self, callback: OnEvent, event: Event) -> None:
        try:
            callback(event)
        except BaseException as error:
            # An interrupt of the program is none of the callback's, and ends no background thread.
            if not isinstance(error, Exception) and not in_worker():
                raise
            text = "on_event raised an exception, which is dropped; the event:"
            self._log.add(_ERROR, f"{event.path}: {text} {event}", error)

    def close(self) -> None:
        self._log.close()


class EventLog:
    """Gives records to the logger, in a thread of its own.

    Handlers hold locks, and an interrupt (Ctrl-C) of a thread that logs may leave one held for ever.  No
    interrupt comes in this thread, and no other thread of the store waits for a handler, which may wait
    for the store.
    """

    def __init__(self) -> None:
        self._records: deque[tuple[int, object, BaseException | None]] = deque()
        self._worker = Worker("lsmkv-log", self._write, lambda error: None)

    def add(self, level: int, line: object, error: BaseException | None = None) -> None:
        """Log ``str(line)`` soon, if the logger's level lets it pass."""
        if _is_wanted(level):
            self._records.append((level, line, error))
            with contextlib.suppress(RuntimeError):  # no thread can be started
                self._worker.wake()

    def _write(self) -> bool:
        if not self._records:
            return False
        level, line, error = self._records.popleft()
        import logging  # here, because most programs never need it

        # The text alone: a record that a handler keeps would keep an event's error, and its files open.
        logging.getLogger("lsmkv").log(level, "%s", str(line), exc_info=error)
        return True

    def close(self) -> None:
        """Wait until everything is logged, but not for ever: a handler may close the store."""
        worker, until_s = self._worker, time.monotonic() + _PATIENCE_S
        try:
            while worker.busy and not worker.is_this_thread and time.monotonic() < until_s:
                time.sleep(_LOOK_S)
        finally:
            worker.dismiss()  # also after an interrupt
        if not worker.busy:
            worker.stop()


def _is_wanted(level: int) -> bool:
    """Whether the logger is enabled for ``level``, asked without its locks."""
    root = getattr(sys.modules.get("logging"), "root", None)
    if root is None:
        return level >= _WARNING  # nobody can have asked for more
    own: int = getattr(root.manager.loggerDict.get("lsmkv"), "level", 0)
    return bool(level >= (own or root.level) and level > root.manager.disable)
