"""The report of a publication; without ``obstore``, so that annotations may name it."""

from __future__ import annotations

from dataclasses import dataclass

from lsmkv.inspection.report import Report, count


@dataclass(frozen=True, slots=True)
class PublishReport(Report):
    """The report of a publication.

    Attributes:
        url: where the store is published.
        generation: the number of the newest generation, which holds the store.
        is_new: whether this publication made it; False if the newest one held the same tables.
        table_count, size_bytes: its tables.
        sent_count, sent_bytes: the tables that were not there yet.
        removed_generation_count, removed_table_count: what ``keep`` removed.
    """

    url: str
    generation: int
    is_new: bool
    table_count: int
    size_bytes: int
    sent_count: int
    sent_bytes: int
    removed_generation_count: int
    removed_table_count: int

    def __str__(self) -> str:
        made = "published" if self.is_new else "published already"
        removed = ""
        if self.removed_generation_count or self.removed_table_count:
            removed = (
                f"; removed {count(self.removed_generation_count, 'old generation')} and "
                f"{count(self.removed_table_count, 'table')}"
            )
        return (
            f"{self.url}: generation {self.generation} {made}, {count(self.table_count, 'table')} "
            f"of {count(self.size_bytes, 'byte')}; sent {count(self.sent_count, 'table')} "
            f"of {count(self.sent_bytes, 'byte')}{removed}"
        )
