"""The interface of a measured store.

An engine is a subclass of :class:`Engine` in a file of its own; it opens a :class:`Store`.  The hot
operations are attributes, not methods: a store puts the library's bound method there where its
signature fits, so that the clock measures no call of ours.
"""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, ClassVar, Literal

from ..harness.environment import version

KIB = 1024
MIB = 1024 * KIB

Pairs = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of every engine; an engine ignores those it does not have.

    Attributes:
        bits_per_key: bits of the Bloom filters; 0: no filters.
        cache_size_bytes: block cache (LMDB has none; it maps the file).
        write_buffer_size_bytes: memtable.
        block_size_bytes: data block, or page.
        compression: ``"none"`` or ``"zstd"`` (LevelDB: Snappy instead).
        direct_reads: read past the page cache, where the engine can.
        synced: every write will be synced; LMDB must know this when it opens.
        larger_than_memory: LMDB does not read ahead, as its manual advises for such data.
        count: fill :meth:`Store.counters`; RocksDB's statistics take time.
        background: where lsmkv flushes and compacts (the others use threads of their own).
    """

    bits_per_key: float = 10.0
    cache_size_bytes: int = 64 * MIB
    write_buffer_size_bytes: int = 64 * MIB
    block_size_bytes: int = 4 * KIB
    compression: Literal["none", "zstd"] = "none"
    direct_reads: bool = False
    synced: bool = False
    larger_than_memory: bool = False
    count: bool = False
    background: Literal["auto", "thread", "process"] = "auto"


def walk(entries: Iterable[Any], limit: int | None = None) -> int:
    """Take up to ``limit`` entries (None: all) from an iterator, and return their number.

    No Python code runs between two entries, so that the walk adds next to nothing to a scan's time.

    >>> walk(iter("abc")), walk(iter("abc"), 2)
    (3, 2)
    """
    counter = count()
    deque(zip(islice(entries, limit), counter, strict=False), maxlen=0)
    return next(counter)


class Store(ABC):
    """An open store.

    One thread may read while others write; several threads read through :meth:`getters`.  Take ``get``
    from the store again after a write: a store may replace it (LMDB does, by that of a newer snapshot).

    Attributes:
        get: returns the value of a key, or None.
        put: sets a key, without a sync.
        put_sync: sets a key, and returns when it would survive a power failure.
        _db: what the library opened, for the methods that are alike in most.
    """

    get: Callable[[bytes], bytes | None]
    put: Callable[[bytes, bytes], object]
    put_sync: Callable[[bytes, bytes], object]
    _db: Any

    @abstractmethod
    def __init__(self, directory: str, settings: Settings) -> None:
        """Open the store in ``directory``."""

    @abstractmethod
    def put_batch(self, pairs: Pairs, sync: bool = False) -> None:
        """Set several keys in one atomic step."""

    def delete(self, key: bytes) -> None:
        """Remove a key."""
        self._db.delete(key)

    def put_expiring(self, key: bytes, value: bytes, ttl_s: int) -> None:
        """Set a key that goes by itself, in stores of an engine that ``expires``."""
        raise NotImplementedError

    def multi_get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """The values of several keys, in one call if possible."""
        return list(map(self.get, keys))

    @abstractmethod
    def scan(self, start: bytes | None, limit: int | None, reverse: bool = False) -> int:
        """Walk over up to ``limit`` entries from ``start`` (or an end) on, and return their number."""

    @abstractmethod
    def settle(self) -> None:
        """Wait until all writes are in files and background work is done."""

    def compact(self) -> None:
        """Merge everything into one sorted run, and settle; without runs, just settle."""
        self.settle()

    def getters(self, count: int) -> list[Callable[[bytes], bytes | None]]:
        """Functions like ``get`` for so many threads at once, until a write or ``close``."""
        return [self.get] * count

    def counters(self) -> dict[str, int]:
        """The engine's own counters since the store was opened; only those that it has.

        ``filter_negatives``: searches that a filter spared.  ``filter_positives``,
        ``filter_true_positives``: searches that a filter passed, and passed rightly.
        ``data_block_reads``: data blocks that were not in its cache.  ``metadata_reads``: reads of
        filters and indexes.  All with ``Settings.count``.
        """
        return {}

    def metadata_bytes(self) -> int:
        """The bytes of filters and indexes in memory; 0 where there are none."""
        return 0

    def close(self) -> None:
        """Close the store."""
        self._db.close()


class Engine(ABC):
    """A store that can be measured.

    Attributes:
        name: its name in rows, tables and commands.
        distribution: the name that pip installs; the report names its version.
        module: the name that Python imports.
        store: the class of its stores, unless it overrides ``open``.
        expires: whether its stores have ``put_expiring``.
    """

    name: ClassVar[str]
    distribution: ClassVar[str]
    module: ClassVar[str]
    store: ClassVar[type[Store]]
    expires: ClassVar[bool] = False

    def is_installed(self) -> bool:
        """Whether it can be measured here."""
        return importlib.util.find_spec(self.module) is not None

    def version(self) -> str:
        """The version of its library."""
        return version(self.distribution)

    def open(self, directory: str, settings: Settings) -> Store:
        """Open the store in ``directory`` (which exists), or make one there."""
        return self.store(directory, settings)


_ENGINES: dict[str, Engine] = {}


def register(engine: Engine) -> Engine:
    """Add ``engine`` to the measured ones.  ValueError: another has that name."""
    if engine.name in _ENGINES:
        raise ValueError(f"engine {engine.name!r} is registered already")
    _ENGINES[engine.name] = engine
    return engine


def engines() -> list[Engine]:
    return list(_ENGINES.values())


def missing_engines() -> list[str]:
    """The names of engines that are not installed here."""
    return [engine.name for engine in engines() if not engine.is_installed()]


def engine_named(name: str) -> Engine:
    if name not in _ENGINES:
        raise ValueError(f"engine {name!r}: must be one of {', '.join(_ENGINES)}")
    return _ENGINES[name]
