"""Options: every setting of a store, frozen and validated, with named presets."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, get_args

from lsmkv.filters.keys import FilterKey, WholeKey
from lsmkv.filters.policy import policies

Compression = Literal["none", "zstd"]
CompactionStyle = Literal["leveled", "tiered", "lazy-leveled"]
FilterResidency = Literal["resident", "cached", "off"]
FilterGranularity = Literal["block", "table"]
FilterAllocation = Literal["uniform", "monkey"]
Background = Literal["thread", "process"]
FilterPolicyName = Literal["none", "bloom", "blocked-bloom", "binary-fuse", "ribbon"]
"""The filter policies of this package; programs may register others."""

KIB: Final = 1024
MIB: Final = 1024 * KIB

_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "compression": get_args(Compression),
    "compaction": get_args(CompactionStyle),
    "filter_residency": get_args(FilterResidency),
    "filter_granularity": get_args(FilterGranularity),
    "filter_allocation": get_args(FilterAllocation),
    "background": get_args(Background),
}

# Lowest and highest value of each integer option.
_RANGES: Final[dict[str, tuple[int, int]]] = {
    "write_buffer_size_bytes": (4 * KIB, 4096 * MIB),
    "max_immutable_memtables": (1, 64),
    "block_size_bytes": (256, 16 * MIB),
    "block_cache_size_bytes": (0, 1 << 50),
    "memory_budget_bytes": (0, 1 << 50),
    "compression_level": (-50, 22),
    "compression_dictionary_size_bytes": (0, MIB),
    "size_ratio": (2, 100),
    "level0_compaction_trigger": (1, 1000),
    "level0_slowdown_trigger": (1, 10_000),
    "level0_stop_trigger": (1, 10_000),
    "level1_size_bytes": (4 * KIB, 1 << 50),
    "read_compaction_rate_bytes": (0, 1 << 50),
    "table_size_bytes": (4 * KIB, 1 << 40),
    "process_job_size_bytes": (0, 1 << 50),
    "request_timeout_s": (1, 3600),
    "request_retries": (0, 100),
    "disk_cache_size_bytes": (MIB, 1 << 50),
    "file_mode": (0o400, 0o777),
}

_FLAGS: Final = ("direct_reads", "read_around", "adaptive_filters")

# What adaptive filters need.
_ADAPTIVE: Final = {
    "filter_policy": "ribbon",
    "filter_residency": "resident",
    "filter_granularity": "block",
    "filter_key": WholeKey(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a store is written and read.

    A store may be opened with other options at any time.  Data on disk keeps its form until a compaction
    rewrites it.  Sizes are in bytes; the default of each option ends its description.

    Writing
        write_buffer_size_bytes: size of a log, at which it and its memtable are set aside to be
            flushed.  Larger ones make fewer, larger runs, take more memory, and make opening after a
            crash slower.  64 MiB.
        max_immutable_memtables: writers wait while so many full memtables are being flushed.  2.

    Memory
        memory_budget_bytes: the most that memtables, block cache, filters and indexes take together, as
            ``DB.memory_usage`` counts them; it lowers what the options for each of them allow.  Half of
            it is for memtables: the write buffer is at most their share of it.  Indexes and resident
            filters of the tables in use may take the rest, the cache has what they leave, and once they
            took three quarters, filters of further tables are read through the cache (the log tells).
            Indexes stay in memory in any case.  Not counted: Python's objects around keys and values in
            memtables, what flushes, compactions, scans and ``bulk_load`` work with, helper processes,
            and tables that only snapshots, cursors and iterators still read.  The last write
            or batch of a memtable may exceed its share until it is flushed.  0: no budget.

    Blocks
        block_size_bytes: size of a data block before compression: its keys and values, and 7 bytes for
            each entry.  Smaller blocks make lookups cheaper and indexes larger.  4 KiB.
        block_cache_size_bytes: memory for uncompressed blocks (and, with
            ``filter_residency="cached"``, for filters).  64 MiB.
        compression: ``"zstd"`` or ``"none"``.  ``"zstd"``.
        compression_level: the level of zstd.  Higher ones compress better and more slowly.  3.
        compression_dictionary_size_bytes: size of a dictionary that each table trains from its first
            blocks, for small values that resemble each other.  0: no dictionary.
        direct_reads: read tables with ``O_DIRECT``, bypassing the page cache of the operating system:
            for measurements.  False.
        read_around: once many single blocks of a table were read, have the operating system prefetch
            its other blocks, one MiB at a time.  Has no effect with ``direct_reads``, or while all
            tables take more than half of the memory of the machine, or of the limit of this process's
            control group (a container's, for example).  True.

    Filters
        error_rate: false-positive rate p for which filters are sized, 0 < p < 1.  A tenth of it costs
            4.8 bits more for each key.  0.01.
        filter_residency: ``"resident"`` keeps every filter in memory, from the first use of its table
            on; ``"cached"`` reads them through the block cache; ``"off"`` does not use them.  Tables
            contain filters all the same.  ``"resident"``.
        filter_granularity: one filter per ``"block"`` or one per ``"table"``.  ``"block"``.
        filter_allocation: ``"uniform"`` gives every level the same p; ``"monkey"`` gives larger runs a
            higher p, in the same total memory (Dayan, Athanassoulis, Idreos, SIGMOD 2017).
            ``"uniform"``.
        filter_policy: kind of filter in new tables: ``"bloom"``; ``"ribbon"`` (fewest bits; rates are
            powers of two, at least 2^-31, so each block has one of two, with ``error_rate`` as mean);
            ``"blocked-bloom"`` (one cache line per lookup) and ``"binary-fuse"`` (rates of 2^-8 and
            2^-16), both made for ``filter_granularity="table"``: per block they work, but round up to
            lines of 64 bytes, or take up to twice the bits; ``"none"``; or the name of a registered one
            (:func:`lsmkv.filters.policy.register`).  ``"bloom"``.
        filter_key: the part of each key that filters contain: ``WholeKey()``, or, for scans of
            prefixes too, ``FixedPrefix(n)`` or ``DelimitedPrefix(delimiter, count)``.  ``WholeKey()``.
        adaptive_filters: filters learn to deny absent keys that they let pass, so a popular absent key
            costs few block reads.  Only the filters in memory learn; closing forgets.  Needs
            ``filter_policy="ribbon"``, ``filter_residency="resident"``, ``filter_granularity="block"``
            and whole keys; has no effect on tables with other filters.  False.

    Compaction
        compaction: ``"leveled"`` for reads, ``"tiered"`` for writes, ``"lazy-leveled"`` in between (Dayan
            and Idreos, SIGMOD 2018).  ``"leveled"``.
        size_ratio: T, the size of each level relative to the level above it.  10.
        level0_compaction_trigger: number of runs at which level 0 is compacted.  4.
        level0_slowdown_trigger: number of runs on level 0 from which each write is delayed.  12.
        level0_stop_trigger: number of runs on level 0 at which writers wait.  24.
        level1_size_bytes: target size of level 1 in a leveled tree; about what level 0 gathers while
            writers are busy.  512 MiB.
        read_compaction_rate_bytes: a lookup that finds nothing in a run pays for merging so many
            bytes of a leveled tree.  When enough is paid for, the topmost level is merged into the
            next although neither is full.  0: reads cause no compactions.  1 KiB.
        table_size_bytes: size at which a compaction starts another table file.  64 MiB.

    Background work
        background: run flushes and compactions in a ``"thread"``, or in a ``"process"`` for each of
            the two.  Processes leave this interpreter to the program, and take memory of their own.
            ``"thread"``.
        process_job_size_bytes: with ``background="process"``, a flush or compaction that reads less
            runs in a thread.  1 MiB.

    Object storage
        request_timeout_s: the longest wait for one request, in seconds, with all its retries; then
            reads raise TimeoutError.  One attempt may take a quarter of it; uploads may take four times
            as long.  60.
        request_retries: how often a request that failed is sent again, later each time.  8.
        disk_cache_path: a directory that keeps blocks, indexes and filters which were read from object
            storage; processes may share it.  None keeps nothing.  None.
        disk_cache_size_bytes: the most that all files in it take; the oldest are dropped.  1 GiB.

    Files
        file_mode: permission bits of new files, whatever the umask.  0o600: the owner alone.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: an option lies outside its range.

    >>> Options(error_rate=0.001).error_rate
    0.001
    >>> Options(error_rate=1.5)
    Traceback (most recent call last):
        ...
    ValueError: error_rate=1.5: must lie between 0 and 1, both excluded
    """

    write_buffer_size_bytes: int = 64 * MIB
    max_immutable_memtables: int = 2
    memory_budget_bytes: int = 0
    block_size_bytes: int = 4 * KIB
    block_cache_size_bytes: int = 64 * MIB
    compression: Compression = "zstd"
    compression_level: int = 3
    compression_dictionary_size_bytes: int = 0
    direct_reads: bool = False
    read_around: bool = True
    error_rate: float = 0.01
    filter_residency: FilterResidency = "resident"
    filter_granularity: FilterGranularity = "block"
    filter_allocation: FilterAllocation = "uniform"
    filter_policy: FilterPolicyName | str = "bloom"
    filter_key: FilterKey = WholeKey()
    adaptive_filters: bool = False
    compaction: CompactionStyle = "leveled"
    size_ratio: int = 10
    level0_compaction_trigger: int = 4
    level0_slowdown_trigger: int = 12
    level0_stop_trigger: int = 24
    level1_size_bytes: int = 512 * MIB
    read_compaction_rate_bytes: int = KIB
    table_size_bytes: int = 64 * MIB
    background: Background = "thread"
    process_job_size_bytes: int = MIB
    request_timeout_s: int = 60
    request_retries: int = 8
    disk_cache_path: str | None = None
    disk_cache_size_bytes: int = 1024 * MIB
    file_mode: int = 0o600

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            number = getattr(self, name)
            if type(number) is not int:
                raise TypeError(f"{name}={number!r}: must be an int")
            if not low <= number <= high:
                raise ValueError(f"{name}={number!r}: must lie between {low} and {high}")
        filter_policies = tuple(policy.name for policy in policies())
        for name, choices in (*_CHOICES.items(), ("filter_policy", filter_policies)):
            choice = getattr(self, name)
            if choice not in choices:
                raise ValueError(
                    f"{name}={choice!r}: must be one of {', '.join(map(repr, choices))}"
                )
        for name in _FLAGS:
            flag = getattr(self, name)
            if type(flag) is not bool:
                raise TypeError(f"{name}={flag!r}: must be a bool")
        rate = self.error_rate
        if type(rate) is not float and type(rate) is not int:
            raise TypeError(f"error_rate={rate!r}: must be a float")
        if not 0.0 < rate < 1.0:
            raise ValueError(f"error_rate={rate!r}: must lie between 0 and 1, both excluded")
        if not isinstance(self.filter_key, FilterKey):
            raise TypeError(
                f"filter_key={self.filter_key!r}: must be WholeKey(), FixedPrefix(n) "
                "or DelimitedPrefix(delimiter, count)"
            )
        cache = self.disk_cache_path
        if cache is not None and (not isinstance(cache, str) or not cache):
            raise TypeError(f"disk_cache_path={cache!r}: must be the path of a directory, as a str")
        least = 2 * self._memtable_limit * _RANGES["write_buffer_size_bytes"][0]
        if 0 < self.memory_budget_bytes < least:
            raise ValueError(
                f"memory_budget_bytes={self.memory_budget_bytes!r}: must be 0 or at least {least} "
                f"with max_immutable_memtables={self.max_immutable_memtables}"
            )
        for name, needed in _ADAPTIVE.items():
            choice = getattr(self, name)
            if self.adaptive_filters and choice != needed:
                raise ValueError(
                    f"adaptive_filters=True: needs {name}={needed!r}, not {choice!r}; "
                    f"set both, or leave adaptive_filters out"
                )
        if not (
            self.level0_compaction_trigger
            <= self.level0_slowdown_trigger
            <= self.level0_stop_trigger
        ):
            raise ValueError(
                f"level0_compaction_trigger={self.level0_compaction_trigger}, "
                f"level0_slowdown_trigger={self.level0_slowdown_trigger}, "
                f"level0_stop_trigger={self.level0_stop_trigger}: must not descend"
            )

    def replace(self, **changes: Any) -> Self:
        """A copy with some options changed; errors are those of the constructor."""
        check_names(changes)
        return dataclasses.replace(self, **changes)

    @property
    def _memtable_limit(self) -> int:
        """How many memtables there may be: one takes writes, the others wait for their flush."""
        return self.max_immutable_memtables + 1

    def within_budget(self) -> Self:
        """These options, with write buffer and cache as the budget allows."""
        budget = self.memory_budget_bytes
        if not budget:
            return self
        buffer = min(self.write_buffer_size_bytes, budget // 2 // self._memtable_limit)
        lowered = dataclasses.replace(self, write_buffer_size_bytes=buffer)
        cache = min(self.block_cache_size_bytes, lowered.table_budget_bytes)
        return dataclasses.replace(lowered, block_cache_size_bytes=cache)

    @property
    def table_budget_bytes(self) -> int:
        """What the budget leaves to block cache, filters and indexes; without one, no limit."""
        if not self.memory_budget_bytes:
            return _RANGES["memory_budget_bytes"][1]
        return self.memory_budget_bytes - self._memtable_limit * self.write_buffer_size_bytes

    @classmethod
    def hbase(cls) -> Self:
        """HBase's shape: blocks of 64 KiB, tables of 1 GiB, an error rate of 1 %, no compression."""
        return cls(
            block_size_bytes=64 * KIB,
            table_size_bytes=1024 * MIB,
            error_rate=0.01,
            compression="none",
        )

    @classmethod
    def small_memory(cls) -> Self:
        """A few MiB of memory: small buffers, tables and cache.

        Indexes and filters come on top, some 2 and 1.2 MiB for a million keys of 16 bytes and values of
        100.  Filters that share so small a cache with blocks cost more reads than they spare
        (``docs/memory.md``).
        """
        return cls(
            write_buffer_size_bytes=MIB,
            max_immutable_memtables=1,
            block_cache_size_bytes=MIB,
            table_size_bytes=4 * MIB,
            level1_size_bytes=8 * MIB,
        )

    @classmethod
    def write_heavy(cls) -> Self:
        """For many more writes than reads: runs pile up, except on the last level."""
        return cls(compaction="lazy-leveled", filter_allocation="monkey", size_ratio=6)


def check_names(given: Iterable[str], *, besides: Sequence[str] = ()) -> None:
    """Refuse unknown option names with a TypeError, which suggests similar ones.

    ``besides`` are names that it may suggest, too.
    """
    known = [field.name for field in dataclasses.fields(Options)]
    unknown = sorted(set(given) - set(known))
    if not unknown:
        return
    from difflib import get_close_matches  # here, because most programs never need it

    found = [get_close_matches(name, [*known, *besides], n=1) for name in unknown]
    meant = [repr(name) for names in found for name in names]
    advice = f"did you mean {' and '.join(meant)}?" if meant else "see lsmkv.Options"
    raise TypeError(f"no such option: {', '.join(unknown)} ({advice})")
