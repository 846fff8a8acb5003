"""An event log: one process appends, others follow it.

The keys are numbers, so a reader only keeps the number of the event that it read last.  ``refresh`` reads
what is new, and no more, so following a log costs what it gains.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from multiprocessing.queues import SimpleQueue

import lsmkv

EVENTS = 3_000
LAST = b"the end"
Found = tuple[str, int]


def follow(log: lsmkv.DB, name: str, found: SimpleQueue[Found]) -> None:
    """Read all events in order, from the first to the one that ends the log."""
    events: list[bytes] = []
    while LAST not in events[-1:]:
        for key, event in log.items(start=len(events).to_bytes(8, "big")):
            assert key == len(events).to_bytes(8, "big"), "a gap"
            events.append(event)
        if not log.refresh():
            time.sleep(0.002)
    found.put((name, len(events)))


def main() -> None:
    processes = multiprocessing.get_context("spawn")
    found: SimpleQueue[Found] = processes.SimpleQueue()
    with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as log:
        reading = lsmkv.open(path, read_only=True)  # which travels to other processes
        readers = ("audit", "mail")
        for name in readers:
            processes.Process(target=follow, args=(reading, name, found)).start()
        for number in range(EVENTS):
            body = LAST if number == EVENTS - 1 else b"order %d was paid" % number
            log[number.to_bytes(8, "big")] = body
            if number % 100 == 0:
                time.sleep(0.001)
        for _ in readers:
            name, count = found.get()
            print(f"{name} read {count:,} of {EVENTS:,} events")
        reading.close()


if __name__ == "__main__":
    main()
