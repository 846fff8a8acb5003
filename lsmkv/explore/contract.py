"""The data of the page: one typed structure, which Python writes and the page reads.

``web/src/contract.d.ts`` is generated from :func:`lsmkv.explore.schema.schema`, so both sides have the
same types.  A change of any field here changes :data:`VERSION`; a page refuses data of another version.

Bytes never travel as such.  Keys are text in the form of the command line (``\\xNN`` for what is not
printable UTF-8), cut to a length that fits on a screen, with their full length beside it.
"""

from __future__ import annotations

from typing import Final, Literal, TypeVar

import msgspec

VERSION: Final = 9

Verdict = Literal["none", "off", "lost", "no", "maybe"]
# Python writes no "unread" and "unknown": pages in files make such lookups, of keys that people type.
RunOutcome = Literal["found", "expired", "deleted", "absent", "no table", "filtered", "unread"]
Outcome = Literal["found", "expired", "deleted", "absent", "unknown"]
LookupKind = Literal["present", "absent", "false positive", "typed"]
StepKind = Literal["state", "flush", "compaction", "move"]


class Part(msgspec.Struct, forbid_unknown_fields=True):
    """Base of every part of the page's data; nobody changes one."""


P = TypeVar("P", bound=Part)


def part_of(kind: type[P], source: object, /, **others: object) -> P:
    """A part with ``others``; the other fields are those of ``source``."""
    names = [name for name in kind.__struct_fields__ if name not in others]
    fields = {name: getattr(source, name) for name in names}
    return msgspec.convert(fields | others, kind, from_attributes=True)


class Key(Part):
    """A key for the screen: ``text`` and ``hex`` are cut, ``byte_count`` is its whole length."""

    text: str
    hex: str
    byte_count: int


class Cells(Part):
    """The blocks of a table as columns: item i of each list describes cell i.

    A cell is one block, or, in large stores, several consecutive ones.

    Attributes:
        first_block: number of its first block; the cell ends where the next one begins.
        from_key, to_key: what none of its keys is below, and none above, as text.
        size_bytes: its blocks as stored.
        entry_count: entries, deletions and old versions included.
        filter_bits: m, summed over its blocks; 0 if the filter is the table's.
        parameter: k (columns, or width) of its first block's filter.
        rate: mean of the exact rates of its blocks' filters; None where it is unknown.
        start, end: where its keys lie on the axis of keys (:class:`StoreMap`).
        wasted: reads of its blocks by the page's lookups, for keys that were not there.
    """

    first_block: list[int]
    from_key: list[str]
    to_key: list[str]
    size_bytes: list[int]
    entry_count: list[int]
    filter_bits: list[int]
    parameter: list[int]
    rate: list[float | None]
    start: list[float]
    end: list[float]
    wasted: list[int]


class Table(Part):
    """One table; in stores of very many, ``table_count`` consecutive ones.

    The fields up to ``writer`` are those of ``TableInfo`` (summed, or of the first table).

    Attributes:
        codec: of its first block: ``"none"`` or ``"zstd"``; a block that does not shrink has none;
            ``"unknown"`` where that block is damaged.
        written_at_s: when its file was last written, in seconds since 1970; None if it has gone.
        start, end: where its keys lie on the axis of keys.
    """

    number: int
    file_name: str
    size_bytes: int
    entry_count: int
    tombstone_count: int
    smallest: Key
    largest: Key
    smallest_seq: int
    largest_seq: int
    block_count: int
    raw_bytes: int
    stored_bytes: int
    dictionary_bytes: int
    index_bytes: int
    filter_kind: str
    granularity: str
    filter_key: str
    filter_bytes: int
    filter_memory_bytes: int
    requested_rate: float
    expected_rate: float | None
    writer: str
    codec: str
    table_count: int
    written_at_s: float | None
    start: float
    end: float
    cells: Cells


class Run(Part):
    """One run; a higher number is newer within its level."""

    number: int
    size_bytes: int
    entry_count: int
    tables: list[Table]


class Level(Part):
    """One level, and its runs, newest first."""

    number: int
    size_bytes: int
    entry_count: int
    runs: list[Run]


