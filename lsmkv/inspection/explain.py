"""Explains one lookup: where it looks, what filters answer, what it reads."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal

from lsmkv.encoding.entries import Absent
from lsmkv.encoding.expiry import Expiring, Held, Moment
from lsmkv.encoding.text_form import shortened, to_text
from lsmkv.filters.hashing import hash_key
from lsmkv.filters.policy import GRAFITE, RIBBON
from lsmkv.inspection.drawing import Fate, Line, Row, drawn, laid_out
from lsmkv.inspection.report import IndexAndFilters, Report, count, size, utc
from lsmkv.inspection.store_info import Scope, bits_of_key, filter_rate, filter_shape
from lsmkv.read.view import SuperVersion
from lsmkv.sstable.entry_cache import EntryCache
from lsmkv.sstable.reader import TableReader
from lsmkv.tree.version import Run

Verdict = Literal["none", "off", "lost", "no", "maybe"]
Role = Literal["active", "flushing"]
Outcome = Literal["found", "expired", "deleted", "absent"]
RunOutcome = Literal["found", "expired", "deleted", "absent", "no table", "filtered"]

_COLUMNS: Final = 80
_SHOWN_KEY_BYTES: Final = 300  # more than fit
_PARAMETERS: Final = {RIBBON.name: "r", GRAFITE.name: "l"}
_IS_THERE: Final[dict[Outcome, str]] = {
    "found": "is in this store",
    "expired": "has expired",
    "deleted": "was deleted",
    "absent": "is not in this store",
}
_ENDS: Final[dict[RunOutcome, str]] = {
    "found": "found",
    "expired": "expired",
    "deleted": "deleted",
    "absent": "not there",
    "no table": "no table spans the key",
    "filtered": "not read",
}


@dataclass(frozen=True, slots=True)
class MemtableStep(Report):
    """The lookup in one memtable.

    Attributes:
        role: ``"active"``, or ``"flushing"`` while its table is being written.
        log_number: the log with the same writes.
        outcome: ``"found"``, ``"expired"``, ``"deleted"``, or ``"absent"`` when it has no entry for the
            key.
        first_seq: sequence number of the first write that it can hold.  The entry found is no older
            (memtables do not keep the number of each write).
    """

    role: Role
    log_number: int
    entry_count: int
    outcome: Outcome
    first_seq: int

    def row(self) -> Row:
        """This step in a picture."""
        return ("memtable", "aside" if self.outcome == "absent" else "found", _ENDS[self.outcome])

    def __str__(self) -> str:
        return laid_out([self._line()])[0]

    def _line(self) -> Line:
        keys = count(self.entry_count, "key")
        flushing = ", being flushed" if self.role == "flushing" else ""
        sign = " " if self.outcome == "absent" else "+"
        return Line(sign, "memtable", "", "", f"{keys}{flushing}: {_ENDS[self.outcome]}")

    def _details(self) -> str:
        return f"the {self.role} one, of log {self.log_number}"


@dataclass(frozen=True, slots=True)
class FilterStep(Report):
    """The answer of a filter.

    Attributes:
        verdict: ``"no"`` or ``"maybe"``; ``"none"`` if there is no filter; ``"off"`` if the store was
            opened with filters off; ``"lost"`` if it is damaged in every copy.
        policy: the name of its policy (``Options.filter_policy``).
        scope: whether it is the filter of a ``"block"`` or of the whole ``"table"``.
        key_count, bit_count, probe_count: its n, m and k.  n is None if only the block has it and the
            block was not read.  In place of k a ribbon filter has columns, a Grafite filter
            the low bits of a code.
        expected_rate: its exact false-positive rate, where n is known.
        read_bytes: bytes of filters read from disk for it; 0 if they are resident (a table's first
            lookup loads them, which is not counted here).
        probes: the key's bits in a Bloom filter, numbered from 0, in ascending order.  Two of its k
            probes may be the same bit.  Empty for other filters.
        unset_probes: those that are not set; one is enough for a no.
        was_learnt: whether the no comes from the list of absent keys that the filter let pass before
            (``Options.adaptive_filters``).
    """

    verdict: Verdict
    policy: str
    scope: Scope
    key_count: int | None
    bit_count: int
    probe_count: int
    expected_rate: float | None
    read_bytes: int
    probes: tuple[int, ...] = ()
    unset_probes: tuple[int, ...] = ()
    was_learnt: bool = False

    @property
    def was_asked(self) -> bool:
        """Whether it gave an answer."""
        return self.verdict in ("no", "maybe")

    def __str__(self) -> str:
        if self.verdict == "none":
            return "no filter"
        known = "n unknown" if self.key_count is None else f"n={self.key_count}"
        parameter = _PARAMETERS.get(self.policy, "k")
        shape = f"{known}, m={count(self.bit_count, 'bit')}, {parameter}={self.probe_count}"
        if self.expected_rate is not None:
            shape += f", p={self.expected_rate:.3%}"
        if self.verdict == "off":
            return f"{self.scope} filter off ({shape})"
        if self.verdict == "lost":
            return f"{self.scope} filter lost: damaged in every copy ({shape})"
        read = f", {count(self.read_bytes, 'byte')} of filters read" if self.read_bytes else ""
        learnt = ", by what it learnt" if self.was_learnt else ""
        probed = ""
        if self.probes:
            bits, unset = (" ".join(map(str, those)) for those in (self.probes, self.unset_probes))
            probed = f", bits {bits}: " + (f"{unset} not set" if unset else "all set")
        return f"{self.scope} filter says {self.verdict}{learnt} ({shape}{read}){probed}"


@dataclass(frozen=True, slots=True)
class BlockStep(Report):
    """A block that was searched.

    Attributes:
        number: its number in the table, from 0.
        offset, length_bytes: its place in the file.
        was_cached: whether it was in the cache; otherwise ``length_bytes`` were read.
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
class RunStep(IndexAndFilters):
    """The lookup in one run.

    Attributes:
        table, file_name: the table of the run that spans the key; None if none does.
        block: the block that may hold the key by the index; None if there is no table, or if the filter
            of the whole table answered no before the index was searched.
        filter: the answer of the filter; None if the lookup did not reach it.
        blocks: the blocks searched (several only for an old version of a key that has many).
        outcome: ``"found"``, ``"expired"`` and ``"deleted"`` end the lookup.  ``"absent"``: a block was
            searched and lacks the key.  ``"no table"`` and ``"filtered"``: there was no block to search.
        seq: sequence number of the version found; 0 once compaction found that no snapshot needs it.
        spanning: the block that a lookup without filters would search; None if there is no table.
            ``was_cached`` is as of when the lookup came to this run.
        entry_count, block_count, index_bytes, filter_bytes: of the table; 0 if there is none.
    """

    derived: ClassVar[tuple[str, ...]] = ("is_false_positive", *IndexAndFilters.derived)

    level: int
    run: int
    table: int | None
    file_name: str | None
    block: int | None
    filter: FilterStep | None
    blocks: tuple[BlockStep, ...]
    outcome: RunOutcome
    seq: int | None
    spanning: BlockStep | None
    entry_count: int = 0
    block_count: int = 0
    index_bytes: int = 0
    filter_bytes: int = 0

    @property
    def is_false_positive(self) -> bool:
        """Whether the filter answered maybe and the key was not there."""
        if self.filter is None or self.filter.verdict != "maybe":
            return False
        return self.outcome == "absent"

    @property
    def is_read_saved(self) -> bool:
        """Whether a filter's no saved reading a block from disk."""
        spanning = self.spanning
        return self.outcome == "filtered" and spanning is not None and not spanning.was_cached

    def row(self) -> Row:
        """This step in a picture."""
        name = f"level {self.level}, run {self.run}"
        if self.outcome == "no table":
            return name, "aside", self._ending()
        if self.outcome == "filtered":
            if self.spanning is None or self.spanning.was_cached:
                return name, "aside", f"the filter said no: {self._ending()}"
            spared = f"{self.spanning.length_bytes:,} bytes not read"
            return name, "avoided", f"the filter said no: {spared}"
        blocks = ", ".join(map(str, self.blocks))
        fate: Fate = "wasted" if self.outcome == "absent" else "found"
        return name, fate, f"{blocks}: {self._ending()}"

    def _ending(self) -> str:
        spanning = self.spanning
        if self.outcome == "filtered" and spanning is not None and spanning.was_cached:
            return "in the cache"
        return _ENDS[self.outcome]

    def __str__(self) -> str:
        return laid_out([self._line()])[0]

    def _line(self) -> Line:
        sign = "-" if self.is_read_saved else " "
        if self.blocks:
            sign = "!" if self.outcome == "absent" else "+"
        block = "" if self.block is None else f"block {self.block}"
        return Line(sign, f"L{self.level}/{self.run}", self.file_name or "", block, self._told())

    def _told(self) -> str:
        """The filter's answer, and its consequence."""
        ending = self._ending()
        if self.blocks:
            read_bytes = sum(block.read_bytes for block in self.blocks)
            how = f"{size(read_bytes)} read" if read_bytes else "cached"
            ending = f"{how}, {'wasted' if self.outcome == 'absent' else ending}"
        if self.filter is None:
            return ending
        verdict = self.filter.verdict
        if verdict == "none":
            return f"no filter: {ending}"
        learnt = " (learnt)" if self.filter.was_learnt else ""
        return f"filter {'says ' if self.filter.was_asked else ''}{verdict}{learnt}: {ending}"

    def _details(self) -> str:
        parts = [] if self.filter is None else [str(self.filter)]
        parts += map(str, self.blocks)
        if self.seq is not None:
            parts.append(f"sequence number {self.seq}")
        if self.table is not None:
            parts.append(f"of the table, {self.index_and_filters()}")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class Explanation(Report):
    """The read path of one lookup.

    Attributes:
        seq: the sequence number as of which.
        outcome: ``"found"``, ``"expired"``, ``"deleted"`` or ``"absent"`` (no entry for the key).
        value: the value; None unless it was found.
        expires_at_s: when the entry is or was due, in seconds since 1970; None: never.
        range_delete: the number of the newest range delete of the key, which hides all that is older;
            None without one.
        in_entry_cache: whether a lookup now finds the entry in the entry cache, and asks no run.
    """

    derived: ClassVar[tuple[str, ...]] = (
        "blocks_searched",
        "blocks_read",
        "read_bytes",
        "filters_asked",
        "filter_negatives",
        "false_positives",
        "reads_saved",
    )

    key: bytes
    seq: int
    memtables: tuple[MemtableStep, ...]
    runs: tuple[RunStep, ...]
    outcome: Outcome
    value: bytes | None
    expires_at_s: int | None = None
    range_delete: int | None = None
    in_entry_cache: bool = False

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
        """Filters that answered no."""
        return sum(step.outcome == "filtered" for step in self.runs)

    @property
    def false_positives(self) -> int:
        """Filters that answered maybe where the key was not there."""
        return sum(step.is_false_positive for step in self.runs)

    @property
    def reads_saved(self) -> int:
        """Data blocks that filters saved reading from disk."""
        return sum(step.is_read_saved for step in self.runs)

    def _repr_html_(self) -> str:
        rows = [*(step.row() for step in self.memtables), *(step.row() for step in self.runs)]
        steps = Report._repr_html_(self)
        return (
            drawn(self.key, _IS_THERE[self.outcome] + self._when(), self._answer(), rows)
            + f"<details><summary>every step</summary>{steps}</details>"
        )

    def _when(self) -> str:
        if self.expires_at_s is None:
            return ""
        when = "until" if self.outcome == "found" else "due since"
        return f", {when} {utc(self.expires_at_s)}"

    def _answer(self) -> str:
        """Who could have the key, what filters said, and what was read."""
        if any(step.outcome != "absent" for step in self.memtables):
            return "The memtable has it. 0 reads."
        if self.in_entry_cache:
            return "The entry cache has it. 0 reads."
        spanned = [step for step in self.runs if step.spanning is not None]
        denied = sum(step.outcome == "filtered" for step in spanned)
        asked = sum(step.filter is not None and step.filter.was_asked for step in spanned)
        parts = [f"{count(len(spanned), 'block') if spanned else 'No block'} could hold it."]
        if asked == 1 == len(spanned):
            parts.append(f"Its filter said {'no' if denied else 'maybe'}.")
        elif denied:
            maybe = f", {asked - denied:,} maybe" if asked > denied else ""
            parts.append(f"{count(denied, 'filter')} said no{maybe}.")
        elif asked:
            parts.append(f"{count(asked, 'filter')} said maybe.")
        wasted = sum(
            not block.was_cached
            for step in self.runs
            if step.outcome == "absent"
            for block in step.blocks
        )
        found = self.blocks_read - wasted
        reads = [f"{count(found, 'read')} found it"] if found else []
        reads += [count(wasted, "wasted read")] if wasted else []
        return " ".join([*parts, f"{', '.join(reads) or '0 reads'}."])

    def _blocks(self) -> Iterator[BlockStep]:
        for step in self.runs:
            yield from step.blocks

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, *, with_filters: bool = False) -> list[str]:
        """The text: the key, a line for each step, the totals.

        A step's line begins with its sign: ``-`` where a filter saved a read, ``!`` for a wasted
        search, ``+`` for the key's entry, else a space.  With ``with_filters`` indented lines after it
        tell more of its filter and blocks.
        """
        steps: list[MemtableStep | RunStep] = [*self.memtables, *self.runs]
        lines = [self._title()]
        for step, line in zip(steps, laid_out([step._line() for step in steps]), strict=True):
            lines.append(line)
            if with_filters:
                lines += textwrap.wrap(
                    step._details(), _COLUMNS, initial_indent="    ", subsequent_indent="      "
                )
        result: str = self.outcome
        saved = f"filters saved {self.reads_saved} of"
        if self.outcome == "deleted" and self.range_delete is not None:
            result = f"deleted, by range delete {self.range_delete} if by nothing newer"
        if self.value is not None:
            result = f"found, a value of {size(len(self.value))}"
        reads = count(self.reads_saved + self.blocks_read, "read")
        lines.append(f"{result}{self._when()}; {size(self.read_bytes)} read; {saved} {reads}")
        if self.in_entry_cache:
            lines.append("the entry cache has the entry: get asks no run")
        return lines

    def _title(self) -> str:
        ending = f" as of sequence number {self.seq}"
        text = to_text(self.key[:_SHOWN_KEY_BYTES])
        if len(text) > _COLUMNS - len("get ") - len(ending):
            ending = f" ({count(len(self.key), 'byte')}){ending}"
            text = shortened(text, _COLUMNS - len("get ") - len(ending))
        return f"get {text}{ending}"


