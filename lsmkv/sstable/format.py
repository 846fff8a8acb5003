"""The shape of a table file: sections, properties, footer.

Layout, all integers little-endian::

    data        block 0, block 1, ...        each: payload | filter | trailer
    dictionary  zstd dictionary, often empty
    filters     a copy of every block's filter, in order; or the one filter of the table
    index       see lsmkv.sstable.index_layout
    properties  JSON, see TableProperties; spaces may precede it
    footer      the last 72 bytes

Blocks and their trailers: :mod:`lsmkv.sstable.block.trailer`.

Footer (72 bytes)::

    0   u64  data_length         32  u64  properties_length
    8   u64  dictionary_length   40  u64  dictionary_checksum
    16  u64  filters_length      48  u64  checksum of index and properties
    24  u64  index_length        56  u32  format version, 2
    60  u32  low half of the XXH3-64 of the bytes before it
    64       magic "lsmkvSST"

The last 16 bytes stay as they are in every release, which tells a newer file from a damaged one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from lsmkv.encoding.checksums import RunningChecksum, checksum
from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.encoding.expiry import MAX_EXPIRY_S
from lsmkv.errors import CorruptionError, UnsupportedFormatError, unfit
from lsmkv.filters.policy import MAX_PARAMETER
from lsmkv.storage.file_names import MAX_FILE_NUMBER

FORMAT_VERSION: Final = 2
TABLE_MAGIC: Final = b"lsmkvSST"
_FOOTER: Final = struct.Struct("<QQQQQQQII8s")
FOOTER_BYTES: Final = 72

# Limits for sections that are read whole.  Filters and index have 32-bit offsets; properties are two
# keys and some numbers; options allow a dictionary of at most 1 MiB.
MAX_DICTIONARY_BYTES: Final = 16 << 20
MAX_SECTION_BYTES: Final = (1 << 32) - 1
MAX_PROPERTIES_BYTES: Final = 1 << 20

CODEC_NONE: Final = 0
CODEC_ZSTD: Final = 1
"""zstd of the transposed payload (:mod:`lsmkv.sstable.block.transposed`)."""


@dataclass(frozen=True, slots=True)
class TableFormat:
    """The options that shape a table, with its filters' error rate.

    ``filter_key`` is a :class:`~lsmkv.filters.keys.FilterKey` in its text form.  A ``plan``, a packed
    :class:`~lsmkv.sstable.filter_plan.FilterPlan`, takes the place of ``error_rate``.  ``erased_seq`` is
    as in :class:`TableMeta`.
    """

    block_size_bytes: int
    fit_pages: bool
    compression: str
    compression_level: int
    dictionary_size_bytes: int
    filter_key: str
    granularity: str
    policy: str
    error_rate: float
    plan: bytes = b""
    erased_seq: int = 0


class TableExpiry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """When entries of a table are due, in seconds since 1970; in JSON an array."""

    count: int  # how many of them expire
    earliest_s: int
    half_due_s: int | None  # when half of all the table's entries are due, rounded up; None: never
    latest_s: int

    def problem(self, entry_count: int) -> str | None:
        """The reason why these values are impossible, or None."""
        half_due_s = self.earliest_s if self.half_due_s is None else self.half_due_s
        if not 0 < self.count <= entry_count:
            return f"{self.count} of {entry_count} entries expire"
        if not 0 <= self.earliest_s <= half_due_s <= self.latest_s <= MAX_EXPIRY_S:
            return "times of expiry are out of order, or out of range"
        return None


def expiry_of(expiries: list[int], entry_count: int) -> TableExpiry | None:
    """The expiry of a table of which entries expire at these times."""
    if not expiries:
        return None
    ordered = sorted(expiries)
    half = (entry_count + 1) // 2
    half_due_s = ordered[half - 1] if half <= len(ordered) else None
    return TableExpiry(len(ordered), ordered[0], half_due_s, ordered[-1])


class TableMeta(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """The manifest's record of a table; keys are base64 in JSON.

    ``checksum`` covers index and properties, as in the footer: it identifies the table.
    ``sealed_number`` is as in :class:`TableProperties`.  ``expiry`` is None if no entry expires.  Range
    deletes numbered up to ``erased_seq`` have been applied to the table: they hide nothing of it.
    """

    number: int
    size_bytes: int
    smallest: bytes
    largest: bytes
    smallest_seq: int
    largest_seq: int
    entry_count: int
    tombstone_count: int
    checksum: int = 0
    sealed_number: int = 0
    expiry: TableExpiry | None = None
    erased_seq: int = 0

    @property
    def above(self) -> bytes:
        """The lowest key above all of its keys."""
        return self.largest + b"\0"

    @property
    def least_seq(self) -> int:
        """The lowest number that counts of an entry for range deletes."""
        return max(self.smallest_seq, self.erased_seq)

    @property
    def newest_seq(self) -> int:
        """The highest such number."""
        return max(self.largest_seq, self.erased_seq)

    def problem(self) -> str | None:
        """The reason why these values are impossible, or None."""
        if self.smallest > self.largest:
            return "its smallest key is above its largest"
        if not 0 <= self.smallest_seq <= self.largest_seq <= MAX_SEQUENCE:
            return "its sequence numbers are out of range"
        if not 0 <= self.erased_seq <= MAX_SEQUENCE:
            return "the number of its range deletes is out of range"
        if self.number < 1 or self.entry_count < 1 or self.tombstone_count < 0:
            return "a number or a count of it is out of range"
        if self.expiry is not None and (problem := self.expiry.problem(self.entry_count)):
            return problem
        return None if self.size_bytes > FOOTER_BYTES else "its size is too small"


def blocks_checksum(trailers: RunningChecksum) -> int:
    """What :class:`TableProperties` notes of all trailers: 19 digits, whatever they are."""
    return (1 << 60) + (trailers.intdigest() >> 4)


class TableProperties(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A table's description of itself, as JSON in its properties section."""

    number: int
    smallest: bytes
    largest: bytes
    smallest_seq: int
    largest_seq: int
    entry_count: int
    tombstone_count: int
    has_versions: bool  # whether a key occurs more than once
    block_count: int
    raw_bytes: int  # of all payloads before compression
    # 2^60 plus the high 60 bits of the XXH3-64 of all blocks' trailers, which have the blocks' checksums.
    # So the manifest's checksum of index and properties tells a table from every other.
    blocks_checksum: int
    compression: str  # "zstd" if its blocks may be compressed, else "none"
    filter_bytes: int
    filter_key: str  # a FilterKey in its text form
    granularity: str  # "block" or "table"
    error_rate: float
    filter_key_count: int  # of a filter for the whole table; 0 with filters per block
    probe_count: int  # as the one before
    writer: str
    filter_scheme: int  # of every filter; a reader must know it to use them
    filter_policy: str = ""  # the policy's name if the scheme is 6 or 7, which policies may share
    # Numbers of the tables that this one replaces, together with those ``beside`` it, which the same
    # compaction wrote before it; None if not noted.  Repair uses it when the manifest is lost.
    replaces: list[int] | None = None
    beside: list[int] = []
    # The number that seeds the checksums of blocks that were written outside the store; 0: its own.
    sealed_number: int = 0
    # Whether every entry counts as having the number ``largest_seq``, whatever its block says: so it is
    # in an adopted table (lsmkv.sstable.table_end).
    one_seq: bool = False
    expiry: TableExpiry | None = None  # when entries are due; None if none expires
    erased_seq: int = 0  # range deletes numbered up to it have been applied to the table

    @property
    def seal(self) -> int:
        """The number that seeds the checksums of the blocks."""
        return self.sealed_number or self.number

    def meta(self, size_bytes: int, checksum: int) -> TableMeta:
        return TableMeta(
            number=self.number,
            size_bytes=size_bytes,
            smallest=self.smallest,
            largest=self.largest,
            smallest_seq=self.smallest_seq,
            largest_seq=self.largest_seq,
            entry_count=self.entry_count,
            tombstone_count=self.tombstone_count,
            checksum=checksum,
            sealed_number=self.sealed_number,
            expiry=self.expiry,
            erased_seq=self.erased_seq,
        )


