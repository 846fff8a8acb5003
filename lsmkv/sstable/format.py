"""The shape of a table file: sections, properties, footer.

Layout, all integers little-endian::

    data        block 0, block 1, ...        each: payload | filter | trailer
    dictionary  zstd dictionary, often empty
    filters     a copy of every block's filter, in order; or the one filter of the table
    index       see lsmkv.sstable.index; in compressed tables lsmkv.sstable.index_codec
    properties  JSON, see TableProperties
    footer      the last 72 bytes

Blocks and their trailers: :mod:`lsmkv.sstable.block.trailer`.

Footer (72 bytes)::

    0   u64  data_length         32  u64  properties_length
    8   u64  dictionary_length   40  u64  dictionary_checksum
    16  u64  filters_length      48  u64  checksum of index and properties
    24  u64  index_length        56  u32  format version, 1
    60  u32  low half of the XXH3-64 of the bytes before it
    64       magic "lsmkvSST"

Every release keeps the last 16 bytes as they are, so that a newer file is told from a damaged one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import msgspec

from lsmkv.encoding.checksums import checksum
from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.errors import CorruptionError, UnsupportedFormatError
from lsmkv.filters.policy import MAX_PARAMETER
from lsmkv.storage.file_names import MAX_FILE_NUMBER

FORMAT_VERSION: Final = 1
TABLE_MAGIC: Final = b"lsmkvSST"
_FOOTER: Final = struct.Struct("<QQQQQQQII8s")
FOOTER_BYTES: Final = 72

# Sections that are read whole.  Within filters and index, offsets have 32 bits; properties are two
# keys and some numbers; the largest dictionary that can be asked for has 1 MiB.
_MOST_DICTIONARY_BYTES: Final = 16 << 20
_MOST_SECTION_BYTES: Final = (1 << 32) - 1
_MOST_PROPERTIES_BYTES: Final = 1 << 20

CODEC_NONE: Final = 0
CODEC_ZSTD: Final = 1
CODEC_ZSTD_REDUCED: Final = 2
"""zstd of the reduced payload (:mod:`lsmkv.sstable.block.transposed`), which only blocks have."""


class TableMeta(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the manifest knows of a table; keys are base64 in JSON.

    ``checksum`` is that of index and properties, from the footer: no other table has the same.
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

    def problem(self) -> str | None:
        """What is impossible about these values; None when nothing is."""
        if self.smallest > self.largest:
            return "its smallest key is above its largest"
        if not 0 <= self.smallest_seq <= self.largest_seq <= MAX_SEQUENCE:
            return "its sequence numbers are out of range"
        if self.number < 1 or self.entry_count < 1 or self.tombstone_count < 0:
            return "a number or a count of it is out of range"
        return None if self.size_bytes > FOOTER_BYTES else "its size is too small"


class TableProperties(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a table says of itself, as JSON in its properties section.

    ``filter_key`` is a :class:`~lsmkv.filters.keys.FilterKey` in its text form; ``granularity`` is
    ``"block"`` or ``"table"``; ``has_versions`` tells whether some key stands more than once;
    ``probe_count`` and ``filter_key_count`` are those of a table-wide filter, 0 with filters per
    block.  ``raw_bytes`` counts payloads before compression.  ``filter_scheme`` is that of every
    filter: a reader that does not know it would take the wrong bits for an answer; so would one
    where scheme 6 or 7 is another policy's, which ``filter_policy``, the name, is there to tell.
    ``replaces`` are the tables whose place this one took, together with the tables ``beside`` it,
    which the same compaction wrote before it.  Repair goes by it when the manifest is lost.  None:
    not noted.
    """

    number: int
    smallest: bytes
    largest: bytes
    smallest_seq: int
    largest_seq: int
    entry_count: int
    tombstone_count: int
    has_versions: bool
    block_count: int
    raw_bytes: int
    filter_bytes: int
    filter_key: str
    granularity: str
    error_rate: float
    filter_key_count: int
    probe_count: int
    writer: str
    filter_scheme: int
    filter_policy: str = ""
    replaces: list[int] | None = None
    beside: list[int] = []

    def meta(self, size_bytes: int, checksum: int) -> TableMeta:
        """The part that the manifest keeps, with the size of the file and its footer's checksum."""
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
        )


def decode_properties(data: bytes, path: str, offset: int) -> TableProperties:
    """Properties from their section, which stands at ``offset``.

    Raises:
        CorruptionError: they are no JSON of this form, or hold what no table can say.
    """
    try:
        properties = msgspec.json.decode(data, type=TableProperties)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptionError(path, offset, f"table properties do not parse: {error}") from error
    if problem := _impossible(properties):
        raise CorruptionError(path, offset, f"table properties cannot be: {problem}")
    return properties


def _impossible(properties: TableProperties) -> str | None:
    """What no writer would say; None when there is nothing of the kind."""
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
    if not 0 <= min(counts) <= max(counts) < 1 << 63:
        return "a count is out of range"
    if max(properties.filter_key_count, properties.tombstone_count) > properties.entry_count:
        return "it counts more keys or deletions than entries"
    if properties.granularity not in ("block", "table"):
        return f"filter granularity {properties.granularity[:40]!r}"
    if not (0 <= properties.probe_count <= MAX_PARAMETER and properties.error_rate > 0):
        return "its filters' probe count or error rate is out of range"
    return properties.meta(FOOTER_BYTES + 1, 0).problem()


@dataclass(frozen=True, slots=True)
class Footer:
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
        head = struct.pack(
            "<QQQQQQQI",
            self.data_length,
            self.dictionary_length,
            self.filters_length,
            self.index_length,
            self.properties_length,
            self.dictionary_checksum,
            self.tail_checksum,
            FORMAT_VERSION,
        )
        return head + struct.pack("<I8s", checksum(head, 0) & 0xFFFFFFFF, TABLE_MAGIC)


def decode_footer(data: bytes, path: str, file_size: int) -> Footer:
    """The footer in ``data``, the last 72 bytes of a file of ``file_size`` bytes.

    Raises:
        CorruptionError: it is not a table's footer, or is damaged.
        UnsupportedFormatError: the table is of another format version.
    """
    offset = file_size - FOOTER_BYTES
    if len(data) != FOOTER_BYTES:
        raise CorruptionError(path, 0, f"file of {file_size} bytes is too short for a table")
    *fields, version, stored, magic = _FOOTER.unpack(data)
    if magic != TABLE_MAGIC:
        raise CorruptionError(
            path, file_size - 8, "not a table file", expected=TABLE_MAGIC, got=magic
        )
    computed = checksum(data[:60], 0) & 0xFFFFFFFF
    if computed != stored:
        raise CorruptionError(
            path, offset, "checksum of a table's footer fails", expected=stored, got=computed
        )
    if version != FORMAT_VERSION:
        raise UnsupportedFormatError(
            path, f"table format {version}; this release reads format {FORMAT_VERSION}"
        )
    footer = Footer(*fields)
    if footer.properties_offset + footer.properties_length != offset:
        raise CorruptionError(path, offset, "sections of a table do not fill the file")
    for length, most, what in (
        (footer.dictionary_length, _MOST_DICTIONARY_BYTES, "dictionary"),
        (footer.filters_length, _MOST_SECTION_BYTES, "filters"),
        (footer.index_length, _MOST_SECTION_BYTES, "index"),
        (footer.properties_length, _MOST_PROPERTIES_BYTES, "properties"),
    ):
        if length > most:  # a file need not have on disk what its length says
            raise CorruptionError(path, offset, f"{what} of {length} bytes: {most} are the most")
    return footer
