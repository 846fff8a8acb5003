"""Family ``reentered`` of the part ``objects``: what the store calls uses it, and so do interruptions.

Callbacks, iterables and buffers that are given to it; handlers of signals; functions that trace; hooks
for warnings and errors.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import itertools
import mmap
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

import lsmkv
from torture.framework.part import UnsoundError
from torture.objects.ground import Bystander, Ground
from torture.objects.meddling import Meddler
from torture.objects.trial import ObjectTrial, Variant, undisturbed

_MANY: Final = 20
_EVERY_EVENT: Final = 30
_SHORTEST_S: Final = 0.0002
_LONGEST_S: Final = 0.002


def call_back(trial: ObjectTrial) -> None:
    """What is given to the store uses it: callbacks, iterables, operands, values to compare with."""

    def step(ground: Ground, bystander: Bystander) -> None:
        db, dice = ground.db, trial.chances
        meddler = Meddler(trial, ground)
        keys = dice.sample(sorted(ground.model), _MANY)
        values = [ground.model[key] for key in keys]

        def meddling(items: Any) -> Any:
            for item in items:
                meddler.meddle()
                yield item

        class Equal:
            def __init__(self, value: bytes) -> None:
                self._value = value

            def __eq__(self, other: object) -> bool:
                if dice.random() < 0.1:
                    meddler.meddle()
                return self._value == other

            __hash__ = None  # type: ignore[assignment]

        def itself(key: bytes) -> bytes:
            meddler.meddle()
            return key

        def progress(done: int, of: int) -> None:
            meddler.meddle()
            if dice.random() < 0.02:
                db.verify()

        def agree(what: str, found: object, expected: object) -> None:
            if found != expected:
                raise UnsoundError(f"{what} gives {found!r}"[:300])

        kind = dice.randrange(9)
        if kind == 0:
            agree("verify", db.verify(progress).ok, True)
        elif kind == 1:
            db.update(meddling(zip(keys, values, strict=True)))
        elif kind == 2:
            agree("multi_get", db.multi_get(meddling(keys)), values)
            with db.snapshot() as snapshot:
                agree("multi_get", snapshot.multi_get(meddling(keys)), values)
        elif kind == 3:
            with db.write_batch() as batch:
                for key, value in meddling(zip(keys, values, strict=True)):
                    batch.put(key, value)
        elif kind == 4:
            agree("a value in values", Equal(values[0]) in db.values(), True)
            pair: Any = (keys[0], Equal(values[0]))
            agree("an item in items", pair in db.items(), True)
        elif kind == 5:
            agree("keys & others", db.keys() & meddling(keys), set(keys))
            agree("keys | others", db.keys() | meddling(keys), set(ground.model))
        elif kind == 6:
            agree("map over items", dict(meddling(iter(db.items()))), ground.model)
        elif kind == 7:
            agree("sorted keys", sorted(db.keys(), key=itself), list(ground.model))
        else:
            _end_from_within(trial, ground)
        trial.counts["uses of the store"] += meddler.times

    undisturbed(trial, step)


def _end_from_within(trial: ObjectTrial, ground: Ground) -> None:
    """Close what is at work from a callback of it."""
    keys = sorted(ground.model)[:_MANY]
    db = ground.second_handle()
    snapshot = db.snapshot()
    close = trial.chances.choice((db.close, snapshot.close))

    def closing(items: Any) -> Iterator[Any]:
        for at, item in enumerate(items):
            if at == _MANY // 2:
                close()
            yield item

    uses: list[Callable[[], object]] = [
        lambda: db.verify(lambda done, of: close()),
        lambda: db.multi_get(closing(keys)),
        lambda: snapshot.multi_get(closing(keys)),
        lambda: snapshot.keys() & set(closing(keys)),
        lambda: [list(closing(iter(reader.items()))) for reader in (db, snapshot)],
    ]
    for use in trial.chances.sample(uses, 2):
        trial.attempt("closing from within", use, strict=True)
    snapshot.close()
    db.close()


# --- buffers -------------------------------------------------------------------------------------


class _Bytes(bytes):
    """Says of itself what is not so."""

    def __len__(self) -> int:
        return 1_000_000

    def __eq__(self, other: object) -> bool:
        return True

    def __lt__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7

    def __getitem__(self, at: Any) -> Any:
        raise LookupError

    def __bytes__(self) -> bytes:
        return b"another"


class _Index:
    def __index__(self) -> int:
        return 5

    def __bytes__(self) -> bytes:
        return b"bytes"

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(b"buffered")


def _odd_keys(data: bytes) -> Iterator[tuple[Any, bytes]]:
    """Buffers, and the bytes that each is as a key."""
    yield bytearray(data), data
    yield memoryview(data), data
    yield memoryview(bytearray(data + data))[::2], (data + data)[::2]
    yield memoryview(data)[::-1], data[::-1]
    yield array.array("B", data), data
    yield array.array("H", [1, 2, 3]), array.array("H", [1, 2, 3]).tobytes()
    yield memoryview(bytes(12)).cast("B", (3, 4)), bytes(12)
    yield (ctypes.c_char * len(data)).from_buffer_copy(data), data
    yield ctypes.c_int(77), bytes(ctypes.c_int(77))
    yield _Bytes(data), data
    mapped = mmap.mmap(-1, len(data))
    mapped[:] = data
    yield mapped, data


def give_buffers(trial: ObjectTrial) -> None:
    """Keys and values that are odd buffers, or change as soon as they have been given."""

    def step(ground: Ground, bystander: Bystander) -> None:
        db = ground.db
        data = b"zz/%d" % trial.chances.randrange(1_000_000)
        for odd, key in _odd_keys(data):
            what = f"a {type(odd).__name__} as key and value"
            db.put(odd, odd)
            with contextlib.suppress(TypeError, ValueError):
                memoryview(odd).cast("B")[:] = (
                    b"\xee" * memoryview(odd).nbytes
                )  # it is given back now
            if dict(db.items(start=key, stop=key + b"\0")) != {key: key}:
                raise UnsoundError(f"{what}: something else is stored")
            db.delete(key)
            trial.counts["buffers"] += 1
        released = memoryview(b"gone")
        released.release()
        refused = (released, _Index(), 5, "text", None, [1], 1.5, object(), range(3), b"k" * 70_000)
        for bad in refused[1 if sys.version_info < (3, 12) else 2 :]:
            for use in (db.get, db.delete, lambda key: db.put(key, b""), db.cursor().seek):
                _must_refuse(trial, f"{type(bad).__name__} as a key", use, bad)
        _must_refuse(trial, "a memoryview that was released", db.get, released)
        _resize_meanwhile(trial, ground)

    undisturbed(trial, step)


def _must_refuse(trial: ObjectTrial, what: str, use: Callable[[Any], object], bad: object) -> None:
    try:
        use(bad)
    except (TypeError, ValueError) as error:
        trial.judge(what, error, strict=False)
    else:
        trial.fail(f"{what} was taken")


def _resize_meanwhile(trial: ObjectTrial, ground: Ground) -> None:
    """A thread changes the length of a buffer that others give as a key."""
    shared = bytearray(b"zz/resized")
    ended = threading.Event()

    def resize() -> None:
        while not ended.is_set():
            with contextlib.suppress(BufferError):
                shared.extend(b"x" * 1000)
            with contextlib.suppress(BufferError):
                del shared[5:]

    def use() -> None:
        try:
            for _ in range(_MANY):
                ground.db.put(shared, shared)
                ground.db.get(shared)
                ground.db.multi_get([shared, memoryview(bytes(shared))])
        finally:
            ended.set()

    trial.in_threads([resize, use])
    for key, value in list(ground.db.items(prefix=b"zz/")):
        if not (key + value).replace(b"zz/resized", b"").startswith((b"zz/re", b"x", b"")):
            raise UnsoundError(f"a resized buffer was stored as {key[:40]!r}")
        ground.db.delete(key)


# --- interruptions that use the store ------------------------------------------------------------


def _busy(trial: ObjectTrial, ground: Ground) -> Callable[[], None]:
    """One more use of the store by the main thread: whatever can be asked of it."""
    meddler = Meddler(trial, ground)

    def use() -> None:
        for _ in range(_MANY):
            meddler.meddle()
        with ground.db.snapshot() as snapshot:
            found = list(iter(snapshot.items()))
        if found != ground.expected("items"):
            raise UnsoundError("a scan that was interrupted gives something else")
        trial.counts["uses of the store"] += meddler.times

    return use


def handle_signals(trial: ObjectTrial) -> None:
    """A handler of signals uses the store in the middle of its use."""

    def step(ground: Ground, bystander: Bystander) -> None:
        meddler = Meddler(trial, ground)
        is_over = False

        def arm() -> None:
            if not is_over:
                pause = trial.chances.uniform(_SHORTEST_S, _LONGEST_S)
                signal.setitimer(signal.ITIMER_REAL, pause)

        def handle(number: int, frame: FrameType | None) -> None:
            if trial.chances.random() < 0.2:
                with ground.second_handle() as other:
                    list(itertools.islice(other.items(), 3))
            meddler.meddle()
            arm()  # now, or handlers would interrupt each other without end

        before = signal.signal(signal.SIGALRM, handle)
        arm()
        try:
            _busy(trial, ground)()
        finally:
            is_over = True
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        trial.counts["uses by a handler"] += meddler.times

    undisturbed(trial, step)


def trace(trial: ObjectTrial) -> None:
    """A function that traces calls or lines, or profiles, uses the store."""

    def step(ground: Ground, bystander: Bystander) -> None:
        meddler = Meddler(trial, ground)
        events = itertools.count(1)
        guard = threading.local()

        def watch(frame: FrameType, event: str, argument: object) -> Any:
            if next(events) % _EVERY_EVENT == 0 and not getattr(guard, "inside", False):
                guard.inside = True
                try:
                    meddler.meddle()
                finally:
                    guard.inside = False
            return watch

        install = trial.chances.choice((sys.setprofile, sys.settrace))
        install(watch)
        try:
            _busy(trial, ground)()
        finally:
            install(None)
        trial.counts["uses by a tracer"] += meddler.times

    undisturbed(trial, step)


def use_hooks(trial: ObjectTrial) -> None:
    """Hooks for warnings, for errors of threads and finalizers, and for collections use the store."""

    def step(ground: Ground, bystander: Bystander) -> None:
        meddler = Meddler(trial, ground)
        before = sys.unraisablehook, threading.excepthook

        class Failing:
            def __del__(self) -> None:
                raise LookupError("in a finalizer")

        def collecting(phase: str, info: dict[str, int]) -> None:
            meddler.meddle()

        def show(*_: Any, **__: Any) -> None:
            meddler.meddle()

        def fail() -> None:
            raise LookupError("in a thread")

        sys.unraisablehook = threading.excepthook = meddler.meddle
        gc.callbacks.append(collecting)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                warnings.showwarning = show
                other: lsmkv.DB | None = ground.second_handle()
                iterator = iter(other.items()) if other is not None else iter([])
                next(iterator)
                del iterator
                other = None  # not closed: a ResourceWarning
                Failing()
                gc.collect()
                thread = threading.Thread(target=fail)
                thread.start()
                thread.join()
            _busy(trial, ground)()
        finally:
            gc.callbacks.remove(collecting)
            sys.unraisablehook, threading.excepthook = before
        trial.counts["uses by hooks"] += meddler.times

    undisturbed(trial, step)


VARIANTS: Final[dict[str, Variant]] = {
    "callbacks": call_back,
    "buffers": give_buffers,
    "signals": handle_signals,
    "traced": trace,
    "hooks": use_hooks,
}
