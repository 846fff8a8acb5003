"""What a damaged sample may still hold, told from the bytes of its logs, and when it may keep silent."""

from __future__ import annotations

from collections.abc import Sequence

from lsmkv.log.reader import HEADER_BYTES
from torture.corruption.damage import Damaged
from torture.corruption.samples import Contents, RecordModel, Sample


def allowed_states(sample: Sample, damaged: Damaged) -> list[Contents]:
    """What the damaged store may hold: none if it must not open.

    A store that was closed holds what it held.  The log of one that was killed ends at its first
    damaged record, unless a sync mark behind that is whole: then that is damage, not a torn end.
    """
    if sample.is_closed or sample.log not in damaged.files:
        return [sample.contents]
    old, new = sample.image[sample.log], damaged.image.get(sample.log, b"")
    if not _may_be_torn(sample.records, old, new):
        return []
    return [sample.state_after(whole_records(sample.records, old, new))]


def whole_records(records: Sequence[RecordModel], old: bytes, new: bytes) -> int:
    """How many records there are before the first that is not what it was."""
    if new[:HEADER_BYTES] != old[:HEADER_BYTES]:
        return 0
    for position, record in enumerate(records):
        if new[record.start : record.end] != old[record.start : record.end]:
            return position
    return len(records)


def _may_be_torn(records: Sequence[RecordModel], old: bytes, new: bytes) -> bool:
    """Whether no whole sync mark tells that more was on disk than the whole records at the start."""
    if new[:HEADER_BYTES] != old[:HEADER_BYTES]:
        return False
    whole = whole_records(records, old, new)
    durable = max(
        (
            record.durable
            for record in records
            if new[record.start : record.end] == old[record.start : record.end]
        ),
        default=0,
    )
    return whole == len(records) or durable <= records[whole].start


def may_be_silent(sample: Sample, damaged: Damaged) -> bool:
    """Whether nobody need notice the damage, as long as the answers are right.

    So it is with the lock file, with the last sync mark of a log that was closed, and with the ends
    of the others, which may have been cut short by a crash for all that anybody can tell.
    """
    for name in damaged.files:
        old, new = sample.image[name], damaged.image.get(name)
        if name == "LOCK" or new == old:
            continue
        records = sample.logs.get(name)
        if new is None or records is None:
            return False
        if name == sample.log and sample.is_closed:
            batches = sum(1 for record in records if not record.durable)
            whole = whole_records(records, old, new)
            if sum(1 for record in records[:whole] if not record.durable) < batches:
                return False
        elif not _may_be_torn(records, old, new):
            return False
    return True
