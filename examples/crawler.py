"""The visited URLs of a crawler: each worker has a filter, and unites it with the others' at times."""

from __future__ import annotations

import random
from functools import reduce

from lsmkv.filters import BloomFilter, filter_bytes_for

WORKERS = 4
PAGES = 20_000


def main() -> None:
    urls, bytes_each = 100_000_000, 50
    filter_gb = filter_bytes_for(urls, 0.01) / 1e9
    print(
        f"{urls:,} URLs: {urls * bytes_each / 1e9:.0f} GB as a list, {filter_gb:.2f} GB as a filter"
    )

    draw = random.Random(2)
    visited = [BloomFilter.for_keys(PAGES, 0.01) for _ in range(WORKERS)]
    for worker in visited:
        for _ in range(PAGES // WORKERS):
            worker.add(b"https://example.org/%d" % draw.randrange(PAGES))

    everyone = reduce(BloomFilter.union, visited)
    pages = [b"https://example.org/%d" % n for n in range(PAGES)]
    forgotten = sum(
        any(worker.may_contain(page) for worker in visited) and not everyone.may_contain(page)
        for page in pages
    )
    print(f"pages that a worker visited and the union misses: {forgotten}")
    print(f"all workers together visited about {everyone.key_count():,.0f} pages")

    saved = everyone.to_bytes()  # for the workers, which continue from it
    assert BloomFilter.from_bytes(saved).bits == everyone.bits
    print(f"sent to each worker: {len(saved):,} bytes")


if __name__ == "__main__":
    main()
