"""Messages between a live page and its server."""

from __future__ import annotations

from typing import Literal

from lsmkv.counters import LevelCount, TableCount
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


class LookupReply(Part):
    """A lookup, the filters that it asked, and the counters after it."""

    version: int
    lookup: Lookup
    filters: list[Filter]
    stats: dict[str, int | float]


class BlockReply(Part):
    """One block as its trailer and index describe it, with its filter.

    Attributes:
        codec: ``"none"`` or ``"zstd"``.
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
    filter: Filter | None


class Program(Part):
    """The counters that a program publishes (``lsmkv.counters``).

    Attributes:
        silent_s: seconds since it published them, once that is long: it has ended, or hangs.
        stats: since it opened the store.
        per_second: the same between its last two publications; empty until there were two.
        tables: those with most false positives, most first.
        levels: those with tables, from the top.
        problem: why what is there cannot be shown; then nothing else counts.
    """

    pid: int
    silent_s: int | None
    stats: dict[str, int | float]
    per_second: dict[str, float]
    tables: list[TableCount]
    levels: list[LevelCount]
    problem: str | None


class Pulse(Part):
    """News of a live store: sent when it changes, and every few seconds.

    Attributes:
        revision: goes up when tables changed, so that the page is worth fetching again.
        failure: why the store cannot be read now; None while it can.
        program: what the program that has the store open publishes; None if nothing.
    """

    version: int
    revision: int
    memtable_key_counts: list[int]
    size_bytes: int
    entry_count: int
    table_count: int
    stats: dict[str, int | float]
    failure: str | None
    program: Program | None


class Problem(Part):
    """Why a request has no answer."""

    version: int
    problem: str
