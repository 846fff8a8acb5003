"""The keys of YCSB's records, and absent keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy

from ...workloads.distributions import Numbers, fnv64

_DIGITS: Final = 19  # of 2^63, the largest hash


def record_keys(count: int) -> list[bytes]:
    """The 23-byte keys of records 0 to count - 1.

    They are in hash order (``insertorder=hashed``) and zero-padded, an option of YCSB, so that all have
    the same length.

    >>> record_keys(2)
    [b'user6284781860667377211', b'user8517097267634966620']
    """
    hashes = fnv64(numpy.arange(count))
    if len(numpy.unique(hashes)) < count:
        raise ValueError(f"count={count}: two records have the same key")
    return _formatted(hashes.tolist())


def absent_keys(numbers: Numbers, count: int) -> list[bytes]:
    """The first absent key after that of each record.

    >>> absent_keys(numpy.array([0]), count=2)
    [b'user6284781860667377212']
    """
    hashes = fnv64(numpy.arange(count))
    one = numpy.uint64(1)
    wanted = hashes[numbers] + one
    taken = numpy.isin(wanted, hashes)
    while taken.any():
        wanted[taken] += one
        taken = numpy.isin(wanted, hashes)
    return _formatted(wanted.tolist())


def _formatted(hashes: Iterable[int]) -> list[bytes]:
    return [b"user%0*d" % (_DIGITS, number) for number in hashes]
