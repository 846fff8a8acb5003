"""Reads the pairs of a bulk load, and checks them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from mypy_extensions import i64

from lsmkv.encoding.entries import key_bytes, out_of_order, value_bytes
from lsmkv.encoding.entry_batch import EntryBatch
from lsmkv.encoding.expiry import Clock, Held, expiring, held_bytes
from lsmkv.errors import caused

_BATCH_ENTRIES: Final = 512
_BATCH_BYTES: Final = 256 * 1024
_ENTRY_BYTES: Final = 160  # of memory, besides key and value: objects, and places while sorting
_END: Final = object()


class PairReader:
    """``count`` pairs are read so far; ``is_done`` says that there are no more.

    ``due_s`` is when those are due that tell no time of their own; None: never.
    """

    def __init__(self, pairs: Iterable[object], clock: Clock, due_s: int | None) -> None:
        self._clock = clock
        self._due_s = due_s
        self._pairs: Iterator[object] = iter(pairs)
        self.count = 0
        self.is_done = False

    def ascending(self) -> Iterator[EntryBatch]:
        """Pairs in batches; ValueError at a key that is not above the one before."""
        last: bytes | None = None
        while not self.is_done:
            keys: list[bytes] = []
            values: list[Held] = []
            self.take(keys, values, _BATCH_BYTES, _BATCH_ENTRIES)
            for key in keys:
                if last is not None and key <= last:
                    raise ValueError(out_of_order(key, last))
                last = key
            if keys:
                yield EntryBatch.of(keys, values, [], may_repeat=False, one_seq=0)

    def take(self, keys: list[bytes], values: list[Held], most_bytes: i64, most_count: i64) -> int:
        """Append ``most_count`` pairs, or as many as take ``most_bytes``; returns their memory."""
        taken_bytes: i64 = 0
        count: i64 = 0
        while taken_bytes < most_bytes and count < most_count:
            pair: Any = next(self._pairs, _END)
            if pair is _END:
                self.is_done = True
                break
            key, value = self._entry(pair)
            keys.append(key)
            values.append(value)
            taken_bytes += len(key) + held_bytes(value) + _ENTRY_BYTES
            count += 1
        read: int = count
        self.count += read
        return taken_bytes

    def _entry(self, pair: Any) -> tuple[bytes, Held]:
        due_s = self._due_s
        if type(pair) is not tuple or len(pair) != 2:
            pair, expires_at = _with_expiry(pair)
            if expires_at is not None:
                due_s = self._clock.expiry_s(None, expires_at)
        key, value = pair
        return key_bytes(key), expiring(value_bytes(value), due_s)


def _with_expiry(pair: Any) -> tuple[Any, Any]:
    """Key and value, and the expiry that may follow them."""
    try:
        key, value, *others = pair
        (expires_at,) = others or (None,)
    except (TypeError, ValueError):
        shown = repr(pair)[:100]
        reason = f"pairs are (key, value) or (key, value, expires_at), not {shown}"
        raise caused(TypeError(reason), None)
    return (key, value), expires_at
