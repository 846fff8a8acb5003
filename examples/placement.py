"""Placement: which workers hold a warm container for this function?

Each worker sends the scheduler a filter, about a kilobyte, of the functions that it holds.  A counting
filter at the worker follows functions that come and go.
"""

from __future__ import annotations

import random

from lsmkv.filters import BloomFilter, CountingBloomFilter

WORKERS = 100
FUNCTIONS_EACH = 1_000
FUNCTIONS = 50_000


def main() -> None:
    draw = random.Random(5)
    held = [set(draw.sample(range(FUNCTIONS), FUNCTIONS_EACH)) for _ in range(WORKERS)]
    workers = []
    for functions in held:
        worker = CountingBloomFilter.for_keys(FUNCTIONS_EACH, 0.01)
        worker.update([b"function %d" % n for n in functions])
        workers.append(worker)

    # One worker evicts a container and another starts it: the counters follow.
    moved = min(held[0])
    assert workers[0].remove(b"function %d" % moved)
    held[0].remove(moved)
    workers[1].add(b"function %d" % moved)
    held[1].add(moved)

    scheduler: list[BloomFilter] = [worker.to_bloom_filter() for worker in workers]
    size = scheduler[0].byte_count
    print(f"{size:,} bytes for a worker, {size * 10_000 / 1e6:.1f} MB for 10,000 workers")

    asked = missed = cold = 0
    for n in draw.sample(range(FUNCTIONS), 500):
        candidates = [i for i in range(WORKERS) if scheduler[i].may_contain(b"function %d" % n)]
        asked += len(candidates)
        cold += sum(n not in held[i] for i in candidates)
        missed += sum(n in held[i] and i not in candidates for i in range(WORKERS))
    print(
        f"workers asked: {asked:,} of {500 * WORKERS:,}; asked without need: {cold}; overlooked: {missed}"
    )


if __name__ == "__main__":
    main()
