"""The same store in 400 lines of code, for whoever has never seen an LSM tree.  Read it from the top.

It reads and writes the files of lsmkv: each opens the other's stores.  ``toy_bytes.py`` has the layouts
of those files, field by field; you can do without it.  Left out are speed, threads, a cache and range
deletes (a store whose range deletes were all applied can be opened).  docs/how-it-works.md has an hour
with it.

    python examples/toy.py put fruit.db apple red
    python examples/toy.py get fruit.db apple

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
from pathlib import Path
from typing import Any, NamedTuple

import toy_bytes
from toy_bytes import (
    DELETE,
    EXPIRING,
    MARK,
    PAYLOAD,
    PUT,
    CorruptionError,
    LogHeader,
    Place,
    RefusedError,
    Row,
    checksum,
    hash_of,
)

BLOCK_BYTES = 4096  # of entries in a block
BITS_PER_KEY, PROBES = 10, 7  # of a filter, which lets about one of 120 absent keys pass
WRITES, MANIFEST = 0, 1  # kinds of logs


# 1. What is stored?  Entries.  Nothing is ever changed in its place: a newer entry hides an older one.


class Entry(NamedTuple):
    """A put or a delete.  Writes are numbered: of a key's entries the one with the highest counts."""

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
        self.end, self.synced, self.marked = 56, 0, 0
        while record := toy_bytes.decode_record(data, self.header.salt, self.end):
            if record[0] == MARK:
                self.marked = int.from_bytes(record[1], "little")
            else:
                self.records.append((self.end, record[1]))
            self.end += 9 + len(record[1])
        # The next bytes are no record.  Either a process was killed in the middle of a write, which
        # it had not told to be safe, or they are damaged.  After each sync, a mark in the log says how
        # much of it was on the disk.  A mark further on, which knows of more, means damage.
        for mark in toy_bytes.marks_behind(data, self.header.salt, self.end):
            self.marked = max(self.marked, int.from_bytes(mark, "little"))
        if self.marked > self.end:
            raise CorruptionError(path, self.end, "a record is damaged that was on the disk")
        self.file = path.open("r+b")

    def append(self, payload: bytes, sync: bool) -> None:
        """Add a record.  It outlives this process at once, and a power failure once it is synced."""
        if self.synced > self.marked:
            self._write(MARK, self.synced.to_bytes(8, "little"))
            self.marked = self.synced
        self._write(PAYLOAD, payload)
        if sync:
            self.sync()

    def _write(self, kind: int, payload: bytes) -> None:
        self.file.seek(self.end)
        self.file.truncate()  # the rest of a write that was cut short
        self.file.write(toy_bytes.encode_record(kind, payload, self.header.salt, self.end))
        self.file.flush()
        self.end = self.file.tell()

    def sync(self) -> None:
        os.fsync(self.file.fileno())
        self.synced = self.end


def new_log(path: Path, kind: int, before: Log | None = None) -> Log:
    salt = int.from_bytes(os.urandom(7), "little")  # no other log's records pass for this one's
    previous = (before.header.number, before.end) if before else (0, 0)
    header = LogHeader(number_of(path), salt, *previous)
    write_file(path, toy_bytes.encode_log_header(kind, header))
    return Log(path, kind)


def write_file(path: Path, data: bytes) -> None:
    """Make a file that is there whole or not at all, even after a power failure."""
    unfinished = path.with_name(path.name + ".lsmkv-tmp")
    with unfinished.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    os.fsync(directory)  # the name is on the disk, too
    os.close(directory)


def number_of(path: Path) -> int:
    """The number in a file's name.  A store gives out each number once."""
    return int(re.sub("[^0-9]", "", path.name))


# 3. How can a few bits know that a key is not in a block?  They are the bits that its keys have set.


def probed_bits(key: bytes, probes: int, bit_count: int) -> Iterator[int]:
    """The bits of a key in a filter.  They look random, but each follows from the key's hash."""
    state = hash_of(key)
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


# 4. What is a table?  Blocks, a filter for each, and an index.  A lookup reads one block at the most.


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


