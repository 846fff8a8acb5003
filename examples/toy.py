"""The same store in 400 lines of code, for whoever has never seen an LSM tree.  Read it from the top.

It reads and writes the files of lsmkv: each opens the other's stores.  ``toy_bytes.py`` has the layouts
of those files, 300 lines more: of these you need ``hash_of`` and ``shared_length``.  Left out are speed,
threads, a cache and range deletes (a store whose range deletes were all applied can be opened).
docs/how-it-works.md has an hour with it.

    .venv/bin/python examples/toy.py put fruit.db apple red
    .venv/bin/python examples/toy.py get fruit.db apple

Six words first.  An *entry* is a key with its value, or with the note that it was deleted.  The
*memtable* is a dict in memory with the newest entries.  A *block* is some 4 KiB of entries, sorted: what
one read of a disk fetches.  A *table* is a file of blocks that never changes.  A *run* is a row of tables
that have no key in common: one table here, often several in lsmkv's stores.  A *level* is a list of
runs; the deeper it is, the older they are.
"""

from __future__ import annotations

import fcntl
import heapq
import json
import os
import re
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import toy_bytes
from toy_bytes import DELETE, EXPIRING, PUT, CorruptionError, Line, RefusedError, Row, hash_of

BLOCK_BYTES = 4096  # of entries in a block
# Of a filter.  One of 120 absent keys passes: 0.8 %.  (lsmkv takes 9.6 bits a key, for 1 %.)
BITS_PER_KEY, PROBES = 10, 7
WRITES, MANIFEST = 0, 1  # kinds of logs


# 1. What is stored?  Entries.  Nothing is ever changed in its place: a newer entry hides an older one.


class Entry(NamedTuple):
    """A put or a delete.  Writes are numbered; the newest entry of a key has the highest number.

    Reads do not compare the numbers, as they ask new entries before old ones.  The numbers show what is
    missing between logs, and lsmkv's snapshots go by them.
    """

    key: bytes
    seq: int
    value: bytes | None  # None: deleted.  That must be stored, too, or older values would be back
    due_s: int | None = None  # from then on, in seconds since 1970, it counts as deleted

    def value_at(self, now_s: float) -> bytes | None:
        return None if self.due_s is not None and self.due_s <= now_s else self.value

    def row(self) -> Row:
        """The entry as files have it."""
        if self.value is None:
            return self.key, self.seq, DELETE, b""
        if self.due_s is None:
            return self.key, self.seq, PUT, self.value
        return self.key, self.seq, EXPIRING, self.due_s.to_bytes(5, "little") + self.value


def entry_of(row: Row) -> Entry:
    key, seq, tag, stored = row
    if tag == EXPIRING:
        return Entry(key, seq, stored[5:], toy_bytes.expiry_in(stored))
    return Entry(key, seq, stored if tag == PUT else None)


# 2. Where does a key go first?  To the end of a log: one short write, and a kill cannot undo it.


class Log:
    """A file that grows by records.  Each has a checksum, so a reader sees where the good ones end."""

    def __init__(self, path: Path, kind: int) -> None:
        data = path.read_bytes()
        self.path, self.header = path, toy_bytes.decode_log_header(path, data, kind)
        if self.header.number != number_of(path):
            raise CorruptionError(path, 0, f"this is log {self.header.number}")
        self.records: list[tuple[int, bytes]] = []  # offset and payload
        # Three offsets: good records end at the first, fsync has brought all up to the second to the
        # disk, and a mark in the log says so of all up to the third.
        self.end, self.synced, self.marked = 56, 0, 0
        while record := toy_bytes.decode_record(data, self.header.salt, self.end):
            if record[0] == toy_bytes.MARK:
                self.marked = int.from_bytes(record[1], "little")
            else:
                self.records.append((self.end, record[1]))
            self.end += 9 + len(record[1])
        # The next bytes are no record.  Either a process was killed in the middle of a write, which
        # it had not told to be safe, or they are damaged.  After a sync, a mark precedes the next record
        # and says how much was on the disk.  A mark that knows of more means damage.  The record that was
        # synced last has no mark behind it: its damage looks like a kill, unless the log was closed.
        for mark in toy_bytes.marks_behind(data, self.header.salt, self.end):
            self.marked = max(self.marked, int.from_bytes(mark, "little"))
        if self.marked > self.end:
            raise CorruptionError(path, self.end, "a record is damaged that was on the disk")
        self.file = path.open("r+b", buffering=0)
        if self.records:  # the writer may not have synced them, or its sync failed
            self.file.write(data[: self.end])
            self.sync()

    def append(self, payload: bytes, sync: bool) -> None:
        """Add a record.  It outlives this process at once, and a power failure once it is synced."""
        if self.synced > self.marked:
            self._write(toy_bytes.MARK, self.synced.to_bytes(8, "little"))
            self.marked = self.synced
        self._write(toy_bytes.PAYLOAD, payload)
        if sync:
            self.sync()

    def _write(self, kind: int, payload: bytes) -> None:
        record = toy_bytes.encode_record(kind, payload, self.header.salt, self.end)
        self.file.truncate(self.end)  # the rest of a write that was cut short
        if os.pwrite(self.file.fileno(), record, self.end) < len(record):
            raise OSError(f"{self.path}: the disk took only a part of a record")
        self.end += len(record)

    def sync(self) -> None:
        os.fsync(self.file.fileno())
        self.synced = self.end


