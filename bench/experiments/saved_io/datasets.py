"""The data sets of ``saved-io``, with absent keys between the present ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from bench.workloads import files
from bench.workloads.keys import KEY_BYTES, Values, absent_key, present_key

HBASE_CELL_BYTES: Final = 200

DIGITS: Final = "digits"
HBASE: Final = "hbase"
PATHS: Final = "paths"
DATASETS: Final = (DIGITS, HBASE, PATHS)
"""``digits``: 16-byte keys, 100-byte values.  ``hbase``: cells of 200 bytes, key included.
``paths``: the files of this Python, path to description, as the demonstration stores them."""

_APART: Final = 10**9  # more than a data set has entries
_SEEDS: Final = 10**6  # keys have 16 digits

ALONE: Final = "alone"
"""In place of a data set: filters without a store, to compare hash strategies."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Entries, and absent keys close to them."""

    entries: Sequence[tuple[bytes, bytes]]
    absent: Sequence[bytes]


@lru_cache(maxsize=1)
def dataset(name: str, entries: int, seed: int) -> Dataset:
    """The data set of that name, with ``entries`` entries (``paths``: at most that many)."""
    if name == PATHS:
        return _paths(entries, seed)
    if name not in DATASETS:
        raise ValueError(f"dataset {name!r}: must be one of {', '.join(DATASETS)}")
    length = 100 if name == DIGITS else HBASE_CELL_BYTES - KEY_BYTES
    values = Values(length, seed)
    # Each seed has its own keys: the same keys would make the same filters.
    first = seed % _SEEDS * _APART
    numbers = range(first, first + entries)
    return Dataset(
        [(present_key(number), values.of(number)) for number in numbers],
        # None after the last key: all lie between two present keys.
        [absent_key(number) for number in numbers[:-1]],
    )


def _paths(most: int, seed: int) -> Dataset:
    described = (
        (key, value)
        for key, path in files.find_files(files.python_roots())
        # Python makes and removes these at any time.
        if b"/__pycache__/" not in key and (value := files.describe_file(path)) is not None
    )
    entries = [entry for entry, _ in zip(described, range(most), strict=False)]
    keys = [key for key, _ in entries]
    last = max(keys)
    near = files.absent_keys(keys, len(keys), seed)
    return Dataset(entries, [key for key in near if key < last])
