"""A list of known false positives beside a filter.

It pays where the same absent keys are asked for again and again: the filter's error rate then
counts for the first time only.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, Protocol, TypeVar

from lsmkv.filters.family.protocols import Insert, Membership


class Growing(Membership, Insert, Protocol):
    """A filter that takes keys one by one."""


M = TypeVar("M", bound=Membership)
G = TypeVar("G", bound=Growing)


class KnownFalsePositives(Generic[M]):
    """A filter, and keys that it is known to be wrong about.

    It remembers ``capacity`` keys at most, 1 or more, and forgets the least recently asked; None is for
    any number.  It goes on denying a remembered key that is added to the filter itself:
    :class:`GrowingKnownFalsePositives` is for filters that grow.

    >>> from lsmkv.filters import SingleHashFilter
    >>> always = SingleHashFilter(1)
    >>> always.update(b"key %d" % i for i in range(100))
    >>> filter = KnownFalsePositives(always)
    >>> filter.may_contain(b"absent")
    True
    >>> filter.remember(b"absent")
    >>> filter.may_contain(b"absent")
    False
    """

    def __init__(self, filter: M, capacity: int | None = None) -> None:
        if capacity is not None and capacity < 1:
            raise ValueError(f"capacity={capacity!r}: must be 1 or more, or None")
        self.filter: Final = filter
        self._capacity = capacity
        self._known: OrderedDict[bytes, None] = OrderedDict()

    @property
    def known_count(self) -> int:
        """How many false positives are known."""
        return len(self._known)

    def may_contain(self, key: bytes, /) -> bool:
        """Whether the filter may hold ``key``, known false positives excepted."""
        if not self.filter.may_contain(key):
            return False
        if key not in self._known:
            return True
        self._known.move_to_end(key)
        return False

    def remember(self, key: bytes, /) -> None:
        """Answer False for ``key``, which must really be absent, from now on."""
        self._known[bytes(key)] = None
        self._known.move_to_end(key)
        if self._capacity is not None and len(self._known) > self._capacity:
            self._known.popitem(last=False)


class GrowingKnownFalsePositives(KnownFalsePositives[G]):
    """The same for a filter that grows: a key that is added is no longer a false positive."""

    def add(self, key: bytes, /) -> None:
        """Add ``key``, which is then no false positive."""
        self._known.pop(key, None)
        self.filter.add(key)
