"""Messages between a live page and its server."""

from __future__ import annotations

from typing import Literal

from lsmkv.explore.contract import Filter, Key, Lookup, Part


class LookupRequest(Part):
    """A key to look up, or a kind of key to pick.

    Attributes:
        form: how ``key`` is written: text with ``\\xNN``, hex digits, or a decimal number (8 bytes,
            big-endian).
        pick: the kind of key to pick instead; then ``form`` and ``key`` do not matter.
    """

    key: str = ""
    form: Literal["text", "hex", "number"] = "text"
    pick: Literal["present", "absent", "false positive"] | None = None


class BlockPlace(Part):
    """A block by the number of its table and its own."""

    table: int
    number: int


class LookupReply(Part):
    """A lookup, the filters that it asked, and the counters after it.

    Attributes:
        cached: all blocks that the block cache holds after it.
    """

    version: int
    lookup: Lookup
    filters: list[Filter]
    cached: list[BlockPlace]
    stats: dict[str, int | float]


class BlockReply(Part):
    """One block as its trailer and index describe it, with its filter.

    Attributes:
        codec: ``"none"`` or ``"zstd"``.
        is_cached: whether it is in the block cache.
    """

    version: int
    table: int
    number: int
    offset: int
    length_bytes: int
    raw_bytes: int
    codec: str
    entry_count: int
    first_key: Key
    last_key: Key
    is_cached: bool
    filter: Filter | None


class Pulse(Part):
    """News of a live store: sent when it changes, and every few seconds.

    Attributes:
        revision: goes up when tables changed, so that the page is worth fetching again.
        failure: why the store cannot be read now; None while it can.
    """

    version: int
    revision: int
    memtable_key_counts: list[int]
    size_bytes: int
    entry_count: int
    table_count: int
    stats: dict[str, int | float]
    failure: str | None


class Problem(Part):
    """Why a request has no answer."""

    version: int
    problem: str
