"""Small stores of all kinds of files, and models of their bytes."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest import mock

import lsmkv
from lsmkv.encoding.expiry import Clock, Held, Moment
from lsmkv.log.batch import decode_batch
from lsmkv.log.reader import HEADER_BYTES, RECORD_BYTES, read_log
from lsmkv.sstable.block.trailer import TRAILER_BYTES
from lsmkv.sstable.block_cache import BlockCache
from lsmkv.sstable.format import CODEC_ZSTD, Footer
from lsmkv.sstable.reader import TableReader
from lsmkv.storage.file_names import parse_file_name
from lsmkv.storage.storage import Storage
from lsmkv.tree.manifest import read_current, read_state
from torture.framework.changes import Contents

Image = dict[str, bytes]
Entry = tuple[bytes, Held, int]

_ROOM_BYTES: Final = 64
_LATER_S: Final = 5e9  # seconds since 1970: in the year 2128

SMALL: Final = lsmkv.Options(
    write_buffer_size_bytes=64 * 1024,
    block_size_bytes=256,
    compression="none",
    level0_compaction_trigger=100,
    level0_slowdown_trigger=200,
    level0_stop_trigger=300,
)

FORMS: Final[dict[str, dict[str, Any]]] = {
    "zstd": {"compression": "zstd"},
    "dictionary": {
        "compression": "zstd",
        "compression_dictionary_size_bytes": 256,
        "filter_policy": "none",
    },
    "table-filter": {"filter_granularity": "table"},
    "ribbon-table": {
        "filter_policy": "ribbon",
        "filter_granularity": "table",
        "compression": "zstd",
    },
    "prefix": {"filter_key": lsmkv.DelimitedPrefix(b"/")},
    "ribbon": {"filter_policy": "ribbon"},
    "grafite": {"filter_policy": "grafite"},
}
"""Options of the sample's tables, one table each, besides a plain one."""


@dataclass(frozen=True, slots=True)
class BlockModel:
    """One block of an undamaged table: its offsets and entries."""

    start: int
    filter_start: int
    end: int
    entries: tuple[Entry, ...]
    needs_dictionary: bool


@dataclass(frozen=True, slots=True)
class TableModel:
    """An undamaged table: its blocks and its footer, which locates the other sections."""

    number: int
    blocks: tuple[BlockModel, ...]
    footer: Footer
    size: int


@dataclass(frozen=True, slots=True)
class RecordModel:
    """One record of an undamaged log: a batch, or a sync mark with the end of the durable bytes."""

    start: int
    end: int
    first_seq: int
    operations: tuple[tuple[bytes, Held], ...]
    durable: int


@dataclass(slots=True)
class Sample:
    """A store, closed or killed, and models of its files.

    Attributes:
        image: bytes of every file, by name.
        is_closed: whether it was closed; if not, its log may lose its unsynced end.
        tables: models of the tables, by file name.
        log: name of its only log.
        logs: records of the log and of the manifest, by file name.
        stale: earlier bytes of files, by name.
    """

    name: str
    image: Image
    contents: Contents
    is_closed: bool
    tables: dict[str, TableModel] = field(default_factory=dict)
    log: str = ""
    logs: dict[str, list[RecordModel]] = field(default_factory=dict)
    stale: dict[str, list[bytes]] = field(default_factory=dict)

    @property
    def records(self) -> list[RecordModel]:
        return self.logs[self.log]

    def all_keys(self) -> list[bytes]:
        """Every key ever written, and some never written."""
        known = {key for table in self.tables.values() for key in _keys_of(table)}
        known |= {key for record in self.records for key, _ in record.operations}
        return sorted(known | {b"", b"a", b"k", b"key/0000x", b"zzz"})

    def state_after(self, record_count: int, tables: list[Entry] | None = None) -> Contents:
        """The contents from entries of tables (default: all) and the first records of the log."""
        entries = _entries_of(self.tables.values()) if tables is None else tables
        newest: dict[bytes, tuple[int, Held]] = {}
        for key, value, seq in entries:
            if key not in newest or newest[key][0] < seq:
                newest[key] = seq, value
        for record in self.records[:record_count]:
            for seq, (key, value) in enumerate(record.operations, record.first_seq):
                newest[key] = seq, value
        moment = Moment(Clock())
        found = {key: moment.value_of(held) for key, (_, held) in sorted(newest.items())}
        return {key: value for key, value in found.items() if value is not None}

    def restore(self, directory: Path) -> None:
        """Make ``directory`` hold exactly the sample's files."""
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for name, data in self.image.items():
            (directory / name).write_bytes(data)


def _keys_of(table: TableModel) -> Iterator[bytes]:
    for block in table.blocks:
        for key, _, _ in block.entries:
            yield key


def _entries_of(tables: Any) -> list[Entry]:
    return [entry for table in tables for block in table.blocks for entry in block.entries]


@contextmanager
def fixed_randomness(seed: int) -> Iterator[None]:
    """Seed the salts of logs, for reproducible bytes, and skip all syncs, which take most of the time."""
    dice = random.Random(seed)
    with mock.patch.multiple(os, urandom=dice.randbytes, fsync=_no_sync, fdatasync=_no_sync):
        yield


def _no_sync(_file: object) -> None:
    pass