class StoreMap(Part):
    """The store's shape.

    The axis of keys runs from 0 to 1: a key's place is the share of all stored bytes that lie in blocks
    whose first key is below it.  So one vertical line meets, in each run, the block that a lookup of
    that key would search.

    Attributes:
        memtable_key_counts: keys of each memtable, the active one first.
        blocks_per_cell: the most blocks in one cell; 1 where every block has its own.
    """

    memtable_key_counts: list[int]
    size_bytes: int
    entry_count: int
    index_bytes: int
    filter_bytes: int
    filter_memory_bytes: int
    table_count: int
    block_count: int
    blocks_per_cell: int
    levels: list[Level]


class Filter(Part):
    """The bits of one filter.

    Attributes:
        block: the block's number; None for the filter of a whole table.
        key_count: n; None if it is unknown.
        parameter: k of a Bloom filter, columns of a ribbon, low bits of Grafite's codes.
        rate: as the store expects it from n, m and k.
        set_bits: how many of all its bits are set.
        bits: its first ``shown_bits`` bits in base64; bit i is bit i mod 8 of byte i div 8.
    """

    table: int
    block: int | None
    policy: str
    key_count: int | None
    bit_count: int
    parameter: int
    rate: float | None
    set_bits: int
    shown_bits: int
    bits: str


class MemtableStep(Part):
    """The lookup in one memtable; see :class:`lsmkv.inspection.explain.MemtableStep`."""

    role: Literal["active", "flushing"]
    log_number: int
    entry_count: int
    outcome: Outcome
    first_seq: int


class FilterStep(Part):
    """The answer of a filter; see :class:`lsmkv.inspection.explain.FilterStep`.

    Attributes:
        part: the prefix of the key that the filter was asked for, as text; None for the whole key.
        holds_part: whether the block that was searched has a key with this prefix, so that the filter
            was right to let it pass.
    """

    verdict: Verdict
    policy: str
    scope: Literal["block", "table"]
    key_count: int | None
    bit_count: int
    probe_count: int
    expected_rate: float | None
    read_bytes: int
    probes: list[int]
    unset_probes: list[int]
    was_learnt: bool
    part: str | None = None
    holds_part: bool = False


class BlockStep(Part):
    """A block that was read; see :class:`lsmkv.inspection.explain.BlockStep`."""

    number: int
    offset: int
    length_bytes: int


class RunStep(Part):
    """The lookup in one run; see :class:`lsmkv.inspection.explain.RunStep`.

    Attributes:
        spanning_block: the block whose key range spans the key, which a lookup without filters would
            search; None if none does.  (``block`` is None too where the table's filter said no.)
        spanning_bytes: its size as stored; 0 if there is none.
        index_bytes_per_block: of the table.
    """

    level: int
    run: int
    table: int | None
    file_name: str | None
    block: int | None
    filter: FilterStep | None
    blocks: list[BlockStep]
    outcome: RunOutcome
    seq: int | None
    is_false_positive: bool
    spanning_block: int | None
    spanning_bytes: int
    index_bytes_per_block: float


class Lookup(Part):
    """One lookup without a block cache, step by step: ``DB.explain``, and what else it could have read.

    Attributes:
        kind: what the key was picked as; ``"absent"`` ones are drawn whether or not a filter lets them
            pass, so that their reads are a fair sample.
        position: the key's place on the axis of keys.
        value_text: the value as text, cut; None unless it was found.
        value_bytes: the value's whole size; 0 unless it was found.
        expires_at_s: when the entry is or was due, in seconds since 1970; None: never.
        blocks_searched, blocks_read, read_bytes, filters_asked, filter_negatives, false_positives:
            the totals of ``Explanation``.
        reads_without_filters: blocks that span the key, up to where the lookup ended: with filters off
            it would have read each.
        read_bytes_without_filters: their size as stored.
        rebuilt: for each of ``Page.rates`` the items of ``runs`` in which a Bloom filter of that rate,
            built of the spanning block's keys, lets the key pass; empty if none were built.
    """

    kind: LookupKind
    key: Key
    position: float
    seq: int
    outcome: Outcome
    value_text: str | None
    value_bytes: int
    expires_at_s: int | None
    memtables: list[MemtableStep]
    runs: list[RunStep]
    blocks_searched: int
    blocks_read: int
    read_bytes: int
    filters_asked: int
    filter_negatives: int
    false_positives: int
    reads_without_filters: int
    read_bytes_without_filters: int
    rebuilt: list[list[int]]


