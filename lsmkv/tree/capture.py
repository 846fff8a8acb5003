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
    """A log with writes that are not in tables.

    Attributes:
        end: where its last record ends.
        read: gives its bytes by offset and length.
    """

    number: int
    salt: int
    end: int
    read: Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class Capture:
    """The state of a store at one moment.

    Attributes:
        directory: where the tables' files are, unless they were removed meanwhile; None if they are in
            object storage.
        state: what the manifest says.
        last_seq: the last write in the logs, or else in the tables.
        tables: the open file of each table, by its number.
        logs: the logs that count, oldest first.
        memtables: what they hold, oldest first, if the capture read them.
    """

    directory: str | None
    state: State
    last_seq: int
    tables: dict[int, RandomFile]
    logs: list[CapturedLog]
    memtables: tuple[Memtable, ...] = ()
