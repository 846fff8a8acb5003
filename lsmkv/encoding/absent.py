"""What tables and memtables say of a key that they know nothing of."""

from __future__ import annotations

from typing import Final


class Absent:
    """The type of :data:`ABSENT`."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()
"""A table or memtable knows nothing of the key (which is not the same as: the key was deleted)."""
