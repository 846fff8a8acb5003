"""Theory of a store that is opened, asked for absent keys, and closed.

Between two openings, bytes per key: ``cost(p) = bits(p)/8 + L * runs * p * B``, with L lookups of absent
keys per key, B bytes for a block read, and ``bits(p) = log2(1/p) / ln 2`` bits per key of a Bloom filter
with the best number of probes (Bloom 1970; the size as in Broder and Mitzenmacher, "Network
applications of Bloom filters: a survey", Internet Mathematics 1(4), 2004).  Its derivative,
``-1/(8 (ln 2)^2 p) + L * runs * B``, is zero at ``p* = 1/(8 (ln 2)^2 L runs B)``.  The second derivative
is positive, so that is the minimum.  Where p* would exceed 1, no filters cost least.

Where requests cost too, a block read costs more than its bytes, and loading filters takes a request for
each run: ``load`` bytes per key, whatever p.  So they move no minimum, but may make no filters cheaper.
"""

from __future__ import annotations

import math
from typing import Final

_BYTES_PER_NAT: Final = 1 / (8 * math.log(2) ** 2)
"""Bytes per key of a Bloom filter for each factor of e in 1/p."""


def best_rate(
    lookups_per_key: float, runs: int, read_cost_bytes: float, load: float = 0.0
) -> float:
    """The rate of least cost, p*; 1 stands for no filters.

    ``load``: bytes per key that any filters cost at an opening, besides their own.

    >>> round(best_rate(0.01, 1, 4096), 5)
    0.00635
    >>> best_rate(0.00001, 1, 4096), best_rate(0.01, 1, 4096, load=100.0)
    (1.0, 1.0)
    """
    rate = _BYTES_PER_NAT / (lookups_per_key * runs * read_cost_bytes)
    if rate >= 1.0:
        return 1.0
    shape = (lookups_per_key, runs, read_cost_bytes)
    return rate if load + cost_per_key(rate, *shape) < cost_per_key(1.0, *shape) else 1.0


def cost_per_key(
    error_rate: float, lookups_per_key: float, runs: int, read_cost_bytes: float
) -> float:
    """Bytes per key between two openings; ``error_rate`` 1 stands for no filters.

    >>> cost_per_key(1.0, 0.01, 1, 4096)
    40.96
    >>> cost_per_key(best_rate(0.01, 1, 4096), 0.01, 1, 4096) < cost_per_key(0.01, 0.01, 1, 4096)
    True
    """
    load = _BYTES_PER_NAT * math.log(1.0 / error_rate)
    return load + lookups_per_key * runs * error_rate * read_cost_bytes
