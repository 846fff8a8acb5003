"""Is this URL malicious?

The program asks the slow service only about URLs that a local filter suspects.  It remembers which URLs
the service cleared, and so asks about each only once.
"""

from __future__ import annotations

import random

from lsmkv.filters import BloomFilter, KnownFalsePositives


class Service:
    """Knows for certain, but takes a tenth of a second."""

    def __init__(self, malicious: set[bytes]) -> None:
        self._malicious = malicious
        self.calls = 0

    def is_malicious(self, url: bytes) -> bool:
        self.calls += 1
        return url in self._malicious


def main() -> None:
    malicious = {b"http://bad.example/%d" % n for n in range(10_000)}
    service = Service(malicious)
    local = BloomFilter.for_keys(len(malicious), 0.01)
    local.update(malicious)
    suspects = KnownFalsePositives(local, capacity=1000)

    draw = random.Random(1)
    visits = blocked = plain_calls = 0
    for _ in range(50_000):
        visits += 1
        if draw.random() < 0.001:
            url = b"http://bad.example/%d" % draw.randrange(10_000)
        else:  # a few sites get most of the visits
            url = b"http://good.example/%d" % int(draw.paretovariate(0.7))
        plain_calls += local.may_contain(url)
        if not suspects.may_contain(url):
            continue
        if service.is_malicious(url):
            blocked += 1
        else:
            suspects.remember(url)
    print(f"{visits:,} visits, {blocked} blocked, filter of {local.byte_count:,} bytes")
    print(f"calls to the service: {service.calls}; without remembering: {plain_calls}")


if __name__ == "__main__":
    main()
