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
FilterPolicyName = Literal["none", "bloom", "blocked-bloom", "binary-fuse"]
"""The policies of this package; others may be registered."""

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

# Smallest and largest value of each whole-number option.
_RANGES: Final[dict[str, tuple[int, int]]] = {
    "write_buffer_size_bytes": (4 * KIB, 4096 * MIB),
    "max_immutable_memtables": (1, 64),
    "block_size_bytes": (256, 16 * MIB),
    "block_cache_size_bytes": (0, 1 << 50),
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
    "file_mode": (0o400, 0o777),
}

_FLAGS: Final = ("direct_reads", "read_around")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a store is written and read.

    None of them is bound to the data: a store may be opened with other options at any time.  What
    is on disk already keeps the form it was written in until compaction rewrites it.

    Writing
        write_buffer_size_bytes: log and memtable are replaced by fresh ones at this size; 64 MiB.
        max_immutable_memtables: writers stop while this many full memtables wait to be flushed; 2.

    Blocks
        block_size_bytes: a data block is closed once its keys and values, with 7 bytes for
            each entry, are this long, uncompressed and with prefixes not yet shared; 4 KiB.
        block_cache_size_bytes: budget for blocks (and, with ``filter_residency="cached"``, filters)
            kept in memory, uncompressed; 64 MiB.
        compression: ``"zstd"`` or ``"none"``.
        compression_level: zstd's; 3, its own default.
        compression_dictionary_size_bytes: train a dictionary of up to this size for each table from
            its own first blocks; 0 trains none.
        direct_reads: read tables with ``O_DIRECT``, past the page cache, so that the operating
            system's own count of bytes read can be held against ours; False.
        read_around: once many single blocks were read from a table, have the operating system fetch
            the rest of it into its page cache, by the MiB, as it is asked for; not with
            ``direct_reads``, nor while all tables take more than half of the machine's memory; True.

    Filters
        error_rate: false-positive rate p that filters are sized for, 0 < p < 1; 0.01.
        filter_residency: ``"resident"`` holds every filter in memory, from the first use of its
            table on; ``"cached"`` fetches them through the block cache, ``"off"`` ignores them (the
            data keeps them; answers are the same).
        filter_granularity: one filter per ``"block"`` or one per ``"table"``.
        filter_allocation: the same p for every level (``"uniform"``), or p growing with the size of
            a run at the same total memory (``"monkey"``: Dayan, Athanassoulis, Idreos, SIGMOD 2017).
        filter_policy: the kind of filter that tables are written with: ``"bloom"``,
            ``"blocked-bloom"`` (one cache line per look-up) or ``"binary-fuse"`` (fewest bits; rates of
            2^-8 and 2^-16); these two are for ``filter_granularity="table"`` above all.  ``"none"``
            writes no filters.  Others go by the name they were registered with
            (:func:`lsmkv.filters.policy.register`).
        filter_key: the part of the key that filters hold: ``WholeKey()``, ``FixedPrefix(n)`` or
            ``DelimitedPrefix(delimiter, count)``.

    Compaction
        compaction: ``"leveled"``, ``"tiered"`` or ``"lazy-leveled"`` (Dayan and Idreos, SIGMOD 2018).
        size_ratio: T, how many times larger each level is than the one above it; 10.
        level0_compaction_trigger: compact level 0 at this many runs; 4.
        level0_slowdown_trigger, level0_stop_trigger: from this many runs on, writers are slowed
            down, and stopped; 12 and 24.
        level1_size_bytes: leveled compaction's target for level 1; 512 MiB, about what level 0
            gathers while writers are busy.
        read_compaction_rate_bytes: leveled compaction merges the topmost level into the next, though
            neither is full, once look-ups have asked runs in vain so often that there is no more than
            this to merge for each time; 1 KiB.  0: reading compacts nothing.
        table_size_bytes: a compaction starts a new table file at this size; 64 MiB.

    Background work
        background: flush and compact in a ``"thread"`` of this process, or in a ``"process"`` of
            their own, one for flushes and one for compactions, which leave this interpreter to the
            caller and take memory of their own.
        process_job_size_bytes: with ``background="process"``, flushes and compactions that read
            less than this still run in a thread, and no process is started for them; 1 MiB.

    Files
        file_mode: permission bits of the files that are created; 0o600, the owner alone.

    Raises:
        TypeError, ValueError: an option has the wrong type, or lies outside its range.

    >>> Options(error_rate=0.001).error_rate
    0.001
    >>> Options(error_rate=1.5)
    Traceback (most recent call last):
        ...
    ValueError: error_rate=1.5: must lie between 0 and 1, both excluded
    """

    write_buffer_size_bytes: int = 64 * MIB
    max_immutable_memtables: int = 2
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
        """A copy with some options changed, validated anew.

        Raises:
            TypeError: a name is not an option's.
        """
        check_names(changes)
        return dataclasses.replace(self, **changes)

    @classmethod
    def hbase(cls) -> Self:
        """HBase's shape: 64 KiB blocks, 1 GiB tables (16384 blocks in each), 1 % error rate."""
        return cls(
            block_size_bytes=64 * KIB,
            table_size_bytes=1024 * MIB,
            error_rate=0.01,
            compression="none",
        )

    @classmethod
    def small_memory(cls) -> Self:
        """For a few MiB in all: small buffers and cache, filters fetched on demand."""
        return cls(
            write_buffer_size_bytes=MIB,
            max_immutable_memtables=1,
            block_cache_size_bytes=MIB,
            filter_residency="cached",
            table_size_bytes=4 * MIB,
            level1_size_bytes=8 * MIB,
        )

    @classmethod
    def write_heavy(cls) -> Self:
        """For loads that write much more than they read: runs pile up, the last level stays one run."""
        return cls(compaction="lazy-leveled", filter_allocation="monkey", size_ratio=6)


def check_names(given: Iterable[str], *, besides: Sequence[str] = ()) -> None:
    """Refuse names that are no option's, and say which may have been meant.

    Args:
        besides: other names that may have been meant.

    Raises:
        TypeError: a name is not an option's.
    """
    known = [field.name for field in dataclasses.fields(Options)]
    unknown = sorted(set(given) - set(known))
    if not unknown:
        return
    from difflib import get_close_matches  # what most programs never need

    found = [get_close_matches(name, [*known, *besides], n=1) for name in unknown]
    meant = [repr(name) for names in found for name in names]
    advice = f"did you mean {' and '.join(meant)}?" if meant else "see lsmkv.Options"
    raise TypeError(f"no such option: {', '.join(unknown)} ({advice})")
