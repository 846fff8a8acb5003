"""Disturbs a run with events that real processes meet.

``gc`` collects garbage at random moments, ``switch`` switches threads after each microsecond, and
``signal`` interrupts system calls of random threads.  No disturbance may change an answer.
"""

from __future__ import annotations

import contextlib
import gc
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from torture.framework.child_trials import Trial, Verdict

SHORTEST_SWITCH_INTERVAL_S: Final = 1e-6
_LONGEST_PAUSE_S: Final = 0.01
_MOST_ALLOCATIONS: Final = 400


@contextlib.contextmanager
def disturbed(kinds: Sequence[str], seed: object) -> Iterator[None]:
    """Apply some of :data:`KINDS` to this process while the block runs."""
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"no disturbance {kind!r}; there are {', '.join(KINDS)}")
    with contextlib.ExitStack() as stack:
        for kind in kinds:
            stack.enter_context(KINDS[kind](random.Random(f"{kind} {seed}")))
        yield


def in_disturbance(trial: Trial, kinds: Sequence[str], seed: int) -> Trial:
    """The trial, with the disturbances in its process."""
    if not kinds:
        return trial

    def run(name: str, directory: Path) -> Verdict:
        with disturbed(kinds, f"{seed} {name}"):
            return trial(name, directory)

    return run


@contextlib.contextmanager
def collections_at_random(dice: random.Random) -> Iterator[None]:
    """Collect garbage in threads that allocate, and in one other thread."""
    before = gc.get_threshold()
    gc.freeze()  # or each collection would visit all loaded modules

    def collect() -> None:
        gc.set_threshold(dice.randint(1, _MOST_ALLOCATIONS), dice.randint(1, 10), 10)
        gc.collect(dice.randrange(3))

    try:
        with _over_and_over(collect, dice):
            yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextlib.contextmanager
def hasty_switches(dice: random.Random) -> Iterator[None]:
    """Switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SHORTEST_SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextlib.contextmanager
def signals_at_random(dice: random.Random) -> Iterator[None]:
    """Send signals, which a handler ignores, to random threads of this process."""
    if threading.current_thread() is not threading.main_thread():
        raise ValueError("only the main thread can handle signals, but the part runs in another")
    before = signal.signal(signal.SIGUSR1, lambda *_: None)

    def send() -> None:
        threads = [thread.ident for thread in threading.enumerate() if thread.ident is not None]
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            signal.pthread_kill(dice.choice(threads), signal.SIGUSR1)

    try:
        with _over_and_over(send, dice):
            yield
    finally:
        # A thread that has not run since may still have a signal to take, which must not end the process.
        late = signal.SIG_IGN if before is signal.SIG_DFL else before
        signal.signal(signal.SIGUSR1, late)


@contextlib.contextmanager
def _over_and_over(step: Callable[[], None], dice: random.Random) -> Iterator[None]:
    """Call ``step`` again and again in a thread while the block runs."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(dice.random() * _LONGEST_PAUSE_S):
            step()

    thread = threading.Thread(target=work, name="torture-disturbance", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


KINDS: Final = {"gc": collections_at_random, "switch": hasty_switches, "signal": signals_at_random}
"""Every disturbance by its name."""
