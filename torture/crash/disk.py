"""A disk in memory that knows which data survive a power failure.

Every change is an :class:`Operation`, and a :class:`Disk` changes only by applying operations.  So a
prefix of the recorded operations, applied to a fresh disk, gives the disk as it was at that moment.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

ROOT: Final = "/"
STORE: Final = "/store"  # the directory of the store: what a crash leaves in it is examined
Image = dict[str, bytes]  # the store's files by name; it is empty too if the directory is missing
Names = dict[str, int]  # numbers of files by path; directories have the number 0
_DIRECTORY: Final = 0


@dataclass(frozen=True, slots=True)
class Operation:
    """A change of the disk, a sync, or the workload's note.

    Attributes:
        kind: ``create``, ``write``, ``write_again``, ``truncate``, ``sync``, ``failed_sync``,
            ``rename``, ``link``, ``remove``, ``make_directory``, ``sync_directory`` or ``note``.
        path: the path changed; the text of a note.
        file: number of the file.
        data: the bytes written.
        target: the new name of a rename or link.
        length: the new length of a truncated file, which may be longer; the offset of a write; the
            number of the workload's operation in a note.
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
    """The bytes of a file, written and synced."""

    __slots__ = ("_dropped", "_unsynced", "_whole", "data", "durable", "ends")

    def __init__(self, content: bytes = b"") -> None:
        self.data = bytearray(content)
        self.durable = content
        self.ends: list[int] = []  # end offsets of the writes since the last sync
        self._whole: bytes | None = content
        self._dropped: list[tuple[int, int]] = []
        self._unsynced: list[tuple[int, int]] = []

    @property
    def content(self) -> bytes:
        """All bytes, as programs read them."""
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
        """Drop the unsynced writes, as kernels do (wiki.postgresql.org/wiki/Fsync_Errors)."""
        self._dropped += self._unsynced
        self._unsynced = []

    def write_again(self, start: int, end: int) -> None:
        """Make a range of bytes dirty, for the next sync to write."""
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
    """Files and names, now and as a power failure may leave them.

    Attributes:
        files: files by number.
        names: names as programs see them.
        durable_names: names at the last sync of each directory.
        pending: changes of names since then, in order; each survives as a whole or not at all.
            None stands for a removed name.
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
        """The number of the next file to create."""
        return self._next

    def apply(self, operation: Operation) -> None:
        """Apply an operation; the paths that it names must exist."""
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

    # States after a crash; :mod:`torture.crash.disk_states` has the others

    def everything(self) -> Image:
        """Files after the end of the process alone."""
        return image_of(self.names, {n: file.content for n, file in self.files.items()})

    def the_least(self) -> Image:
        """Files with only their synced data, under synced names."""
        return image_of(self.durable_names, {n: file.durable for n, file in self.files.items()})


def update(names: Names, change: dict[str, int | None]) -> None:
    for path, number in change.items():
        if number is None:
            names.pop(path, None)
        else:
            names[path] = number


def image_of(names: Names, contents: dict[int, bytes]) -> Image:
    """The store's files with these names and contents."""
    if STORE not in names:
        return {}
    return {
        path[len(STORE) + 1 :]: contents[number]
        for path, number in names.items()
        if path.startswith(f"{STORE}/") and number != _DIRECTORY
    }


def replayed(operations: Iterable[Operation], image: Image | None = None) -> Disk:
    """A disk with the files of ``image``, after these operations."""
    disk = Disk(image)
    for operation in operations:
        disk.apply(operation)
    return disk
