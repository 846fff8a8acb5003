"""Converts versions between rows, which tests write, and the store's batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lsmkv.encoding.entries import TAG_DELETE, Value
from lsmkv.encoding.entry_batch import Entry, EntryBatch


def as_columns(rows: Sequence[Entry]) -> EntryBatch:
    """One batch of versions, whose keys may repeat."""
    return EntryBatch.of(
        [key for key, _, _ in rows],
        [value for _, value, _ in rows],
        [seq for _, _, seq in rows],
        may_repeat=True,
    )


def as_rows(batches: Iterable[EntryBatch]) -> list[Entry]:
    """The versions of these batches, in order."""
    return [
        (batch.key(at), value, seq)
        for batch in batches
        for at, (value, seq) in enumerate(_values_and_seqs(batch))
    ]


def _values_and_seqs(batch: EntryBatch) -> Iterator[tuple[Value, int]]:
    seqs, ends = batch.copy_seqs(), batch.value_ends
    for slot in batch.order:
        deleted = batch.tags and batch.tags[slot] == TAG_DELETE
        start, end = ends[slot], ends[slot + 1]
        yield None if deleted else batch.value_data[start:end], seqs[slot]
