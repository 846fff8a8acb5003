"""Every step that ``docs/how-it-works.md`` lists is taken, and in that order."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

import lsmkv
from lsmkv.encoding.words import COMPILED

pytestmark = pytest.mark.skipif(COMPILED, reason="calls of compiled functions cannot be watched")

PACKAGE: Final = Path(lsmkv.__file__).parent
PAGE: Final = PACKAGE.parent / "docs" / "how-it-works.md"
SMALL: Final = lsmkv.Options(block_size_bytes=512, compression="none", level0_compaction_trigger=8)

Step = tuple[str, str]


def steps_of(section: str) -> list[Step]:
    """File and function of each step in a section's table."""
    text = PAGE.read_text("utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"\| `([a-z_/0-9]+\.py)` \| `([\w.]+)` \|", text)


@contextmanager
def watched() -> Iterator[list[Step]]:
    """The functions of lsmkv that are entered meanwhile, each once, in any thread."""
    seen: dict[Step, None] = {}

    def watch(frame: FrameType, event: str, _argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            seen.setdefault((str(path.relative_to(PACKAGE)), frame.f_code.co_qualname), None)

    entered: list[Step] = []
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        yield entered
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        entered.extend(seen)


def fill(db: lsmkv.DB, rounds: int) -> None:
    for number in range(rounds):
        for key in range(1200):
            db.put(b"user%05d" % (key * (3 - number % 2)), b"a name and an address")
        db.flush()


def put(path: Path) -> list[Step]:
    with lsmkv.open(path) as db, watched() as entered:
        db.put(b"apple", b"red", sync=True)
    return entered


def get(path: Path) -> list[Step]:
    with lsmkv.open(path, SMALL) as db:
        fill(db, 1)
        db.put(b"apple", b"red")
        with watched() as entered:
            assert db.get(b"user00600")
    return entered


def scan(path: Path) -> list[Step]:
    with lsmkv.open(path, SMALL) as db:
        fill(db, 2)
        with watched() as entered:
            assert len([key for key, _ in db.items(prefix=b"user")]) == 2000
    return entered


def flush(path: Path) -> list[Step]:
    with lsmkv.open(path, SMALL) as db:
        for key in range(1200):
            db.put(b"user%05d" % key, b"a name and an address")
        with watched() as entered:  # the flusher's thread starts here
            db.flush()
    return entered


def compaction(path: Path) -> list[Step]:
    with lsmkv.open(path, SMALL) as db:
        fill(db, 2)
    with watched() as entered, lsmkv.open(path, SMALL, level0_compaction_trigger=2) as db:
        db.wait_until_settled()
        assert db.stats().compactions == 1
    return entered


def opening(path: Path) -> list[Step]:
    with lsmkv.open(path, SMALL) as db:
        fill(db, 1)
        db.put(b"apple", b"red")
    with watched() as entered, lsmkv.open(path):
        pass
    return entered


@pytest.mark.parametrize(
    ("section", "operation"),
    [
        ("A put", put),
        ("A get", get),
        ("A scan", scan),
        ("A flush", flush),
        ("A compaction", compaction),
        ("An opening", opening),
    ],
)
def test_the_steps_of_a_section_are_taken_in_order(
    section: str, operation: Callable[[Path], list[Step]], tmp_path: Path
) -> None:
    steps = steps_of(section)
    assert len(steps) >= 6
    entered = operation(tmp_path / "db")
    assert [step for step in steps if step not in entered] == []
    assert sorted(steps, key=entered.index) == steps
