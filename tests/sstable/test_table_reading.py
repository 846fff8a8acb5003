"""Reading a table's blocks: through the cache, ahead, directly, by many threads."""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsmkv.encoding.entries import ABSENT
from lsmkv.sstable.format import TableMeta
from lsmkv.sstable.read_ahead import blocks_ahead, read_ahead
from lsmkv.storage.storage import Storage
from storages import CountingStorage
from table_files import Entry, Tables, alike, ask, contents, numbered
from time_limits import join


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_direct_reads_give_the_same_answers(tmp_path: Path, compression: str) -> None:
    entries = numbered(2000)
    plain = Tables(tmp_path)
    meta = plain.write(entries, compression=compression)
    direct = Tables(tmp_path, Storage(direct_reads=True))
    try:
        table = direct.open(meta, "cached")
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        pytest.skip(f"the file system of {tmp_path} refuses direct reads")
    asked = [b"key%08d" % number for number in range(0, 4000, 7)]
    buffered = plain.open(meta, "cached")
    assert [ask(table, key) for key in asked] == [ask(buffered, key) for key in asked]
    assert contents(table) == entries


def test_a_block_in_the_cache_is_not_read_again(tables: Tables) -> None:
    table = tables.table(numbered(300))
    first = table.block(3, True)
    assert table.is_cached(3)
    assert table.block(3, True) is first
    assert tables.stats.block_reads == 1


def test_a_block_read_past_the_cache_is_not_kept(tables: Tables) -> None:
    table = tables.table(numbered(300))
    table.block(3, False)
    assert not table.is_cached(3)


def test_tables_do_not_mix_up_their_blocks_in_the_cache(tables: Tables) -> None:
    one = tables.table(numbered(300, value=b"one %d"))
    two = tables.table(numbered(300, value=b"two %d"))
    key = b"key%08d" % 10
    assert [ask(one, key), ask(two, key), ask(one, key)] == [b"one 10", b"two 10", b"one 10"]


LONG = 1 << 30  # bytes read ahead by a long scan

orders = st.tuples(st.sets(st.integers(0, 39), min_size=1).map(sorted), st.booleans())


@pytest.fixture(scope="module")
def forty_blocks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tables, TableMeta]:
    tables = Tables(tmp_path_factory.mktemp("blocks"))
    entries = numbered(2200)
    meta = tables.write(entries, block_size_bytes=1500)
    assert tables.open(meta).index.block_count >= 40
    return tables, meta


@given(orders, st.sets(st.integers(0, 39), max_size=8))
def test_blocks_read_ahead_are_the_blocks_read_one_by_one(
    forty_blocks: tuple[Tables, TableMeta], order: tuple[list[int], bool], cached: set[int]
) -> None:
    numbers, descending = order
    numbers = numbers[::-1] if descending else numbers
    written, meta = forty_blocks
    tables = Tables(written.directory)
    table = tables.open(meta)
    for number in sorted(cached):
        table.block(number, True)
    blocks = blocks_ahead(table, numbers)
    found = [block.keys() for block in blocks]
    assert found == [table.block(number, False).keys() for number in numbers]


def reads_of(
    forty_blocks: tuple[Tables, TableMeta], numbers: Sequence[int], through_cache: bool
) -> tuple[int, int]:
    """The number of read calls for blocks, and of blocks counted."""
    storage = CountingStorage()
    tables = Tables(forty_blocks[0].directory, storage)
    table = tables.open(forty_blocks[1])
    storage.reset()
    blocks = blocks_ahead(table, numbers) if through_cache else read_ahead(table, numbers, LONG)
    for _ in blocks:
        pass
    return storage.reads(), tables.stats.block_reads


@pytest.mark.parametrize(("numbers", "reads"), [(range(40), 1), ([1, 2, 3, 10, 11, 20], 3)])
@pytest.mark.parametrize("step", [1, -1])
def test_each_group_of_neighbours_is_one_read(
    forty_blocks: tuple[Tables, TableMeta], numbers: Sequence[int], reads: int, step: int
) -> None:
    found = reads_of(forty_blocks, numbers[::step], through_cache=False)
    assert found == (reads, len(numbers))


def test_a_scan_reads_one_by_one_and_then_ever_more_blocks_together(
    forty_blocks: tuple[Tables, TableMeta],
) -> None:
    # One by one through the cache: 4; then together 4, 8, 16, and the 8 that are left.
    assert reads_of(forty_blocks, range(40), through_cache=True) == (4 + 4, 40)


@pytest.mark.parametrize("wanted", [1, 3, 4, 5, 9, 17, 30, 40])
@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
def test_a_stopped_scan_has_read_at_most_about_twice_what_it_needed(
    forty_blocks: tuple[Tables, TableMeta], wanted: int, descending: bool
) -> None:
    tables = Tables(forty_blocks[0].directory)
    table = tables.open(forty_blocks[1])
    numbers = range(39, -1, -1) if descending else range(40)
    blocks = blocks_ahead(table, numbers)
    for _ in range(wanted):
        next(blocks)
    assert wanted <= tables.stats.block_reads <= max(4, 2 * wanted + 2)


def test_a_read_ahead_is_about_a_quarter_of_a_mebibyte(tmp_path: Path) -> None:
    storage = CountingStorage()
    tables = Tables(tmp_path, storage)
    entries: list[Entry] = [(b"%08d" % number, b"v" * 1000, 1) for number in range(2000)]
    table = tables.table(entries, block_size_bytes=4096)
    storage.reset()
    numbers = range(table.index.block_count)
    for _ in read_ahead(table, numbers, LONG):
        pass
    assert storage.reads() == -(-table.footer.data_length // (256 * 1024 + 4096 // 2))


def test_a_long_scan_leaves_the_cache_as_it_was(tables: Tables) -> None:
    table = tables.table(numbered(2000))
    numbers = range(table.index.block_count)
    for _ in blocks_ahead(table, numbers):
        pass
    assert [number for number in numbers if table.is_cached(number)] == [0, 1, 2, 3]


def test_many_threads_may_read_one_table(tmp_path: Path) -> None:
    tables = Tables(tmp_path, cache_bytes=20_000)
    entries = alike(2000)
    table = tables.table(entries, residency="cached", compression="zstd", error_rate=0.1)
    wrong: list[bytes] = []

    def work(seed: int) -> None:
        chances = random.Random(seed)
        for _ in range(1500):
            key, value, _ = chances.choice(entries)
            if ask(table, key) != value or ask(table, key + b"!") is not ABSENT:
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    join(*threads)
    assert not wrong
