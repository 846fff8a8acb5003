"""Scenario ``starved`` of the part ``load``: a reader that gets little processor time.

One process writes and syncs as fast as it can, others only compute, and a reader with the lowest
priority refreshes.  So the system often stops the reader in the middle of a read of the log.  No refresh
and no ``verify`` may fail, and no refresh may show less than the one before.

``python -m torture.load.starved write STORE`` and ``... compute`` are the other processes; they end when
their standard input does.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from itertools import count
from typing import Final

import lsmkv
from torture.framework.changes import write_batch
from torture.framework.part import UnsoundError
from torture.framework.python_child import running, stdin_closed
from torture.framework.store_checks import check_files
from torture.load.scenario import Job

_KEYS: Final = 500
_VALUE: Final = b"v" * 300
_LOOKS_PER_VERIFY: Final = 50
_LEAST_PRIORITY: Final = 19
_OPTIONS: Final = lsmkv.Options(write_buffer_size_bytes=1 << 20)
_NEWEST: Final = b"newest"


def run(job: Job) -> None:
    """Refresh until the time is up."""
    lsmkv.open(job.path, _OPTIONS).close()  # the reader needs a store
    os.nice(_LEAST_PRIORITY)  # only of this run, which has a process of its own
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
                raise UnsoundError(f"write {seen} is the newest, but {newest} was seen before")
            newest = seen
            job.counts["refreshes"] += 1
            if job.counts["refreshes"] % _LOOKS_PER_VERIFY == 1:
                check_files(db)
                job.counts["verified"] += 1
        job.counts["writes seen"] += newest


@contextlib.contextmanager
def _process(*arguments: str) -> Iterator[None]:
    own_priority = os.nice(0)
    with running("torture.load.starved", *arguments) as process:
        with contextlib.suppress(PermissionError):  # without root all get the same low priority
            os.setpriority(os.PRIO_PROCESS, process.pid, own_priority - _LEAST_PRIORITY)
        yield


def main(arguments: list[str]) -> None:
    """Compute or write until the parent ends this process."""
    ended = stdin_closed()
    if arguments[0] == "compute":
        while not ended.is_set():
            sum(range(10_000))
        return
    with lsmkv.open(arguments[1], _OPTIONS) as db:
        for number in count(1):
            if ended.is_set():
                break
            changes = [(b"%06d" % (number % _KEYS), _VALUE), (_NEWEST, b"%d" % number)]
            write_batch(db, changes, sync=number % 3 == 0)


if __name__ == "__main__":
    main(sys.argv[1:])