def make_samples(directory: Path, seed: int) -> dict[str, Sample]:
    """The samples ``closed``, ``killed`` and ``other``; ``other`` has other keys."""
    with fixed_randomness(seed):
        return {
            "closed": _make(directory, "closed", b"key", list(FORMS), is_closed=True),
            "killed": _make(directory, "killed", b"key", ["zstd"], is_closed=False),
            "other": _make(directory, "other", b"other", list(FORMS), is_closed=True),
        }


def _make(directory: Path, name: str, stem: bytes, forms: list[str], *, is_closed: bool) -> Sample:
    """A store with overlapping tables of each form on two levels, and a log."""
    path = directory / name
    stale: dict[str, list[bytes]] = {}

    def keep_stale() -> None:
        for file in path.iterdir():
            if file.name != "LOCK":
                versions = stale.setdefault(file.name, [])
                versions.append(file.read_bytes())

    with lsmkv.open(path, SMALL) as db:
        for number in range(24):
            db.put(b"%s/%04d" % (stem, number), b"old %d" % number)
        db.compact_range()
    for position, form in enumerate(forms):
        with lsmkv.open(path, SMALL, **FORMS[form]) as db:
            keep_stale()
            repeats = 4 if form == "dictionary" else 1
            numbers = range(position, 24, 2) if repeats == 1 else range(position, 64)
            for number in numbers:
                value = b"%s %d of a shape that repeats" % (form.encode(), number)
                db.put(b"%s/%04d" % (stem, number), value * repeats)
            for number in range(position, 24, 7):
                db.delete(b"%s/%04d" % (stem, number))
            for number in range(position, 24, 9):
                expires_at = _LATER_S if number % 2 else 1
                db.put(b"%s/%04d" % (stem, number), b"expiring", expires_at=expires_at)
            keep_stale()
            db.flush()
    with lsmkv.open(path, SMALL) as db:
        for number in range(0, 24, 3):
            db.put(b"%s/%04d" % (stem, number), b"newest %d" % number, sync=number in (6, 12))
            if number == 15:
                keep_stale()
        with db.write_batch() as batch:
            batch.delete(b"%s/%04d" % (stem, 4))
            batch.put(b"%s/%04d" % (stem, 90), b"")
            batch.put(b"%s/%04d" % (stem, 7), b"expiring", expires_at=_LATER_S)
        contents = dict(db.items())
        killed = _image(path)
    image = _image(path) if is_closed else _with_less_room(killed)
    sample = Sample(name, image, contents, is_closed)
    sample.restore(path)
    _describe(sample, path)
    sample.stale = {
        file: sorted({old for old in versions if old != image[file]}, key=len)
        for file, versions in stale.items()
        if file in image
    }
    assert sample.state_after(len(sample.records)) == contents
    return sample


def _image(path: Path) -> Image:
    image = {file.name: file.read_bytes() for file in sorted(path.iterdir())}
    return image | {"LOCK": b"1\n"}  # it holds a process number, which would differ in each run


def _with_less_room(image: Image) -> Image:
    """Cut off most zeros at the ends of logs: damage to each is alike."""
    return {
        name: data.rstrip(b"\0") + bytes(_ROOM_BYTES) if name.endswith(".log") else data
        for name, data in image.items()
    }


def _describe(sample: Sample, path: Path) -> None:
    storage = Storage()
    state = read_state(storage, str(path), read_current(storage, str(path)))
    for placed in state.levels.placed():
        file = f"{placed.meta.number:06}.sst"
        cache = BlockCache(0, storage.stats)
        table = TableReader(
            storage, str(path / file), cache, meta=placed.meta, filter_residency="off"
        )
        blocks: list[BlockModel] = []
        for number in range(int(table.index.block_count)):
            block, info = table.read_past_cache(number)
            start, end = table.index.offset(number), table.index.offset(number + 1)
            blocks.append(
                BlockModel(
                    start,
                    end - TRAILER_BYTES - info.filter_length,
                    end,
                    tuple(zip(block.keys(), block.values(), block.seqs(), strict=True)),
                    info.codec == CODEC_ZSTD and table.footer.dictionary_length > 0,
                )
            )
        size = len(sample.image[file])
        sample.tables[file] = TableModel(placed.meta.number, tuple(blocks), table.footer, size)
    (sample.log,) = [name for name in sample.image if name.endswith(".log")]
    assert sample.name == "killed" or any(
        table.footer.dictionary_length for table in sample.tables.values()
    )
    for name in sample.image:
        kind, number = parse_file_name(name) or ("", 0)
        if kind in ("log", "manifest"):
            sample.logs[name] = _records_of(path / name, number, kind == "log")


def _records_of(path: Path, number: int, is_log: bool) -> list[RecordModel]:
    contents = read_log(Storage(), str(path), number, "log" if is_log else "manifest")
    assert contents is not None
    payloads = dict(contents.records())
    data = path.read_bytes()
    records: list[RecordModel] = []
    at = HEADER_BYTES
    while at < contents.end:
        end = at + RECORD_BYTES + int.from_bytes(data[at + 4 : at + 8], "little")
        if at not in payloads:
            durable = int.from_bytes(data[at + RECORD_BYTES : end], "little")
            records.append(RecordModel(at, end, 0, (), durable))
        elif is_log:
            seq, _, operations = decode_batch(payloads[at], str(path), at)
            records.append(RecordModel(at, end, seq, tuple(operations), 0))
        else:
            records.append(RecordModel(at, end, 0, (), 0))
        at = end
    return records
