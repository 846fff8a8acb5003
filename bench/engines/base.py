"""What a store must offer to be measured beside the others.

An engine is a subclass of :class:`Engine` in a file of its own; what it opens is a :class:`Store`.
The hot operations are attributes, not methods: a store puts the library's own bound method there
where its signature fits, so that no call of ours stands between the clock and what is timed.
"""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, ClassVar, Final, Literal

from reports.environment import version

KIB = 1024
MIB = 1024 * KIB

Pairs = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What every engine is told alike; what one has no such setting for, it ignores.

    Attributes:
        bits_per_key: of the Bloom filters; 0: none.
        cache_size_bytes: block cache (LMDB: none of its own; it maps the file).
        write_buffer_size_bytes: memtable.
        block_size_bytes: data block, or page.
        compression: ``"none"`` or ``"zstd"`` (LevelDB: Snappy in its place).
        direct_reads: past the page cache, where the engine can.
        synced: every write will be a synced one: for engines that must know when they open (LMDB).
        count: have :meth:`Store.counters` filled; RocksDB's statistics take time, so only when asked.
        background: where lsmkv flushes and compacts (the others: in threads of their own).
    """

    bits_per_key: float = 10.0
    cache_size_bytes: int = 64 * MIB
    write_buffer_size_bytes: int = 64 * MIB
    block_size_bytes: int = 4 * KIB
    compression: Literal["none", "zstd"] = "none"
    direct_reads: bool = False
    synced: bool = False
    count: bool = False
    background: Literal["thread", "process"] = "thread"


COUNTERS: Final = (
    "filter_negatives",
    "filter_positives",
    "filter_true_positives",
    "data_block_reads",
)
"""The names that :meth:`Store.counters` may give."""


def walk(entries: Iterable[Any], limit: int | None = None) -> int:
    """Take up to ``limit`` entries (None: all) from an iterator; how many there were.

    No Python code runs between two of them, so that next to nothing is added to a scan's time.

    >>> walk(iter("abc")), walk(iter("abc"), 2)
    (3, 2)
    """
    counter = count()
    deque(zip(islice(entries, limit), counter, strict=False), maxlen=0)
    return next(counter)


class Store(ABC):
    """An open store.

    One thread may read while others write.  Take ``get`` from the store anew after a write: a store
    may put another function there (LMDB's, of a newer snapshot).

    Attributes:
        get: the value of a key, or None.
        put: sets a key, without a sync.
        put_sync: sets a key, and returns once it would survive a power failure.
    """

    get: Callable[[bytes], bytes | None]
    put: Callable[[bytes, bytes], object]
    put_sync: Callable[[bytes, bytes], object]

    @abstractmethod
    def put_batch(self, pairs: Pairs, sync: bool = False) -> None:
        """Set several keys in one atomic step."""

    @abstractmethod
    def delete(self, key: bytes) -> None:
        """Remove a key."""

    @abstractmethod
    def multi_get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        """The values of several keys, in one call where the library has one."""

    @abstractmethod
    def scan(self, start: bytes | None, limit: int | None, reverse: bool = False) -> int:
        """Walk over keys and values from ``start`` on; how many there were.

        Args:
            start: where to begin; None: at the first key (reversed: at the last).
            limit: the most to take; None: all.
        """

    @abstractmethod
    def settle(self) -> None:
        """Return once what was written is in its files, and no background work is due."""

    @abstractmethod
    def counters(self) -> dict[str, int]:
        """What the engine itself counts, by the names below; only those that it has.

        ``filter_negatives``: searches spared by a filter.  ``filter_positives``,
        ``filter_true_positives``: passed by a filter, and rightly.  ``data_block_reads``: data blocks
        that were not in its cache.  All since the store was opened (with ``Settings.count``).
        """

    @abstractmethod
    def close(self) -> None:
        """Close the store."""


class Engine(ABC):
    """A store that can be measured.

    Attributes:
        name: in rows, tables and commands.
        distribution: what pip installs; its version is reported.
        module: what Python imports.
    """

    name: ClassVar[str]
    distribution: ClassVar[str]
    module: ClassVar[str]

    def is_installed(self) -> bool:
        """Whether it can be measured here."""
        return importlib.util.find_spec(self.module) is not None

    def version(self) -> str:
        """The version of its library."""
        return version(self.distribution)

    @abstractmethod
    def open(self, directory: str, settings: Settings) -> Store:
        """Open the store in ``directory`` (which exists), or make one there."""


_ENGINES: dict[str, Engine] = {}


def register(engine: Engine) -> Engine:
    """Have ``engine`` measured with the others.

    Raises:
        ValueError: there is one of that name.
    """
    if engine.name in _ENGINES:
        raise ValueError(f"engine {engine.name!r} is registered already")
    _ENGINES[engine.name] = engine
    return engine


def engines() -> list[Engine]:
    """Every registered engine."""
    return list(_ENGINES.values())


def engine_named(name: str) -> Engine:
    """The engine of that name.

    Raises:
        ValueError: there is none.
    """
    if name not in _ENGINES:
        raise ValueError(f"engine {name!r}: must be one of {', '.join(_ENGINES)}")
    return _ENGINES[name]
