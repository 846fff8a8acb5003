"""Repair: a store made anew from whatever tables and logs still check out.

The manifest, where it can be read, says which tables count and where they belong.  Where it cannot,
every table file counts, and the order among them is that of their sequence numbers
(:mod:`lsmkv.repair.order`).  Whole tables are kept as they are; of damaged ones the whole blocks are
written to new tables.  The logs are applied up to the first damage, and become a table too.

The originals are never changed.  Repair in place only moves them, once the repaired store is on
disk, to the folder ``lost`` inside the store, unless they are part of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from lsmkv.repair.report import LostRange, RepairReport

__all__ = ["LostRange", "RepairReport", "repair"]

Progress = Callable[[int, int], None]


def repair(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    in_place: bool = False,
    progress: Progress | None = None,
) -> RepairReport:
    """Rebuild a store from whatever tables and logs still check out.

    Of a damaged table it keeps the whole blocks; of a log, the records before its first damage.
    Whole records behind that are left out, and so are the logs that follow: a store that had them
    would lack writes that came before.

    Args:
        path: the damaged store; it must not be open.
        output: directory for the repaired store, absent or empty, and not inside the damaged one,
            which stays as it is.
        in_place: instead, repair in the same directory.  Whatever is not part of the repaired store
            is moved to the folder ``lost`` in it; nothing is deleted.
        progress: called with bytes of table files gone through, and bytes in all.

    Raises:
        ValueError: not exactly one of ``output`` and ``in_place`` is given, or ``output`` is the
            damaged store's directory or inside it.
        NotAStoreError: nothing of a store is at ``path``.
        FileExistsError: ``output`` is not empty.
        LockedError: the store is open for writing.
        UnsupportedFormatError: a file is in a format of another release: repair with that one.
        OSError: the repaired store cannot be written, or ``lost`` is a link or a file.  Repair in
            place has changed nothing then.

    Reads every byte twice, or three times where tables have to be merged; in memory are the
    operations of the logs and one table's filters.

    >>> import lsmkv, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store, output = os.path.join(folder, "store"), os.path.join(folder, "repaired")
    ...     with lsmkv.open(store) as db:
    ...         db[b"fox"] = b"red"
    ...     os.remove(os.path.join(store, "CURRENT"))
    ...     report = lsmkv.repair(store, output)
    ...     with lsmkv.open(output) as db:
    ...         report.is_complete, db[b"fox"]
    (True, b'red')
    """
    from lsmkv.repair import run  # what most programs never need

    return run.repair(path, output, in_place=in_place, progress=progress)