def decode_properties(data: bytes, path: str, offset: int) -> TableProperties:
    """Parse the properties section, which starts at ``offset``.

    Raises CorruptionError if it is no JSON, or holds impossible values, and UnsupportedFormatError if it
    has other fields.
    """
    try:
        properties = msgspec.json.decode(data, type=TableProperties)
    except msgspec.ValidationError as error:
        raise unfit(path, offset, "properties section", error) from error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise CorruptionError(path, offset, f"table properties do not parse: {error}") from error
    if problem := _impossible(properties):
        raise CorruptionError(path, offset, f"table properties cannot be: {problem}")
    return properties


def _impossible(properties: TableProperties) -> str | None:
    counts = (
        properties.block_count,
        properties.raw_bytes,
        properties.filter_bytes,
        properties.filter_key_count,
        properties.entry_count,
        properties.tombstone_count,
    )
    if properties.number > MAX_FILE_NUMBER:
        return f"its number is {properties.number}"
    if not 0 <= properties.sealed_number <= MAX_FILE_NUMBER:
        return f"its blocks are sealed with {properties.sealed_number}"
    if properties.one_seq and (
        properties.has_versions or properties.smallest_seq != properties.largest_seq
    ):
        return "its entries have one sequence number, and several"
    if not 0 <= min(counts) <= max(counts) < 1 << 63:
        return "a count is out of range"
    if max(properties.filter_key_count, properties.tombstone_count) > properties.entry_count:
        return "it counts more keys or deletions than entries"
    if properties.compression not in ("none", "zstd"):
        return f"compression {properties.compression[:40]!r}"
    if properties.granularity not in ("block", "table"):
        return f"filter granularity {properties.granularity[:40]!r}"
    if not (0 <= properties.probe_count <= MAX_PARAMETER and properties.error_rate > 0):
        return "its filters' probe count or error rate is out of range"
    return properties.meta(FOOTER_BYTES + 1, 0).problem()


