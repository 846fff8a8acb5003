"""The helper process: runs the jobs of one store that come in by a pipe.  Started by the store alone.

It lives no longer than its store's process: it ends when the pipe does, or its parent is another,
whatever it is doing (what is half written the next open removes).  It has inherited the store's
lock, so that nobody can open the store until it has ended.  After some time without a job it ends
of its own accord, with exit status 0.

Ctrl-C is the parent's to deal with.  Standard output is the pipe; whatever else prints goes to
standard error, which the parent quotes when the helper fails.
"""

from __future__ import annotations

import dataclasses
import gc
import os
import queue
import select
import signal
import sys
import threading
import traceback
from io import FileIO
from typing import Final, NoReturn

from lsmkv.background.process.exceptions import failure_of
from lsmkv.background.process.jobs import Job, run_job
from lsmkv.background.process.messages import (
    Done,
    Failed,
    MessageBuffer,
    Ready,
    Reply,
    decode_job,
    encode,
    package_folder,
)
from lsmkv.stats import Stats

IDLE_S: Final = 60.0
_PARENT_CHECK_MS: Final = 1000
_PIECE_BYTES: Final = 1 << 16


def run_and_reply(job: Job) -> Done | Failed:
    """Run a job; whatever goes wrong is part of the answer."""
    stats = Stats()
    try:
        tables = run_job(job, stats)
    except Exception as error:
        return Failed(failure_of(error, traceback.format_exc()), _counters(stats))
    return Done(tables, _counters(stats))


def _counters(stats: Stats) -> dict[str, int]:
    counted = {field.name: getattr(stats, field.name) for field in dataclasses.fields(stats)}
    return {name: value for name, value in counted.items() if type(value) is int and value}


def _take_in(parent: int, jobs: queue.SimpleQueue[Job]) -> None:
    """Pass on jobs as they come; end the process when there can be no more.  Runs in a thread."""
    try:
        _pass_on(parent, jobs)
    except BaseException:
        _end_in_disgrace()
    os._exit(0)


def _pass_on(parent: int, jobs: queue.SimpleQueue[Job]) -> None:
    stream = FileIO(0, closefd=False)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    buffer = MessageBuffer()
    while os.getppid() == parent:
        if not poll.poll(_PARENT_CHECK_MS):
            continue
        piece = stream.read(_PIECE_BYTES)
        if not piece:
            return
        buffer.feed(piece)
        while (message := buffer.next()) is not None:
            jobs.put(decode_job(message))


def _end_in_disgrace() -> NoReturn:
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(1)


def _send(stream: FileIO, reply: Reply) -> None:
    left = memoryview(encode(reply))
    while left:
        left = left[stream.write(left) :]


def main() -> NoReturn:
    """Run jobs until there are no more.  ``sys.argv[1]`` is the number of the parent's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = FileIO(os.dup(1), "w")
    os.dup2(2, 1)
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
    threading.Thread(target=_take_in, args=(int(sys.argv[1]), jobs), daemon=True).start()
    try:
        _send(replies, Ready(os.fsencode(package_folder())))
        gc.disable()  # jobs make millions of objects and hardly a cycle
        while True:
            _send(replies, run_and_reply(jobs.get(timeout=IDLE_S)))
            gc.collect()
    except (queue.Empty, BrokenPipeError):
        os._exit(0)
    except BaseException:
        _end_in_disgrace()
