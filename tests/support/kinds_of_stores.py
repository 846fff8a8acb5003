"""Stores of 29 kinds, each made in a moment: what a page says first must be true of every one."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import lsmkv
from explored_stores import HOSTILE

Make = Callable[[Path], None]
"""Makes a store in a directory."""

_OPTIONS: Final = lsmkv.Options(
    block_size_bytes=512,
    fit_pages=False,
    level0_compaction_trigger=8,
    compression="none",
    background="thread",
)


def _runs(path: Path, count: int = 3, **options: Any) -> None:
    """``count`` sorted runs of a hundred keys each, whose ranges overlap."""
    draw = random.Random(7)
    with lsmkv.open(path, _OPTIONS.replace(**options)) as db:
        for _ in range(count):
            for number in sorted(draw.sample(range(400), 100)):
                db.put(b"user%03d/%d" % (number // 3, number % 3), b"a value of some length")
            db.flush()


def _flushed(path: Path, *keys: bytes) -> None:
    with lsmkv.open(path, _OPTIONS) as db:
        for key in keys:
            db.put(key, b"1")
        db.flush()


def _in_memory(path: Path, *keys: bytes) -> None:
    with lsmkv.open(path) as db:
        for key in keys:
            db.put(key, b"1")


def _compacted(path: Path) -> None:
    _runs(path)
    with lsmkv.open(path, _OPTIONS) as db:
        db.compact_range()


def _deleted(path: Path) -> None:
    _runs(path, 1)
    with lsmkv.open(path, _OPTIONS) as db:
        for key in list(db):
            db.delete(key)
        db.flush()


def _deleted_and_compacted(path: Path) -> None:
    _deleted(path)
    with lsmkv.open(path, _OPTIONS) as db:
        db.compact_range()


def _only_deletions(path: Path) -> None:
    with lsmkv.open(path) as db:
        for number in range(100):
            db.delete(b"%d" % number)
        db.flush()


def _hostile(path: Path) -> None:
    with lsmkv.open(path) as db:
        db.update(HOSTILE)
        db.flush()


def _overwritten(path: Path) -> None:
    for _ in range(4):
        _flushed(path, *(b"hot%02d" % number for number in range(50)))


def _two_levels(path: Path) -> None:
    _compacted(path)
    _flushed(path, b"user020/9", b"user070/9")


KINDS: Final[dict[str, Make]] = {
    "empty": _in_memory,
    "one key in the log": lambda path: _in_memory(path, b"a"),
    "all in memory": lambda path: _in_memory(path, *(b"%03d" % number for number in range(200))),
    "one key in a table": lambda path: _flushed(path, b"a"),
    "the empty key": lambda path: _flushed(path, b""),
    "five keys": lambda path: _flushed(path, b"apple", b"banana", b"cherry", b"fig", b"grape"),
    "one run": _compacted,
    "several runs": _runs,
    "two levels": _two_levels,
    "overwritten": _overwritten,
    "deleted": _deleted,
    "deleted and compacted": _deleted_and_compacted,
    "deletions alone": _only_deletions,
    "dense numbers": lambda path: _flushed(path, *(n.to_bytes(8, "big") for n in range(1000))),
    "hostile keys": _hostile,
    "no filters": partial(_runs, filter_policy="none"),
    "weak filters": partial(_runs, error_rate=0.5),
    "ribbon": partial(_runs, filter_policy="ribbon"),
    "ribbon, by table": partial(_runs, filter_policy="ribbon", filter_granularity="table"),
    "prefixes": partial(_runs, filter_key=lsmkv.DelimitedPrefix(b"/")),
    "prefixes that are all there": partial(_runs, filter_key=lsmkv.FixedPrefix(4)),
}
