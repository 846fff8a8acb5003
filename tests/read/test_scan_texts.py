"""Drawn memtables and tables, what scans of them return, and which blocks they read."""

from __future__ import annotations

import re
from itertools import chain, islice
from pathlib import Path

import pytest

from lsmkv.api.cursor import Cursor
from lsmkv.api.ranges import scan_range
from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.encoding.expiry import Clock, Moment
from lsmkv.filters.keys import FixedPrefix
from lsmkv.memtable.memtable import Memtable
from lsmkv.options import Options
from lsmkv.read.scan import Scan
from lsmkv.read.view import ReadView
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.writer import TableWriter
from lsmkv.storage.file_names import table_path
from lsmkv.storage.storage import ReadKind
from lsmkv.tree.levels import Levels, PlacedTable
from lsmkv.tree.version import Version
from lsmkv.tree.version_set import table_format
from storages import HookedStorage
from texts import CheckText, Command, Commands, Section, sections, title

_LINE = re.compile(r"(memtable|flushing|L(\d+)(?:/(\d+))?) +(.*)")
_TABLE = re.compile(r"\[(\d+):([^]]*)\]")
_OPTIONS = Options(filter_key=FixedPrefix(1), filter_granularity="block", compression="none")


class Scanned:
    """Memtables and tables as a text draws them, without a store around them."""

    def __init__(self, directory: Path) -> None:
        self.directory = str(directory)
        self.storage = TracingStorage()
        self.memtables: list[Memtable] = []
        self.readers: dict[int, TableReader] = {}
        self.levels = Levels()
        self.commands: Commands = {
            "store": self.store,
            "scan": self.scan,
            "cursor": self.cursor,
            "get": self.get,
        }

    # Drawing

    def store(self, command: Command) -> str:
        """Make what the input draws, newest first; the lowest line is number 1."""
        cache_bytes = 1 << 20 if "cached" in command.words else 0
        cache = BlockCache(cache_bytes, self.storage.stats)
        placed: list[PlacedTable] = []
        self.memtables = []
        for seq, line in zip(range(len(command.input), 0, -1), command.input, strict=True):
            found = _LINE.fullmatch(line)
            assert found is not None, f"{line!r} is no memtable and no run"
            what, level, run, content = found.groups()
            if level is None:
                self.memtables.append(_memtable(what, content, seq))
                continue
            for number, blocks in _TABLE.findall(content):
                meta = self._write(int(number), blocks, seq)
                placed.append(PlacedTable(int(level), int(run or 0), meta))
                reader = TableReader(
                    self.storage, table_path(self.directory, int(number)), cache, meta, "resident"
                )
                reader.load()
                self.readers[int(number)] = reader
        self.levels = Levels().changed(placed, ())
        return ""

    def _write(self, number: int, blocks: str, seq: int) -> TableMeta:
        path = table_path(self.directory, number)
        writer = TableWriter(self.storage, path, number, table_format(_OPTIONS, 1e-6))
        for block in blocks.split("|"):
            for word in block.split():
                writer.add(*_entry(word, str(number), seq))
            writer._finish_block()
        return writer.finish()

    # Reading

    def scan(self, command: Command) -> str:
        """The entries one after the other; a line begins with the blocks read before its entries."""
        start, stop, prefix = map(command.option, ("start", "stop", "prefix"))
        wanted = scan_range(
            start and start.encode(),
            stop and stop.encode(),
            prefix and prefix.encode(),
            "reverse" in command.words,
        )
        limit = command.option("limit")
        entries = chain.from_iterable(Scan(self._view(command), wanted))
        lines: list[str] = []
        for key, value in islice(entries, None if limit is None else int(limit)):
            reads, entry = self._reads(), f"{key.decode()}:{value.decode()}"
            if reads or not lines:
                lines.append(f"{reads or '-':<12} {entry}")
            else:
                lines[-1] += f" {entry}"
        return "\n".join([*lines, *filter(None, [self._reads()])]) or "nothing"

    def cursor(self, command: Command) -> str:
        """A cursor's moves, one in each line, and where it is after each."""
        view = self._view(command)
        moving = Cursor("store", lambda wanted: Scan(view, wanted), lambda: None, None)
        lines = []
        for move in command.input:
            name, *keys = move.split()
            at_key = getattr(moving, name)(*(key.encode() for key in keys))
            assert at_key == moving.valid
            where = ":".join(part.decode() for part in moving.item) if at_key else "at no key"
            lines.append(f"{move:<17} {where:<10} {self._reads()}".rstrip())
        return "\n".join(lines)

    def get(self, command: Command) -> str:
        view = self._view(command)
        keys = [word for word in command.words if "=" not in word]
        lines = []
        for key in keys:
            value = view.get(key.encode(), self.storage.stats)
            shown = "none" if value is None else value.decode()
            lines.append(f"{key}:{shown:<6} {self._reads()}".rstrip())
        return "\n".join(lines)

    def _view(self, command: Command) -> ReadView:
        """All of it, or what a snapshot ``at`` a sequence number sees."""
        seq = int(command.option("at") or MAX_SEQUENCE)
        return ReadView(
            tuple(self.memtables), Version(self.levels, self.readers), seq, Moment(Clock()), None
        )

    def _reads(self) -> str:
        """The blocks read since the last call, ``table.block``; those of one read joined by a dash."""
        reads, self.storage.reads = self.storage.reads, []
        return " ".join(self._blocks(path, start, start + length) for path, start, length in reads)

    def _blocks(self, path: str, start: int, end: int) -> str:
        (reader,) = (reader for reader in self.readers.values() if reader.path == path)
        index = reader.index
        numbers = [
            str(number)
            for number in range(index.block_count)
            if start <= index.offset(number) < end
        ]
        return f"{reader.meta.number}." + "-".join(dict.fromkeys((numbers[0], numbers[-1])))


class TracingStorage(HookedStorage):
    """Notes path, offset and length of each read of blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[str, int, int]] = []

    def before_read(self, path: str, offset: int, length: int, kind: ReadKind) -> None:
        if kind is ReadKind.DATA:
            self.reads.append((path, offset, length))


def _entry(word: str, source: str, seq: int) -> tuple[bytes, bytes | None, int]:
    """A key, a value that tells where it is from, and a sequence number."""
    key, _, own_seq = word.removeprefix("-").partition("@")
    value = f"{source}@{own_seq}" if own_seq else source
    return key.encode(), None if word.startswith("-") else value.encode(), int(own_seq or seq)


def _memtable(source: str, content: str, seq: int) -> Memtable:
    memtable = Memtable(seq, 1)
    for word in content.split():
        memtable.put(*_entry(word, source[0], seq), keep_old=True)
    return memtable


@pytest.mark.parametrize("section", sections(__file__), ids=title)
def test_scans(section: Section, check_text: CheckText, tmp_path: Path) -> None:
    check_text(section, Scanned(tmp_path).commands)
