"""Changes of a model and a store, and their differences."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence
from typing import Final

import lsmkv
from torture.framework.part import UnsoundError

Contents = dict[bytes, bytes]  # the entries of a store
Change = tuple[bytes, bytes | None]  # a key and its new value; None deletes the key
_MOST_SHOWN: Final = 5
_SHOWN_BYTES: Final = 20


def change_model(model: MutableMapping[bytes, bytes], changes: Iterable[Change]) -> None:
    for key, value in changes:
        if value is None:
            model.pop(key, None)
        else:
            model[key] = value


def change_batch(batch: lsmkv.WriteBatch | lsmkv.Transaction, changes: Iterable[Change]) -> None:
    for key, value in changes:
        if value is None:
            batch.delete(key)
        else:
            batch.put(key, value)


def write_batch(db: lsmkv.DB, changes: Iterable[Change], *, sync: bool = False) -> None:
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


def check_contents(found: Contents, expected: Contents) -> None:
    """UnsoundError if the entries found are not those expected."""
    if found != expected:
        raise UnsoundError(difference(found, expected))


def difference(found: Contents, expected: Contents) -> str:
    """The keys with wrong values, in words."""
    keys = sorted(found.keys() | expected.keys())
    wrong = [key for key in keys if found.get(key) != expected.get(key)]
    shown = [
        f"{key!r} has {_shown(found.get(key))}, expected {_shown(expected.get(key))}"
        for key in wrong[:_MOST_SHOWN]
    ]
    return f"{len(wrong)} of {len(keys)} keys have a wrong value: {'; '.join(shown)}"


def _shown(value: bytes | None) -> str:
    if value is None:
        return "no value"
    return repr(value) if len(value) <= _SHOWN_BYTES else f"{value[:_SHOWN_BYTES]!r}..."