def new_log(path: Path, kind: int, before: Log | None = None, first: bytes = b"") -> Log:
    """A log on the disk, with its first record if there is one."""
    salt = int.from_bytes(os.urandom(7), "little")  # no other log's records pass for this one's
    previous = (before.header.number, before.end) if before else (0, 0)
    header = toy_bytes.LogHeader(number_of(path), salt, *previous)
    record = toy_bytes.encode_record(toy_bytes.PAYLOAD, first, salt, 56) if first else b""
    write_file(path, toy_bytes.encode_log_header(kind, header) + record)
    return Log(path, kind)


def write_file(path: Path, data: bytes) -> None:
    """Make a file that is there whole or not at all, even after a power failure."""
    unfinished = path.with_name(path.name + ".lsmkv-tmp")
    with unfinished.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    sync_names(path.parent)


def sync_names(path: Path) -> None:
    """Bring the names in a directory to the disk: a file without its name is lost."""
    directory = os.open(path, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def is_of_creation(path: Path) -> bool:
    """Whether a kill in the middle of a store's creation may have left this file.  It has no writes."""
    most = {"LOCK": 100, "000001.log": 56, "MANIFEST-000002": 1000}.get(path.name, -1)
    return path.suffix == ".lsmkv-tmp" or path.stat().st_size <= most


def number_of(path: Path) -> int:
    """The number in a file's name.  A store gives out each number once."""
    return int(re.sub("[^0-9]", "", path.name))


# 3. How can a few bits know that a key is not in a block?  They are the bits that its keys have set.
# Why a filter for each block?  A block is what one read fetches: the filter's no spares just that read.
# A filter for each table, with as many bits a key, wastes as many reads.  It is asked before the index;
# but it is all or nothing in memory, and in damage (docs/tuning.md compares them).


def probed_bits(key: bytes, probes: int, bit_count: int) -> Iterator[int]:
    """The bits of a key in a filter.  They look random, but each follows from the key's hash.

    A multiplication by a large odd number stirs the 63 bits of the state.  Its upper 32 bits are then
    read as a fraction of 2^32, and the bit lies at that share of the filter: half of 2^32 is the middle.
    """
    state = hash_of(key)  # here once for each table asked, in lsmkv once for all
    for _ in range(probes):
        state = state * 0x1E37_79B9_7F4A_7C15 % 2**63
        yield (state >> 31) * bit_count >> 32


def build_filter(keys: list[bytes]) -> bytes:
    """A Bloom filter of the keys."""
    bits = bytearray(-(-BITS_PER_KEY * len(keys) // 8))
    for key in keys:
        for bit in probed_bits(key, PROBES, 8 * len(bits)):
            bits[bit // 8] |= 1 << bit % 8
    return bytes(bits)


def may_contain(bits: bytes, probes: int, key: bytes) -> bool:
    """No is certain: the key would have set its bits.  Yes is not: other keys may have set them."""
    return all(bits[bit // 8] >> bit % 8 & 1 for bit in probed_bits(key, probes, 8 * len(bits)))


# 4. What is a table?  Blocks, a filter for each, and an index.  A lookup reads one block of it, or none.


def blocks_of(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Sorted entries, block by block."""
    block, size = list[Entry](), 0
    for entry in entries:
        block.append(entry)
        size += len(entry.key) + len(entry.value or b"") + 7
        if size >= BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


def write_table(path: Path, entries: Iterable[Entry], erased_seq: int = 0) -> list[dict[str, Any]]:
    """Write sorted entries to a file; what the manifest is to note of it, nothing without entries."""
    data, filters, trailers, raw_bytes = b"", b"", b"", 0
    lines, rows = list[Line](), list[Row]()
    for block in blocks_of(entries):
        bits = build_filter([entry.key for entry in block])
        probes = PROBES if bits else 0
        # The index needs to tell this block from the one before, and no more: of "apricot" behind
        # "apple" it keeps "apr".  Keys from there on are in this block, or in a later one.
        first = block[0].key
        separator = first[: toy_bytes.shared_length(rows[-1][0], first) + 1] if rows else b""
        lines.append(Line(separator, len(data), len(filters), probes, len(block)))
        stored = [entry.row() for entry in block]
        rows += stored
        payload = toy_bytes.encode_payload(stored)
        at = number_of(path), len(data)
        data += toy_bytes.encode_block(payload, len(block), bits, probes, *at)
        trailers += data[-32:]  # with the block's checksums
        # The filters stand together, too: one read brings all of them into memory.  Those beside the
        # blocks are for the day on which these are damaged.  Only lsmkv looks at them then; here, damage
        # to these is an error, and damage to those beside the blocks goes unseen.
        filters += bits
        raw_bytes += len(payload)
    if not rows:
        return []
    meta = {**toy_bytes.table_meta(number_of(path), rows), "erased_seq": erased_seq}
    tail, check = toy_bytes.encode_table_tail(meta, lines, trailers, len(data), raw_bytes, filters)
    write_file(path, data + tail)
    return [{**meta, "size_bytes": len(data) + len(tail), "checksum": check}]


class Step(NamedTuple):
    """A step of a lookup: where it looked, and what came of it."""

    where: str
    block: int | None = None
    filter_says: str = ""  # "no", "maybe", or "none": the block has no filter
    read_bytes: int = 0  # of the block; 0 if it was not read
    entry: Entry | None = None

    def __str__(self) -> str:
        found = f"found, as write {self.entry.seq}" if self.entry else "not there"
        if self.block is None:
            return f"{self.where}: {found}"
        asked = f"{self.where}, block {self.block}: the filter says {self.filter_says}"
        return f"{asked}; {self.read_bytes:,} bytes read: {found}" if self.read_bytes else asked


class Table:
    """An open table.  Its index and filters are in memory; its blocks are read, and counted."""

    def __init__(self, path: Path, noted: dict[str, Any]) -> None:
        self.path, self.level, self.run = path, noted["level"], noted["run"]
        if not path.exists():
            raise CorruptionError(path, 0, "this table is missing")
        self.file, self.blocks_read = path.open("rb", buffering=0), 0
        self.tail = toy_bytes.read_table_tail(path, self.file.fileno())
        self.separators = [line.separator for line in self.tail.lines[:-1]]
        if self.tail.checksum != noted["meta"]["checksum"]:
            raise CorruptionError(path, self.tail.lines[-1].start, "this is another table")

    def lookup(self, key: bytes) -> Iterator[Step]:
        """A step for the block that may hold the key."""
        if not self.tail.smallest <= key <= self.tail.largest:
            yield Step(f"{self.path.name}, outside its keys")
            return
        for number in self._blocks_for(key):
            line, following = self.tail.lines[number : number + 2]
            bits = self.tail.filters[line.filter_start : following.filter_start]
            says = ("maybe" if may_contain(bits, line.probes, key) else "no") if bits else "none"
            if says == "no":
                yield Step(self.path.name, number, says)  # nothing is read: that is what it is for
                continue
            entries = self.read_block(number)
            at = bisect_left(entries, key, key=lambda entry: entry.key)
            found = entries[at] if at < len(entries) and entries[at].key == key else None
            yield Step(self.path.name, number, says, following.start - line.start, found)

    def _blocks_for(self, key: bytes) -> range:
        """The last block whose separator is not above the key: a range of one.

        The range is longer in a table of lsmkv's with several versions of a key, which it keeps while
        somebody looks at an old state.  If they fill several blocks, the first of these has the newest.
        """
        first = last = bisect_right(self.separators, key) - 1
        if self.tail.properties["has_versions"]:
            first = bisect_left(self.separators, key) - 1
        return range(max(0, first), last + 1)

    def read_block(self, number: int) -> list[Entry]:
        start, stop = self.tail.lines[number].start, self.tail.lines[number + 1].start
        data = os.pread(self.file.fileno(), stop - start, start)
        self.blocks_read += 1
        return [entry_of(row) for row in toy_bytes.decode_block(self.path, self.tail, start, data)]

    def entries(self, start: bytes = b"") -> Iterator[Entry]:
        """Its entries in order, from the block on that may hold ``start``."""
        for number in range(self._blocks_for(start).start, len(self.tail.lines) - 1):
            yield from self.read_block(number)


def newest(sources: list[Iterable[Entry]]) -> Iterator[Entry]:
    """Of each key the newest entry, in order of the keys; newer sources come first."""
    last = None
    for entry in heapq.merge(*sources, key=lambda entry: entry.key):  # a stable merge
        if entry.key != last:
            yield entry
        last = entry.key


# 5. Which tables make the store?  Those that the manifest names, a log of changes.  Not all that are in
# the directory: a kill may leave tables there that do not count yet, or that others have replaced.


class Store:
    """An open store: one process and one thread at a time."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path, self.clock, self.broken = path, clock, False
        path.mkdir(exist_ok=True)
        made = (path / "CURRENT").exists()
        others = [each for each in path.iterdir() if not made and not is_of_creation(each)]
        if others:
            raise RefusedError(f"{others[0]} is there, but no CURRENT: choose an empty directory")
        self.lock = (path / "LOCK").open("ab", buffering=0)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RefusedError(f"{path} is open in another process") from None
        self.lock.truncate(0)
        self.lock.write(b"lsmkv process %d\n" % os.getpid())
        if not (path / "CURRENT").exists():
            self._create()
        self._read_manifest()
        self._read_logs()
        self._open_tables()
        self._remove_leftovers()  # last: where a file is missing, a leftover may be the only copy

    def _create(self) -> None:
        sync_names(self.path.resolve().parent)
        new_log(self.path / "000001.log", WRITES)
        state = {"next_file": 3, "last_seq": 0, "log_number": 1, "store_id": os.urandom(16).hex()}
        new_log(self.path / "MANIFEST-000002", MANIFEST, first=json.dumps(state).encode())
        check = toy_bytes.checksum(b"MANIFEST-000002")
        write_file(self.path / "CURRENT", b"MANIFEST-000002 %016x\n" % check)

    def _read_manifest(self) -> None:
        # CURRENT is a file with the manifest's name: a long manifest is replaced by a short one with it.
        name, _, check = (self.path / "CURRENT").read_bytes().partition(b" ")
        if check != b"%016x\n" % toy_bytes.checksum(name):
            raise CorruptionError(self.path / "CURRENT", 0, "it is damaged")
        self.manifest = Log(self.path / name.decode(), MANIFEST)
        self.noted: dict[int, dict[str, Any]] = {}  # of each table: level, run, and more
        self.tables: list[Table] = []
        self.range_deletes: list[Any] = []
        self.next_file, self.last_seq, self.log_number = 0, 0, 0
        for _, payload in self.manifest.records:
            self._apply(json.loads(payload))
        if self.range_deletes:
            raise RefusedError("this store has range deletes: lsmkv compact applies them")

    def _apply(self, change: dict[str, Any]) -> None:
        for number in change.get("removed", []):
            del self.noted[number]
        self.noted |= {noted["meta"]["number"]: noted for noted in change.get("added", [])}
        self.range_deletes += change.get("range_deletes_added", [])
        for gone in change.get("range_deletes_removed", []):
            self.range_deletes.remove(gone)
        self.next_file = change.get("next_file", self.next_file)
        self.last_seq = max(self.last_seq, change.get("last_seq", 0))  # of all writes in tables
        # Logs before this one are in tables, and do not count any more.
        self.log_number = change.get("log_number", self.log_number)
        self.closed = change.get("closed_log")  # number and end of the log, if it was closed

    def _commit(self, **change: Any) -> None:
        """Change the store in one step: once the record is on the disk, all of it counts."""
        change["next_file"] = self.next_file
        self.manifest.append(json.dumps(change).encode(), sync=True)
        self._apply(change)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Work on the disk.  Once some has failed, nobody knows what is there: no more is begun."""
        if self.broken:
            raise RefusedError(f"{self.path}: a write failed; open the store again for more")
        self.broken = True
        yield
        self.broken = False

    def _new_path(self, ending: str) -> Path:
        self.next_file += 1
        return self.path / f"{self.next_file - 1:06}.{ending}"

    def _open_tables(self) -> None:
        """Open the tables of the manifest; remove those that have left it."""
        there = {number_of(table.path): table for table in self.tables}
        self.tables = [
            there.pop(number) if number in there else Table(self.path / f"{number:06}.sst", noted)
            for number, noted in self.noted.items()
        ]
        # Newest first: what is in a run is newer than what is in older runs and in deeper levels.
        self.tables.sort(key=lambda table: (table.level, -table.run, table.tail.smallest))
        for table in there.values():
            table.file.close()
            table.path.unlink()

    # 6. What does a process find after a kill?  The log: it puts its writes into memory once more.

    def _read_logs(self) -> None:
        """There are several logs if the kill came in the middle of a flush."""
        self.memtable: dict[bytes, Entry] = {}  # the newest entry of each key that the logs have
        self.logs: list[Log] = []
        for path in sorted(self.path.glob("*.log"), key=number_of):
            if number_of(path) < self.log_number or (self.logs and path.stat().st_size < 56):
                continue  # its writes are in tables; or a kill ended lsmkv while it made the log
            log = Log(path, WRITES)
            before = self.logs[-1] if self.logs else None
            # It does not go on where the log before it ends.  Four cases: 1. It has no records: the
            # flush that made it failed, and the log before it took more.  2. It has a mark: it was
            # synced after that log, of which a part is gone.  Damage.  3. That log did not end later when
            # this one began, and still this one has records: a log between them is gone.  Damage.
            # 4. That log was longer, and nothing of this one was synced: the power failed.
            if before and log.header[2:] != (before.header.number, before.end):
                if log.records and (log.marked or log.header.end_before <= before.end):
                    raise CorruptionError(path, 0, "it does not follow the log before it")
                continue
            self.logs.append(log)
            for offset, payload in log.records:
                for entry in map(entry_of, toy_bytes.decode_batch(payload)):
                    if entry.seq != self.last_seq + 1:
                        raise CorruptionError(path, offset, f"write {self.last_seq + 1} is missing")
                    self.last_seq = entry.seq
                    self.memtable[entry.key] = entry
            if self.closed and self.closed[0] == log.header.number and self.closed[1] > log.end:
                raise CorruptionError(path, log.end, f"the log was closed at {self.closed[1]}")
        if not self.logs or self.logs[0].header.number != self.log_number:
            raise CorruptionError(self.path / f"{self.log_number:06}.log", 0, "it is missing")
        self.log = self.logs[-1]

    def _remove_leftovers(self) -> None:
        """Remove files that a kill has left: tables of no manifest, logs whose writes are in tables."""
        needed = {log.path for log in (self.manifest, *self.logs)}
        needed |= {table.path for table in self.tables}
        for path in set(self.path.iterdir()) - needed:
            if re.fullmatch(r"(MANIFEST-\d{6,}|\d{6,}\.(sst|log))(\.lsmkv-tmp)?", path.name):
                path.unlink()

    # 7. What do put, get and scan do?

    def put(self, key: bytes, value: bytes | None, sync: bool = False) -> None:
        """Store a value; None deletes.  With ``sync`` it outlives a power failure, too."""
        if len(key) > 65_535:
            raise RefusedError(f"a key may have 65,535 bytes; this one has {len(key):,}")
        entry = Entry(key, self.last_seq + 1, value)
        with self._writing():
            self.log.append(toy_bytes.encode_batch(entry.row()), sync)  # first of all
        self.last_seq = entry.seq
        self.memtable[key] = entry

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        *_, last = self.search(key)
        return last.entry.value_at(self.clock()) if last.entry else None

    def search(self, key: bytes) -> Iterator[Step]:
        """The steps of a lookup, from new to old: the first entry that it finds hides all others."""
        memory = Step("memtable", entry=self.memtable.get(key))
        for step in chain([memory], *(table.lookup(key) for table in self.tables)):
            yield step
            if step.entry:
                return

    def scan(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """The keys that begin with ``prefix`` and their values, in order."""
        memory = sorted(self.memtable.values())
        for entry in newest([memory, *[table.entries(prefix) for table in self.tables]]):
            value = entry.value_at(self.clock())
            if entry.key.startswith(prefix) and value is not None:
                yield entry.key, value
            elif entry.key > prefix and not entry.key.startswith(prefix):
                return

    # 8. How does memory become a table, and how do many runs become one?

    def flush(self) -> None:
        """Write the memtable as the newest run of level 0, and begin a new log: the old one can go.

        lsmkv does so by itself once a log has 64 MiB, and compacts once level 0 has four runs.
        """
        if not self.memtable:
            return
        with self._writing():
            log = new_log(self._new_path("log"), WRITES, self.log)
            metas = write_table(self._new_path("sst"), sorted(self.memtable.values()))
            added = [{"level": 0, "run": meta["number"], "meta": meta} for meta in metas]
            # Killed here, the store has a table unknown to the manifest, and all writes in the log.
            self._commit(added=added, last_seq=self.last_seq, log_number=log.header.number)
            # Killed here, it has the table, and a log that the manifest says is in tables.
            old_logs, self.logs, self.log = self.logs, [log], log
            self._open_tables()
            self.memtable = {}
            for old in old_logs:
                old.file.close()
                old.path.unlink()

    def compact(self) -> None:
        """Merge all runs into one: lookups then read one block at the most, and old entries are gone."""
        self.flush()
        now_s = self.clock()
        merged = newest([table.entries() for table in self.tables])
        values = (entry for entry in merged if entry.value_at(now_s) is not None)
        # Without deletes: nothing older is left for them to hide.  A flush must keep them.
        # lsmkv's repair wants to know that range deletes before this write have been applied here.
        with self._writing():
            metas = write_table(self._new_path("sst"), values, self.last_seq)
            added = [{"level": 1, "run": 0, "meta": meta} for meta in metas]
            self._commit(added=added, removed=list(self.noted))
            self._open_tables()

    def close(self) -> None:
        """Note where the log ends: should it be shorter one day, something cut it."""
        try:
            closed = [self.log.header.number, self.log.end]
            if not self.broken and self.closed != closed:
                self.log.sync()
                self._commit(closed_log=closed, closed_salt=self.log.header.salt)
        finally:
            files = [log.file for log in (self.manifest, *self.logs)]
            for file in (*files, *(table.file for table in self.tables), self.lock):
                file.close()


# 9. The command line: a word, the directory of the store, and what the word needs.

WORDS = {"put": 2, "delete": 1, "get": 1, "scan": 1, "flush": 0, "compact": 0}


def main(words: list[str]) -> str | None:
    """Do what a command says; an error, if it cannot be done."""
    word, path, *rest = [*words, "", ""] if len(words) < 2 else words
    if not path or WORDS.get(word) != len(rest):
        return "usage: toy.py put|delete|get|scan|flush|compact STORE [KEY] [VALUE]  (scan: PREFIX)"
    if word != "put" and not Path(path, "CURRENT").exists():
        return f"{path} has no store: only put makes one"
    given = [os.fsencode(each) for each in rest]
    try:
        store = Store(Path(path))
        if word in ("put", "delete"):
            store.put(given[0], given[1] if word == "put" else None)
        elif word == "get":
            print(*store.search(given[0]), store.get(given[0]), sep="\n")
        elif word == "scan":
            for key, value in store.scan(given[0]):
                print(key, value)
        else:
            (store.flush if word == "flush" else store.compact)()
        store.close()
    except (CorruptionError, RefusedError, OSError) as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
