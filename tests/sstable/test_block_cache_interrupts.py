"""Interrupts inside the cache's arithmetic, where compiled code must not stop for one."""

from __future__ import annotations

import subprocess
import sys

# ``map`` runs no handler itself, so one can only come in between inside a call.
PROGRAM = """
import signal
from collections import deque
from itertools import repeat
from lsmkv.sstable.block_cache import BlockCache, TableMemory
from lsmkv.stats import Stats

def interrupt(*_):
    raise KeyboardInterrupt

memory = TableMemory(BlockCache(1 << 20, Stats()))
signal.signal(signal.SIGALRM, interrupt)
for _ in range(20):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        deque(map(memory.admits_filters, repeat(0, 100_000)), maxlen=0)
        while True:
            pass
    except KeyboardInterrupt:
        pass
print("well")
"""


def test_an_interrupt_while_the_budget_is_asked_is_raised_and_ends_nothing() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "well\n"), ended.stderr
