"""The rows of ``budget``: one for each spread of lookups, memory, and allocation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.harness.records import column


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What lookups read in one store: as its levels are, and compacted to one run."""

    hot_share: float = column("lookups in a tenth of the key range", "setting")
    allocation: str = column(
        "monkey: rates as the runs' sizes; budget: filter_memory_bytes, after as many lookups",
        "setting",
        heading="filters",
    )
    bits_per_key: float = column("bits per key that were asked for", "setting")
    key_count: int = column("entries", "setting")
    lookup_count: int = column("lookups of absent keys that were counted", "setting")
    seed: int = column("what decided the order of keys and lookups", "setting")

    tree_runs: int = column("runs of the tree before it was compacted", heading="runs")
    tree_bits_per_key: float = column(
        "bits of its filters by entries", heading="bits\n/key", form=".2f"
    )
    tree_wasted_reads: int = column(
        "data blocks that lookups read in it, block cache off", form=","
    )
    tables: int = column("tables of the compacted run")
    filter_bytes: int = column("size of its filters", form=",")
    wasted_reads: int = column("data blocks that lookups read in it, block cache off", form=",")

    @property
    def built_bits_per_key(self) -> float:
        """Bits per key of the compacted run's filters."""
        return 8 * self.filter_bytes / self.key_count

    @property
    def reads(self) -> float:
        """Data blocks that a lookup reads in the compacted run."""
        return self.wasted_reads / self.lookup_count

    @property
    def tree_reads(self) -> float:
        """Data blocks that a lookup reads in the tree."""
        return self.tree_wasted_reads / self.lookup_count


def join(pairs: Iterable[tuple[Row, ...]]) -> list[Row]:
    return [row for rows in pairs for row in rows]
