"""A second count of wasted reads, the same for every engine: read calls, counted outside the process.

A process of its own opens the store without a block cache, looks up some present keys, so that every
table and its filters are open, and then asks for the absent keys.  Meanwhile a library between it and the
C library counts its reads of the store's files (:mod:`bench.harness.read_counter`).
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from bench.engines.base import MIB, Settings
from bench.engines.leveldb_engine import LevelDBStore
from bench.engines.rocksdb_engine import RocksDBStore
from bench.experiments.wasted_reads.tasks import Task
from bench.harness.read_counter import best_way, preloaded

_TOUCHED: Final = 50
"""Of so many present keys one is looked up first: every table has far more."""

_LEVELDB_MAPS: Final = 1000
"""LevelDB maps so many tables of a process into memory, and reads the others with pread."""

Get = Callable[[bytes], bytes | None]


def outside_reads(task: Task, path: str, setting: float) -> int | None:
    """Read calls of the lookups of all passes; None where there is no C compiler."""
    if best_way() != "preload":
        return None
    command = [
        sys.executable,
        "-m",
        __name__,
        json.dumps(dataclasses.asdict(task)),
        path,
        str(setting),
    ]
    with preloaded() as library:
        environment = {**os.environ, **library.environment}
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        ) as asking:
            assert asking.stdin is not None and asking.stdout is not None
            try:
                _expect(asking.stdout.readline(), b"ready", task)
                before = library.reads().under(path)
                asking.stdin.write(b"go\n")
                asking.stdin.flush()
                _expect(asking.stdout.readline(), b"done", task)
                after = library.reads().under(path)
            finally:
                asking.kill()
    if after.maps > before.maps:
        raise ValueError(f"{task}: a file was mapped during the lookups: its reads are not seen")
    return after.calls - before.calls


def _expect(line: bytes, word: bytes, task: Task) -> None:
    if line.strip() != word:
        raise ValueError(f"{task}: the process that is counted from outside has failed")


def main(description: str, path: str, setting: str) -> None:
    """The process that asks: says ``ready``, waits for a line, asks, says ``done``."""
    task = Task(**json.loads(description))
    get = _GETS[task.engine](task, path, float(setting))
    for pairs in task.batches():
        for key, _ in pairs[::_TOUCHED]:
            assert get(key) is not None
    absent = [key for number in range(task.passes) for key in task.absent(number)]
    print("ready", flush=True)
    sys.stdin.readline()
    for key in absent:
        assert get(key) is None
    print("done", flush=True)


def _lsmkv(task: Task, path: str, setting: float) -> Get:
    import lsmkv

    # Without reading around, which reads single bytes to see what memory keeps.
    return lsmkv.open(path, read_only=True, block_cache_size_bytes=0, read_around=False).get


def _rocksdb(task: Task, path: str, setting: float) -> Get:
    settings = Settings(
        bits_per_key=setting, cache_size_bytes=0, block_size_bytes=task.block_size_bytes
    )
    return RocksDBStore(path, settings).get


def _leveldb(task: Task, path: str, setting: float) -> Get:
    import plyvel

    # Another store takes up all maps first, so that the tables of this one are read with pread.
    ballast = path.rstrip("/") + "-maps"
    maps: Any = plyvel.DB(
        ballast,
        create_if_missing=True,
        write_buffer_size=64 * 1024,
        max_open_files=4 * _LEVELDB_MAPS,
    )
    keys = [b"%06d" % number for number in range(_LEVELDB_MAPS + 100)]
    for key in keys:
        maps.put(key, bytes(70_000))
    for key in keys:
        assert maps.get(key) is not None
    settings = Settings(
        bits_per_key=setting, cache_size_bytes=0, block_size_bytes=task.block_size_bytes,
        write_buffer_size_bytes=MIB, compression="zstd",
    )  # fmt: skip
    return partial(_get_keeping, maps, LevelDBStore(path, settings).get)


def _get_keeping(kept: Any, get: Get, key: bytes) -> bytes | None:
    """``kept`` stays open as long as this function is called."""
    return get(key)


_GETS: Final[dict[str, Callable[[Task, str, float], Get]]] = {
    "lsmkv": _lsmkv,
    "rocksdb": _rocksdb,
    "leveldb": _leveldb,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
