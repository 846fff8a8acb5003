"""Deletes ranges of keys: of few keys one by one, of more by a range delete.

A range delete takes the same time however much it hides, but it begins a memtable, and every lookup
beside it asks for it until compactions have applied it.  So whoever deletes a range looks for its first
keys.  If these are all, their deletions are written instead, unless anything was written meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lsmkv.encoding.range_deletes import KeyRange
from lsmkv.engine.readers import Readers
from lsmkv.engine.writer import Writer
from lsmkv.log.batch import Operation
from lsmkv.read.bounds import Bounds
from lsmkv.read.scan import Scan

_ATTEMPTS: Final = 3


class _WrittenMeanwhileError(Exception):
    pass


def delete_ranges(
    readers: Readers,
    writer: Writer,
    ranges: list[KeyRange],
    operations: list[Operation],
    sync: bool,
    check: Callable[[], None] | None = None,
) -> None:
    """Delete ranges, then apply operations in order; all or none."""
    state = writer.state
    state.check_for_writing()
    attempts = 0
    while attempts < _ATTEMPTS or not writer.rotates:  # at the program's end no memtable may begin
        try:
            _write_small(readers, writer, ranges, operations, sync, check)
            return
        except _WrittenMeanwhileError:
            attempts += 1
    writer.write_batch(operations, sync, check, ranges)


def _write_small(
    readers: Readers,
    writer: Writer,
    ranges: list[KeyRange],
    operations: list[Operation],
    sync: bool,
    check: Callable[[], None] | None,
) -> None:
    """As :func:`delete_ranges`, with the deletions of each key of small ranges."""
    state = writer.state
    seq, deletions, large = _looked_up(readers, writer, ranges)

    has_small = len(large) < len(ranges)
    writes = bool(deletions or operations or large)

    def check_all() -> None:
        # Also for a small range that was empty: something else is written in the same step.
        if has_small and writes and state.last_seq != seq:
            raise _WrittenMeanwhileError
        if check is not None:
            check()

    if writes:
        writer.write_batch(deletions + operations, sync, check_all, large)
    else:
        state.with_mutex(check_all)


def _looked_up(
    readers: Readers, writer: Writer, ranges: list[KeyRange]
) -> tuple[int, list[Operation], list[KeyRange]]:
    """A moment, deletions of all in small ranges then, the other ranges."""
    view = readers.read_view()
    deletions: list[Operation] = []
    large: list[KeyRange] = []
    for start, stop in ranges:
        found: list[Operation] = []
        for items in Scan(view, Bounds(start, stop)):
            found += [(key, None) for key, _ in items]
            if len(found) > writer.most_deletions and writer.rotates:
                large.append((start, stop))
                break
        else:
            deletions += found
    return view.seq, deletions, large
