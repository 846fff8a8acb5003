"""``lsmkv.dbm`` beside the standard library's ``dbm`` modules, and shelves on each.

Microseconds per operation, with keys of 16 bytes in random order and values of 100 bytes; the shelves
hold a dict of three entries.  ``dbm.sqlite3`` came with Python 3.13; before, the same statements are run
through ``sqlite3``.  That module syncs each write, so ``lsmkv.dbm`` is measured with a sync after each
write, too.  Each figure is the median of the rounds.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import shelve
import sqlite3
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

import lsmkv.dbm
from reports.environment import build

Database = MutableMapping[Any, Any]
Open = Callable[[str, str], Any]

_WRITES_SYNCED: Final = 200  # a sync takes a hundred times what the rest of a write does


class _LikeDbmSqlite3(MutableMapping[bytes, bytes]):
    """A table of blobs, written in autocommit mode, as ``dbm.sqlite3`` does."""

    def __init__(self, path: str, _flag: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = wal")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS pairs (key BLOB UNIQUE NOT NULL, value BLOB NOT NULL)"
        )

    def __getitem__(self, key: bytes) -> bytes:
        found = self._connection.execute("SELECT value FROM pairs WHERE key = ?", (key,)).fetchone()
        if found is None:
            raise KeyError(key)
        value: bytes = found[0]
        return value

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._connection.execute("REPLACE INTO pairs VALUES (?, ?)", (key, value))

    def __delitem__(self, key: bytes) -> None:
        self._connection.execute("DELETE FROM pairs WHERE key = ?", (key,))

    def __iter__(self) -> Iterator[bytes]:
        for (key,) in self._connection.execute("SELECT key FROM pairs"):
            yield key

    def __len__(self) -> int:
        count: int = self._connection.execute("SELECT count(*) FROM pairs").fetchone()[0]
        return count

    def close(self) -> None:
        self._connection.close()


class _Synced:
    """``lsmkv.dbm`` with a sync after each write."""

    def __init__(self, path: str, flag: str) -> None:
        self._db = lsmkv.dbm.open(path, flag)
        self.close = self._db.close

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self._db[key] = value
        self._db.sync()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def __getitem__(self, key: bytes) -> bytes:
        return self._db[key]

    def __contains__(self, key: object) -> bool:
        return key in self._db

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._db)


def contenders() -> dict[str, Open]:
    """Name -> a function of path and flag; only of modules that this Python has."""
    found: dict[str, Open] = {"lsmkv.dbm": lsmkv.dbm.open, "lsmkv.dbm, synced": _Synced}
    for name in ("dbm.gnu", "dbm.ndbm", "dbm.dumb", "dbm.sqlite3"):
        try:
            found[name] = importlib.import_module(name).open
        except ImportError:
            if name == "dbm.sqlite3":
                found["sqlite3, as dbm.sqlite3"] = _LikeDbmSqlite3
    return found


def missing() -> list[str]:
    """The modules that this Python was built without."""
    return sorted({"dbm.gnu", "dbm.dumb"} - contenders().keys())


def measure(name: str, entries: int, seed: int) -> dict[str, float]:
    """One round: microseconds per operation, and bytes on disk per entry."""
    open_database = contenders()[name]
    writes = min(entries, _WRITES_SYNCED) if "sync" in name or "sqlite" in name else entries
    numbers = random.Random(seed).sample(range(0, 2 * entries, 2), entries)
    keys = [b"%016d" % number for number in numbers][:writes]
    absent = [b"%016d" % (number + 1) for number in numbers][:writes]
    value = bytes(range(100))
    taken: dict[str, float] = {}

    def timed(what: str, count: int, work: Callable[[], object]) -> None:
        started = time.perf_counter()
        work()
        taken[what] = (time.perf_counter() - started) / count * 1e6

    with tempfile.TemporaryDirectory(prefix="lsmkv-dbm-") as folder:
        path = os.path.join(folder, "data")
        db = open_database(path, "c")
        timed("write", writes, lambda: [db.__setitem__(key, value) for key in keys])
        timed("close", 1, db.close)
        taken["bytes/entry"] = disk_bytes(folder) / writes
        opened: list[Any] = []
        timed("open", 1, lambda: opened.append(open_database(path, "w")))
        db = opened[0]
        timed("read", writes, lambda: [db[key] for key in keys])
        timed("absent", writes, lambda: [key in db for key in absent])
        timed("scan", writes, lambda: [db[key] for key in db.keys()])  # noqa: SIM118  # gnu is no iterable
        db.close()
        shelf: shelve.Shelf[Any] = shelve.Shelf(open_database(os.path.join(folder, "shelf"), "c"))
        record = {"name": "Ada", "born": 1815, "tags": ["mathematics"]}
        words = [key.decode() for key in keys[: writes // 4]]
        timed("shelf write", len(words), lambda: shelf.update(dict.fromkeys(words, record)))
        timed("shelf read", len(words), lambda: [shelf[key] for key in words])
        shelf.close()
    return taken


def disk_bytes(folder: str) -> int:
    return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench dbm", description=__doc__.split("\n")[0])
    parser.add_argument("--entries", type=int, default=20_000, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    chosen = parser.parse_args(arguments)
    console = Console(width=130)
    title = f"{chosen.entries:,} entries, {build()}, {chosen.rounds} rounds; microseconds each"
    rows: dict[str, dict[str, list[float]]] = {}
    for name in contenders():
        rounds: dict[str, list[float]] = defaultdict(list)
        for number in range(chosen.rounds):
            for what, figure in measure(name, chosen.entries, chosen.seed + number).items():
                rounds[what].append(figure)
        rows[name] = rounds
    table = Table(title=title, box=box.SIMPLE_HEAD)
    for heading in ("", *next(iter(rows.values()))):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for name, rounds in rows.items():
        table.add_row(name, *(f"{statistics.median(taken):,.1f}" for taken in rounds.values()))
    console.print(table)
    for name in missing():
        console.print(f"{name} is not measured: this Python was built without it")


if __name__ == "__main__":
    main()
