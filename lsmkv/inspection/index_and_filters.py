"""What the index and the filters of tables take, side by side: in all, per key and per block."""

from __future__ import annotations

from typing import ClassVar, Protocol

from lsmkv.inspection.report import Report, size


class _Sized(Protocol):
    """One table, or several."""

    @property
    def entry_count(self) -> int: ...
    @property
    def block_count(self) -> int: ...
    @property
    def index_bytes(self) -> int: ...
    @property
    def filter_bytes(self) -> int: ...


class IndexAndFilters(Report):
    """Base of reports that tell ``index_bytes`` and ``filter_bytes`` of tables.

    Each entry counts as a key, deletions and old versions too.
    """

    __slots__ = ()
    derived: ClassVar[tuple[str, ...]] = (
        "index_bytes_per_key",
        "filter_bytes_per_key",
        "index_bytes_per_block",
        "filter_bytes_per_block",
        "index_bits_per_block",
        "filter_bits_per_block",
    )

    @property
    def index_bytes_per_key(self: _Sized) -> float:
        """Bytes of the index for each key."""
        return self.index_bytes / max(1, self.entry_count)

    @property
    def filter_bytes_per_key(self: _Sized) -> float:
        """Bytes of filters for each key."""
        return self.filter_bytes / max(1, self.entry_count)

    @property
    def index_bytes_per_block(self: _Sized) -> float:
        """Bytes of the index for each block."""
        return self.index_bytes / max(1, self.block_count)

    @property
    def filter_bytes_per_block(self: _Sized) -> float:
        """Bytes of filters for each block."""
        return self.filter_bytes / max(1, self.block_count)

    @property
    def index_bits_per_block(self: _Sized) -> float:
        """Bits of the index for each block."""
        return 8 * self.index_bytes / max(1, self.block_count)

    @property
    def filter_bits_per_block(self: _Sized) -> float:
        """Bits of filters for each block."""
        return 8 * self.filter_bytes / max(1, self.block_count)

    def index_and_filters(self: _Sized) -> str:
        """Both, side by side, as text."""
        return "; ".join(
            f"{name} {size(taken)}, {taken / max(1, self.entry_count):.2f} bytes a key, "
            f"{taken / max(1, self.block_count):.2f} ({8 * taken / max(1, self.block_count):,.0f} "
            "bits) a block"
            for name, taken in (("index", self.index_bytes), ("filters", self.filter_bytes))
        )
