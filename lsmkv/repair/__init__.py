"""Repair: a store made anew from whatever tables and logs still check out.

The manifest, where it can be read, says which tables count and where they belong.  Where it cannot,
every table file counts, and the order among them is that of their sequence numbers
(:mod:`lsmkv.repair.order`).  Whole tables are kept as they are; of damaged ones the whole blocks are
written to new tables.  The logs are applied up to the first damage, and become a table too.

The originals are never changed.  Repair in place only moves them, once the repaired store is on
disk, to the folder ``lost`` inside the store, unless they are part of it.
"""

from __future__ import annotations

from lsmkv.repair.report import LostRange, RepairReport
from lsmkv.repair.run import repair

__all__ = ["LostRange", "RepairReport", "repair"]
