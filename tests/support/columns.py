"""Versions between the two forms that tests write them in and the store handles them in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lsmkv.encoding.entry_batch import EntryBatch, Version


def as_columns(rows: Sequence[Version]) -> EntryBatch:
    """One stretch of versions, of which any key may stand more than once."""
    return EntryBatch(
        [key for key, _, _ in rows],
        [value for _, value, _ in rows],
        [seq for _, _, seq in rows],
        may_repeat=True,
    )


def as_rows(stretches: Iterable[EntryBatch]) -> list[Version]:
    """What stands in any number of stretches."""
    return [row for stretch in stretches for row in stretch.rows()]
