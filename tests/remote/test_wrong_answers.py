"""Answers of object storage that are wrong once, beside a disk cache."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
import pytest

import lsmkv
from published_stores import published, reader


@pytest.mark.parametrize("residency", ["resident", "cached"])
def test_a_wrong_answer_does_not_stay_in_the_disk_cache(tmp_path: Path, residency: str) -> None:
    """Blocks, filters and the ends of tables are wrong in turn, and then whole again."""
    url = f"file://{tmp_path}/published"
    entries = published(tmp_path / "store", url)
    (generation,) = (tmp_path / "published" / "generations").iterdir()
    found = msgspec.json.decode(generation.read_bytes().splitlines()[0])["tables"][0]
    table = tmp_path / "published" / "tables" / found["name"]
    whole = table.read_bytes()
    filters = found["data_length"] + found["dictionary_length"]
    for start, stop in ((0, filters), (filters, filters + 40), (len(whole) - 400, len(whole))):
        options = {
            "disk_cache_path": str(tmp_path / f"cache{start}"),
            "disk_cache_size_bytes": 1 << 20,
            "filter_residency": residency,
        }
        wrong = bytes(byte ^ 1 for byte in whole[start:stop])
        table.write_bytes(whole[:start] + wrong + whole[stop:])
        failed = 0
        with contextlib.suppress(lsmkv.CorruptionError), reader(url, **options) as db:
            for wanted in entries:
                try:
                    assert db[wanted] == entries[wanted]
                except lsmkv.CorruptionError:
                    failed += 1
            assert failed or db.stats().filter_rebuilds
        table.write_bytes(whole)
        with reader(url, **options) as db:
            assert [db[wanted] for wanted in entries] == list(entries.values())
            assert db.stats().filter_rebuilds == 0
