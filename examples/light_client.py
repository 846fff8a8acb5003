"""A light client: a wallet lets a full node send it only transactions that may be its own.

The wallet gives the node a filter of its addresses (Bitcoin's BIP 37, for which SPV is the usual
name), not the addresses.  False positives come along: they cost bytes, and hide which addresses are
the wallet's.  A node that remembers the filter still learns a lot, the more so the fewer they are.
"""

from __future__ import annotations

import random

from lsmkv.filters import BloomFilter

ADDRESSES = 50
TRANSACTIONS = 20_000
TRANSACTION_BYTES = 250


def main() -> None:
    draw = random.Random(8)
    wallet = [draw.randbytes(20) for _ in range(ADDRESSES)]
    transactions = [draw.randbytes(20) for _ in range(TRANSACTIONS)]
    for own in wallet:
        transactions[draw.randrange(TRANSACTIONS)] = own
    belonging = {address for address in transactions if address in wallet}

    for error_rate in (0.0001, 0.01, 0.1):
        asked_for = BloomFilter.for_keys(ADDRESSES, error_rate)
        asked_for.update(wallet)
        message = asked_for.to_bytes()

        # At the node.
        watched = BloomFilter.from_bytes(message, "from a wallet")
        sent = [address for address in transactions if watched.may_contain(address)]

        # At the wallet.
        missed = len(belonging - set(sent))
        decoys = len(sent) - len(belonging)
        print(
            f"error rate {error_rate:.2%}: filter of {len(message)} bytes, "
            f"{len(sent) * TRANSACTION_BYTES:,} bytes of {TRANSACTIONS * TRANSACTION_BYTES:,} sent, "
            f"{missed} missed, {decoys:,} decoys"
        )


if __name__ == "__main__":
    main()
