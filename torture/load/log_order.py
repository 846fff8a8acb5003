"""Replays what many threads did in the order of the log's records.

Each thread notes its calls: what was read and what was written, in order, and when the call began and
ended.  Every write has a value of its own, so each record of the log tells which call it is of.  A model
that makes the calls one after the other, in the order of the records, must give the same answers; and
no call may stand before one that had returned when it began.  Then the history is strictly serialisable.

A call without a record only read.  One state between its begin and its end must give all its answers.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from lsmkv.encoding.expiry import Expiring
from lsmkv.log.batch import decode_batch
from lsmkv.log.reader import read_log
from lsmkv.storage.file_names import parse_file_name
from lsmkv.storage.storage import Storage
from torture.framework.changes import Change, Contents, change_model
from torture.framework.part import UnsoundError, expect

Item = tuple[bytes, bytes]
Record = list[Change]  # the changes that one record of a log makes


@dataclass(slots=True)
class Call:
    """What one thread did in one step.

    Attributes:
        begun, ended: when, on one clock.
        committed: whether it wrote, and so has a record in the log.
        removed: the entry that it popped, if it put nothing.
        steps: method of :class:`Model`, arguments and answer, in order.
    """

    number: int
    what: str
    begun: int = 0
    ended: int = 0
    committed: bool = False
    removed: Item | None = None
    steps: list[tuple[str, tuple[Any, ...], object]] = field(default_factory=list)

    def note(self, method: str, *arguments: Any, answer: object = None) -> None:
        self.steps.append((method, arguments, answer))

    def new_value(self) -> bytes:
        """A value that nobody else writes."""
        return b"%d.%d" % (self.number, len(self.steps))

    def __str__(self) -> str:
        return f"{self.what} {self.number}"


class Model:
    """The contents of a store at one moment, and what one call has written on top of them."""

    def __init__(self, contents: Mapping[bytes, bytes]) -> None:
        self._contents = contents
        self.own: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        return self.own[key] if key in self.own else self._contents.get(key)

    def differs(self, key: bytes, value: bytes | None) -> bool:
        return self.get(key) != value

    def items(self, start: bytes, stop: bytes, reverse: bool, most: int) -> list[Item]:
        """The first entries, of those from ``start`` to before ``stop``."""
        merged = {**self._contents, **self.own}
        found = ((key, value) for key, value in merged.items() if start <= key < stop)
        return sorted(((k, v) for k, v in found if v is not None), reverse=reverse)[:most]

    def put(self, key: bytes, value: bytes | None) -> None:
        self.own[key] = value


def _replay(call: Call, contents: Contents) -> dict[bytes, bytes | None]:
    """What the call writes; UnsoundError if one of its answers is wrong."""
    model = Model(contents)
    for method, arguments, answer in call.steps:
        right = getattr(model, method)(*arguments)
        if right != answer:
            asked = f"{method}({', '.join(map(repr, arguments))})"
            raise UnsoundError(f"{call}: {asked} answered {answer!r}; by the log it is {right!r}")
    return model.own


class LogKeeper(Storage):
    """A storage that moves logs to the directory ``kept`` where a store removes them."""

    def __init__(self, kept: Path) -> None:
        super().__init__()
        self._kept = kept

    def remove(self, path: str) -> None:
        if path.endswith(".log"):
            os.replace(path, self._kept / os.path.basename(path))
        else:
            super().remove(path)


def records(*directories: Path) -> Iterator[Record]:
    """Every record of the logs in these directories, in the order of their sequence numbers."""
    logs: list[tuple[int, Path]] = []
    for path in (path for directory in directories for path in directory.iterdir()):
        kind, number = parse_file_name(path.name) or ("", 0)
        if kind == "log":
            logs.append((number, path))
    expected = 1
    for number, path in sorted(logs):
        log = read_log(Storage(), str(path), number, "log")
        for offset, payload in log.records() if log is not None else ():
            seq, ranges, operations = decode_batch(payload, str(path), offset)
            changes = [(key, v) for key, v in operations if not isinstance(v, Expiring)]
            expect(len(changes) == len(operations), f"{path} at {offset}: an entry expires")
            expect(seq == expected, f"{path} at {offset}: write {seq} follows {expected - 1}")
            expect(not ranges, f"{path} at {offset}: no call deletes ranges")
            expected += len(changes)
            yield changes


def check_order(calls: Sequence[Call], order: Iterable[Record]) -> Contents:
    """The contents at the end; UnsoundError unless the calls explain the records in their order."""
    contents: Contents = {}
    placed: list[tuple[Call, Record]] = []
    latest: Call | None = None  # of those before, the one that began last
    left = {call.number: call for call in calls if call.committed}
    popped = {call.removed: call.number for call in left.values() if call.removed is not None}
    for record in order:
        number = _number_of(record, contents, popped)
        if number not in left:
            raise UnsoundError(f"the log has {record}, which no call that is left explains")
        call = left.pop(number)
        if latest is not None and call.ended < latest.begun:
            raise UnsoundError(f"{latest} began after {call} had returned; the log has it before")
        latest = call if latest is None or call.begun > latest.begun else latest
        written = _replay(call, contents)
        expect(dict(record) == written, f"{call} wrote {written}; the log has {record}")
        change_model(contents, record)
        placed.append((call, record))
    expect(not left, f"not in the log: {', '.join(map(str, left.values()))}")
    _check_readers([call for call in calls if not call.committed], placed)
    return contents


def _number_of(record: Record, contents: Contents, popped: Mapping[Item, int]) -> int:
    """The call that made a record, by a value that it puts or by the entry that it removes; or -1."""
    for _, value in record:
        if value is not None:
            return int(value.partition(b".")[0])
    key = record[0][0]
    return popped.get((key, contents.get(key, b"")), -1)


def _check_readers(readers: Iterable[Call], placed: Sequence[tuple[Call, Record]]) -> None:
    """UnsoundError unless each agrees with a state between those that its begin and end allow."""
    # After so many records a state has all that had returned, and nothing that began later.
    ends = list(accumulate((call.ended for call, _ in reversed(placed)), min))[::-1]
    begins = list(accumulate((call.begun for call, _ in placed), max))
    waiting: dict[int, list[tuple[Call, int]]] = {}
    for call in readers:
        first, last = bisect_left(ends, call.begun), bisect_right(begins, call.ended)
        waiting.setdefault(first, []).append((call, last))
    contents: Contents = {}
    trying: list[tuple[Call, int]] = []
    for at in range(len(placed) + 1):
        trying = [
            (call, last)
            for call, last in trying + waiting.get(at, [])
            if not _agrees(call, contents, is_last=at >= last)
        ]
        if at < len(placed):
            change_model(contents, placed[at][1])


def _agrees(call: Call, contents: Contents, *, is_last: bool) -> bool:
    """Whether a call's answers are those of a state; UnsoundError if no other may explain them."""
    try:
        _replay(call, contents)
    except UnsoundError:
        if is_last:
            raise
        return False
    return True
