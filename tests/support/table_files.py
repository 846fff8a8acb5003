"""Table files that tests write, read and damage."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from lsmkv.encoding.entries import ABSENT, MAX_SEQUENCE, Absent
from lsmkv.encoding.expiry import Held
from lsmkv.filters.hashing import hash_key
from lsmkv.options import Options
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.reader import TableReader
from lsmkv.sstable.writer import TableWriter
from lsmkv.storage.storage import Storage
from lsmkv.tree.version_set import table_format

Entry = tuple[bytes, Held, int]  # key, value (None: a deletion), sequence number

RESIDENCIES = ("resident", "cached", "off")


class Tables:
    """Writes and opens tables in a directory."""

    def __init__(
        self, directory: str | Path, storage: Storage | None = None, cache_bytes: int = 1 << 24
    ) -> None:
        self.directory = str(directory)
        self.storage = storage or Storage()
        self.stats = self.storage.stats
        self.cache = BlockCache(cache_bytes, self.stats)
        self._last_number = 0

    def path(self, number: int) -> str:
        return os.path.join(self.directory, f"{number:06}.sst")

    def write(
        self, entries: Iterable[Entry], *, error_rate: float = 0.01, **options: Any
    ) -> TableMeta:
        """Write a table; by default small, uncompressed, and with Bloom filters in every build."""
        form = {"block_size_bytes": 256, "compression": "none", "filter_policy": "bloom"}
        chosen: dict[str, Any] = {**form, **options}
        self._last_number += 1
        number = self._last_number
        wanted = table_format(Options(**chosen), error_rate)
        writer = TableWriter(self.storage, self.path(number), number, wanted)
        for key, value, seq in entries:
            writer.add(key, value, seq)
        return writer.finish()

    def open(self, meta: TableMeta, residency: str = "resident") -> TableReader:
        table = TableReader(
            self.storage, self.path(meta.number), self.cache, meta=meta, filter_residency=residency
        )
        table.load()
        return table

    def table(
        self, entries: Iterable[Entry], *, residency: str = "resident", **options: Any
    ) -> TableReader:
        return self.open(self.write(entries, **options), residency)


def numbered(count: int, step: int = 2, value: bytes = b"value of %d") -> list[Entry]:
    """Entries with even numbers as keys; odd ones are absent between them."""
    return [
        (b"key%08d" % number, value % number if b"%" in value else value, index + 1)
        for index, number in enumerate(range(0, step * count, step))
    ]


def alike(count: int) -> list[Entry]:
    """Entries whose values share most of their text, in no order."""
    chances = random.Random(7)
    return [
        (
            b"key%08d" % number,
            b'{"name": "user %d", "country": "%s", "plan": "%s", "balance": %d, "active": true}'
            % (
                chances.randrange(10**6),
                chances.choice([b"Norway", b"Kenya", b"Chile", b"Japan"]),
                chances.choice([b"free", b"trial", b"premium"]),
                chances.randrange(10**5),
            ),
            number + 1,
        )
        for number in range(count)
    ]


def ask(table: TableReader, key: bytes, max_seq: int = MAX_SEQUENCE) -> Held | Absent:
    """The table's answer for ``key``, looked up as a version does it."""
    if not table.meta.smallest <= key <= table.meta.largest:
        return ABSENT
    return table.get(key, hash_key(key), max_seq)


def contents(table: TableReader) -> list[Entry]:
    found: list[Entry] = []
    for number in range(table.index.block_count):
        block = table.block(number, False)
        found += zip(block.keys(), block.values(), block.seqs(), strict=True)
    return found


def expected(entries: Iterable[Entry], key: bytes, max_seq: int) -> Held | Absent:
    """The newest version up to ``max_seq``, by a plain search."""
    for found, value, seq in entries:
        if found == key and seq <= max_seq:
            return value
    return ABSENT


def absent_between(entries: list[Entry]) -> list[bytes]:
    """Absent keys: one between each two neighbours."""
    return [key + b"!" for key, _, _ in entries[:-1]]


def first_key(table: TableReader, block_number: int) -> bytes:
    return table.read_past_cache(block_number)[0].key(0)


def last_key(table: TableReader, block_number: int) -> bytes:
    block = table.read_past_cache(block_number)[0]
    return block.key(block.count - 1)


def flip(path: str, offset: int, mask: int = 0x40) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ mask]))


class BadBlockError(Exception):
    """Raised for a damaged block by these tests."""


def fail(reason: str) -> NoReturn:
    """The callback for a damaged block."""
    raise BadBlockError(reason)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)