class Rebuilt(Part):
    """Filters of the sampled blocks, rebuilt, and what they answered.

    Attributes:
        requested_rate: p as asked for; 1 for no filters.
        bit_count: m, summed over the blocks.
        exact_rate: the mean of the filters' exact rates, weighted by the keys asked of each.
        false_positives: of ``WhatIf.absent_count`` absent keys, those that a filter let pass.
        low, high: the 95 % interval of the measured rate (Clopper and Pearson's, of filters as clusters).
    """

    policy: str
    requested_rate: float
    bit_count: int
    exact_rate: float
    false_positives: int
    low: float
    high: float


class WhatIf(Part):
    """Other filters over real blocks and absent keys of this store.

    Attributes:
        block_count, key_count: the sampled blocks, and the distinct keys in them.
        block_bytes: size of these blocks as stored, filters included.
        filter_bits: size of the filters that they have now.
        absent_count: absent keys, each asked of the one sampled block that spans it; where filters hold
            prefixes, keys of absent prefixes.
        present: what the store's own filters answered; None if it has none.
        rebuilt: one item for each policy and rate; the policy ``"none"`` once.
    """

    block_count: int
    key_count: int
    block_bytes: int
    filter_bits: int
    absent_count: int
    present: Rebuilt | None
    rebuilt: list[Rebuilt]


class HistoryTable(Part):
    """A table that a step added."""

    number: int
    level: int
    run: int
    size_bytes: int
    entry_count: int


class HistoryStep(Part):
    """One edit of the manifest that changed the tables.

    Attributes:
        kind: ``"state"`` is the whole state that a manifest begins with; ``"move"`` a compaction that
            moved tables without rewriting them.
        at_s: seconds since the first step; None where no recorder saw it.
        added, removed: tables that join and numbers of those that leave.
        written_bytes: size of the tables that this step wrote (moved ones are not written).
        flushed_bytes, compacted_bytes: written by all flushes and all compactions so far.
        live_bytes, live_entries: all tables after this step.
    """

    kind: StepKind
    at_s: float | None
    added: list[HistoryTable]
    removed: list[int]
    written_bytes: int
    flushed_bytes: int
    compacted_bytes: int
    live_bytes: int
    live_entries: int


class History(Part):
    """The manifest's edits, oldest first.

    Attributes:
        begins_empty: whether the first step is the store's first; else the manifest was rewritten.
        skipped: steps left out before the first one shown.
    """

    begins_empty: bool
    skipped: int
    steps: list[HistoryStep]


class Device(Part):
    """A kind of storage, and the assumed time of one read."""

    name: str
    read_ms: float
    assumption: str


class Source(Part):
    """Where the data comes from.

    Attributes:
        name: the last part of the store's path, as text.
        path: the whole path, as text.
        made_at_s: when the page's data was read, in seconds since 1970.
        is_live: whether a server answers lookups of any key.
        generation: of a published store; None for a store in a directory.
    """

    name: str
    path: str
    made_at_s: float
    is_live: bool
    generation: int | None
    lsmkv_version: str


class Damage(Part):
    """A block that cannot be read."""

    table: int
    block: int
    file_name: str
    offset: int | None
    reason: str


class Page(Part):
    """Everything on the page.

    Attributes:
        revision: of a live store; see :class:`Pulse`.
        filters: bits of filters: those that recorded lookups asked, and of as many blocks as fit.
        lookups: recorded lookups: present keys, absent ones, false positives.
        rates: the rates of ``Lookup.rebuilt``, from high to low.
        lookups_tried: absent keys tried to find the false positives among ``lookups``.
        stats: the counters of the handle after these lookups (``DB.stats``), without histograms.
        damage: blocks that are damaged, among those checked.
        omitted: what was left out so that the page stays small or is soon there, one sentence each.
    """

    version: int
    revision: int
    source: Source
    map: StoreMap
    filters: list[Filter]
    lookups: list[Lookup]
    lookups_tried: int
    rates: list[float]
    what_if: WhatIf | None
    history: History
    devices: list[Device]
    stats: dict[str, int | float]
    damage: list[Damage]
    omitted: list[str]