class Footer(NamedTuple):
    """Lengths of the sections, in file order, and their checksums."""

    data_length: int
    dictionary_length: int
    filters_length: int
    index_length: int
    properties_length: int
    dictionary_checksum: int
    tail_checksum: int

    @property
    def filters_offset(self) -> int:
        return self.data_length + self.dictionary_length

    @property
    def index_offset(self) -> int:
        return self.filters_offset + self.filters_length

    @property
    def properties_offset(self) -> int:
        return self.index_offset + self.index_length

    def encode(self) -> bytes:
        head = struct.pack("<QQQQQQQI", *self, FORMAT_VERSION)
        return head + struct.pack("<I8s", checksum(head, 0) & 0xFFFFFFFF, TABLE_MAGIC)


def decode_footer(data: bytes, path: str, file_size: int) -> Footer:
    """The footer in ``data``, the last 72 bytes of a file.

    Raises CorruptionError if it is damaged, UnsupportedFormatError for another format version.
    """
    offset = file_size - FOOTER_BYTES
    if len(data) != FOOTER_BYTES:
        raise CorruptionError(path, 0, f"file of {file_size} bytes is too short for a table")
    *fields, version, stored, magic = _FOOTER.unpack(data)
    if magic != TABLE_MAGIC:
        reason = "not a table file"
        raise CorruptionError(path, file_size - 8, reason, expected=TABLE_MAGIC, got=magic)
    computed = checksum(data[:60], 0) & 0xFFFFFFFF
    if computed != stored:
        reason = "checksum of a table's footer fails"
        raise CorruptionError(path, offset, reason, expected=stored, got=computed)
    if version != FORMAT_VERSION:
        reason = f"table format {version}; this release reads format {FORMAT_VERSION}"
        raise UnsupportedFormatError(path, reason)
    footer = Footer(*fields)
    if footer.properties_offset + footer.properties_length != offset:
        raise CorruptionError(path, offset, "sections of a table do not fill the file")
    for length, most, what in (
        (footer.dictionary_length, MAX_DICTIONARY_BYTES, "dictionary"),
        (footer.filters_length, MAX_SECTION_BYTES, "filters"),
        (footer.index_length, MAX_SECTION_BYTES, "index"),
        (footer.properties_length, MAX_PROPERTIES_BYTES, "properties"),
    ):
        if length > most:  # a sparse file may be longer than what it has on disk
            raise CorruptionError(path, offset, f"{what} of {length} bytes: {most} are the most")
    return footer
