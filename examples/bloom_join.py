"""A join of two tables on different machines.

The site with the customers first sends a filter of their numbers.  The site with the orders then ships
only orders that may match a customer.
"""

from __future__ import annotations

import random

from lsmkv.filters import BinaryFuseFilter

ORDER_BYTES = 200


def main() -> None:
    draw = random.Random(3)
    customers = {n: f"customer {n}" for n in draw.sample(range(1_000_000), 5_000)}
    orders = [(draw.randrange(1_000_000), draw.randrange(100)) for _ in range(100_000)]
    orders += [(n, draw.randrange(100)) for n in draw.sample(sorted(customers), 2_000)]

    # At the customers' site: all keys are known, so a static filter is enough.
    sent = BinaryFuseFilter.from_keys([b"%d" % n for n in customers], 0.01).to_bytes()

    # At the orders' site.
    filter = BinaryFuseFilter.from_bytes(sent, "from the customers' site")
    shipped = [order for order in orders if filter.may_contain(b"%d" % order[0])]

    # Back at the customers' site: the join itself drops the few false positives.
    joined = [(customers[n], amount) for n, amount in shipped if n in customers]
    assert len(joined) == sum(n in customers for n, _ in orders)
    print(f"filter: {len(sent):,} bytes for {len(customers):,} customers")
    print(f"orders shipped: {len(shipped):,} of {len(orders):,}, joined: {len(joined):,}")
    print(f"bytes shipped: {len(sent) + len(shipped) * ORDER_BYTES:,}", end=" ")
    print(f"instead of {len(orders) * ORDER_BYTES:,}")


if __name__ == "__main__":
    main()
