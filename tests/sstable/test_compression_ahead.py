"""Tables whose blocks are compressed in a thread of its own."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from lsmkv.encoding.entry_batch import EntryBatch
from lsmkv.options import Options
from lsmkv.sstable.block.compression_ahead import CompressionThread
from lsmkv.sstable.multi_writer import TableJob, write_tables
from lsmkv.sstable.writer import NO_LIMIT
from lsmkv.storage.storage import Storage
from lsmkv.tree.version_set import table_format

NOISE = random.Random(5)
KEYS = [b"key%08d" % number for number in range(50_000)]
VALUES = [NOISE.randbytes(30) + b"-" * NOISE.randrange(60) for _ in KEYS]


def written(
    folder: Path, limit: int, thread: CompressionThread | None, **options: Any
) -> list[bytes]:
    """The bytes of the tables."""
    folder.mkdir()
    numbers = iter(range(1, 1000))
    job = TableJob(
        Storage(),
        str(folder),
        table_format(Options(**options), 0.01),
        limit,
        lambda: next(numbers),
        lambda: False,
        thread=thread,
    )
    batches = (
        EntryBatch(KEYS[at : at + 512], [*VALUES[at : at + 512]], [], may_repeat=False, one_seq=1)
        for at in range(0, len(KEYS), 512)
    )
    return [Path(job.path(table.number)).read_bytes() for table in write_tables(batches, job)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "none"},
        {"block_size_bytes": 512, "compression_dictionary_size_bytes": 4096},
        pytest.param({"block_size_bytes": 1 << 16, "compression_level": 1}, marks=pytest.mark.slow),
        pytest.param({"filter_granularity": "table"}, marks=pytest.mark.slow),
    ],
    ids=["default", "uncompressed", "dictionary", "large-blocks", "table-filter"],
)
def test_a_table_has_the_same_bytes_as_one_compressed_without_it(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    with CompressionThread() as thread:
        ahead = written(tmp_path / "ahead", NO_LIMIT, thread, **options)
    assert ahead == written(tmp_path / "plain", NO_LIMIT, None, **options)


def test_tables_end_close_to_the_wanted_size(tmp_path: Path) -> None:
    with CompressionThread() as thread:
        *full, _last = written(tmp_path / "ahead", 900_000, thread)
    assert len(full) >= 2
    assert all(850_000 < len(table) < 950_000 for table in full)


def test_the_thread_ends_with_its_statement(tmp_path: Path) -> None:
    with CompressionThread() as thread:
        written(tmp_path / "ahead", NO_LIMIT, thread)
        assert "lsmkv-compress_0" in {each.name for each in threading.enumerate()}
    assert "lsmkv-compress_0" not in {each.name for each in threading.enumerate()}


def test_a_table_is_removed_when_the_thread_fails(tmp_path: Path) -> None:
    with CompressionThread() as thread:
        pass
    with pytest.raises(RuntimeError, match="after shutdown"):
        written(tmp_path / "ahead", NO_LIMIT, thread)
    assert os.listdir(tmp_path / "ahead") == []
