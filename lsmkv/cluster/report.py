"""What a build did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WrittenPartition:
    """What one task has written.

    Attributes:
        tables: the number of its tables.
        rows: pairs that came to the partition; repeated ones of one part of the source count once.
        entries: its distinct keys.
        raw_bytes: bytes of the keys and values written.
        size_bytes: bytes of the table files.
        seconds: time to sort and write them.
        peak_memory_bytes: the worker's largest resident size until then, whatever it did.
    """

    tables: int
    rows: int
    entries: int
    raw_bytes: int
    size_bytes: int
    seconds: float
    peak_memory_bytes: int


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What :func:`lsmkv.cluster.build` did.

    Attributes:
        pairs: the pairs of the source.
        entries: the distinct keys among them, which the store now has.
        source_bytes: bytes of the source's keys and values, repeated ones included.
        size_bytes: bytes of the tables.
        tables: their number.
        generation: the one that was published; None for a directory.
        partitions: what each partition held, in key order.
        sampling_s, writing_s, adopting_s: time to read and sample the source; to read it again, shuffle
            it, and write the tables; to adopt them.
    """

    pairs: int
    entries: int
    source_bytes: int
    size_bytes: int
    tables: int
    generation: int | None
    partitions: tuple[WrittenPartition, ...]
    sampling_s: float
    writing_s: float
    adopting_s: float

    @property
    def repeated(self) -> int:
        """The pairs whose key a later one had, too."""
        return self.pairs - self.entries

    @property
    def imbalance(self) -> float:
        """The largest partition by the mean, in bytes of keys and values."""
        sizes = [partition.raw_bytes for partition in self.partitions]
        return max(sizes) * len(sizes) / sum(sizes) if sum(sizes) else 1.0

    @property
    def peak_memory_bytes(self) -> int:
        """The largest resident size of a worker that wrote tables."""
        return max((partition.peak_memory_bytes for partition in self.partitions), default=0)