def explain_lookup(
    current: SuperVersion, key: bytes, seq: int, moment: Moment, entries: EntryCache | None = None
) -> Explanation:
    """Report each step of a lookup as of ``seq``; it fills the cache, and counts reads alone."""
    memtable_steps: list[MemtableStep] = []
    run_steps: list[RunStep] = []
    in_entry_cache = False

    def explained(outcome: Outcome, held: Held) -> Explanation:
        due_s = held.expires_at_s if isinstance(held, Expiring) else None
        told = outcome, moment.value_of(held), due_s, erased_seq or None, in_entry_cache
        return Explanation(key, seq, tuple(memtable_steps), tuple(run_steps), *told)

    ranges = current.range_deletes
    erased_seq = 0 if ranges is None else ranges.newest_over(key, seq)
    for memtable in current.memtables:
        if memtable.entry_seq < erased_seq:
            return explained("deleted", None)
        held = memtable.get_at(key, seq)
        outcome: Outcome = "absent" if isinstance(held, Absent) else _outcome(held, moment)
        role: Role = "active" if memtable.log_number == current.memtable.log_number else "flushing"
        memtable_steps.append(
            MemtableStep(role, memtable.log_number, len(memtable), outcome, memtable.first_seq)
        )
        if not isinstance(held, Absent):
            return explained(outcome, held)
    h = hash_key(key)
    in_entry_cache = entries is not None and not erased_seq and entries.holds(key, h)
    for run in current.version.runs:
        table = run.table_for(key)
        if table is not None and table.meta.newest_seq < erased_seq:
            continue
        step, found = _search_run(run, key, h, seq, moment)
        run_steps.append(step)
        if step.outcome == "found" or step.outcome == "deleted" or step.outcome == "expired":
            if table is not None and max(step.seq or 0, table.meta.erased_seq) < erased_seq:
                break
            return explained(step.outcome, found)
    return explained("deleted" if erased_seq else "absent", None)


