"""A store's state at one moment, with its files held open: what a copy is made of.

The store may flush, compact and write meanwhile: a file that is removed stays readable, and no file
changes before the offset at which it is captured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lsmkv.memtable.memtable import Memtable
from lsmkv.storage.storage import RandomFile
from lsmkv.tree.manifest import State


@dataclass(frozen=True, slots=True)
class CapturedLog:
    """A log with writes that are not in tables."""

    number: int
    salt: int
    end: int  # where its last record ends
    read: Callable[[int, int], bytes]  # gives its bytes by offset and length


@dataclass(frozen=True, slots=True)
class Capture:
    """The state of a store at one moment."""

    # Where the tables' files are, unless they were removed meanwhile; None if they are in object
    # storage.
    directory: str | None
    state: State  # what the manifest says
    last_seq: int  # the last write in the logs, or else in the tables
    tables: dict[int, RandomFile]  # the open file of each table, by its number
    logs: list[CapturedLog]  # the logs that count, oldest first
    memtables: tuple[Memtable, ...] = ()  # what they hold, oldest first, if the capture read them
