"""The rows of ``bulk``: one for each way and repetition."""

from __future__ import annotations

from dataclasses import dataclass

from bench.harness.records import column, optional
from lsmkv.options import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One load of all entries into an empty store."""

    way: str = column("how the entries were loaded", "setting", heading="way")
    repetition: int = column("which repetition", "setting")
    entries: int = column("entries loaded", "setting", form=",")
    value_bytes: int = column("bytes of each value; keys have 16", "setting")
    seed: int = column("what decided keys, values and order", "setting")

    seconds: float = column(
        "until the store is settled, without making the pairs", "time", heading="s", form=".1f"
    )
    pairs_s: float = column("making the pairs alone, which is subtracted", "time", form=".2f")
    cpu_s: float = column(
        "CPU seconds of all threads, with making the pairs", "time", heading="CPU s", form=".1f"
    )
    peak_memory_bytes: int = column(
        "peak resident memory of the process",
        "time",
        heading="memory, MiB",
        form=lambda size: f"{size / MIB:,.0f}",
    )
    table_bytes: int = column(
        "files of the settled store", heading="store, MiB", form=lambda size: f"{size / MIB:,.1f}"
    )
    written_bytes: int | None = optional(
        "bytes that the process has handed to the operating system (wchar)", "time"
    )
    counted_bytes: int | None = optional(
        "bytes of logs, tables and runs that the store has counted itself"
    )

    @property
    def written_by_tables(self) -> float | None:
        return None if self.written_bytes is None else self.written_bytes / self.table_bytes

    @property
    def counted_by_tables(self) -> float | None:
        return None if self.counted_bytes is None else self.counted_bytes / self.table_bytes