def write_table(path: Path, entries: Iterable[Entry], erased_seq: int = 0) -> dict[str, Any] | None:
    """Write sorted entries to a file; what the manifest is to note of it, None without entries."""
    data, filters, trailers, raw_bytes = b"", b"", b"", 0
    places, rows = list[Place](), list[Row]()
    for block in blocks_of(entries):
        bits = build_filter([entry.key for entry in block])
        probes = PROBES if bits else 0
        # The index needs to tell this block from the one before, and no more: of "apricot" behind
        # "apple" it keeps "apr".  Keys from there on are in this block, or in a later one.
        first = block[0].key
        separator = first[: toy_bytes.shared_length(rows[-1][0], first) + 1] if rows else b""
        places.append(Place(separator, len(data), len(filters), probes, len(block)))
        stored = [entry.row() for entry in block]
        rows += stored
        payload = toy_bytes.encode_payload(stored)
        at = number_of(path), len(data)
        data += toy_bytes.encode_block(payload, len(block), bits, probes, *at)
        trailers += data[-32:]  # with the block's checksums
        # The filters stand together, too: one read brings all of them into memory.  Those beside the
        # blocks are for the day on which these are damaged (lsmkv then takes them; here, it is an error).
        filters += bits
        raw_bytes += len(payload)
    if not rows:
        return None
    meta = {**toy_bytes.table_meta(number_of(path), rows), "erased_seq": erased_seq}
    end, check = toy_bytes.encode_table_end(meta, places, trailers, len(data), raw_bytes, filters)
    write_file(path, data + end)
    return {**meta, "size_bytes": len(data) + len(end), "checksum": check}


class Step(NamedTuple):
    """A step of a lookup: where it looked, and what came of it."""

    place: str
    block: int | None = None
    filter_says: str = ""  # "no", "maybe", or "none": the block has no filter
    read_bytes: int = 0  # of the block; 0 if it was not read
    entry: Entry | None = None

    def __str__(self) -> str:
        found = f"found, as write {self.entry.seq}" if self.entry else "not there"
        if self.block is None:
            return f"{self.place}: {found}"
        asked = f"{self.place}, block {self.block}: the filter says {self.filter_says}"
        return f"{asked}; {self.read_bytes:,} bytes read: {found}" if self.read_bytes else asked


