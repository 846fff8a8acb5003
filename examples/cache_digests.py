"""Cache digests: proxies tell one another what they hold, by filters of their contents.

A counting filter follows each cache.  Now and then a proxy sends its neighbours the Bloom filter of
it, the digest.  A neighbour asks only proxies whose digest has the page; otherwise it would have to
ask all of them for every page that it misses (A. Rousskov, D. Wessels, "Cache digests", 1998).
"""

from __future__ import annotations

import random
from collections import OrderedDict

from lsmkv.filters import BloomFilter, CountingBloomFilter

PROXIES = 4
CAPACITY = 1_000
REQUESTS = 40_000
BETWEEN_DIGESTS = 2_000


class Proxy:
    """A least-recently-used cache, and a counting filter of the same pages."""

    def __init__(self) -> None:
        self.pages: OrderedDict[bytes, None] = OrderedDict()
        self._held = CountingBloomFilter.for_keys(CAPACITY, 0.01)

    def has(self, page: bytes) -> bool:
        if page not in self.pages:
            return False
        self.pages.move_to_end(page)
        return True

    def store(self, page: bytes) -> None:
        self.pages[page] = None
        self._held.add(page)
        if len(self.pages) > CAPACITY:
            evicted, _ = self.pages.popitem(last=False)
            self._held.remove(evicted)

    def digest(self) -> bytes:
        return self._held.to_bloom_filter().to_bytes()


def main() -> None:
    draw = random.Random(6)
    proxies = [Proxy() for _ in range(PROXIES)]
    digests: list[BloomFilter] = []
    misses = asked = answered = had = 0
    for request in range(REQUESTS):
        if request % BETWEEN_DIGESTS == 0:
            sent = [proxy.digest() for proxy in proxies]
            digests = [BloomFilter.from_bytes(data) for data in sent]
        own = request % PROXIES
        page = b"page %d" % int(draw.paretovariate(0.25))
        if proxies[own].has(page):
            continue
        misses += 1
        others = [nth for nth in range(PROXIES) if nth != own]
        had += any(page in proxies[nth].pages for nth in others)
        for nth in others:
            if digests[nth].may_contain(page):
                asked += 1
                if proxies[nth].has(page):
                    answered += 1
                    break
        proxies[own].store(page)
    print(f"{misses:,} misses; a neighbour had the page {had:,} times")
    print(f"neighbours asked: {asked:,} times instead of {misses * (PROXIES - 1):,}", end="; ")
    print(f"they had it: {answered:,} times")
    print(f"digest: {len(sent[0]):,} bytes for {CAPACITY:,} pages")


if __name__ == "__main__":
    main()
