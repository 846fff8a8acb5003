"""The allowed contents of a damaged sample, and silent damage."""

from __future__ import annotations

from collections.abc import Sequence

from lsmkv.log.reader import HEADER_BYTES
from torture.corruption.damage import Damaged
from torture.corruption.samples import RecordModel, Sample
from torture.framework.changes import Contents


def allowed_states(sample: Sample, damaged: Damaged) -> list[Contents]:
    """Contents that the damaged store may show: all, or without a log's torn end; none: no opening."""
    if sample.is_closed or sample.log not in damaged.files:
        return [sample.contents]
    old, new = sample.image[sample.log], damaged.image.get(sample.log, b"")
    if not _may_be_torn(sample.records, old, new):
        return []
    return [sample.state_after(whole_records(sample.records, old, new))]


def whole_records(records: Sequence[RecordModel], old: bytes, new: bytes) -> int:
    """The number of records before the first changed one."""
    if new[:HEADER_BYTES] != old[:HEADER_BYTES]:
        return 0
    for position, record in enumerate(records):
        if new[record.start : record.end] != old[record.start : record.end]:
            return position
    return len(records)


def _may_be_torn(records: Sequence[RecordModel], old: bytes, new: bytes) -> bool:
    """Whether a crash may have left ``new``: no whole sync mark vouches for a changed record."""
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
    """Whether damage may go unreported: in the lock, the last mark of a closed log, ends of others."""
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
