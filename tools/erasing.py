"""Measures range deletes: erasing many keys, many small ranges, and lookups beside a thousand of them.

``python -m tools.erasing --build build/compiled`` takes a minute and a gigabyte of disk.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

COUNT = 1_000_000
RANGES = 1000  # live ones, each over a fifth of a stretch of keys


def key(number: int) -> bytes:
    return b"%012d" % number


def seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def loaded(lsmkv: Any, path: Path, count: int = COUNT) -> Any:
    db = lsmkv.open(path)
    db.bulk_load((key(number), b"v" * 20) for number in range(count))
    return db


def measure(lsmkv: Any, folder: Path) -> None:
    with loaded(lsmkv, folder / "one by one") as db:
        each = seconds(lambda: [db.delete(key(number)) for number in range(COUNT)])
    with loaded(lsmkv, folder / "at once") as db:
        once = seconds(lambda: db.delete_range(key(0), key(COUNT)))
        assert not db
    print(
        f"{COUNT:,} keys: {each:.2f} s one by one, {once:.5f} s at once, {each / once:,.0f} times"
    )
    with loaded(lsmkv, folder / "points", COUNT // 5) as db:
        starts = range(0, COUNT // 5, 20)
        points = seconds(lambda: [db.delete(key(at + n)) for at in starts for n in range(10)])
    with loaded(lsmkv, folder / "small ranges", COUNT // 5) as db:
        ranges = seconds(lambda: [db.delete_range(key(at), key(at + 10)) for at in starts])
    print(f"{len(starts):,} ranges of 10 keys: {points:.2f} s one by one, {ranges:.2f} s as ranges")
    with loaded(lsmkv, folder / "lookups") as db, db.snapshot():  # which keeps them live
        stretch, dice = COUNT // RANGES, random.Random(1)
        at = [dice.randrange(RANGES) * stretch for _ in range(100_000)]
        covered = [key(start + dice.randrange(stretch // 5)) for start in at]
        others = [key(start + dice.randrange(stretch // 5, stretch)) for start in at]

        def lookups(keys: list[bytes]) -> float:
            return min(seconds(lambda: list(map(db.get, keys))) for _ in range(3)) * 1e6 / len(keys)

        before = lookups(covered), lookups(others)
        for start in range(0, COUNT, stretch):
            db.delete_range(key(start), key(start + stretch // 5))
        assert db.inspect().range_delete_count == RANGES
        after = lookups(covered), lookups(others)
        print(f"a lookup: {before[0]:.2f} and {before[1]:.2f} us; beside {RANGES} ranges ", end="")
        print(f"{after[0]:.2f} us if one covers the key, {after[1]:.2f} us if not")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, help="a folder that `make build/compiled` made")
    arguments = parser.parse_args()
    if arguments.build is not None:
        sys.path.insert(0, str(arguments.build.resolve()))
    import lsmkv

    with tempfile.TemporaryDirectory() as folder:
        measure(lsmkv, Path(folder))


if __name__ == "__main__":
    main()
