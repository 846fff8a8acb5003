"""A persistent queue, whose last job is taken as fast as its first.

Deleted entries stay in a tree until a compaction drops them.  A queue that looks for its first entry from
the start of the store passes all of these, each time: its cost is quadratic.  ``popitem`` of a store that
holds nothing but the queue remembers where the first entry is.  A queue under a prefix of a larger store
keeps a place of its own, and looks from there (``examples/frontier.py``).
"""

from __future__ import annotations

import tempfile

import lsmkv

JOBS = 4_000


class JobQueue:
    """First in, first out; the jobs survive the end of the process."""

    def __init__(self, db: lsmkv.DB) -> None:
        self._db = db
        last = next(iter(db.keys(reverse=True)), None)
        self._next = 0 if last is None else int.from_bytes(last, "big") + 1

    def put(self, job: bytes, *, sync: bool = False) -> None:
        self._db.put(self._next.to_bytes(8, "big"), job, sync=sync)
        self._next += 1

    def take(self) -> bytes:
        """The oldest job, which is removed; KeyError without one."""
        return self._db.popitem()[1]


def main() -> None:
    taken: list[bytes] = []
    blocks: list[int] = []
    with tempfile.TemporaryDirectory() as path:
        options = lsmkv.Options(write_buffer_size_bytes=64 * 1024)
        with lsmkv.open(path, options) as db:
            queue = JobQueue(db)
            for number in range(JOBS):
                queue.put(b"job %d" % number)
            taken += [queue.take() for _ in range(JOBS // 2)]
        with lsmkv.open(path, options) as db:  # after a restart
            queue = JobQueue(db)
            for _ in range(2):
                before = db.stats()
                taken += [queue.take() for _ in range(JOBS // 4)]
                counted = db.stats() - before
                blocks.append(counted.block_reads + counted.block_cache_hits)
        in_order = taken == [b"job %d" % number for number in range(JOBS)]
        print(f"{len(taken):,} jobs taken, in order: {in_order}")
        print(f"blocks looked at for the third quarter: {blocks[0]:,}, for the last: {blocks[1]:,}")


if __name__ == "__main__":
    main()
