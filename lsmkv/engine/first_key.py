"""The first key of a range, found and removed in one step: what makes a store a queue.

A queue leaves a deletion for every entry that was popped, and each search for its first key would pass
them all.  So the store knows *gaps*: ranges of keys without a value.  What a search has passed or removed
becomes a gap, and the next search begins where the gap ends.  A put into a gap cuts it in two.

The search takes no lock: the removal is done only if nothing came in between (:mod:`lsmkv.engine.watch`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from random import randrange
from typing import Final

from lsmkv.encoding.entries import MAX_KEY_BYTES
from lsmkv.encoding.expiry import Held, Moment
from lsmkv.engine.readers import Readers
from lsmkv.engine.watch import Watch, Watches
from lsmkv.read.bounds import Bounds
from lsmkv.read.scan import Scan
from lsmkv.read.sources import Item

MOST_GAPS: Final = 1000
"""Beyond it any gap is forgotten: one search passes its deletions again."""

_END: Final = b"\xff" * (MAX_KEY_BYTES + 1)  # above every key


class _Search(Watch):
    """Watches a range while its first entry is looked for and removed.

    It begins at ``first``; nothing from ``start`` up to ``end`` is there, or left, at ``moment``.
    """

    def __init__(self, watches: Watches, gaps: FirstKeys, start: bytes) -> None:
        super().__init__(watches, start)
        self._gaps = gaps
        self._removes = False
        self.first = self.end = start
        self.moment: Moment | None = None

    def begin(self) -> None:
        super().begin()
        self.first = self._gaps.end_of(self.start)

    def admits(self, key: bytes) -> bool:
        """As of any watch.  From then on it notes puts alone: the removal is a write, too."""
        if not super().admits(key):
            return False
        self.lowest = None
        self._removes = True
        return True

    def note(self, key: bytes, value: Held) -> None:
        if value is not None or not self._removes:
            super().note(key, value)

    def leave_gap(self) -> None:
        """Make a gap of what was searched, unless something was put there."""
        if self.moment is not None and (self.lowest is None or self.lowest >= self.end):
            self.moment.drop()
            self._gaps.add(self.start, self.end)


class FirstKeys(Watch):
    """Removes first entries of an open store, and knows its gaps: a watch while there are any.

    ``write`` sets a key to a value, with sync or not, if a watch admits it, and tells whether.
    """

    def __init__(
        self,
        readers: Readers,
        watches: Watches,
        write: Callable[[bytes, Held, bool, Watch], bool],
    ) -> None:
        super().__init__(watches, b"")
        self._readers = readers
        self._write = write
        # Where gaps begin (included) and end (excluded), in turn and ascending: a key is in a gap if an
        # odd number of these is at or below it.  Empty gaps do no harm.
        self._ends: list[bytes] = []

    def pop(self, wanted: Bounds) -> Item | None:
        """Remove the first entry of a range, and return it; None without one.  Raises as ``DB.put``."""
        state = self._readers.state
        state.check_for_writing()
        search = _Search(self._watches, self, wanted.start or b"")
        try:
            item = self._find(search, wanted)
            while item is not None and not self._write(item[0], None, False, search):
                item = self._find(search, wanted)
            search.end = wanted.stop or _END if item is None else item[0] + b"\0"
            state.with_mutex(search.leave_gap)
            return item
        finally:
            self._watches.active.pop(search, None)

    def _find(self, search: _Search, wanted: Bounds) -> Item | None:
        """The first entry as of now.  What the search reads is let go before the removal."""
        self._readers.state.with_mutex(search.begin)
        bounds = Bounds(search.first, wanted.stop, wanted.prefix)
        read_view = self._readers.read_view()
        found = next(Scan(read_view, bounds), None)
        search.moment = read_view.moment
        return None if found is None else found[0]

    # The gaps (the mutex is held)

    @property
    def gaps(self) -> list[tuple[bytes, bytes]]:
        """Where each begins (included) and ends (excluded)."""
        return list(zip(self._ends[::2], self._ends[1::2], strict=True))

    def end_of(self, start: bytes) -> bytes:
        """Where the gap ends that ``start`` is in; ``start`` itself if it is in none."""
        at = bisect_right(self._ends, start)
        return self._ends[at] if at % 2 else start

    def add(self, start: bytes, end: bytes) -> None:
        """Make ``start`` <= key < ``end`` a gap: no key there has a value."""
        if start >= end:
            return
        self.begin()  # first: from then on it is told of puts
        ends = self._ends
        low, high = bisect_left(ends, start), bisect_right(ends, end)
        outermost: list[bytes] = []
        if low % 2 == 0:
            outermost.append(start)
        if high % 2 == 0:
            outermost.append(end)
        ends[low:high] = outermost  # one uninterrupted call, like those below
        if len(ends) > 2 * MOST_GAPS:
            any_gap = 2 * randrange(MOST_GAPS)
            del ends[any_gap : any_gap + 2]

    def note(self, key: bytes, value: Held) -> None:
        """A write of ``key`` begins: with a value, it leaves its gap."""
        ends = self._ends
        at = bisect_right(ends, key)
        if value is not None and at % 2:
            if len(ends) < 2 * MOST_GAPS:
                ends[at:at] = [key, key + b"\0"]
            else:
                ends[at] = key

    def note_all(self) -> None:
        """Any key may get a value: forget all gaps."""
        self._ends = []
        self._watches.active.pop(self, None)
