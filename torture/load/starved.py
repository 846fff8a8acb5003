"""Scenario ``starved`` of the part ``load``: readers that get little of the processors.

A process writes and syncs as fast as it may, others only compute, and a reader with the least priority
refreshes.  So it is often interrupted in the middle of a read of the log.  No refresh and no ``verify``
may fail, and none may show less than the one before.

``python -m torture.load.starved write STORE`` and ``... compute`` are these processes; they end when
their standard input does.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

import lsmkv
from torture.framework.part import UnsoundError
from torture.load.scenario import Job

_KEYS: Final = 500
_VALUE: Final = b"v" * 300
_LOOKS_PER_VERIFY: Final = 50
_LEAST_PRIORITY: Final = 19
_OPTIONS: Final = lsmkv.Options(write_buffer_size_bytes=1 << 20)
_NEWEST: Final = b"newest"


def run(job: Job) -> None:
    """Refresh until the time is up."""
    lsmkv.open(job.path, _OPTIONS).close()  # so that the reader finds a store
    os.nice(_LEAST_PRIORITY)  # of this run, which is a process of its own
    with contextlib.ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            stack.enter_context(_process("compute"))
        stack.enter_context(_process("write", str(job.path)))
        db = stack.enter_context(lsmkv.open(job.path, _OPTIONS, read_only=True))
        newest = 0
        deadline = job.deadline()
        while not newest or time.monotonic() < deadline:
            db.refresh()
            seen = int(db.get(_NEWEST, b"0"))
            if seen < newest:
                raise UnsoundError(f"write {seen} is the newest after write {newest} was")
            newest = seen
            job.counts["refreshes"] += 1
            if job.counts["refreshes"] % _LOOKS_PER_VERIFY == 1:
                report = db.verify()
                if not report.ok:
                    raise UnsoundError(f"verify: {report}")
                job.counts["verified"] += 1
        job.counts["writes seen"] += newest


@contextlib.contextmanager
def _process(*arguments: str) -> Iterator[None]:
    command = [sys.executable, "-m", "torture.load.starved", *arguments]
    own_priority = os.nice(0)
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
        with contextlib.suppress(PermissionError):  # of one who is not root: all are starved alike
            os.setpriority(os.PRIO_PROCESS, process.pid, own_priority - _LEAST_PRIORITY)
        try:
            yield
        finally:
            process.kill()


def main(arguments: list[str]) -> int:
    """One of the other processes."""
    ended = threading.Event()

    def await_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=await_end, daemon=True).start()
    if arguments[0] == "compute":
        while not ended.is_set():
            sum(range(10_000))
        return 0
    with lsmkv.open(arguments[1], _OPTIONS) as db:
        for number in count(1):
            if ended.is_set():
                break
            with db.write_batch(sync=number % 3 == 0) as batch:
                batch.put(b"%06d" % (number % _KEYS), _VALUE)
                batch.put(_NEWEST, b"%d" % number)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
