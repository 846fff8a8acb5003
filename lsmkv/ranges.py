"""A range of keys of one moment: what the views of keys, values and items are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, SupportsIndex

from mypy_extensions import mypyc_attr

from lsmkv.encoding import key_bytes, prefix_successor
from lsmkv.engine import Engine
from lsmkv.errors import uncopyable
from lsmkv.iterators import EntryIterator
from lsmkv.moments import Moment
from lsmkv.scan import Scan, ScanRange

_flat: Final = EntryIterator.from_iterable


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


@mypyc_attr(allow_interpreted_subclasses=True)
class KeyRange:
    """Keys between two bounds as of one moment.

    Args:
        owner: is kept: a store that nobody else holds stays open for its readers.
        moment: gives the moment.
        start, stop, prefix, reverse: as of :func:`scan_range`, and raises as that.
    """

    def __init__(
        self,
        owner: object,
        engine: Engine,
        moment: Callable[[], Moment],
        start: object,
        stop: object,
        prefix: object,
        reverse: bool,
    ) -> None:
        self._owner = owner
        self.engine = engine
        self._wanted = scan_range(start, stop, prefix, reverse)
        self._moment: Moment = moment()

    def entries(self, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """The entries in order, or in the opposite order.

        A step after the store was closed raises, once what is at hand has been given out.
        """
        wanted = self._wanted
        if reverse:
            wanted = ScanRange(wanted.start, wanted.stop, wanted.prefix, not wanted.reverse)
        return _flat(_OpenScan(self._moment, wanted, self.engine, self._owner))

    def value(self, key: object) -> bytes | None:
        """The value of ``key``, if it is in the range and has one."""
        try:
            data = key_bytes(key)
        except (TypeError, ValueError):
            return None
        bounds = self._wanted
        if bounds.start is not None and data < bounds.start:
            return None
        if bounds.stop is not None and data >= bounds.stop:
            return None
        self.engine.usable_view()
        return self._moment.get(data, self.engine.stats)

    def __len__(self) -> int:
        """How many entries there are.  O(n): it scans them."""
        self.engine.usable_view()
        return sum(map(len, Scan(self._moment, self._wanted)))

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        raise uncopyable(
            f"a {type(self).__name__}",
            "share the view, or make a list, set or dict of what it shows",
        )


@mypyc_attr(allow_interpreted_subclasses=True)
class EntryRange(KeyRange):
    """A range whose elements are its entries."""

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return KeyRange.entries(self, False)  # so named, it need not be looked up at each call

    def __reversed__(self) -> Iterator[tuple[bytes, bytes]]:
        return KeyRange.entries(self, True)


@mypyc_attr(free_list_len=1)
class _OpenScan(Scan):
    """A scan that says so when the store was closed."""

    def __init__(self, moment: Moment, wanted: ScanRange, engine: Engine, owner: object) -> None:
        super().__init__(moment, wanted)
        self._engine = engine
        self._owner = owner

    def __next__(self) -> list[tuple[bytes, bytes]]:
        if self._engine.view is None:
            self._engine.usable_view()  # says why there is none
        return super().__next__()
