"""Explaining one look-up: where it looks, what each filter says, what it reads.

The look-up is really made, step by step, through the memtables, fences, filters, cache and blocks
that ``get`` uses; it goes where ``get`` goes and stops where ``get`` stops.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal

from lsmkv.encoding.entries import Absent
from lsmkv.filters.hashing import hash_key
from lsmkv.inspection.report import Report, count
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.block.block import Block
from lsmkv.sstable.reader import TableReader
from lsmkv.tree.version import Run

Verdict = Literal["none", "off", "no", "maybe"]
Role = Literal["active", "flushing"]
Scope = Literal["block", "table"]
Outcome = Literal["found", "deleted", "absent"]
RunOutcome = Literal["found", "deleted", "absent", "no table", "gap", "filtered"]

_SHOWN_KEY_BYTES: Final = 60
_SAID: Final[dict[RunOutcome, str]] = {
    "found": "found",
    "deleted": "deleted here",
    "absent": "not there",
    "no table": "no table spans the key",
    "gap": "the key lies in the gap between two blocks",
    "filtered": "nothing read",
}


@dataclass(frozen=True, slots=True)
class MemtableStep(Report):
    """What one memtable knew.

    Attributes:
        role: ``"active"``, or ``"flushing"`` while its table is being written.
        log_number: the log that holds the same writes.
        entry_count: keys in it.
        outcome: ``"found"``, ``"deleted"``, or ``"absent"`` when it knows nothing of the key.
        first_seq: sequence number of the first write it can hold: what it returns is no older
            (memtables do not keep the number of each write).
    """

    role: Role
    log_number: int
    entry_count: int
    outcome: Outcome
    first_seq: int

    def __str__(self) -> str:
        said = _SAID[self.outcome]
        keys = count(self.entry_count, "key")
        return f"memtable, {self.role} (log {self.log_number}, {keys}): {said}"


@dataclass(frozen=True, slots=True)
class FilterStep(Report):
    """What a filter said.

    Attributes:
        verdict: ``"no"`` and ``"maybe"`` are answers; ``"none"``: there is no filter; ``"off"``:
            there is one, and the store was opened to ignore filters.
        scope: whether it is the filter of a ``"block"`` or of the whole ``"table"``.
        key_count, bit_count, probe_count: its n, m and k.  n is None when only the block, which was
            not read, could tell it.
        expected_rate: its exact false-positive rate, where n is known.
        read_bytes: bytes of filters read from disk to ask it; 0 when they were in memory.
    """

    verdict: Verdict
    scope: Scope
    key_count: int | None
    bit_count: int
    probe_count: int
    expected_rate: float | None
    read_bytes: int

    @property
    def was_asked(self) -> bool:
        """Whether there was a filter that gave an answer."""
        return self.verdict in ("no", "maybe")

    def __str__(self) -> str:
        if self.verdict == "none":
            return "no filter"
        known = "n unknown" if self.key_count is None else f"n={self.key_count}"
        shape = f"{known}, m={count(self.bit_count, 'bit')}, k={self.probe_count}"
        if self.expected_rate is not None:
            shape += f", p={self.expected_rate:.3%}"
        if self.verdict == "off":
            return f"{self.scope} filter off ({shape})"
        read = f", {count(self.read_bytes, 'byte')} of filters read" if self.read_bytes else ""
        return f"{self.scope} filter says {self.verdict} ({shape}{read})"


@dataclass(frozen=True, slots=True)
class BlockStep(Report):
    """A block that was searched.

    Attributes:
        number: its place in the table, from 0.
        offset, length_bytes: its place in the file.
        was_cached: whether it was in memory; otherwise ``length_bytes`` were read.
    """

    derived: ClassVar[tuple[str, ...]] = ("read_bytes",)

    number: int
    offset: int
    length_bytes: int
    was_cached: bool

    @property
    def read_bytes(self) -> int:
        """Bytes read from disk for it."""
        return 0 if self.was_cached else self.length_bytes

    def __str__(self) -> str:
        how = "cached" if self.was_cached else f"{count(self.length_bytes, 'byte')} read"
        return f"block {self.number} ({how})"


@dataclass(frozen=True, slots=True)
class RunStep(Report):
    """What the look-up did in one run.

    Attributes:
        level, run: which run.
        table, file_name: the table of the run that spans the key; None when none does.
        block: the block that spans the key by the fence keys; None when none does, or when a filter
            of the whole table said no before the fences were searched.
        filter: what the filter said; None when none was reached.
        blocks: the blocks searched (more than one only for old versions of a key that has many).
        outcome: ``"found"`` and ``"deleted"`` end the look-up; ``"absent"``: searched in vain;
            ``"no table"``, ``"gap"`` (between two blocks) and ``"filtered"``: nothing to search.
        seq: sequence number of the version found.  0 once compaction saw that nobody needs it.
    """

    derived: ClassVar[tuple[str, ...]] = ("is_false_positive",)

    level: int
    run: int
    table: int | None
    file_name: str | None
    block: int | None
    filter: FilterStep | None
    blocks: tuple[BlockStep, ...]
    outcome: RunOutcome
    seq: int | None

    @property
    def is_false_positive(self) -> bool:
        """Whether the filter said maybe and the key was not there."""
        if self.filter is None or self.filter.verdict != "maybe":
            return False
        return self.outcome in ("absent", "gap")

    def __str__(self) -> str:
        parts = [] if self.file_name is None else [self.file_name]
        if self.block is not None:
            parts.append(f"block {self.block}")
        if self.filter is not None:
            parts.append(str(self.filter))
        parts += map(str, self.blocks)
        said = _SAID[self.outcome]
        if self.seq is not None:
            said += f", sequence number {self.seq}"
        if self.is_false_positive:
            said += ": a false positive"
        return f"level {self.level}, run {self.run}: " + "; ".join([*parts, said])


@dataclass(frozen=True, slots=True)
class Explanation(Report):
    """The read path of one look-up.

    Attributes:
        key: what was looked for.
        seq: the sequence number as of which.
        memtables, runs: the steps, in the order in which they were made.
        outcome: ``"found"``, ``"deleted"`` or ``"absent"`` (no trace of the key).
        value: its value; None unless it was found.
    """

    derived: ClassVar[tuple[str, ...]] = (
        "blocks_searched",
        "blocks_read",
        "read_bytes",
        "filters_asked",
        "filter_negatives",
        "false_positives",
    )

    key: bytes
    seq: int
    memtables: tuple[MemtableStep, ...]
    runs: tuple[RunStep, ...]
    outcome: Outcome
    value: bytes | None

    @property
    def blocks_searched(self) -> int:
        """Data blocks searched, cached or not."""
        return sum(len(step.blocks) for step in self.runs)

    @property
    def blocks_read(self) -> int:
        """Data blocks read from disk."""
        return sum(not block.was_cached for block in self._blocks())

    @property
    def read_bytes(self) -> int:
        """Bytes read from disk, filters included."""
        asked = [step.filter.read_bytes for step in self.runs if step.filter is not None]
        return sum(asked) + sum(block.read_bytes for block in self._blocks())

    @property
    def filters_asked(self) -> int:
        """Filters that gave an answer."""
        return sum(step.filter is not None and step.filter.was_asked for step in self.runs)

    @property
    def filter_negatives(self) -> int:
        """Filters that said no, each of which saved a block."""
        return sum(step.outcome == "filtered" for step in self.runs)

    @property
    def false_positives(self) -> int:
        """Filters that said maybe where the key was not there."""
        return sum(step.is_false_positive for step in self.runs)

    def _blocks(self) -> Iterator[BlockStep]:
        for step in self.runs:
            yield from step.blocks

    def text(self) -> str:
        """One line for each step, and a line of totals."""
        shown = repr(self.key[:_SHOWN_KEY_BYTES])
        if len(self.key) > _SHOWN_KEY_BYTES:
            shown += f"... ({count(len(self.key), 'byte')})"
        result: str = self.outcome
        if self.value is not None:
            result = f"found, a value of {count(len(self.value), 'byte')}"
        totals = (
            f"{result}; filters asked: {self.filters_asked}, said no: {self.filter_negatives}, "
            f"false positives: {self.false_positives}; blocks searched: {self.blocks_searched}, "
            f"read: {self.blocks_read} ({count(self.read_bytes, 'byte')} read in all)"
        )
        steps = [f"  {step}" for step in (*self.memtables, *self.runs)]
        return "\n".join([f"get {shown} as of sequence number {self.seq}", *steps, totals])

    def __str__(self) -> str:
        return self.text()


def explain_lookup(current: SuperVersion, key: bytes, seq: int) -> Explanation:
    """Look ``key`` up in ``current`` as of sequence number ``seq``, and tell how it went.

    It reads what a look-up reads, fills the cache as one does, and counts as one in the counters
    of reads and of the cache; the counters of look-ups and of filter answers it leaves alone.

    O(runs log tables) and the blocks read.

    Raises:
        CorruptionError: a block or filter that the look-up needs is damaged.
        OSError: one cannot be read.
    """
    memtable_steps: list[MemtableStep] = []
    run_steps: list[RunStep] = []

    def explained(outcome: Outcome, value: bytes | None) -> Explanation:
        return Explanation(key, seq, tuple(memtable_steps), tuple(run_steps), outcome, value)

    for memtable in current.memtables:
        value = memtable.get_at(key, seq)
        outcome: Outcome = "absent"
        if not isinstance(value, Absent):
            outcome = "deleted" if value is None else "found"
        role: Literal["active", "flushing"] = (
            "active" if memtable is current.memtable else "flushing"
        )
        memtable_steps.append(
            MemtableStep(role, memtable.log_number, len(memtable), outcome, memtable.first_seq)
        )
        if not isinstance(value, Absent):
            return explained(outcome, value)
    h = hash_key(key)
    for run in current.version.runs:
        step, value = _search_run(run, key, h, seq)
        run_steps.append(step)
        if step.outcome == "found" or step.outcome == "deleted":
            return explained(step.outcome, value)
    return explained("absent", None)


def _search_run(run: Run, key: bytes, h: int, seq: int) -> tuple[RunStep, bytes | None]:
    """One run's part of the look-up, as :meth:`TableReader.get` goes about it."""
    table = run.table_for(key)
    if table is None:
        return RunStep(run.level, run.number, None, None, None, None, (), "no table", None), None
    found_seq: int | None = None
    value: bytes | None = None
    blocks: list[BlockStep] = []
    block_number: int | None = None
    asked: FilterStep | None = None
    outcome: RunOutcome
    filter_hash = table.filters.hash_of(key, h)
    if table.filters.per_table:
        asked = _ask(table, 0, filter_hash)
    if asked is not None and asked.verdict == "no":
        outcome = "filtered"
    elif (spanning := int(table.index.find(key))) < 0:
        outcome = "gap"
    else:
        block_number = spanning
        if asked is None:
            asked = _ask(table, block_number, filter_hash)
        if asked.verdict == "no":
            outcome = "filtered"
        else:
            block, position = _search_blocks(table, block_number, key, h, seq, blocks)
            outcome = "absent"
            if position >= 0:
                value, found_seq = block.value(position), block.seq(position)
                outcome = "deleted" if value is None else "found"
            if asked.verdict == "maybe" and asked.key_count is None and len(blocks) == 1:
                asked = _with_counted_keys(asked, table, block)
    number, file_name = table.meta.number, os.path.basename(table.path)
    place = run.level, run.number, number, file_name, block_number
    return RunStep(*place, asked, tuple(blocks), outcome, found_seq), value


