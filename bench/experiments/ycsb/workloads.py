"""The workloads, and their lists of operations, made before the clock starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal

import numpy

from ...workloads import distributions
from ...workloads.distributions import Numbers, generator
from ...workloads.keys import Values
from .keys import absent_keys

VALUE_BYTES: Final = 1000  # ten fields of 100 bytes, stored as one value
LONGEST_SCAN: Final = 100
_VALUE_NUMBERS: Final = 1 << 20


class Kind(IntEnum):
    """A kind of operation."""

    READ = 0
    UPDATE = 1
    INSERT = 2
    SCAN = 3
    RMW = 4


@dataclass(frozen=True, slots=True)
class Workload:
    """A mix of operations.

    Attributes:
        name: one letter.
        mix: the proportions of reads, updates, inserts, scans and read-modify-writes.
        request: the distribution of the requested records.
        absent: the operations use the absent keys next to the records' keys.
    """

    name: str
    title: str
    mix: tuple[float, float, float, float, float]
    request: Literal["zipfian", "latest"] = "zipfian"
    absent: bool = False


WORKLOADS: Final = {
    workload.name: workload
    for workload in (
        Workload("A", "update heavy", (0.5, 0.5, 0, 0, 0)),
        Workload("B", "read mostly", (0.95, 0.05, 0, 0, 0)),
        Workload("C", "read only", (1, 0, 0, 0, 0)),
        Workload("N", "absent keys", (1, 0, 0, 0, 0), absent=True),
        Workload("F", "read-modify-write", (0.5, 0, 0, 0, 0.5)),
        Workload("D", "read latest", (0.95, 0, 0.05, 0, 0), "latest"),
        Workload("E", "short ranges", (0, 0, 0.05, 0.95, 0)),
    )
}
"""In the order of measurement.  A to F are YCSB's; N is ours, reads of absent keys."""


def register(workload: Workload) -> Workload:
    """Add ``workload``, which runs last.  ValueError: its name or proportions are wrong."""
    if len(workload.name) != 1 or workload.name in WORKLOADS:
        taken = "".join(WORKLOADS)
        raise ValueError(f"name={workload.name!r}: must be one letter, and none of {taken}")
    if min(workload.mix) < 0 or abs(sum(workload.mix) - 1) > 1e-9:
        raise ValueError(f"mix={workload.mix!r}: must not be negative, and add up to 1")
    WORKLOADS[workload.name] = workload
    return workload


LOAD: Final = "load"


@dataclass(frozen=True, slots=True)
class Operations:
    """A list of operations, as parallel sequences.

    Attributes:
        kinds: :class:`Kind` as plain numbers.
        values: written values; empty for operations that do not write.
        lengths: lengths of scans; 0 for other operations.
        numbers: record numbers (with ``absent``, those of the keys' neighbours).
        value_numbers: numbers of the written values; -1 for operations that do not write.
    """

    kinds: list[int]
    keys: list[bytes]
    values: list[bytes]
    lengths: list[int]
    numbers: Numbers
    value_numbers: Numbers

    def __len__(self) -> int:
        return len(self.kinds)

    def count(self, kind: Kind) -> int:
        return self.kinds.count(kind)


def loading(keys: Sequence[bytes], values: Values) -> Operations:
    """Insert every record in order of numbers: a random key order."""
    numbers = numpy.arange(len(keys))
    return Operations(
        [int(Kind.INSERT)] * len(keys),
        list(keys),
        [values.of(number) for number in range(len(keys))],
        [0] * len(keys),
        numbers,
        numbers,
    )


def operations_of(
    workload: Workload, keys: Sequence[bytes], records: int, count: int, values: Values, seed: str
) -> Operations:
    """``count`` operations on a store of the first ``records`` of ``keys``; others are inserted."""
    draw = generator("ycsb", seed, workload.name)
    bounds = numpy.cumsum(workload.mix)
    kinds = numpy.minimum(numpy.searchsorted(bounds, draw.random(count), side="right"), Kind.RMW)
    inserts = kinds == Kind.INSERT
    present = records + numpy.cumsum(inserts) - inserts
    if workload.request == "latest":
        numbers = distributions.latest(present, draw)
    else:
        # Room for twice the expected inserts, as in YCSB.
        keyspace = records + int(count * workload.mix[Kind.INSERT] * 2)
        numbers = distributions.scrambled_present(present, keyspace, draw)
    numbers[inserts] = present[inserts]
    lengths = distributions.scan_lengths(LONGEST_SCAN, count, draw)
    lengths[kinds != Kind.SCAN] = 0
    value_numbers = distributions.uniform(_VALUE_NUMBERS, count, draw)
    value_numbers[(kinds == Kind.READ) | (kinds == Kind.SCAN)] = -1
    if workload.absent:
        asked = absent_keys(numbers, len(keys))
    else:
        asked = [keys[number] for number in numbers.tolist()]
    return Operations(
        kinds.tolist(),
        asked,
        [b"" if number < 0 else values.of(number) for number in value_numbers.tolist()],
        lengths.tolist(),
        numbers,
        value_numbers,
    )


def most_inserts(workload: Workload, count: int) -> int:
    """An upper bound of the inserts in ``count`` operations."""
    share = workload.mix[Kind.INSERT]
    return min(count, int(2 * share * count) + 100) if share else 0
