"""Family ``reentered`` of the part ``objects``: code that runs during a call of the store uses it too.

Such code is in callbacks, iterables and buffers that callers pass, in signal handlers, in trace
functions, and in hooks for warnings and errors.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import itertools
import mmap
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

import lsmkv
from torture.framework.part import UnsoundError
from torture.objects.ground import Ground, agree
from torture.objects.meddling import Meddler
from torture.objects.trial import ObjectTrial, Variant, repeated

_MANY: Final = 20
_EVERY_EVENT: Final = 30
_SHORTEST_S: Final = 0.0002
_LONGEST_S: Final = 0.002


@repeated
def call_back(trial: ObjectTrial, ground: Ground) -> None:
    """Callbacks, iterables, operands and compared values use the store."""
    calls = _CallsWithMeddling(trial, ground)
    trial.chances.choice(calls.kinds)()
    trial.counts["uses of the store"] += calls.meddler.times


class _CallsWithMeddling:
    """Calls of the store, each with an argument that uses the store."""

    def __init__(self, trial: ObjectTrial, ground: Ground) -> None:
        self.meddler = Meddler(trial, ground)
        self.kinds: tuple[Callable[[], None], ...] = (
            self._verify,
            self._update,
            self._multi_get,
            self._fill_batch,
            self._compare,
            self._combine_keys,
            self._list_items,
            self._sort_keys,
            lambda: _close_from_within(trial, ground),
        )
        self._db = ground.db
        self._model = ground.model
        self._dice = trial.chances
        self._keys = self._dice.sample(sorted(ground.model), _MANY)
        self._items = [(key, ground.model[key]) for key in self._keys]
        self._values = [value for _, value in self._items]

    def _meddling(self, items: Any) -> Any:
        for item in items:
            self.meddler.meddle()
            yield item

    def _verify(self) -> None:
        def progress(done: int, of: int) -> None:
            self.meddler.meddle()
            if self._dice.random() < 0.02:
                self._db.verify()

        agree("verify", self._db.verify(progress).ok, True)

    def _update(self) -> None:
        self._db.update(self._meddling(self._items))

    def _multi_get(self) -> None:
        agree("multi_get", self._db.multi_get(self._meddling(self._keys)), self._values)
        with self._db.snapshot() as snapshot:
            agree("multi_get", snapshot.multi_get(self._meddling(self._keys)), self._values)

    def _fill_batch(self) -> None:
        with self._db.write_batch() as batch:
            for key, value in self._meddling(self._items):
                batch.put(key, value)

    def _compare(self) -> None:
        key, value = self._items[0]
        equal = _MeddlingEqual(value, self.meddler, self._dice)
        agree("a value in values", equal in self._db.values(), True)
        pair: Any = (key, equal)
        agree("an item in items", pair in self._db.items(), True)

    def _combine_keys(self) -> None:
        keys = self._keys
        agree("keys & others", self._db.keys() & self._meddling(keys), set(keys))
        agree("keys | others", self._db.keys() | self._meddling(keys), set(self._model))

    def _list_items(self) -> None:
        agree("a dict of items", dict(self._meddling(iter(self._db.items()))), self._model)

    def _sort_keys(self) -> None:
        def itself(key: bytes) -> bytes:
            self.meddler.meddle()
            return key

        agree("sorted keys", sorted(self._db.keys(), key=itself), list(self._model))


class _MeddlingEqual:
    """Equals a value; comparing it may use the store."""

    def __init__(self, value: bytes, meddler: Meddler, dice: random.Random) -> None:
        self._value = value
        self._meddler = meddler
        self._dice = dice

    def __eq__(self, other: object) -> bool:
        if self._dice.random() < 0.1:
            self._meddler.meddle()
        return self._value == other

    __hash__ = None  # type: ignore[assignment]


def _close_from_within(trial: ObjectTrial, ground: Ground) -> None:
    """Close the handle or snapshot during its own call."""
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
    """Lies about its length, order and contents."""

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
    """Unusual buffers, and the key that each stands for."""
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


@repeated
def give_buffers(trial: ObjectTrial, ground: Ground) -> None:
    """Pass unusual buffers as keys and values, and change them at once."""
    db = ground.db
    data = b"zz/%d" % trial.chances.randrange(1_000_000)
    for odd, key in _odd_keys(data):
        what = f"a {type(odd).__name__} as key and value"
        db.put(odd, odd)
        with contextlib.suppress(TypeError, ValueError):
            memoryview(odd).cast("B")[:] = (
                b"\xee" * memoryview(odd).nbytes
            )  # the store must have copied it
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
    _must_refuse(trial, "a released memoryview", db.get, released)
    _resize_meanwhile(trial, ground)


def _must_refuse(trial: ObjectTrial, what: str, use: Callable[[Any], object], bad: object) -> None:
    try:
        use(bad)
    except (TypeError, ValueError) as error:
        trial.judge(what, error, strict=False)
    else:
        trial.fail(f"{what} was accepted")


def _resize_meanwhile(trial: ObjectTrial, ground: Ground) -> None:
    """Resize a buffer in one thread while another passes it as key."""
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


# --- signals, trace functions and hooks ----------------------------------------------------------


def _busy(trial: ObjectTrial, ground: Ground) -> Callable[[], None]:
    """A function that uses the store in every way."""
    meddler = Meddler(trial, ground)

    def use() -> None:
        for _ in range(_MANY):
            meddler.meddle()
        with ground.db.snapshot() as snapshot:
            found = list(iter(snapshot.items()))
        if found != ground.expected("items"):
            raise UnsoundError("an interrupted scan gives wrong entries")
        trial.counts["uses of the store"] += meddler.times

    return use


@repeated
def handle_signals(trial: ObjectTrial, ground: Ground) -> None:
    """A signal handler uses the store."""
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
        arm()  # at the end, or handlers would interrupt each other without end

    before = signal.signal(signal.SIGALRM, handle)
    arm()
    try:
        _busy(trial, ground)()
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    trial.counts["uses by a handler"] += meddler.times


@repeated
def trace(trial: ObjectTrial, ground: Ground) -> None:
    """A trace or profile function uses the store."""
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


@repeated
def use_hooks(trial: ObjectTrial, ground: Ground) -> None:
    """Let hooks for warnings, errors, finalizers and garbage collections use the store."""
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
            other = None  # it is not closed, which raises a ResourceWarning
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


VARIANTS: Final[dict[str, Variant]] = {
    "callbacks": call_back,
    "buffers": give_buffers,
    "signals": handle_signals,
    "traced": trace,
    "hooks": use_hooks,
}