class Table:
    """An open table.  Its index and filters are in memory; its blocks are read, and counted."""

    def __init__(self, path: Path, placed: dict[str, Any]) -> None:
        self.path, self.level, self.run = path, placed["level"], placed["run"]
        self.file, self.blocks_read = path.open("rb", buffering=0), 0
        self.end = toy_bytes.read_table_end(path, self.file.fileno())
        self.places = self.end.places
        if self.end.checksum != placed["meta"]["checksum"]:
            raise CorruptionError(path, self.places[-1].start, "this is another table")

    def lookup(self, key: bytes) -> Iterator[Step]:
        """A step for the block that may hold the key, if there is one."""
        if not self.end.smallest <= key <= self.end.largest:
            return
        for number in self._blocks_for(key):
            place, following = self.places[number : number + 2]
            bits = self.end.filters[place.filter_start : following.filter_start]
            says = "none"
            if bits:
                says = "maybe" if may_contain(bits, place.probes, key) else "no"
            if says == "no":
                yield Step(self.path.name, number, says)  # nothing is read: that is what it is for
                continue
            entries = self.read_block(number)
            at = bisect_left(entries, key, key=lambda entry: entry.key)
            found = entries[at] if at < len(entries) and entries[at].key == key else None
            yield Step(self.path.name, number, says, following.start - place.start, found)
            if found:
                return

    def _blocks_for(self, key: bytes) -> range:
        """The last block whose separator is not above the key.

        lsmkv keeps old versions of a key while somebody looks at an old state of the store.  Where
        they fill several blocks, the newest is in the first of these.
        """

        def separator(place: Place) -> bytes:
            return place.separator

        block_count = len(self.places) - 1  # the last line says where all blocks end
        first = last = bisect_right(self.places, key, hi=block_count, key=separator) - 1
        if self.end.properties["has_versions"]:
            first = bisect_left(self.places, key, hi=block_count, key=separator) - 1
        return range(max(0, first), last + 1)

    def read_block(self, number: int) -> list[Entry]:
        start, stop = self.places[number].start, self.places[number + 1].start
        data = os.pread(self.file.fileno(), stop - start, start)
        self.blocks_read += 1
        return [entry_of(row) for row in toy_bytes.decode_block(self.path, self.end, start, data)]

    def entries(self, start: bytes = b"") -> Iterator[Entry]:
        """Its entries in order, from the block on that may hold ``start``."""
        for number in range(self._blocks_for(start).start, len(self.places) - 1):
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
        self.path, self.clock = path, clock
        path.mkdir(exist_ok=True)
        others = [each for each in path.iterdir() if each.name != "LOCK"]
        if others and not (path / "CURRENT").exists():
            raise RefusedError(f"{others[0]} is there, but no CURRENT: choose an empty directory")
        self.lock = (path / "LOCK").open("a+b")
        fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an error: another process has it
        self.lock.truncate(0)
        self.lock.write(b"lsmkv process %d\n" % os.getpid())
        self.lock.flush()
        if not (path / "CURRENT").exists():
            self._create()
        self._read_manifest()
        self._read_logs()
        self._remove_leftovers()
        self._open_tables()

    def _create(self) -> None:
        new_log(self.path / "000001.log", WRITES)
        manifest = new_log(self.path / "MANIFEST-000002", MANIFEST)
        state = {"next_file": 3, "last_seq": 0, "log_number": 1, "store_id": os.urandom(16).hex()}
        manifest.append(json.dumps(state).encode(), sync=True)
        name = manifest.path.name.encode()
        write_file(self.path / "CURRENT", b"%s %016x\n" % (name, checksum(name)))

    def _read_manifest(self) -> None:
        # CURRENT is a file with the manifest's name: a long manifest is replaced by a short one with it.
        name, _, check = (self.path / "CURRENT").read_bytes().partition(b" ")
        if check != b"%016x\n" % checksum(name):
            raise CorruptionError(self.path / "CURRENT", 0, "it is damaged")
        self.manifest = Log(self.path / name.decode(), MANIFEST)
        self.placed: dict[int, dict[str, Any]] = {}  # of each table: level, run, and more
        self.tables: list[Table] = []
        self.range_deletes: list[Any] = []
        self.next_file, self.last_seq, self.log_number = 0, 0, 0
        for _, payload in self.manifest.records:
            self._apply(json.loads(payload))
        if self.range_deletes:
            raise RefusedError("this store has range deletes: lsmkv compact applies them")

    def _apply(self, change: dict[str, Any]) -> None:
        for number in change.get("removed", []):
            del self.placed[number]
        self.placed |= {placed["meta"]["number"]: placed for placed in change.get("added", [])}
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

    def _new_path(self, ending: str) -> Path:
        self.next_file += 1
        return self.path / f"{self.next_file - 1:06}.{ending}"

    def _open_tables(self) -> None:
        """Open the tables of the manifest; remove those that have left it."""
        for table in self.tables:
            if number_of(table.path) not in self.placed:
                table.file.close()
                table.path.unlink()
        there = {number_of(table.path): table for table in self.tables}
        self.tables = [
            there.get(number) or Table(self.path / f"{number:06}.sst", placed)
            for number, placed in self.placed.items()
        ]
        # Newest first: what is in a run is newer than what is in older runs and in deeper levels.
        self.tables.sort(key=lambda table: (table.level, -table.run, table.end.smallest))

    # 6. What does a process find after a kill?  The log: it puts its writes into memory once more.

    def _read_logs(self) -> None:
        """There are several logs if the kill came in the middle of a flush."""
        self.memtable: dict[bytes, Entry] = {}  # the newest entry of each key that the logs have
        self.logs: list[Log] = []
        for path in sorted(self.path.glob("*.log"), key=number_of):
            if number_of(path) < self.log_number or (self.logs and path.stat().st_size < 56):
                continue  # its writes are in tables, or its making was cut short
            log = Log(path, WRITES)
            before = self.logs[-1] if self.logs else None
            if before and log.header[2:] != (before.header.number, before.end):
                if log.records and (log.marked or log.header.end_before <= before.end):
                    raise CorruptionError(path, 0, "it does not follow the log before it")
                continue  # it was never used; or the power failed, and neither log was on the disk
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
        needed = {self.manifest.path, *(log.path for log in self.logs)}
        needed |= {self.path / f"{number:06}.sst" for number in self.placed}
        for path in set(self.path.iterdir()) - needed:
            if re.fullmatch(r"(MANIFEST-\d{6,}|\d{6,}\.(sst|log))(\.lsmkv-tmp)?", path.name):
                path.unlink()

    # 7. What do put, get and scan do?

    def put(self, key: bytes, value: bytes | None, sync: bool = False) -> None:
        """Store a value; None deletes.  With ``sync`` it outlives a power failure, too."""
        entry = Entry(key, self.last_seq + 1, value)
        self.log.append(toy_bytes.encode_batch(entry.row()), sync)  # first of all
        self.last_seq = entry.seq
        self.memtable[key] = entry

    def get(self, key: bytes, tell: Callable[[Step], object] = id) -> bytes | None:
        """The value of a key, or None; ``tell`` hears of each step."""
        entry = None
        for step in self.search(key):
            tell(step)
            entry = step.entry
        return entry.value_at(self.clock()) if entry else None

    def search(self, key: bytes) -> Iterator[Step]:
        """The steps of a lookup, from new to old: the first entry that it finds hides all others."""
        found = self.memtable.get(key)
        yield Step("memtable", entry=found)
        for table in self.tables:
            for step in table.lookup(key) if found is None else ():
                found = step.entry
                yield step

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
        log = new_log(self._new_path("log"), WRITES, self.log)
        meta = write_table(self._new_path("sst"), sorted(self.memtable.values()))
        assert meta is not None
        # Killed here, the store has a table that the manifest does not know, and all writes in the log.
        added = [{"level": 0, "run": meta["number"], "meta": meta}]
        self._commit(added=added, last_seq=self.last_seq, log_number=log.header.number)
        # Killed here, it has the table, and a log that the manifest says is in tables.
        for old in self.logs:
            old.file.close()
            old.path.unlink()
        self.log, self.logs, self.memtable = log, [log], {}
        self._open_tables()

    def compact(self) -> None:
        """Merge all runs into one: each lookup then reads one block, and old entries are gone."""
        self.flush()
        now_s = self.clock()
        merged = newest([table.entries() for table in self.tables])
        values = (entry for entry in merged if entry.value_at(now_s) is not None)
        # Without deletes: nothing older is left for them to hide.  A flush must keep them.
        # Range deletes up to here were applied: a repair, which knows of all, must not do so again.
        meta = write_table(self._new_path("sst"), values, self.last_seq)
        added = [{"level": 1, "run": 0, "meta": meta}] if meta else []
        self._commit(added=added, removed=list(self.placed))
        self._open_tables()

    def close(self) -> None:
        """Note where the log ends: should it be shorter one day, something cut it."""
        self.log.sync()
        end = [self.log.header.number, self.log.end]
        if self.closed != end:
            self._commit(closed_log=end, closed_salt=self.log.header.salt)
        for log in (self.manifest, *self.logs):
            log.file.close()
        for table in self.tables:
            table.file.close()
        self.lock.close()


# 9. The command line: a word, the directory of the store, and what the word needs.

WORDS = {"put": 2, "delete": 1, "get": 1, "scan": 1, "flush": 0, "compact": 0}


def main(words: list[str]) -> str | None:
    """Do what a command says; an error, if it cannot be done."""
    word, path, *rest = [*words, "", ""] if len(words) < 2 else words
    if not path or WORDS.get(word) != len(rest):
        return "usage: toy.py put|delete|get|scan|flush|compact STORE [KEY or PREFIX] [VALUE]"
    if word != "put" and not Path(path, "CURRENT").exists():
        return f"{path} has no store: only put makes one"
    given = [os.fsencode(each) for each in rest]
    try:
        store = Store(Path(path))
        if word == "put":
            store.put(given[0], given[1])
        elif word == "delete":
            store.put(given[0], None)
        elif word == "get":
            print(store.get(given[0], tell=print))
        elif word == "scan":
            for key, value in store.scan(given[0]):
                print(key, value)
        elif word == "flush":
            store.flush()
        else:
            store.compact()
        store.close()
    except (CorruptionError, RefusedError, BlockingIOError) as error:
        return str(error)
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
