"""Compression of a table's blocks, with a dictionary and without."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lsmkv.errors import CorruptionError
from lsmkv.sstable.format import CODEC_NONE, CODEC_ZSTD
from table_files import Entry, Tables, alike, contents, flip, numbered


def test_zstd_makes_tables_smaller_that_answer_the_same(tables: Tables) -> None:
    entries = alike(1000)
    plain = tables.table(entries, block_size_bytes=4096)
    packed = tables.table(entries, block_size_bytes=4096, compression="zstd")
    assert packed.meta.size_bytes < 0.6 * plain.meta.size_bytes
    assert contents(packed) == contents(plain) == entries


def test_a_dictionary_makes_tables_of_small_blocks_smaller(tables: Tables) -> None:
    entries = alike(6000)
    form: dict[str, Any] = {"block_size_bytes": 512, "compression": "zstd"}
    without = tables.table(entries, **form)
    trained = tables.table(entries, **form, compression_dictionary_size_bytes=4096)
    assert 0 < trained.footer.dictionary_length <= 4096
    assert trained.footer.data_length < 0.75 * without.footer.data_length
    assert contents(trained) == entries


def test_a_dictionary_is_left_out_where_there_is_too_little_to_learn_from(tables: Tables) -> None:
    form: dict[str, Any] = {"compression": "zstd", "compression_dictionary_size_bytes": 4096}
    table = tables.table(numbered(3), **form)
    assert table.footer.dictionary_length == 0
    assert contents(table) == numbered(3)


def test_a_damaged_dictionary_is_noticed_when_the_table_is_opened(tables: Tables) -> None:
    form: dict[str, Any] = {"compression": "zstd", "compression_dictionary_size_bytes": 2048}
    meta = tables.write(alike(4000), **form)
    flip(tables.path(meta.number), tables.open(meta).footer.data_length + 100)
    with pytest.raises(CorruptionError, match="dictionary"):
        tables.open(meta)


def test_blocks_that_do_not_compress_are_stored_as_they_are(tables: Tables) -> None:
    noise: list[Entry] = [(b"a", random.Random(1).randbytes(2000), 1), (b"b", b"b" * 2000, 1)]
    table = tables.table(noise, compression="zstd")
    assert [table.read_past_cache(number)[1].codec for number in (0, 1)] == [
        CODEC_NONE,
        CODEC_ZSTD,
    ]
