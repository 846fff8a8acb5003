"""Changes of entries, made to a dict that models a store and to the store itself."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence

import lsmkv

Contents = dict[bytes, bytes]
"""The entries of a store."""

Change = tuple[bytes, bytes | None]
"""A key and its new value; None deletes the key."""


def change_model(model: MutableMapping[bytes, bytes], changes: Iterable[Change]) -> None:
    """Make ``changes`` to the model, in order."""
    for key, value in changes:
        if value is None:
            model.pop(key, None)
        else:
            model[key] = value


def change_batch(batch: lsmkv.WriteBatch, changes: Iterable[Change]) -> None:
    """Add ``changes`` to a batch, in order."""
    for key, value in changes:
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)


def write_batch(db: lsmkv.DB, changes: Iterable[Change], *, sync: bool = False) -> None:
    """Write ``changes`` as one batch."""
    with db.write_batch(sync=sync) as batch:
        change_batch(batch, changes)


def write(db: lsmkv.DB, changes: Sequence[Change], *, sync: bool = False) -> None:
    """Write one change with put or delete, and several as one batch."""
    if len(changes) != 1:
        write_batch(db, changes, sync=sync)
        return
    ((key, value),) = changes
    if value is None:
        db.delete(key, sync=sync)
    else:
        db.put(key, value, sync=sync)
