"""Options: every setting of a store, frozen and validated, with named presets."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, TypedDict, Unpack, get_args

from lsmkv.filters.keys import FilterKey, WholeKey
from lsmkv.filters.policy import AUTO, chosen_policy, policies

Compression = Literal["none", "zstd"]
CompactionStyle = Literal["leveled", "tiered", "lazy-leveled"]
FilterResidency = Literal["resident", "cached", "off"]
FilterGranularity = Literal["block", "table"]
FilterAllocation = Literal["uniform", "monkey"]
Background = Literal["auto", "thread", "process"]
FilterPolicyName = Literal["auto", "none", "bloom", "ribbon", "grafite"]
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
    "filter_memory_bytes": (0, 1 << 50),
    "compression_level": (-50, 22),
    "compression_dictionary_size_bytes": (0, MIB),
    "size_ratio": (2, 100),
    "level0_compaction_trigger": (1, 10_000),
    "level0_slowdown_trigger": (1, 10_000),
    "level0_stop_trigger": (1, 10_000),
    "level1_size_bytes": (4 * KIB, 1 << 50),
    "read_compaction_rate_bytes": (0, 1 << 50),
    "table_size_bytes": (4 * KIB, 1 << 40),
    "process_job_size_bytes": (0, 1 << 50),
    "request_timeout_s": (1, 3600),
    "request_retries": (0, 100),
    "disk_cache_size_bytes": (MIB, 1 << 50),
    "max_open_files": (0, 1 << 30),
    "file_mode": (0o400, 0o777),
}

_MAX_TTL_S: Final = 1 << 39  # half of what an expiry can be (lsmkv.encoding.expiry)
_FLAGS: Final = ("fit_pages", "direct_reads", "read_around", "adaptive_filters")

# The names of plyvel, RocksDB and LMDB: the option meant, or what to do instead.
_NAMES_ELSEWHERE: Final = {
    "bits_per_key": "10 bits a key are error_rate=0.01",
    "bloom_filter_bits": "10 bits a key are error_rate=0.01",
    "cache_size": "block_cache_size_bytes",
    "comparator": "keys are in the order of their bytes",
    "lru_cache_size": "block_cache_size_bytes",
    **dict.fromkeys(("map_size", "size_limit"), "stores grow by themselves: leave it out"),
    **dict.fromkeys(("p", "fpr", "fp_rate", "false_positive_rate"), "error_rate"),
    **dict.fromkeys(("ttl", "expire", "ttl_s"), "default_ttl_s"),
    **dict.fromkeys(("flag", "mode"), "read_only=True reads; create_if_missing=, error_if_exists="),
    "max_bytes_for_level_base": "level1_size_bytes",
    "max_bytes_for_level_multiplier": "size_ratio",
    "max_dbs": "parts of a store are db.prefixed(prefix)",
    "max_file_size": "table_size_bytes",
    "max_write_buffer_number": "max_immutable_memtables",
    **dict.fromkeys(("memtable_size", "memtable_size_bytes"), "write_buffer_size_bytes"),
    "paranoid_checks": "checksums are always checked: leave it out",
    "sync": "an argument of each write: put(key, value, sync=True)",
    "target_file_size_base": "table_size_bytes",
    **dict.fromkeys(
        (
            "clock",
            "create_if_missing",
            "error_if_exists",
            "on_event",
            "read_only",
            "refresh_every_s",
            "wait_s",
        ),
        "an argument of lsmkv.open",
    ),
}

# What somebody means who gives something else for options, by its type.
_NO_OPTIONS: Final[dict[type, str]] = {
    str: "; to read alone: lsmkv.open(path, read_only=True)",
    dict: "; a dict of options is given as **options",
}

# Choices without filters, which could learn or have memory.
_WITHOUT_FILTERS: Final = {"filter_policy": "none", "filter_residency": "off"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a store is written and read.

    A store may be opened with other options at any time.  Data on disk keeps its form until a compaction
    rewrites it.  Sizes are in bytes; the default of each option ends its description.

    Writing:
        write_buffer_size_bytes: size of a log, at which it and its memtable are set aside to be
            flushed.  Larger ones make fewer, larger runs, take more memory, and make opening after a
            crash slower.  64 MiB.
        max_immutable_memtables: writers wait while so many full memtables are being flushed.  2.
        default_ttl_s: how many seconds what is put is there, unless the put tells something else; None:
            it does not expire.  None.

    Memory:
        memory_budget_bytes: the most that memtables, block cache, filters and indexes take together, as
            ``DB.memory_usage`` counts them.  Half of it is for memtables.  Indexes and resident filters
            of the tables in use may take the rest, the cache has what they leave, and once they took
            three quarters, filters of further tables are read through the cache (the log tells).
            Indexes stay in memory in any case.  Not counted: Python's objects around keys and values in
            memtables, what flushes, compactions, scans and ``bulk_load`` work with, helper processes,
            and tables that only snapshots, cursors and iterators still read.  0: no budget.

    Blocks:
        block_size_bytes: size of a data block as stored, compressed and with its filter.  Before
            compression it is at most three times that.  Smaller blocks make lookups cheaper and indexes
            larger.  4 KiB.
        fit_pages: end blocks where pages of 4 KiB end, so that to look a key up reads one page where
            blocks are no larger and entries are small.  Entries above 500 bytes cross into a second page
            more often the larger they are (``docs/performance.md``).  Zeros fill what is left of a page,
            up to 384 bytes: 1 to 3 % of a table, rarely 7 %.  False closes each block once its keys and
            values, and 7 bytes for each entry, reach ``block_size_bytes`` before compression.  True.
        block_cache_size_bytes: memory for uncompressed blocks (and, with
            ``filter_residency="cached"``, for filters), and for single entries that lookups read.  Which
            of them get more is found by what they would spare.  64 MiB.
        compression: ``"zstd"`` or ``"none"``.  ``"zstd"``.
        compression_level: the level of zstd.  Higher ones compress better and more slowly.  3.
        compression_dictionary_size_bytes: size of a dictionary that each table trains from its first
            blocks, for small values that resemble each other.  0: no dictionary.
        direct_reads: read tables with ``O_DIRECT``, bypassing the page cache of the operating system:
            for measurements.  False.
        read_around: once many single blocks of a table were read, have the operating system prefetch
            its other blocks, one MiB at a time.  Has no effect with ``direct_reads``, or while all
            tables take more than half of the memory that other programs, or the limit of this process's
            control group, leave.  Ends when the operating system has dropped what was prefetched.  True.

    Filters:
        error_rate: false-positive rate p for which filters are sized, 0 < p < 1.  A tenth of it costs
            4.8 bits more for each key.  0.001.
        filter_residency: ``"resident"`` keeps every filter in memory, from the first use of its table
            on; ``"cached"`` reads them through the block cache; ``"off"`` does not use them.  Tables
            contain filters all the same.  ``"resident"``.
        filter_granularity: one filter per ``"block"`` or one per ``"table"``.  ``"block"``.
        filter_allocation: ``"uniform"`` gives every level the same p; ``"monkey"`` gives larger runs a
            higher p, in the same total memory (Dayan, Athanassoulis, Idreos, SIGMOD 2017).
            ``"monkey"``.
        filter_memory_bytes: the size of all filters and indexes together, in place of ``error_rate`` and
            ``filter_allocation``.  New tables get the rates that waste the fewest reads in it: lower
            ones in small runs, and where lookups ask more often for absent keys.  A table has one rate,
            so a store of one table (``table_size_bytes``) saves nothing.  A compaction of the whole
            store (``compact_range(force=True)``) makes indexes and Bloom or ribbon filters that large,
            within 2 % where tables have thousands of keys.  Before it they may take more: 2.0 times as
            much in a store of 100,000 keys that were written again.  Other kinds have a least size for
            each filter (4 bits a key with ``"grafite"``); indexes that exceed the budget leave no
            filters.  No rate is below 1e-6.  What has no budget uses ``error_rate``: ``bulk_load`` of an
            iterable without a length, ``TableWriter``, the newest writes in a backup.  0: no such budget.
        filter_policy: kind of filter in new tables: ``"bloom"``; ``"ribbon"`` (fewest bits; rates are
            powers of two, at least 2^-31, so each block has one of two, with ``error_rate`` as mean);
            ``"auto"`` (Bloom in what flushes write, ribbon in other tables; Bloom in all where lsmkv is
            not compiled); ``"grafite"`` (answers short ranges of numbers, too, where keys that end in one
            have one length: of k numbers at a rate of at most k p; only per block, and of whole keys);
            ``"none"``; or the name of a registered one (:func:`lsmkv.filters.policy.register`).
            ``"auto"``.
        filter_key: the part of each key that filters contain: ``WholeKey()``, or, for scans of
            prefixes too, ``FixedPrefix(n)`` or ``DelimitedPrefix(delimiter, count)``.  ``WholeKey()``.
        adaptive_filters: absent keys that filters let pass are listed and denied from then on, so a
            popular one costs one block read.  The list is in memory, a few bytes for each, at most 64
            KiB for a table; closing forgets.  Has no effect on tables without filters.  False.

    Compaction:
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

    Background work:
        background: run flushes and compactions in a ``"thread"``, or in a ``"process"`` for each of
            the two; ``"auto"`` runs large compactions in a process, where there is a second core and a
            process can be started, and all else in threads, unless busy threads of the program starve
            it there.  Where a process fails at a job, or is killed, a thread does the job, and all
            jobs for five minutes (``lsmkv.HelperFailed``); ``"process"`` then takes no more writes.
            A process leaves this interpreter to the program, takes memory of its own, which no budget
            counts (up to some 40 MiB for compactions, a memtable's for a flush), and ends after a
            minute without work.  ``"auto"``.
        process_job_size_bytes: without ``background="thread"``, a flush or compaction that reads less
            runs in a thread.  8 MiB.

    Object storage:
        request_timeout_s: the longest wait for one request, in seconds, with all its retries; then
            reads raise TimeoutError.  One attempt may take a quarter of it; uploads may take four times
            as long.  60.
        request_retries: how often a request that failed is sent again, later each time.  8.
        disk_cache_path: a directory that keeps blocks, indexes and filters which were read from object
            storage; processes and stores may share it.  Where it cannot be used, less is kept, and
            ``Stats.disk_cache_failures`` counts that.  None keeps nothing.  None.
        disk_cache_size_bytes: the most that all files in it take; the oldest are dropped.  1 GiB.

    Files:
        max_open_files: how many tables are kept open; beyond that, those not read lately are closed, and
            opened again when they are read, in some 10 us.  Tables that were replaced and are still read
            count, too; lock, manifest and logs do not.  A reader beside a writer keeps what it has open;
            of what it had to close and the writer has removed, a read raises OSError (``ESTALE``), and
            ``refresh()`` helps.  0: all stores of this process that leave it at 0 share half of the
            descriptors that the process may have (its soft limit, ``ulimit -n``).  0.
        file_mode: permission bits of new files, whatever the umask; new directories have them, too, and
            whoever may read may enter.  Where a file system refuses such bits, its own count.  0o600:
            the owner alone.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: an option lies outside its range.

    >>> Options(error_rate=0.001).error_rate
    0.001
    >>> Options(error_rate=1.5)
    Traceback (most recent call last):
        ...
    ValueError: error_rate=1.5: must lie between 0 and 1, both excluded (no filters: filter_policy='none')
    """

    write_buffer_size_bytes: int = 64 * MIB
    max_immutable_memtables: int = 2
    default_ttl_s: float | None = None
    memory_budget_bytes: int = 0
    block_size_bytes: int = 4 * KIB
    fit_pages: bool = True
    block_cache_size_bytes: int = 64 * MIB
    compression: Compression = "zstd"
    compression_level: int = 3
    compression_dictionary_size_bytes: int = 0
    direct_reads: bool = False
    read_around: bool = True
    error_rate: float = 0.001
    filter_residency: FilterResidency = "resident"
    filter_granularity: FilterGranularity = "block"
    filter_allocation: FilterAllocation = "monkey"
    filter_memory_bytes: int = 0
    filter_policy: FilterPolicyName | str = "auto"
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
    background: Background = "auto"
    process_job_size_bytes: int = 8 * MIB
    request_timeout_s: int = 60
    request_retries: int = 8
    disk_cache_path: str | None = None
    disk_cache_size_bytes: int = 1024 * MIB
    max_open_files: int = 0
    file_mode: int = 0o600

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            number = getattr(self, name)
            if type(number) is not int:
                raise TypeError(f"{name}={number!r}: must be an int")
            if not low <= number <= high:
                raise ValueError(f"{name}={number!r}: must lie between {low} and {high}")
        filter_policies = (AUTO, *(policy.name for policy in policies()))
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
            raise ValueError(
                f"error_rate={rate!r}: must lie between 0 and 1, both excluded "
                "(no filters: filter_policy='none')"
            )
        ttl_s = self.default_ttl_s
        if ttl_s is not None and (isinstance(ttl_s, bool) or not isinstance(ttl_s, (int, float))):
            raise TypeError(f"default_ttl_s={ttl_s!r}: must be a number of seconds, or None")
        if ttl_s is not None and not (0 < ttl_s <= _MAX_TTL_S or ttl_s == math.inf):
            raise ValueError(
                f"default_ttl_s={ttl_s!r}: must be above 0, up to {_MAX_TTL_S}; None: no expiry"
            )
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
        for name, choice in _WITHOUT_FILTERS.items():
            if getattr(self, name) != choice:
                continue
            if self.adaptive_filters:
                raise ValueError(
                    f"adaptive_filters=True: {name}={choice!r} leaves no filters to learn; "
                    f"choose another, or leave adaptive_filters out"
                )
            if self.filter_memory_bytes:
                raise ValueError(
                    f"filter_memory_bytes={self.filter_memory_bytes!r}: {name}={choice!r} uses no "
                    "filters; choose another, or leave filter_memory_bytes out"
                )
        if chosen_policy(self.filter_policy, is_flush=False).answers_ranges and (
            self.filter_granularity != "block" or not self.filter_key.is_whole
        ):
            raise ValueError(
                f"filter_policy={self.filter_policy!r}: needs filter_granularity='block' and "
                f"filter_key=WholeKey(), not {self.filter_granularity!r} and {self.filter_key!r}"
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

    def replace(self, **changes: Unpack[OptionsDict]) -> Self:
        """A copy with some options changed; errors are those of the constructor."""
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
        """Memory for block cache, filters and indexes; without a budget, no limit."""
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
        """A few MiB of memory: small buffers, tables and cache, and no helper process.

        Indexes and filters come on top, some 0.3 and 1.3 to 1.7 MiB for a million keys of 16 bytes and
        values of 100.  Filters that share so small a cache with blocks cost more reads than they spare
        (``docs/tuning.md``).
        """
        return cls(
            write_buffer_size_bytes=MIB,
            max_immutable_memtables=1,
            block_cache_size_bytes=MIB,
            table_size_bytes=4 * MIB,
            level1_size_bytes=8 * MIB,
            background="thread",
        )

    @classmethod
    def write_heavy(cls) -> Self:
        """For many more writes than reads: runs pile up, except on the last level."""
        return cls(compaction="lazy-leveled", filter_allocation="monkey", size_ratio=6)


class OptionsDict(TypedDict, total=False):
    """Some options by name: what ``**options`` is to type checkers.

    The names and types of :class:`Options`; a program uses it to hand options on:
    ``def opened(path: str, **options: Unpack[lsmkv.OptionsDict]) -> lsmkv.DB``.
    """

    write_buffer_size_bytes: int
    max_immutable_memtables: int
    default_ttl_s: float | None
    memory_budget_bytes: int
    block_size_bytes: int
    fit_pages: bool
    block_cache_size_bytes: int
    compression: Compression
    compression_level: int
    compression_dictionary_size_bytes: int
    direct_reads: bool
    read_around: bool
    error_rate: float
    filter_residency: FilterResidency
    filter_granularity: FilterGranularity
    filter_allocation: FilterAllocation
    filter_memory_bytes: int
    filter_policy: FilterPolicyName | str
    filter_key: FilterKey
    adaptive_filters: bool
    compaction: CompactionStyle
    size_ratio: int
    level0_compaction_trigger: int
    level0_slowdown_trigger: int
    level0_stop_trigger: int
    level1_size_bytes: int
    read_compaction_rate_bytes: int
    table_size_bytes: int
    background: Background
    process_job_size_bytes: int
    request_timeout_s: int
    request_retries: int
    disk_cache_path: str | None
    disk_cache_size_bytes: int
    max_open_files: int
    file_mode: int


def chosen_options(
    options: object, overrides: OptionsDict, *, besides: Iterable[str] = ()
) -> Options:
    """``options``, or the defaults for None, with some of them replaced.

    TypeError, ValueError: something is wrong.  ``besides`` are names that the error may suggest, too.
    """
    if options is None:
        options = Options()
    if not isinstance(options, Options):
        advice = _NO_OPTIONS.get(type(options), "")
        raise TypeError(f"options is an lsmkv.Options, not {type(options).__name__}{advice}")
    _check_names(overrides, besides)
    return options.replace(**overrides)


def _check_names(given: Iterable[str], besides: Iterable[str] = ()) -> None:
    """Refuse unknown option names with a TypeError that says what to do."""
    known = [*_NAMES, *besides]
    unknown = sorted(set(given).difference(known))
    if unknown:
        told = [f"{name} ({_advice(name, known)})" for name in unknown]
        raise TypeError(f"no such option: {', '.join(told)}")


def _advice(name: str, known: list[str]) -> str:
    from difflib import get_close_matches  # here, because most programs never need it

    similar = get_close_matches(name, known, n=1) or ["see lsmkv.Options"]
    advice = _NAMES_ELSEWHERE.get(name, similar[0])
    return f"did you mean {advice!r}?" if advice in known else advice


_NAMES: Final = [field.name for field in dataclasses.fields(Options)]
_make = Options.__init__


@functools.wraps(_make)
def _made(self: Options, *values: object, **options: Any) -> None:
    """The constructor of the dataclass, with errors that say what to do."""
    if values:
        raise TypeError(f"options have names, as in error_rate=0.01: {values[0]!r} has none")
    _check_names(options)
    _make(self, **options)


Options.__init__ = _made  # type: ignore[method-assign]
