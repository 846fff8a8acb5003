"""Records what a program asks of a store, for ``lsmkv bench replay``.

A line is an operation, its key, and a size, a number of entries or a time; ``bench/traces/plain.py``,
which reads them, describes each.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, Final, Self
from urllib.parse import quote_from_bytes

from lsmkv.encoding.entries import Buffer, prefix_successor
from lsmkv.layers.prefixed import PrefixedDB


class TracedDB(PrefixedDB):
    """A store as a mapping that records what is asked of it.

    Args:
        file: takes the lines.

    Keys and sizes of values are recorded, no value.  A batch is recorded when it is committed, a scan
    when it ends.  What mappings lack are the store's own methods.  These, cursors, snapshots, ``touch``
    and a time to live by ``default_ttl_s`` are not recorded.

    >>> import io, lsmkv, tempfile
    >>> from lsmkv.layers import TracedDB
    >>> with tempfile.TemporaryDirectory() as path, lsmkv.open(path) as db:
    ...     file = io.BytesIO()  # or open("program.trace", "wb")
    ...     traced = TracedDB(db, file)
    ...     traced[b"fox"] = b"red"
    ...     b"dog" in traced, next(iter(traced))
    ...     file.getvalue().splitlines()[1:]
    (False, b'fox')
    [b'put fox 3', b'get dog', b'scan fox 1']
    """

    def __init__(self, db: Any, file: BinaryIO) -> None:
        super().__init__(_Recorded(db, _Trace(file).note), b"")

    def prefixed(self, prefix: Buffer) -> Any:
        """The keys with ``prefix``, without it: a :class:`PrefixedDB`, recorded too."""
        return PrefixedDB(self.db, prefix)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.db, name)


class _Trace:
    """The file, and what the last ``time`` in it is."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._time_s = 0

    def note(self, lines: Sequence[str]) -> None:
        """Write lines, none once the file is closed: a scan may end later."""
        now_s = int(time.time())
        if lines and now_s != self._time_s:
            self._time_s = now_s
            lines = [f"time {now_s}", *lines]
        if not self._file.closed:
            self._file.write("".join(f"{line}\n" for line in lines).encode("ascii"))


class _Recorded:
    """A store or a batch whose operations are noted when done."""

    def __init__(self, below: Any, note: Callable[[Sequence[str]], None]) -> None:
        self._below, self.note = below, note

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._below, name)
        lines_of = _LINES.get(name)
        if lines_of is None:
            return method

        def recorded(*given: Any, **named: Any) -> Any:
            result = method(*given, **named)
            named.pop("sync", None)
            self.note(lines_of(result, *given, **named))
            return result

        return recorded

    def items(self, **bounds: Any) -> _Scan:
        return _Scan(self, self._below.items(**bounds), **bounds)

    def write_batch(self, **named: Any) -> _Batch:
        return _Batch(self._below.write_batch(**named), self.note)

    def __repr__(self) -> str:
        return repr(self._below)


class _Batch(_Recorded):
    def __init__(self, below: Any, note: Callable[[Sequence[str]], None]) -> None:
        self._lines: list[str] = []
        super().__init__(below, self._lines.extend)
        self._note_all = note

    def __len__(self) -> int:
        return len(self._below)

    def __enter__(self) -> Self:
        self._below.__enter__()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and not self._below.closed:
            self.commit()
        self._below.close()

    def clear(self) -> None:
        self._below.clear()
        self._lines.clear()

    def commit(self) -> None:
        self._below.commit()
        self._note_all(self._lines)


class _Scan:
    """The items of a range; each iteration is one scan."""

    def __init__(
        self, store: _Recorded, view: Any, *, start: Any, stop: Any, prefix: Any, reverse: bool
    ) -> None:
        self._store, self._view, self._is_reverse = store, view, reverse
        self._first = max(start or b"", prefix or b"")

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return self._noted(iter(self._view), self._is_reverse)

    def __reversed__(self) -> Iterator[tuple[bytes, bytes]]:
        return self._noted(reversed(self._view), not self._is_reverse)

    def __repr__(self) -> str:
        return repr(self._view)

    def value(self, key: bytes) -> bytes | None:
        self._store.note([f"get {_text(key)}"])
        found: bytes | None = self._view.value(key)
        return found

    def _noted(self, entries: Any, is_reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """The entries, and then a line: the first key, and how many, at least one."""
        first, count = self._first, 0
        try:
            for entry in entries:
                first = first if count else entry[0]
                count += 1
                yield entry
        finally:
            name = "scan-reverse" if is_reverse else "scan"
            self._store.note([f"{name} {_text(first)} {max(1, count)}"])


def _text(key: bytes) -> str:
    text = quote_from_bytes(key, "/:") if key else "-"
    return "%2D" if key == b"-" else text


def _put(
    _: object, key: bytes, value: bytes, ttl_s: Any = None, expires_at: Any = None
) -> list[str]:
    if expires_at is not None:
        ttl_s = expires_at - time.time()
    ttl = "" if ttl_s in (None, math.inf) else f" {max(1, int(ttl_s))}"
    return [f"put {_text(key)} {len(value)}{ttl}"]


def _delete_range(_: object, start: Any = None, stop: Any = None, prefix: Any = None) -> list[str]:
    first = max(start or b"", prefix or b"")
    ends = [end for end in (stop, prefix_successor(prefix or b"")) if end is not None]
    return [f"delete-range {_text(first)} {_text(min(ends, default=b''))}"]


def _setdefault(found: object, key: bytes, default: bytes) -> list[str]:
    return [f"get {_text(key)}", *(_put(None, key, default) if found is default else ())]


_LINES: Final[dict[str, Callable[..., list[str]]]] = {
    "get": lambda _, key: [f"get {_text(key)}"],
    "multi_get": lambda _, keys: [" ".join(("multi-get", *map(_text, keys)))] if keys else [],
    "put": _put,
    "delete": lambda _, key: [f"delete {_text(key)}"],
    "delete_range": _delete_range,
    "clear": _delete_range,
    "pop": lambda found, key, _: (
        [f"get {_text(key)}"] + [f"delete {_text(key)}"] * (found is not None)
    ),
    "popitem": lambda item, prefix=b"": [f"scan {_text(prefix)} 1", f"delete {_text(item[0])}"],
    "setdefault": _setdefault,
}
"""What a method writes, of its result and arguments; keys and values are bytes by then."""
