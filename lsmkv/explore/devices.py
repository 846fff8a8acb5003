"""What a read takes on each kind of storage.

The times are what makers state; none is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Device:
    """A device that reads at random: one read's time, and the most reads a second.

    >>> [device.read_ms for device in DEVICES]
    [12.4, 0.0526, 100.0]
    >>> SSD.reads_per_s(1), SSD.reads_per_s(32), HARD_DISK.reads_per_s(32)
    (19000.0, 600000, 80.8...)
    """

    name: str
    read_s: float
    most_reads_per_s: float
    source: str

    @property
    def read_ms(self) -> float:
        """Milliseconds of one read, to three digits."""
        return float(f"{1000 * self.read_s:.3g}")

    @property
    def assumption(self) -> str:
        """What the times rest on, in short."""
        return self.source.removeprefix(f"{self.name}: ").partition(" (")[0]

    def reads_per_s(self, depth: int) -> float:
        """Reads a second with so many under way."""
        return min(depth / self.read_s, self.most_reads_per_s)


_DISK_READ_S: Final = 0.0082 + 60 / 7200 / 2
HARD_DISK: Final = Device(
    "hard disk",
    _DISK_READ_S,
    1 / _DISK_READ_S,
    "hard disk: 8.2 ms to seek and half a turn at 7,200 rpm (HGST, Ultrastar 7K4000 specification); one "
    "arm serves one read at a time, and what a queue gains by its order is left out",
)
SSD: Final = Device(
    "SSD",
    1 / 19_000,
    600_000,
    "SSD: 19,000 reads of 4 KiB a second at depth 1, at most 600,000 (Samsung, 970 EVO Plus 1 TB data "
    "sheet)",
)
OBJECT_STORE: Final = Device(
    "object store",
    0.1,
    5_500,
    "object store: 100 ms a GET, 5,500 a second for a prefix (AWS, Best Practices Design Patterns: "
    "Optimizing Amazon S3 Performance)",
)
DEVICES: Final = (HARD_DISK, SSD, OBJECT_STORE)
