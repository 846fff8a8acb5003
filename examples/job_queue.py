"""A persistent queue, which loses no job, and whose last is taken as fast as its first.

Each job is done at least once: it stays in the store until ``done``, and the next process takes again
what this one took and has not done.  Deleted entries stay in a tree until a compaction.  A queue that
looks for its first entry from the start passes them all each time; this one looks from where it found
the last.
"""

from __future__ import annotations

import tempfile
from threading import Lock

import lsmkv


class JobQueue:
    """First in, first out; one for all threads of the process that has the store open."""

    def __init__(self, db: lsmkv.DB) -> None:
        self._db, self._lock, self._place = db, Lock(), b""
        self._next = int.from_bytes(next(reversed(db.keys()), b""), "big") + 1

    def put(self, job: bytes, *, sync: bool = False) -> None:
        with self._lock:
            self._db.put(self._next.to_bytes(8, "big"), job, sync=sync)
            self._next += 1

    def take(self) -> tuple[bytes, bytes]:
        """The oldest job that is not taken, with its key before it; KeyError without one."""
        with self._lock:
            for key, job in self._db.items(start=self._place):
                self._place = key + b"\0"
                return key, job
        raise KeyError("no job is left")

    def done(self, key: bytes) -> None:
        self._db.delete(key)


def main() -> None:
    jobs, done = [b"job %d" % number for number in range(4_000)], list[bytes]()
    with tempfile.TemporaryDirectory() as path:
        for new in (jobs, []):
            with lsmkv.open(path, write_buffer_size_bytes=64 * 1024) as db:
                queue = JobQueue(db)
                for job in new:
                    queue.put(job)
                for _ in range(len(jobs) // 2):
                    key, job = queue.take()
                    done.append(job)  # the work
                    queue.done(key)
                if new:
                    queue.take()  # the process ends, and the next one does this job
        print(f"{len(done):,} jobs done, in order: {done == jobs}")


if __name__ == "__main__":
    main()
