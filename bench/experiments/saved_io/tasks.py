"""The configurations of ``saved-io``, quick and full."""

from __future__ import annotations

from dataclasses import dataclass

from lsmkv.options import KIB

from ...workloads.key_files import KeyFiles


@dataclass(frozen=True, slots=True)
class StoreTask:
    """One store, and the lookups in it.

    Attributes:
        entries: ``paths`` may have fewer.
        runs: sorted runs, each of which spans all keys.
        error_rate: None: tables without filters.
        lookups: counted lookups for each hit ratio.
        cold_lookups: those that the operating system counts too.
        own: the files of the data set ``yours``.
        limited_lookups: timed lookups with less memory than data; None: not asked for.
    """

    dataset: str
    entries: int
    block_size_bytes: int
    runs: int
    policy: str
    error_rate: float | None
    hit_ratios: tuple[float, ...]
    lookups: int
    cold_lookups: int
    seed: int
    own: KeyFiles | None = None
    limited_lookups: int | None = None

    def __str__(self) -> str:
        rate = "no filter" if self.error_rate is None else f"p {self.error_rate * 100:g} %"
        return (
            f"{self.dataset}, {self.block_size_bytes // KIB} KiB, {self.runs} runs, "
            f"{self.policy} {rate}"
        )


@dataclass(frozen=True, slots=True)
class EqualTask:
    """Ribbon filters beside Bloom filters of 1 %, at equal rate and in equal bytes."""

    dataset: str
    entries: int
    block_size_bytes: int
    runs: int
    lookups: int
    seed: int

    def __str__(self) -> str:
        kib = self.block_size_bytes // KIB
        return f"{self.dataset}, {kib} KiB, {self.runs} runs, ribbon beside bloom"

    def store(self, policy: str, error_rate: float) -> StoreTask:
        """The store with such filters."""
        return StoreTask(
            self.dataset, self.entries, self.block_size_bytes, self.runs, policy, error_rate, (0.0,),
            self.lookups, 0, self.seed,
        )  # fmt: skip


Task = StoreTask | EqualTask
