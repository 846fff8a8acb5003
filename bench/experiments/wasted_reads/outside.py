"""What a process of its own tells of a store, the same for every engine: read calls, and memory.

The process opens a small store of the same engine, so that the engine's own memory is not counted.  It
opens the store without a block cache and looks up some present keys, so that every table is open with
its filters and its index: by so much it has grown.  Then it asks for the absent keys.  Meanwhile a
library between it and the C library counts its reads of the store's files
(:mod:`bench.harness.read_counter`).
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

import psutil

from ...engines.base import MIB, Settings, engine_named
from ...engines.leveldb_engine import LevelDBStore, map_taker
from ...engines.rocksdb_engine import RocksDBStore
from ...harness.read_counter import best_way, preloaded
from .tasks import PACKED, PARTITIONED, KeySet, Task

_TOUCHED: Final = 500  # of so many present keys one is looked up first: every table has far more
_PACKED_RESTARTS: Final = 16  # as in RocksDB's data blocks
_SMALL: Final = 100

Get = Callable[[bytes], bytes | None]


class Outsider:
    """Asks the stores of a task from a process of its own, which reads the keys from files."""

    def __init__(self, task: Task, keys: KeySet, directory: str) -> None:
        self._task = task
        self._directory = directory
        for name, part in (("touched", keys.present[::_TOUCHED]), ("lookups", keys.lookups())):
            with open(os.path.join(directory, name), "w") as file:
                json.dump([key.hex() for key in part], file)

    def ask(self, path: str, setting: float) -> tuple[int | None, int]:
        """Read calls of all lookups (None where there is no C compiler), and bytes of growth."""
        description = json.dumps(dataclasses.asdict(self._task))
        command = [sys.executable, "-m", __name__, description, self._directory, path, str(setting)]
        with ExitStack() as stack:
            library = stack.enter_context(preloaded()) if best_way() == "preload" else None
            environment = {**os.environ, **(library.environment if library else {})}
            asking = stack.enter_context(
                subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
                )
            )
            assert asking.stdin is not None and asking.stdout is not None
            try:
                grown_bytes = int(self._told(asking.stdout.readline(), b"ready"))
                before = library.reads().under(path) if library else None
                asking.stdin.write(b"go\n")
                asking.stdin.flush()
                self._told(asking.stdout.readline(), b"done")
                after = library.reads().under(path) if library else None
            finally:
                asking.kill()
        if before is None or after is None:
            return None, grown_bytes
        if after.maps > before.maps:
            raise ValueError(f"{self._task}: a file was mapped meanwhile: reads are unseen")
        return after.calls - before.calls, grown_bytes

    def _told(self, line: bytes, word: bytes) -> bytes:
        said, _, rest = line.strip().partition(b" ")
        if said != word:
            raise ValueError(f"{self._task}: the process that is counted from outside has failed")
        return rest


def main(description: str, directory: str, path: str, setting: str) -> None:
    """The process that asks: says ``ready`` and its growth, waits for a line, asks, says ``done``."""
    task = Task(**json.loads(description))
    touched = _keys(directory, "touched")
    bits_per_key = float(setting)

    def open_store(path: str) -> Get:
        return _OPENERS[task.engine](task, path, bits_per_key)

    small = _small_store(task, directory, open_store)
    before = _resident_bytes()
    get = open_store(path)
    for key in touched:
        assert get(key) is not None
    grown_bytes = _resident_bytes() - before
    absent = _keys(directory, "lookups")  # not before: what it frees would hold the filters
    print("ready", grown_bytes, flush=True)
    sys.stdin.readline()
    for key in absent:
        assert get(key) is None
    print("done", flush=True)
    del small


def _keys(directory: str, name: str) -> list[bytes]:
    with open(os.path.join(directory, name)) as file:
        return list(map(bytes.fromhex, json.load(file)))


def _resident_bytes() -> int:
    """Memory that no other process shares, without what the allocator keeps for later."""
    gc.collect()
    with contextlib.suppress(AttributeError):  # not of the GNU C library
        ctypes.CDLL(None).malloc_trim(0)
    return int(psutil.Process().memory_full_info().uss)


def _small_store(task: Task, directory: str, open_store: Callable[[str], Get]) -> Any:
    """An open store of a few keys, or of all of LevelDB's maps, so that others are read with pread."""
    path = os.path.join(directory, "small")
    is_new = not os.path.exists(path)
    if task.engine == "leveldb":
        return map_taker(path, is_new)
    keys = [b"%06d" % number for number in range(_SMALL)]
    if is_new:
        os.mkdir(path)
        store = engine_named(task.engine).open(path, Settings())
        store.put_batch([(key, b"") for key in keys])
        store.settle()
        store.close()
    get = open_store(path)
    for key in keys:
        assert get(key) is not None
    return get


def _lsmkv(task: Task, path: str, setting: float) -> Get:
    import lsmkv

    # Without reading around, which reads single bytes to see what memory keeps.
    return lsmkv.open(path, read_only=True, block_cache_size_bytes=0, read_around=False).get


def rocksdb_form(task: Task) -> dict[str, Any]:
    return {
        "index_restarts": _PACKED_RESTARTS if task.form == PACKED else 1,
        "is_partitioned": task.form == PARTITIONED,
    }


def _rocksdb(task: Task, path: str, setting: float) -> Get:
    settings = Settings(
        bits_per_key=setting, cache_size_bytes=0, block_size_bytes=task.block_size_bytes
    )
    return RocksDBStore(path, settings, **rocksdb_form(task)).get


def _leveldb(task: Task, path: str, setting: float) -> Get:
    settings = Settings(
        bits_per_key=setting, cache_size_bytes=0, block_size_bytes=task.block_size_bytes,
        write_buffer_size_bytes=MIB, compression="zstd",
    )  # fmt: skip
    return LevelDBStore(path, settings).get


_OPENERS: Final[dict[str, Callable[[Task, str, float], Get]]] = {
    "lsmkv": _lsmkv,
    "rocksdb": _rocksdb,
    "leveldb": _leveldb,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
