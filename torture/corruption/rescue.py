"""Entries and records that a repair must save from a damaged sample."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lsmkv.salvage.report import LostRange, RepairReport
from lsmkv.sstable.block.trailer import TRAILER_BYTES
from lsmkv.sstable.format import FOOTER_BYTES
from torture.corruption.answers import open_sample
from torture.corruption.damage import Damaged
from torture.corruption.expected import allowed_states, whole_records
from torture.corruption.samples import BlockModel, Entry, Sample, TableModel
from torture.framework.changes import Contents, difference


@dataclass(slots=True)
class Survivors:
    """The undamaged rest of a sample.

    Attributes:
        entries: entries of undamaged blocks.
        lost: table number and entry of each entry in damaged blocks.
        record_count: records of the log before the first damaged one.
        operation_count: operations in these records.
    """

    entries: list[Entry]
    lost: list[tuple[int, Entry]]
    record_count: int
    operation_count: int


def survivors(sample: Sample, damaged: Damaged) -> Survivors:
    """Compare every block and record of the sample with the damaged files."""
    found = Survivors([], [], 0, 0)
    for name, table in sample.tables.items():
        old, new = sample.image[name], damaged.image.get(name, b"")
        dictionary_is_whole = _dictionary_is_whole(table, old, new)
        for block in table.blocks:
            if _is_whole(block, old, new) and (dictionary_is_whole or not block.needs_dictionary):
                found.entries += block.entries
            else:
                found.lost += [(table.number, entry) for entry in block.entries]
    old, new = sample.image[sample.log], damaged.image.get(sample.log, b"")
    found.record_count = whole_records(sample.records, old, new)
    found.operation_count = sum(
        len(record.operations) for record in sample.records[: found.record_count]
    )
    return found


def _is_whole(block: BlockModel, old: bytes, new: bytes) -> bool:
    """Whether payload and trailer are undamaged, but for the filter's checksum: repair can rebuild it."""
    payload, trailer = (
        slice(block.start, block.filter_start),
        slice(block.end - TRAILER_BYTES, block.end - 4),
    )
    is_there = len(new) >= block.end
    return is_there and new[payload] == old[payload] and new[trailer] == old[trailer]


def _dictionary_is_whole(table: TableModel, old: bytes, new: bytes) -> bool:
    """Whether the dictionary, and the footer that locates it, are undamaged."""
    section = slice(table.footer.data_length, table.footer.filters_offset)
    return (
        len(new) == len(old)
        and new[-FOOTER_BYTES:] == old[-FOOTER_BYTES:]
        and new[section] == old[section]
    )


def check_repaired(
    sample: Sample, damaged: Damaged, report: RepairReport, output: Path
) -> list[str]:
    """Problems of the repaired store and of the repair's report."""
    expected = survivors(sample, damaged)
    failures: list[str] = []
    with open_sample(output, "resident", read_only=True) as db:
        contents = dict(db.items())
        backwards = dict(db.items(reverse=True))
        looked_up = {key: db.get(key) for key in sample.all_keys()}
        if not (verified := db.verify()).ok:
            failures.append(f"the repaired store does not verify: {verified}")
    if backwards != contents or looked_up != {key: contents.get(key) for key in looked_up}:
        failures.append("lookups and scans of the repaired store differ")
    wanted = sample.state_after(expected.record_count, expected.entries)
    if contents != wanted:
        failures.append(f"the repaired store: {difference(contents, wanted)}")
    failures += _check_report(sample, damaged, report, expected, contents)
    return failures


def _check_report(
    sample: Sample, damaged: Damaged, report: RepairReport, expected: Survivors, contents: Contents
) -> list[str]:
    failures: list[str] = []
    if report.entries_kept != len(expected.entries):
        failures.append(
            f"{report.entries_kept} entries reported kept, {len(expected.entries)} are undamaged"
        )
    is_known = report.manifest is not None  # without a manifest, repair cannot know them all
    told = report.entries_lost
    if told != len(expected.lost) and (
        is_known or (told is not None and told > len(expected.lost))
    ):
        failures.append(f"{report.entries_lost} entries reported lost, not {len(expected.lost)}")
    if report.log_operations_kept != expected.operation_count:
        failures.append(
            f"{report.log_operations_kept} operations reported kept, "
            f"{expected.operation_count} are undamaged"
        )
    for table, (key, _, _) in expected.lost:
        if not any(lost.table == table and _spans(lost, key) for lost in report.lost_ranges):
            failures.append(f"the loss of {key!r} in table {table} is not reported")
            break
    allowed = allowed_states(sample, damaged)
    if report.is_complete and contents not in allowed:
        failures.append("the report says that nothing is lost, but entries are missing")
    if not report.log_bytes_lost:
        right = allowed[0] if allowed else sample.contents
        for key in sample.all_keys():
            is_told = any(_spans(lost, key) for lost in report.lost_ranges)
            if contents.get(key) != right.get(key) and not is_told:
                failures.append(f"the value of {key!r} has changed, but no lost range includes it")
                break
    return failures


def _spans(lost: LostRange, key: bytes) -> bool:
    return (lost.first is None or lost.first <= key) and (lost.last is None or key <= lost.last)
