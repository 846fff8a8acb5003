"""Family ``interrupted`` of the part ``objects``: threads get an exception at a random moment.

Ctrl-C does that to the main thread.  The interrupted thread ends; the store must keep its contents and
take writes, after ``resume`` if a BackgroundError asks for it.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

import lsmkv
from torture.framework.part import UnsoundError
from torture.objects.ground import OPTIONS, Ground
from torture.objects.trial import ObjectTrial, Variant, in_words, undisturbed

_LONGEST_PAUSE_S: Final = 0.004
_FEW: Final = 5
_END_S: Final = 10.0
_USUAL_END_S: Final = 0.05


class InterruptedHereError(Exception):
    """An interruption that ``except Exception`` catches."""


class InterruptionHere(BaseException):
    """An interruption that nobody should catch, like KeyboardInterrupt."""


_INTERRUPTIONS: Final = (InterruptionHere, InterruptedHereError, KeyboardInterrupt)


def interrupt(thread: threading.Thread, error: type[BaseException]) -> None:
    """Raise ``error`` in the thread, wherever it is."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(error)
    )


def _interrupted(trial: ObjectTrial, work: Callable[[Ground], None]) -> None:
    """Interrupt ``work``, which runs in two threads over and over, and check."""
    trial.tolerated += _INTERRUPTIONS

    def resume(ground: Ground, ended: threading.Event) -> None:
        try:
            while not ended.is_set():
                work(ground)
        except lsmkv.BackgroundError:
            trial.counts["BackgroundErrors"] += 1  # the interruption of the other thread caused it
        except _INTERRUPTIONS:
            pass

    def step(ground: Ground) -> None:
        ended = threading.Event()
        threads = [
            threading.Thread(target=resume, args=(ground, ended), daemon=True) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        hit = threads if trial.chances.random() < 0.5 else threads[:1]
        for thread in hit:
            time.sleep(trial.chances.random() * _LONGEST_PAUSE_S)
            if thread.is_alive():
                interrupt(thread, trial.chances.choice(_INTERRUPTIONS))
                trial.counts["interruptions"] += 1
        if trial.chances.random() < 0.5:
            hit[0].join(_USUAL_END_S)  # a finalizer may swallow the interruption
        ended.set()
        for thread in threads:
            thread.join(_END_S)
            if thread.is_alive():
                raise UnsoundError("a thread does not end after an interruption of one")
        _check_goes_on(trial, ground)

    undisturbed(trial, step)


def _check_goes_on(trial: ObjectTrial, ground: Ground) -> None:
    """UnsoundError if the store does not take writes."""
    key = trial.chances.choice(sorted(ground.model))
    try:
        ground.db.put(key, ground.model[key], sync=True)
    except lsmkv.BackgroundError:
        ground.db.resume()
        trial.counts["resumptions"] += 1
        ground.db.put(key, ground.model[key], sync=True)
    if trial.chances.random() < 0.1:
        ground.db.flush()
    if ground.db.get(key) != ground.model[key]:
        raise UnsoundError(f"{key!r} is lost")


def interrupt_readers(trial: ObjectTrial) -> None:
    """Interrupt lookups, scans, cursors and snapshots."""

    def work(ground: Ground) -> None:
        db, dice = ground.db, trial.dice(time.monotonic_ns())
        key = dice.choice(sorted(ground.model))
        db.get(key)
        db.multi_get([key, b"absent"])
        list(itertools.islice(db.items(start=key, reverse=dice.random() < 0.5), _FEW))
        with db.snapshot() as snapshot, snapshot.cursor() as cursor:
            cursor.seek(key)
            cursor.prev()
        len(db.keys(start=key))

    _interrupted(trial, work)


def interrupt_writers(trial: ObjectTrial) -> None:
    """Interrupt puts, batches, flushes and syncs, which write existing entries again."""

    def work(ground: Ground) -> None:
        db, dice = ground.db, trial.dice(time.monotonic_ns())
        keys = dice.sample(sorted(ground.model), _FEW)
        for key in keys:
            db.put(key, ground.model[key])
        db.put(keys[0], ground.model[keys[0]], sync=True)
        with db.write_batch(sync=dice.random() < 0.3) as batch:
            for key in keys:
                batch.delete(key)
                batch.put(key, ground.model[key])
        if dice.random() < 0.05:
            db.flush()
        if dice.random() < 0.05:
            db.sync()

    _interrupted(trial, work)


def interrupt_openers(trial: ObjectTrial) -> None:
    """Interrupt opening, writing and closing by a signal, as Ctrl-C does."""
    trial.tolerated += _INTERRUPTIONS
    is_armed = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal is_armed
        if is_armed:
            is_armed = False
            raise trial.chances.choice(_INTERRUPTIONS)

    signal.signal(signal.SIGALRM, handle)

    def step(ground: Ground) -> None:
        nonlocal is_armed
        path = trial.directory / "opened"
        acknowledged: list[bytes] = []
        db: lsmkv.DB | None = None
        where = "nowhere"
        try:
            is_armed = True
            signal.setitimer(signal.ITIMER_REAL, trial.chances.uniform(1e-5, 10 * _LONGEST_PAUSE_S))
            while is_armed:
                db = None
                db = lsmkv.open(path, OPTIONS)
                for _ in range(_FEW):
                    key = b"%06d" % len(acknowledged)
                    db.put(key, key)
                    acknowledged.append(key)
                if trial.chances.random() < 0.3:
                    db.flush()
                db.close()
        except (*_INTERRUPTIONS, lsmkv.BackgroundError) as error:
            where = in_words(error)
        is_armed = False
        trial.counts["interruptions"] += 1
        if db is not None:
            db.close()  # as an interrupted caller should; it may be the second call
        db = None
        gc.collect()
        try:
            with lsmkv.open(path, OPTIONS) as again:
                lost = [key for key in acknowledged if again.get(key) != key]
                for key in list(again.keys()):
                    again.delete(key)
        except lsmkv.LockedError as error:
            raise UnsoundError(f"an interrupted store keeps its lock: {where}: {error}") from None
        if lost:
            raise UnsoundError(f"{len(lost)} acknowledged writes are lost, first {lost[0]!r}")

    undisturbed(trial, step)


VARIANTS: Final[dict[str, Variant]] = {
    "readers": interrupt_readers,
    "writers": interrupt_writers,
    "openers": interrupt_openers,
}
