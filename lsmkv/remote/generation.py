"""Generations: the objects that each describe one published state of a store.

Objects below a store's URL::

    generations/<9999999999 - n>-<n>.json   generation n, which is written once and never changed
    tables/<hash>-<n>.sst                   a table file, byte for byte

Both numbers have ten digits.  So the newest generation is the first in a list of names.  ``hash`` is the
XXH3-128 of the file in hexadecimal; n is the first generation that needs the table.

A generation is one line of JSON (:class:`Generation`), a newline, the XXH3-128 of that line in
hexadecimal, and a newline.  Its tables are there before it is.  It tells where in each table the
sections begin that an opening reads, so that one request fetches them.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from lsmkv.encoding.checked_line import decode_line, encode_line
from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.encoding.range_deletes import RangeDelete, why_impossible
from lsmkv.errors import CorruptionError
from lsmkv.remote.bucket import Bucket
from lsmkv.sstable.format import (
    FOOTER_BYTES,
    MAX_DICTIONARY_BYTES,
    MAX_PROPERTIES_BYTES,
    MAX_SECTION_BYTES,
    TableMeta,
)
from lsmkv.tree.levels import Levels, PlacedTable

FORMAT: Final = 1
GENERATIONS: Final = "generations"
TABLES: Final = "tables"
_MOST: Final = 10**10 - 1
LAST_GENERATION: Final = _MOST - 1
_GENERATION_NAME: Final = re.compile(r"([0-9]{10})-([0-9]{10})\.json")
_TABLE_NAME: Final = re.compile(r"([0-9a-f]{32})-([0-9]{10})\.sst")
_HASH_DIGITS: Final = 32
MAX_GENERATION_BYTES: Final = 256 << 20  # some hundred bytes for a table, and its two keys
_MAX_TABLE_BYTES: Final = 1 << 46  # no object store takes more
_MAX_END_BYTES: Final = MAX_SECTION_BYTES + MAX_PROPERTIES_BYTES + FOOTER_BYTES


class PublishedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a generation: its place in the tree, and its object.

    Attributes:
        name: the object's name, below ``tables/``.
        data_length, dictionary_length, filters_length: lengths of the file's first three sections.
    """

    level: int
    run: int
    meta: TableMeta
    name: str
    data_length: int
    dictionary_length: int
    filters_length: int

    @property
    def placed(self) -> PlacedTable:
        return PlacedTable(self.level, self.run, self.meta)

    @property
    def object_name(self) -> str:
        return f"{TABLES}/{self.name}"

    @property
    def content(self) -> str:
        """The XXH3-128 of the whole file, in hexadecimal."""
        return self.name[:_HASH_DIGITS]

    @property
    def index_offset(self) -> int:
        return self.data_length + self.dictionary_length + self.filters_length

    def problem(self) -> str | None:
        """The reason why these values are impossible, or None."""
        if _TABLE_NAME.fullmatch(self.name) is None:
            return "its object's name is not one of a table"
        lengths = (self.data_length, self.dictionary_length, self.filters_length)
        if min(lengths) < 0 or self.index_offset > self.meta.size_bytes - FOOTER_BYTES:
            return "its sections do not fit into its size"
        index_and_properties = self.meta.size_bytes - self.index_offset
        for length, most, what in (
            (self.meta.size_bytes, _MAX_TABLE_BYTES, "table"),
            (self.dictionary_length, MAX_DICTIONARY_BYTES, "dictionary"),
            (self.filters_length, MAX_SECTION_BYTES, "filters"),
            (index_and_properties, _MAX_END_BYTES, "index and properties"),
        ):
            if length > most:
                return f"{what} of {length} bytes: {most} are the most"
        return None


class Generation(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True
):
    """One published state of a store.

    Attributes:
        format: the version of this form.
        number: counts the generations below a URL, from 1.
        publication: a random text, different in each publication.
        last_seq: the highest sequence number in the tables.
        tables: newest data first.
        range_deletes: those that hide entries of the tables, as in a manifest.
    """

    format: int
    number: int
    publication: str
    last_seq: int
    tables: list[PublishedTable]
    range_deletes: list[RangeDelete] = []

    def levels(self) -> Levels:
        """Its tables' places; ValueError if they cannot be."""
        for table in self.tables:
            if problem := table.problem():
                raise ValueError(f"table {table.meta.number} is not valid: {problem}")
            if table.meta.largest_seq > self.last_seq:
                raise ValueError(f"table {table.meta.number} is newer than the generation")
        return Levels().changed((table.placed for table in self.tables), ())


def generation_name(number: int) -> str:
    """Name of the object of generation ``number``.

    >>> generation_name(7)
    'generations/9999999992-0000000007.json'
    """
    return f"{GENERATIONS}/{_MOST - number:010}-{number:010}.json"


def generation_number(name: str) -> int | None:
    """The number in a name below ``generations/``; None for any other name."""
    match = _GENERATION_NAME.fullmatch(name)
    if match is None or int(match[1]) + int(match[2]) != _MOST:
        return None
    number = int(match[2])
    return number if number <= LAST_GENERATION else None


def table_name(content: str, number: int) -> str:
    """Name of a table that generation ``number`` is the first to need."""
    return f"{content}-{number:010}.sst"


def table_generation(name: str) -> int | None:
    """The first generation that needs a table, from its name; None for any other name."""
    match = _TABLE_NAME.fullmatch(name)
    return None if match is None else int(match[2])


def encode_generation(generation: Generation) -> bytes:
    """The object's bytes; ValueError if they are more than a reader takes."""
    data = encode_line(generation)
    if len(data) > MAX_GENERATION_BYTES:
        raise ValueError(
            f"a generation of {len(generation.tables)} tables takes {len(data)} bytes, and "
            f"{MAX_GENERATION_BYTES} are the most: use larger tables (table_size_bytes)"
        )
    return data


def decode_generation(data: bytes, path: str, number: int) -> Generation:
    """The generation ``number`` in an object's bytes.

    Raises CorruptionError if they are damaged or another's, UnsupportedFormatError for a newer format.
    """
    generation = decode_line(data, path, Generation, FORMAT, "generation")
    try:
        if not 0 <= generation.last_seq <= MAX_SEQUENCE:
            raise ValueError(f"last sequence number {generation.last_seq} is out of range")
        for each in generation.range_deletes:
            if problem := why_impossible(each, generation.last_seq):
                raise ValueError(problem)
        generation.levels()
    except ValueError as error:
        raise CorruptionError(path, 0, f"bad generation: {error}") from error
    if generation.number != number:
        reason = "the object is of another generation"
        raise CorruptionError(path, 0, reason, expected=number, got=generation.number)
    return generation


def newest_generation(bucket: Bucket) -> int | None:
    """Number of the newest generation; None if there is none.  One request."""
    numbers = map(generation_number, bucket.first_names(GENERATIONS))
    return max((number for number in numbers if number is not None), default=None)


def read_generation(bucket: Bucket, number: int) -> Generation:
    """Generation ``number``: one request.  FileNotFoundError if it is missing."""
    name = generation_name(number)
    data = bucket.get_whole(name, MAX_GENERATION_BYTES)
    return decode_generation(data, bucket.path(name), number)
