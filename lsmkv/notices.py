"""What a store tells that is no error: records of the logger ``lsmkv``.

A log record, and no warning: a program that turns warnings into errors would have look-ups fail, of
whose answers nothing is wrong.
"""

from __future__ import annotations

from typing import Final

LOGGER: Final = "lsmkv"


def note_rebuilt_filters(path: str, offset: int, chunk_count: int) -> None:
    """Tell that filters in the table at ``path`` were damaged, first at ``offset``, and made anew."""
    import logging  # not to be loaded by every program that stores data

    logging.getLogger(LOGGER).warning(
        "%s at offset %d: the checksum of a table's filters fails (of %d parts of them); the copies "
        "that its blocks hold are used instead. The file stays damaged until its keys are compacted: "
        "compact_range(force=True) rewrites it.",
        path,
        offset,
        chunk_count,
    )
