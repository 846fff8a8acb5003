"""Builds the filters of a table: one for each block, or one for all of its keys."""

from __future__ import annotations

import time
from typing import Final

from lsmkv.encoding.entry_batch import EntrySlice
from lsmkv.filters.bloom import MAX_BITS
from lsmkv.filters.hashing import DIGEST_BYTES, hashes_of
from lsmkv.filters.keys import FilterKey, filter_key_from_spec
from lsmkv.filters.maths.sizing import keys_for
from lsmkv.filters.policy import MAX_PARAMETER, NONE, policy_named
from lsmkv.stats import Stats

_NO_FILTER: Final = (b"", 0, 0)  # filter, key count and parameter of a block without a filter


class FilterBuilder:
    def __init__(
        self,
        policy: str,
        filter_key: str,
        granularity: str,
        error_rate: float,
        stats: Stats,
    ) -> None:
        self.policy = policy_named(policy)
        self._filter_key: FilterKey = filter_key_from_spec(filter_key)
        # Copies: attributes of FilterPolicy and FilterKey are slow to read here.
        self.scheme: int = self.policy.scheme
        self._whole_keys = self._filter_key.is_whole
        self._has_own_hash: bool = self.policy.has_own_hash
        self._per_table = granularity == "table"
        self._stats = stats
        self._error_rate: float = error_rate
        self._table_hashes: dict[int, None] = {}
        # Half of what one filter can hold: the keys of a block may still follow.
        self._table_filter_keys = keys_for(MAX_BITS, min(error_rate, 0.5)) // 2

    @property
    def is_full(self) -> bool:
        """Whether the filter of the table cannot hold much more."""
        return len(self._table_hashes) > self._table_filter_keys

    def of_block(
        self, entries: list[EntrySlice], packed: bytes, repeats: bool
    ) -> tuple[bytes, int, int]:
        """Filter, key count and parameter for a block's entries; ``packed`` are their digests.

        ``repeats``: a key has several entries.
        """
        if self.policy is NONE:
            return _NO_FILTER
        started_ns = time.perf_counter_ns()
        if not self._whole_keys:
            part_of = self._filter_key.part
            packed = self.policy.digests(list(dict.fromkeys(map(part_of, _keys(entries)))))
        elif repeats or self._has_own_hash:
            packed = self.policy.digests(list(dict.fromkeys(_keys(entries))))
        if self._per_table:
            self._table_hashes.update(dict.fromkeys(hashes_of(packed)))
            built = _NO_FILTER
        else:
            made = self.policy.build_from_digests(packed, self._error_rate)
            built = self._checked(made, len(packed) // DIGEST_BYTES)
        spent_ns = time.perf_counter_ns() - started_ns
        self._stats.filter_build_ns += spent_ns
        return built

    def of_table(self) -> tuple[bytes, int, int]:
        if not self._table_hashes:
            return _NO_FILTER
        started_ns = time.perf_counter_ns()
        hashes = list(self._table_hashes)
        built = self._checked(self.policy.build(hashes, self._error_rate), len(hashes))
        spent_ns = time.perf_counter_ns() - started_ns
        self._stats.filter_build_ns += spent_ns
        return built

    def _checked(self, made: tuple[bytes, int], key_count: int) -> tuple[bytes, int, int]:
        bits, parameter = made
        if not bits:
            return _NO_FILTER
        if not 0 <= parameter <= MAX_PARAMETER:  # it shares a byte with the scheme
            raise ValueError(
                f"filter policy {self.policy.name!r} built a filter with the parameter {parameter}, "
                f"which does not lie between 0 and {MAX_PARAMETER}"
            )
        return bits, key_count, parameter


def _keys(entries: list[EntrySlice]) -> list[bytes]:
    return [key for part in entries for key in part.key_objects()]
