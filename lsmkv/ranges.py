"""A range of keys of one consistent view: what the views of keys, values and items look into."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from lsmkv.encoding import key_bytes, prefix_successor
from lsmkv.engine import Engine
from lsmkv.pins import Pin
from lsmkv.scan import Scan, ScanRange
from lsmkv.version import View

_flat: Final = chain.from_iterable


def scan_range(start: object, stop: object, prefix: object, reverse: bool) -> ScanRange:
    """The keys from ``start`` up to, not including, ``stop`` that start with ``prefix``.

    Raises:
        TypeError: a bound is neither None nor bytes-like.
    """
    low = None if start is None else key_bytes(start)
    high = None if stop is None else key_bytes(stop)
    head = None if prefix is None else key_bytes(prefix)
    if not head:
        return ScanRange(low, high, None, reverse)
    end = prefix_successor(head)
    if end is not None:
        high = end if high is None else min(high, end)
    return ScanRange(head if low is None else max(low, head), high, head, reverse)


class KeyRange:
    """Keys between two bounds as of one moment, which ``pin`` keeps from being forgotten."""

    def __init__(
        self, engine: Engine, view: View, pin: Pin, wanted: ScanRange, owner: object
    ) -> None:
        self._owner = owner  # a store that nobody else holds stays open for its readers
        self.engine = engine
        self.wanted = wanted
        self._view = view
        self._pin = pin
        self._seq: int = pin.seq

    def items(self, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """The entries in order, or in the opposite order.

        A step after the store was closed raises, once what is at hand has been given out.
        """
        wanted = self.wanted
        if reverse:
            wanted = ScanRange(wanted.start, wanted.stop, wanted.prefix, not wanted.reverse)
        return _flat(_OpenScan(self, wanted))

    def scan(self, wanted: ScanRange) -> Scan:
        """A scan of the view."""
        return Scan(self._view, self._seq, wanted)

    def value(self, key: object) -> bytes | None:
        """The value of ``key``, if it is in the range and has one."""
        try:
            wanted = key_bytes(key)
        except (TypeError, ValueError):
            return None
        bounds = self.wanted
        if bounds.start is not None and wanted < bounds.start:
            return None
        if bounds.stop is not None and wanted >= bounds.stop:
            return None
        self.engine.usable_view()
        return self._view.get_at(wanted, self._seq, self.engine.stats)

    def count(self) -> int:
        """How many entries there are.  O(n): it scans them."""
        self.engine.usable_view()
        return sum(map(len, self.scan(self.wanted)))


class _OpenScan:
    """A scan in lists that begins with its first step, and says so when the store was closed."""

    def __init__(self, contents: KeyRange, wanted: ScanRange) -> None:
        self._contents = contents  # whose pin is needed until the end
        self._engine = contents.engine
        self._wanted = wanted
        self._scan: Scan | None = None

    def __iter__(self) -> _OpenScan:
        return self

    def __next__(self) -> list[tuple[bytes, bytes]]:
        if self._engine.view is None:
            self._engine.usable_view()  # says why there is none
        scan = self._scan
        if scan is None:
            scan = self._scan = self._contents.scan(self._wanted)
        return scan.__next__()
