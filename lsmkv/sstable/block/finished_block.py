"""A block that is built, and not yet written."""

from __future__ import annotations


class FinishedBlock:
    """A block without its offset; no dataclass, whose ``__init__`` is never compiled."""

    def __init__(
        self,
        payload: bytes,
        first: bytes,
        last: bytes,
        entry_count: int,
        filter_bits: bytes,
        filter_key_count: int,
        probe_count: int,
    ) -> None:
        self.payload = payload
        self.first = first
        self.last = last
        self.entry_count = entry_count
        self.filter_bits = filter_bits
        self.filter_key_count = filter_key_count
        self.probe_count = probe_count