def _outcome(held: Held, moment: Moment) -> Literal["found", "expired", "deleted"]:
    if held is None:
        return "deleted"
    return "expired" if moment.value_of(held) is None else "found"


def _search_run(run: Run, key: bytes, h: int, seq: int, moment: Moment) -> tuple[RunStep, Held]:
    table = run.table_for(key)
    if table is None:
        nowhere = run.level, run.number, None, None, None
        return RunStep(*nowhere, None, (), "no table", None, None), None
    found_seq: int | None = None
    held: Held = None
    blocks: list[BlockStep] = []
    block_number: int | None = None
    asked: FilterStep | None = None
    outcome: RunOutcome
    filter_hash = table.filters.hash_of(key, h)
    last = int(table.index.find(key))
    first = int(table.index.find_first(key)) if table.has_versions else last
    spanning = _block_step(table, first)
    of_table = _ask(table, 0, filter_hash) if table.filters.per_table else None
    if of_table is not None and of_table.verdict == "no":
        asked, last = of_table, first - 1
    outcome = "filtered"
    for number in range(first, last + 1):
        block_number = number
        answer = of_table or _ask(table, number, filter_hash)
        if answer.verdict != "no" and table.filters.learnt.has(number, h):
            answer = replace(answer, verdict="no", was_learnt=True)
        if not blocks:  # that of the first block searched, or of the last one denied
            asked = answer
        if answer.verdict == "no":
            continue
        blocks.append(_block_step(table, number))
        block = table.block(number, True)
        position = -1  # of the newest visible version
        if seq >= table.meta.largest_seq:
            position = int(block.find(key, h))
        elif not table.one_seq:  # else the whole table is newer
            position = int(block.find_visible(key, h, seq))
        outcome = "absent"
        if answer.verdict == "maybe" and answer.key_count is None and len(blocks) == 1:
            keys = len(set(map(table.filters.filter_key.part, block.keys())))
            rate = filter_rate(table, answer.bit_count, keys, answer.probe_count)
            asked = replace(answer, key_count=keys, expected_rate=rate)
        if position >= 0:
            held, found_seq = block.value(position), block.seq(position)
            outcome = _outcome(held, moment)
            if table.one_seq:
                found_seq = table.largest_seq
            break
    number, file_name = table.meta.number, os.path.basename(table.path)
    place = run.level, run.number, number, file_name, block_number
    return RunStep(
        *place,
        asked,
        tuple(blocks),
        outcome,
        found_seq,
        spanning,
        table.meta.entry_count,
        table.properties.block_count,
        table.footer.index_length,
        table.footer.filters_length,
    ), held


