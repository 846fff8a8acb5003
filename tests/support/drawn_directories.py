"""Directories of stores as text drawings: logs, manifests, tables and leftovers, whole or damaged.

One line for each file, in the order in which they are written, with the file's name and its content:

``000002.log after 1: a -b | c+d e~``
    The writes of log 2, which follows log 1 where that ends.  ``-b`` deletes b, ``c+d`` is one batch,
    ``|`` a sync.  The value of a key is the number of its write; ``a@7`` has the number 7 instead.
``MANIFEST-000003: log=1 +5@0,log=2,seq=4``
    Two edits, each synced.  Table 5 joins level 0.  ``-5``: it leaves; ``closed=2``: the store is closed
    with log 2, which gets its last mark.
``000005.sst: a -b``
    A table with these keys.
``CURRENT: MANIFEST-000003``
    A file with the right checksum.
``notes.txt: 'text'``
    Any file with this text; a name that ends with ``/`` is a folder.

A record ``e~`` is cut in the middle, ``e!`` has a flipped bit, and of ``[e]`` and what follows nothing is
left.  ``head~`` and ``head!`` damage the header.  ``room`` is zeros behind the records, ``gone`` removes
the file.  Damage comes last: later logs and manifests name a log as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from damage import cut, flip, write_table
from lsmkv.encoding.checksums import checksum
from lsmkv.log.batch import Operation
from lsmkv.log.reader import HEADER_BYTES
from lsmkv.log.writer import LogWriter
from lsmkv.options import Options
from lsmkv.sstable.format import TableMeta
from lsmkv.storage.file_names import parse_file_name
from lsmkv.storage.storage import Storage
from lsmkv.tree.levels import PlacedTable
from lsmkv.tree.manifest import VersionEdit
from lsmkv.tree.version_set import table_format
from torture.fuzz.encoded import encode_batch

_MARKS: Final = "~!]"


class DrawnDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._storage = Storage()
        self._next_seq = 1
        self._highest = 0  # file number
        self._logs: dict[int, LogWriter] = {}
        self._tables: dict[int, TableMeta] = {}
        self._closed = 0  # log number
        self._damage: list[Callable[[], None]] = []

    def draw(self, lines: list[str]) -> None:
        self.path.mkdir(exist_ok=True)
        for line in lines:
            head, _, content = line.partition(":")
            name, *words = head.split()
            self._draw_file(name, words, content.strip())
        for number, log in self._logs.items():
            log.close(mark=number == self._closed)
        for damage in self._damage:
            damage()

    def _draw_file(self, name: str, words: list[str], content: str) -> None:
        path = self.path / name
        kind, number = parse_file_name(name) or ("", 0)
        self._highest = max(self._highest, number)
        if name.endswith("/"):
            path.mkdir()
        elif content.startswith("'"):
            path.write_text(content.strip("'"), encoding="utf-8")
        elif name == "CURRENT":
            path.write_bytes(b"%b %016x\n" % (content.encode(), checksum(content.encode(), 0)))
        elif kind == "log":
            before = self._logs[int(words[1])] if words else None
            log = LogWriter.create(self._storage, str(path), number, "log", before)
            self._logs[number] = log
            self._write(path, log, content, self._batch)
        elif kind == "manifest":
            log = LogWriter.create(self._storage, str(path), number, "manifest")
            self._write(path, log, content, self._edit, syncs=True)
            log.close(mark=self._closed > 0)
        else:
            assert kind == "table", f"{name!r} is a file without a content"
            self._write_table(path, number, content)

    def _write(
        self,
        path: Path,
        log: LogWriter,
        content: str,
        payload: Callable[[str], bytes],
        *,
        syncs: bool = False,
    ) -> None:
        """Write the records of a log or manifest; with ``syncs``, sync each that stays whole."""
        for word in content.split():
            before = log.end
            if word == "|":
                log.sync_through(log.end)
            elif word == "room":
                self._damage.append(partial(_extend, path))
            elif word == "gone":
                self._damage.append(path.unlink)
            elif word.startswith("head"):
                self._damage.append(_damage_of(path, word[-1], 0, HEADER_BYTES))
            else:
                log.append(payload(word.strip("[]~!")))
                if word[-1] in _MARKS:
                    self._damage.append(_damage_of(path, word[-1], before, log.end))
                elif syncs:
                    log.sync_through(log.end)

    def _operations(self, words: list[str]) -> list[tuple[bytes, bytes | None, int]]:
        found = []
        for word in words:
            key, _, seq = word.removeprefix("-").partition("@")
            number = int(seq or self._next_seq)
            self._next_seq = number + 1
            value = None if word.startswith("-") else b"%d" % number
            found.append((key.encode(), value, number))
        return found

    def _batch(self, word: str) -> bytes:
        entries = self._operations(word.split("+"))
        operations: list[Operation] = [(key, value) for key, value, _ in entries]
        return encode_batch(entries[0][2], operations)

    def _edit(self, word: str) -> bytes:
        said: dict[str, Any] = {"added": [], "removed": [], "next_file": self._highest + 1}
        said["store_id"] = "5" * 32
        for part in word.split(","):
            name, _, number = part.partition("=")
            if part[0] == "+":
                table, level = map(int, part[1:].split("@"))
                run = 0 if level else table
                said["added"].append(PlacedTable(level, run, self._tables[table]))
            elif part[0] == "-":
                said["removed"].append(int(part[1:]))
            elif name == "closed":
                self._closed = int(number)
                log = self._logs[self._closed]
                log.sync_through(log.end)
                said |= {"closed_log": (log.number, log.end), "closed_salt": log.salt}
            else:
                said[{"log": "log_number", "seq": "last_seq"}[name]] = int(number)
        return msgspec.json.encode(VersionEdit(**said))

    def _write_table(self, path: Path, number: int, content: str) -> None:
        words = content.split()
        form = table_format(Options(compression="none", filter_policy="bloom"), 0.01)
        entries = self._operations([word.strip("!") for word in words if word != "gone"])
        self._tables[number] = write_table(path, entries, form, number)
        if "gone" in words:
            self._damage.append(path.unlink)
        if content.endswith("!"):
            self._damage.append(partial(flip, path, 0))


def _damage_of(path: Path, mark: str, start: int, end: int) -> Callable[[], None]:
    """What damages the bytes of a record as its mark says."""
    if mark == "!":
        return partial(flip, path, end - 1)
    return partial(cut, path, start if mark == "]" else (start + end) // 2)


def _extend(path: Path) -> None:
    os.truncate(path, path.stat().st_size + 4096)
