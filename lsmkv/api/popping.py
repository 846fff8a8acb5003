"""Popping: taking the first entry of a store, over and over."""

from __future__ import annotations

from collections.abc import MutableMapping

from lsmkv.engine.engine import Engine
from lsmkv.read.scan import Bounds, Scan


class PoppedInOrder(MutableMapping[bytes, bytes]):
    """A mapping whose ``popitem`` takes the first entry.

    Deletions stay where they are until a compaction, and a scan steps over them.  So each pop begins
    at the engine's floor, which rises with each pop and falls with a write below it.
    """

    _engine: Engine

    def popitem(self) -> tuple[bytes, bytes]:
        """Remove the first key, and return it with its value; KeyError when there is none.

        A call takes no longer for the entries that were popped before.  No two calls return the
        same entry, whatever threads they come from.
        """
        engine = self._engine
        engine.require_open()  # or a lock that a fork left behind would be waited for
        with engine.popping:
            key, value, seq = _first_entry(engine)
            if not engine.read_only:
                engine.raise_floor(key, seq)
            engine.delete(key, False)
        return key, value


def _first_entry(engine: Engine) -> tuple[bytes, bytes, int]:
    """The first key, its value, and the sequence number of the moment that shows them."""
    read_view, floor = engine.read_view_and_floor()
    found = next(Scan(read_view, Bounds(floor)), None)
    if found is None:
        raise KeyError("popitem(): the store is empty")
    key, value = found[0]
    return key, value, read_view.seq
