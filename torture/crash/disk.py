"""A disk in memory that knows what of it would survive a power failure.

Every change is an :class:`Operation`, and applying operations is all that a :class:`Disk` does: the
operations of a recorded run, applied to a fresh disk up to any one of them, give the disk as it was
at that moment.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

ROOT: Final = "/"
STORE: Final = "/store"
"""Where the store lies, the only directory of the disk but its root."""

Image = dict[str, bytes]
"""The store's files by name.  An empty image stands for a missing directory, too."""

Names = dict[str, int]
"""What is in a directory, or was: numbers of files by path.  Directories have the number 0."""

_DIRECTORY: Final = 0


@dataclass(frozen=True, slots=True)
class Operation:
    """A change of the disk, a sync, or a note of the workload that makes it.

    Attributes:
        kind: ``create``, ``write``, ``write_again``, ``truncate``, ``sync``, ``failed_sync``,
            ``rename``, ``link``, ``remove``, ``make_directory``, ``sync_directory`` or ``note``.
        path: what it was done to; of a note, what it says.
        file: number of the file.
        data: what was written.
        target: the new name of a rename or link.
        length: of a truncation, how long the file is then, which may be longer; of what is written,
            or written again, where it starts; of a note, the number of the workload's operation.
    """

    kind: str
    path: str
    file: int = 0
    data: bytes = b""
    target: str = ""
    length: int = 0

    def __str__(self) -> str:
        name = posixpath.basename(self.path)
        if self.kind == "write":
            return f"write of {len(self.data)} bytes to {name}"
        if self.kind == "note":
            return f"{self.path} {self.length}"
        return " ".join(filter(None, (self.kind, name, posixpath.basename(self.target))))


class File:
    """What was written to a file, and what of that is on disk for sure."""

    __slots__ = ("_dropped", "_unsynced", "_whole", "data", "durable", "ends")

    def __init__(self, content: bytes = b"") -> None:
        self.data = bytearray(content)
        self.durable = content
        self.ends: list[int] = []
        """Where the writes since the last sync end."""
        self._whole: bytes | None = content
        self._dropped: list[tuple[int, int]] = []
        self._unsynced: list[tuple[int, int]] = []

    @property
    def content(self) -> bytes:
        """All that was written."""
        if self._whole is None:
            self._whole = bytes(self.data)
        return self._whole

    def write(self, start: int, data: bytes) -> None:
        self.data[start : start + len(data)] = data
        self.ends.append(start + len(data))
        self._unsynced.append((start, start + len(data)))
        self._whole = None

    def truncate(self, length: int) -> None:
        del self.data[length:]
        self.data += bytes(length - len(self.data))
        self.ends.append(length)
        self._whole = None

    def sync(self) -> None:
        durable = bytearray(self.content)
        for start, end in self._dropped:
            durable[start:end] = bytes(len(durable[start:end]))
        self.durable = bytes(durable)
        self.ends = []
        self._unsynced = []

    def fail_sync(self) -> None:
        """As kernels do: the pages that could not be written count as clean, and are never written.

        (https://wiki.postgresql.org/wiki/Fsync_Errors)  A later sync succeeds without them.
        """
        self._dropped += self._unsynced
        self._unsynced = []

    def write_again(self, start: int, end: int) -> None:
        """What is there from ``start`` to ``end`` is to be written by the next sync."""
        around = [
            part
            for first, last in self._dropped
            for part in ((first, min(last, start)), (max(first, end), last))
        ]
        self._dropped = [(first, last) for first, last in around if first < last]
        self._unsynced.append((start, end))

    @property
    def is_synced(self) -> bool:
        return self.durable == self.content


class Disk:
    """Files and names, as programs see them and as a power failure might leave them.

    Attributes:
        files: by number.
        names: as programs see them.
        durable_names: as of the last sync of each directory.
        pending: changes of names since then, in order; each is persisted as a whole or not at all.
            A name that is gone has None.
    """

    def __init__(self, image: Image | None = None) -> None:
        self.files: dict[int, File] = {_DIRECTORY: File()}
        self.names: Names = {ROOT: _DIRECTORY}
        self.pending: list[dict[str, int | None]] = []
        self._next = 1
        if image:
            self.names[STORE] = _DIRECTORY
            for name, data in image.items():
                self.names[f"{STORE}/{name}"] = self._next
                self.files[self._next] = File(data)
                self._next += 1
        self.durable_names = dict(self.names)

    def next_file(self) -> int:
        """The number that the next file created gets."""
        return self._next

    def apply(self, operation: Operation) -> None:
        """Do what ``operation`` did.  What it names must be there."""
        kind, path = operation.kind, operation.path
        if kind == "write":
            self.files[operation.file].write(operation.length, operation.data)
        elif kind == "sync":
            self.files[operation.file].sync()
        elif kind == "failed_sync":
            self.files[operation.file].fail_sync()
        elif kind == "write_again":
            end = operation.length + len(operation.data)
            self.files[operation.file].write_again(operation.length, end)
        elif kind == "truncate":
            self.files[operation.file].truncate(operation.length)
        elif kind == "create":
            self.files[operation.file] = File()
            self._next = operation.file + 1
            self._change({path: operation.file})
        elif kind == "make_directory":
            self._change({path: _DIRECTORY})
        elif kind == "remove":
            self._change({path: None})
        elif kind == "rename":
            self._change({path: None, operation.target: self.names[path]})
        elif kind == "link":
            self._change({operation.target: self.names[path]})
        elif kind == "sync_directory":
            self._sync_directory(path)
        else:
            assert kind == "note", kind

    def _change(self, change: dict[str, int | None]) -> None:
        update(self.names, change)
        self.pending.append(change)

    def _sync_directory(self, directory: str) -> None:
        waiting = []
        for change in self.pending:
            if posixpath.dirname(next(iter(change))) == directory:
                update(self.durable_names, change)
            else:
                waiting.append(change)
        self.pending = waiting

    # What may be there after a crash (see :mod:`torture.crash.disk_states` for the rest)

    def everything(self) -> Image:
        """As after the end of the process alone."""
        return image_of(self.names, {n: file.content for n, file in self.files.items()})

    def the_least(self) -> Image:
        """Only what was synced."""
        return image_of(self.durable_names, {n: file.durable for n, file in self.files.items()})


def update(names: Names, change: dict[str, int | None]) -> None:
    """Make one change of names."""
    for path, number in change.items():
        if number is None:
            names.pop(path, None)
        else:
            names[path] = number


def image_of(names: Names, contents: dict[int, bytes]) -> Image:
    """The store's files, when these are the names and those the contents."""
    if STORE not in names:
        return {}
    return {
        path[len(STORE) + 1 :]: contents[number]
        for path, number in names.items()
        if number != _DIRECTORY
    }


def replayed(operations: Iterable[Operation], image: Image | None = None) -> Disk:
    """The disk after these operations, which began with ``image``."""
    disk = Disk(image)
    for operation in operations:
        disk.apply(operation)
    return disk
