"""lsmkv itself."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

import lsmkv
from lsmkv.storage.storage import Storage

from ..harness.environment import build
from .base import Engine, Pairs, Settings, Store, walk


def error_rate_for(bits_per_key: float) -> float:
    """The error rate of so many bits per key: the inverse of ``sizing.bits_for``.

    >>> round(error_rate_for(10), 5)
    0.00819
    """
    return math.exp(-bits_per_key * math.log(2) ** 2)


class LsmkvStore(Store):
    """An open store, with ``options`` in place of those that ``Settings`` tell."""

    def __init__(
        self,
        directory: str,
        settings: Settings,
        options: lsmkv.Options | None = None,
        clock: Callable[[], float] = time.time,
        storage: Storage | None = None,
    ) -> None:
        options = options or _options(settings)
        self._db = lsmkv.open(directory, options, clock=clock, storage=storage)
        self.get = self._db.get
        self.put = self._db.put
        self.put_sync = partial(self._db.put, sync=True)

    def put_batch(self, pairs: Pairs, sync: bool = False) -> None:
        with self._db.write_batch(sync=sync) as batch:
            put = batch.put
            for key, value in pairs:
                put(key, value)

    def put_expiring(self, key: bytes, value: bytes, ttl_s: int) -> None:
        self._db.put(key, value, ttl_s=ttl_s)

    def multi_get(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        found: Sequence[bytes | None] = self._db.multi_get(keys)
        return found

    def scan(self, start: bytes | None, limit: int | None, reverse: bool = False) -> int:
        if not reverse:
            return walk(self._db.items(start=start), limit)
        stop = None if start is None else start + b"\0"  # just after start, which is included
        return walk(self._db.items(stop=stop, reverse=True), limit)

    def settle(self) -> None:
        self._db.flush()
        self._db.wait_until_settled()

    def compact(self) -> None:
        self._db.compact_range()
        self.settle()

    def counters(self) -> dict[str, int]:
        stats = self._db.stats()
        return {
            "filter_negatives": stats.filter_negatives,
            "filter_positives": stats.filter_true_positives + stats.filter_false_positives,
            "filter_true_positives": stats.filter_true_positives,
            "data_block_reads": stats.block_reads,
            "metadata_reads": stats.filter_reads + stats.index_reads,
        }

    def metadata_bytes(self) -> int:
        info = self._db.inspect()
        return int(info.index_bytes + info.filter_bytes)


def _options(settings: Settings) -> lsmkv.Options:
    filtered = settings.bits_per_key > 0
    return lsmkv.Options(
        filter_policy="bloom" if filtered else "none",
        error_rate=error_rate_for(settings.bits_per_key) if filtered else 0.5,  # 0 is no rate
        filter_allocation="uniform",  # as the peers' filters
        block_cache_size_bytes=settings.cache_size_bytes,
        write_buffer_size_bytes=settings.write_buffer_size_bytes,
        block_size_bytes=settings.block_size_bytes,
        compression=settings.compression,
        background=settings.background,
        direct_reads=settings.direct_reads,
    )


class Lsmkv(Engine):
    """This project's store, with its default compaction (leveled, size ratio 10)."""

    name = distribution = module = "lsmkv"
    store = LsmkvStore
    expires: ClassVar[bool] = True

    def version(self) -> str:
        """The version, and whether its hot modules are compiled here."""
        return f"{super().version()} ({build()})"
