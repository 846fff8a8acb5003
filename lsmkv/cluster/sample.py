"""Chooses where partitions end, from a sample of the distinct keys.

Each part of the source gives the keys whose hashes are lowest.  A hash that is low in one part is low
in all, so together they sample the *distinct* keys, however often some of them are repeated (Beyer et
al., SIGMOD 2007: a synopsis of k minimum values).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from lsmkv.cluster.pieces import row_bytes, sorted_rows
from lsmkv.filters import hash_key

_PER_PARTITION: Final = 400  # sampled keys: sizes of partitions then vary by about 5 %
_FEWEST: Final = 64  # of each part of the source
_HASHED_KEYS: Final = 1 << 16  # at once
_HIGHEST: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Sample:
    """Sampled keys of a part of the source, with their entries' bytes.

    ``threshold``: every key with a lower hash is in ``weights``.
    """

    pairs: int
    source_bytes: int
    entries: int
    threshold: int
    weights: dict[bytes, tuple[int, int]]  # hash and bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """Where partitions end, and what the source holds.

    ``splitters``: the last keys of all partitions but the last."""

    splitters: tuple[bytes, ...]
    pairs: int
    source_bytes: int

    @property
    def partitions(self) -> int:
        return len(self.splitters) + 1


def sample_size(partitions: int, parts: int) -> int:
    """How many keys to sample from each of ``parts``."""
    return max(_FEWEST, -(-_PER_PARTITION * partitions // max(1, parts)))


def sample(table: pa.Table, count: int, *, may_repeat: bool) -> Sample:
    """The ``count`` keys of lowest hash, after repeated ones are dropped."""
    rows = sorted_rows(table, may_repeat=may_repeat)
    hashes = _hashes(table, rows)
    threshold = _HIGHEST
    chosen = np.arange(len(rows))
    if len(rows) > count:
        chosen = np.argpartition(hashes, count)[: count + 1]
        threshold = int(hashes[chosen].max())
        chosen = chosen[hashes[chosen] < threshold]
    sizes = row_bytes(table)
    kept = rows.take(pa.array(chosen))
    keys = table["key"].take(kept).to_pylist()
    weights = sizes.take(kept).to_pylist()
    found = zip(hashes[chosen].tolist(), weights, strict=True)
    return Sample(
        pairs=table.num_rows,
        source_bytes=int(np.asarray(sizes).sum()),
        entries=len(rows),
        threshold=threshold,
        weights=dict(zip(keys, found, strict=True)),
    )


def _hashes(table: pa.Table, rows: pa.Array) -> np.ndarray:
    """A 63-bit hash of the key of each of the rows."""
    found = []
    for start in range(0, len(rows), _HASHED_KEYS):
        keys = table["key"].take(rows[start : start + _HASHED_KEYS]).to_pylist()
        found.append(np.fromiter(map(hash_key, keys), dtype=np.uint64, count=len(keys)))
    return np.concatenate(found) if found else np.empty(0, dtype=np.uint64)


def plan(samples: Sequence[Sample], partitions: int | None, partition_bytes: int) -> Plan:
    """Partitions of about the same bytes: ``partitions``, or more if one had too many.

    ``partition_bytes`` is the most that one should have.
    """
    pairs = sum(part.pairs for part in samples)
    source_bytes = sum(part.source_bytes for part in samples)
    needed = -(-source_bytes // partition_bytes)
    threshold = min((part.threshold for part in samples), default=0)
    weights: dict[bytes, int] = {}
    for part in samples:
        for key, (hashed, weight) in part.weights.items():
            if hashed < threshold or part.threshold == threshold == _HIGHEST:
                weights[key] = weight
    ends = _splitters(weights, max(1, needed, partitions or 1))
    return Plan(tuple(ends), pairs, source_bytes)


def _splitters(weights: dict[bytes, int], count: int) -> list[bytes]:
    """Fewer than ``count`` keys, at which parts of equal weight end.

    >>> _splitters({b"a": 1, b"b": 1, b"c": 1, b"d": 1}, 2)
    [b'b']
    """
    keys = sorted(weights)
    middles = np.cumsum([weights[key] for key in keys]) - [weights[key] / 2 for key in keys]
    goals = np.arange(1, count) * (sum(weights.values()) / count)
    ends = np.unique(np.searchsorted(middles, goals)) - 1
    return [keys[end] for end in ends if 0 <= end < len(keys) - 1]


def partition_numbers(table: pa.Table, ends: Sequence[bytes]) -> np.ndarray:
    """The partition of each row of a table in key order."""
    keys = table["key"]
    numbers = np.zeros(table.num_rows, dtype=np.int64)
    for end in ends:  # O(partitions * log rows)
        numbers[_first_above(keys, end) :] += 1
    return numbers


def _first_above(keys: pa.ChunkedArray, key: bytes) -> int:
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle].as_py() <= key:
            low = middle + 1
        else:
            high = middle
    return low