def _search_blocks(
    table: TableReader, number: int, key: bytes, h: int, seq: int, steps: list[BlockStep]
) -> tuple[Block, int]:
    """The block in which the search ended, and where in it the version stands (-1: it does not)."""
    index = table.index
    is_newest = seq >= table.meta.largest_seq
    while True:
        offset = index.offset(number)
        length = index.offset(number + 1) - offset
        steps.append(BlockStep(number, offset, length, table.is_cached(number)))
        block = table.block(number, True)
        if is_newest:
            return block, int(block.find(key, h))
        position = int(block.find_visible(key, h, seq))
        number += 1
        if position >= 0 or number >= index.block_count or index.first_key(number) != key:
            return block, position


def _ask(table: TableReader, number: int, filter_hash: int) -> FilterStep:
    """Ask the filter for block ``number``; it may be the whole table's."""
    index, properties = table.index, table.properties
    key_count: int | None
    scope: Scope
    if properties.granularity == "table":
        scope = "table"
        key_count, probes = properties.filter_key_count, properties.probe_count
        bits = table.footer.filters_length * 8
    else:
        scope = "block"
        bits = int(index.filter_start(number + 1) - index.filter_start(number)) * 8
        probes = int(index.probe_count(number))
        counts_entries = table.filters.filter_key.is_whole and not properties.has_versions
        key_count = index.entry_count(number) if counts_entries else None
    if bits == 0:
        return FilterStep("none", scope, None, 0, 0, None, 0)
    rate = (
        None if key_count is None else table.filters.policy.exact_rate(bits // 8, key_count, probes)
    )
    verdict: Verdict = "off"
    read_bytes = 0
    if table.filters.exist:
        read_bytes = table.filters.bytes_to_read(number)
        verdict = "maybe" if table.filters.may_hold(number, filter_hash) else "no"
    return FilterStep(verdict, scope, key_count, bits, probes, rate, read_bytes)


def _with_counted_keys(asked: FilterStep, table: TableReader, block: Block) -> FilterStep:
    """The same with n, counted in the block that was read anyway."""
    key_count = len(set(map(table.filters.filter_key.part, block.keys())))
    rate = table.filters.policy.exact_rate(asked.bit_count // 8, key_count, asked.probe_count)
    return replace(asked, key_count=key_count, expected_rate=rate)
