"""A load of many memtables, all of which is read back."""

from __future__ import annotations

from pathlib import Path

import pytest

import lsmkv

_PRIME = 2_147_483_647  # i -> i * 7919 mod this prime visits numbers in no order, none twice


def _key(number: int) -> bytes:
    return b"%016d" % (number * 7919 % _PRIME)


def _value(number: int) -> bytes:
    return b"value-%d-" % number * 4


@pytest.mark.longest
@pytest.mark.slow
def test_two_million_keys_loaded_in_random_order_are_all_there_after_reopening(
    tmp_path: Path,
) -> None:
    count = 2_000_000
    with lsmkv.open(tmp_path / "db", write_buffer_size_bytes=16 << 20) as db:
        for number in range(count):
            db.put(_key(number), _value(number))
    with lsmkv.open(tmp_path / "db") as db:
        for number in range(count):
            assert db.get(_key(number)) == _value(number)
        assert len(db) == count
        assert db.verify().ok