def _block_step(table: TableReader, number: int) -> BlockStep:
    return BlockStep(
        number, table.index.offset(number), table.block_length(number), table.is_cached(number)
    )


def _ask(table: TableReader, number: int, filter_hash: int) -> FilterStep:
    """Ask the filter for a block, or the one of the table."""
    scope: Scope = "table" if table.properties.granularity == "table" else "block"
    bits, key_count, probes = filter_shape(table, number)
    policy = table.filter_policy.name
    if bits == 0:
        return FilterStep("none", policy, scope, None, 0, 0, None, 0)
    rate = None if key_count is None else filter_rate(table, bits, key_count, probes)
    if not table.filters.exist:
        return FilterStep("off", policy, scope, key_count, bits, probes, rate, 0)
    filters = table.filters
    read_bytes = filters.bytes_to_read(number)
    shape = policy, scope, key_count, bits, probes, rate, read_bytes
    content = filters.bits_of(number)
    if not content:
        return FilterStep("lost", *shape)
    key_bits = bits_of_key(policy, len(content), probes, filter_hash)
    unset = tuple(bit for bit in key_bits if not content[bit >> 3] >> (bit & 7) & 1)
    allows = table.filter_policy.may_contain(content, 0, len(content), probes, filter_hash)
    return FilterStep("maybe" if allows else "no", *shape, key_bits, unset)
