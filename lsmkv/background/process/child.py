"""The helper process: runs the jobs of one store, which arrive through a pipe.

It ends when the pipe or its parent does, whatever it is doing.  What it has written until then is in a
staging directory, and counts for nothing (:mod:`lsmkv.background.process.staged`).  An idle one ends by
itself after a while, with exit status 0.

The parent handles Ctrl-C.  Standard output is the pipe for replies; the parent quotes standard error
when the helper fails.
"""

from __future__ import annotations

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

from lsmkv.background.process import messages
from lsmkv.background.process.jobs import job_storage
from lsmkv.background.process.staged import Failed, Written, run_staged
from lsmkv.stats import Stats

IDLE_S: Final = 60.0
_PARENT_CHECK_MS: Final = 1000


def run_and_reply(order: messages.Order) -> Written | Failed:
    storage = job_storage(order.job.spec, Stats())
    return run_staged(order.job, storage, os.fsdecode(order.staging))


def _receive_orders(parent: int, orders: queue.SimpleQueue[messages.Order]) -> NoReturn:
    """Queue orders as they arrive; end with the parent.  Runs in a thread."""
    try:
        reader = messages.MessageReader(FileIO(0, closefd=False), messages.ORDERS)
        poll = select.poll()
        poll.register(0, select.POLLIN)
        while os.getppid() == parent:
            if poll.poll(_PARENT_CHECK_MS):
                if not reader.read_piece():
                    break
                while (order := reader.next()) is not None:
                    orders.put(order)
    except BaseException:
        _end_with_traceback()
    os._exit(0)


def _end_with_traceback() -> NoReturn:
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(1)


def main() -> NoReturn:
    """Run jobs until there are no more.  ``sys.argv[1]`` is the parent's process id."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = FileIO(os.dup(1), "w")
    os.dup2(2, 1)
    orders: queue.SimpleQueue[messages.Order] = queue.SimpleQueue()
    threading.Thread(target=_receive_orders, args=(int(sys.argv[1]), orders), daemon=True).start()
    try:
        messages.send(replies, messages.Ready(os.fsencode(messages.package_folder())))
        gc.disable()  # jobs make millions of objects and hardly a cycle
        while True:
            messages.send(replies, run_and_reply(orders.get(timeout=IDLE_S)))
            gc.collect()
    except (queue.Empty, BrokenPipeError):
        os._exit(0)
    except BaseException:
        _end_with_traceback()
