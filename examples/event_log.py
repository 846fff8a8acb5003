"""An event log: one process appends, others follow it.

The keys are numbers, so a reader only keeps the number of the event that it read last.  ``refresh`` reads
what is new, and no more, so following a log costs what it gains.  Readers end with the writer, and the
writer says which of them failed.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time

import lsmkv

EVENTS = 3_000
LAST = b"the end"


def follow(log: lsmkv.DB, name: str) -> None:
    """Read all events in order, from the first to the one that ends the log."""
    writer = multiprocessing.parent_process()
    events: list[bytes] = []
    while LAST not in events[-1:]:
        for key, event in log.items(start=len(events).to_bytes(8, "big")):
            assert key == len(events).to_bytes(8, "big"), "a gap"
            events.append(event)
        if not log.refresh():
            if writer is not None and not writer.is_alive():
                sys.exit(f"{name}: the writer is gone")
            time.sleep(0.002)
    print(f"{name} read {len(events):,} of {EVENTS:,} events")


def main() -> None:
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as log:
        reading = lsmkv.open(path, read_only=True)  # which travels to other processes
        readers = [
            processes.Process(target=follow, args=(reading, name), name=name, daemon=True)
            for name in ("audit", "mail")
        ]
        for reader in readers:
            reader.start()
        for number in range(EVENTS):
            body = LAST if number == EVENTS - 1 else b"order %d was paid" % number
            log[number.to_bytes(8, "big")] = body
            if number % 100 == 0:
                time.sleep(0.001)
        for reader in readers:
            reader.join()
        reading.close()
        if failed := [f"{each.name} ({each.exitcode})" for each in readers if each.exitcode]:
            sys.exit(f"readers that failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
