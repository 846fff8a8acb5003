"""Hostile stores: a field has a wrong value, but all checksums hold.

A trial changes a field of a table, a record of the log or of the manifest in a sound store.  Every call
must then return an answer or raise a documented error.  The tables that a compaction or a repair
writes must pass ``verify``.

``python -m torture.fuzz.hostile_stores SEED N FOLDER`` tries N stores with the build that it imports.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import msgspec
import zstandard

import lsmkv
from lsmkv.errors import BackgroundError, CorruptionError, UnsupportedFormatError
from lsmkv.filters.keys import filter_key_from_spec
from torture.framework import compiled_build
from torture.framework.child_trials import Verdict
from torture.framework.store_checks import check_files
from torture.fuzz.lies import tell_lie

NAME: Final = "store"
FORMS: Final[dict[str, dict[str, Any]]] = {
    "plain": {"compression": "none"},
    "zstd": {},
    "dictionary": {"compression_dictionary_size_bytes": 256},
    "table-filter": {"filter_granularity": "table"},
    "cached": {"filter_residency": "cached"},
    "ribbon": {"filter_policy": "ribbon", "compression": "none"},
    "ribbon-table": {"filter_policy": "ribbon", "filter_granularity": "table"},
    "grafite": {"filter_policy": "grafite", "compression": "none"},
    "prefix": {"filter_key": filter_key_from_spec("fixed:2")},
    "unfiltered": {"filter_policy": "none", "compression": "none"},
    "budget": {"filter_memory_bytes": 400},
}
_KEYS: Final = [b"%04d" % number for number in range(0, 400, 3)]
_ASKED: Final = [*_KEYS[::9], b"", b"0000x", b"0123x", b"02", b"9", b"\xff" * 9]
_RANGES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"start": b"0100"},
    {"stop": b"0250"},
    {"start": b"0031", "stop": b"0222"},
    {"start": b"\xff"},
    {"stop": b""},
    {"prefix": b"01"},
)


@cache
def whole(form: str) -> dict[str, bytes]:
    """Files of a sound, closed store: two runs with deletions and old entries, and a log."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store")
        options = FORMS[form]
        with lsmkv.open(path, block_size_bytes=300, read_compaction_rate_bytes=0, **options) as db:
            for key in _KEYS:
                db[key] = b"value of a shape that repeats, " + key
            db.compact_range()
            with db.snapshot():
                for key in _KEYS[::2]:
                    db[key] = b"newer " + key
                seen = db.snapshot()
                for key in _KEYS[::4]:
                    del db[key]
                for key in _KEYS[1::8]:
                    db.put(key, b"expires", expires_at=5e9 if key[-1] % 2 else 1)
                db.flush()
                seen.close()
            for key in _KEYS[1::20]:
                db.put(key, b"in the log", expires_at=5e9)
            db.multi_get(_ASKED)  # with a budget, the manifest has their counts
        return {file.name: file.read_bytes() for file in path.iterdir() if file.name != "LOCK"}


def search(
    seed: str, executions: int, directory: Path, announce: Callable[[str], object] = str
) -> Verdict:
    """Try that many stores; ``announce`` is told the name of each before."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    for number in range(executions):
        announce(f"{seed}.{number}")
        try_one(f"{seed}.{number}", directory, counts, failures)
    return dict(counts), failures


def search_elsewhere(
    imports: Path, seed: str, executions: int, directory: Path, limit_s: float
) -> Verdict:
    """:func:`search` in a process that imports from ``imports``, whose crash or hang is a failure."""
    module = "torture.fuzz.hostile_stores"
    try:
        done = compiled_build.run(imports, module, seed, executions, directory, limit_s=limit_s)
    except subprocess.TimeoutExpired as error:
        begun = (error.stdout or b"").decode().split()
        return {}, [
            f"the process did not end within {limit_s:g} s [{NAME}/one:{begun[-1] if begun else seed}]"
        ]
    *begun, last = done.stdout.splitlines() or [""]
    if done.returncode:
        reason = f"the process ended with {done.returncode}: {done.stderr[-600:]}"
        return {}, [f"{reason} [{NAME}/one:{last or seed}]"]
    counts, failures = json.loads(last)
    return counts, failures


def try_one(seed: str, directory: Path, counts: Counter[str], failures: list[str]) -> None:
    """Make the store of this seed and call everything on it."""
    dice = random.Random(f"{NAME}:{seed}")
    form = dice.choice(list(FORMS))
    store = directory / "store"
    shutil.rmtree(store, ignore_errors=True)
    store.mkdir(parents=True)
    for name, data in whole(form).items():
        (store / name).write_bytes(data)
    try:
        lie = tell_lie(store, dice)
    except (msgspec.MsgspecError, OverflowError, zstandard.ZstdError):
        # A manifest cannot describe such a table, or such a dictionary cannot compress.
        counts[f"{NAME}: cannot be written"] += 1
        return
    counts[f"{NAME}: tried"] += 1
    ends = [False, False]
    budget_bytes = FORMS[form].get("filter_memory_bytes", 0)
    for name, call in (*_reading(store), *_writing(store, directory, budget_bytes)):
        problem = _problem(call, ends)
        if problem:
            failures.append(f"{form}, {lie}: {name}: {problem} [{NAME}/one:{seed}]")
    counts[f"{NAME}: some call answered"] += ends[0]
    counts[f"{NAME}: some call refused"] += ends[1]


def _problem(call: Callable[[], object], ends: list[bool]) -> str | None:
    """The problem of a call, if any; ``ends`` notes whether any call answered or was refused."""
    try:
        call()
    except (CorruptionError, UnsupportedFormatError) as error:
        ends[1] = True
        if len(str(error)) > 2000:
            return f"the error message has {len(str(error))} characters"
    except BackgroundError as error:
        ends[1] = True
        if not isinstance(error.__cause__, CorruptionError | UnsupportedFormatError):
            return f"BackgroundError with the cause {error.__cause__!r}"
    except Exception as error:
        return f"{type(error).__name__} is not a documented error: {str(error)[:200]}"
    else:
        ends[0] = True
    return None


# Calls


def _reading(store: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every call of a reader, each on its own handle."""

    def opened(call: Callable[[lsmkv.DB], object], **options: Any) -> None:
        with lsmkv.open(store, read_only=True, **options) as db:
            call(db)

    def each_get(db: lsmkv.DB) -> None:
        failed = None
        for key in _ASKED:
            try:
                db.get(key)
            except (CorruptionError, UnsupportedFormatError) as error:
                failed = error
        if failed is not None:
            raise failed

    yield "get", partial(opened, each_get)
    learning = {"adaptive_filters": True, "block_cache_size_bytes": 0}
    yield "get, adaptive filters", partial(opened, each_get, **learning)
    yield "multi_get", partial(opened, lambda db: db.multi_get(_ASKED))
    for bounds in _RANGES:
        for reverse in (False, True):
            taken = partial(_taken, bounds=bounds, reverse=reverse)
            yield f"items({bounds}, reverse={reverse})", partial(opened, taken)
    for key in (_ASKED[3], b"0123x"):
        yield f"explain({key!r})", partial(opened, partial(_explained, key=key))
    yield "inspect", partial(opened, lambda db: str(db.inspect()))
    yield "blocks", partial(opened, _all_blocks)
    yield "cursor", partial(opened, _moved_cursor)
    yield "verify", partial(opened, lambda db: db.verify().text())
    yield "approximate_size", partial(opened, lambda db: db.approximate_size(b"0100", b"0300"))


def _taken(db: lsmkv.DB, bounds: dict[str, Any], reverse: bool) -> None:
    for _ in db.items(**bounds, reverse=reverse):
        pass


def _explained(db: lsmkv.DB, key: bytes) -> None:
    str(db.explain(key))


def _all_blocks(db: lsmkv.DB) -> None:
    for table in db.inspect().tables():
        for block in db.blocks(table.number):
            str(block)


def _moved_cursor(db: lsmkv.DB) -> None:
    with db.cursor() as cursor:
        for key in _ASKED:
            cursor.seek(key)
            for _ in range(3):
                if cursor.valid:
                    cursor.next()
            cursor.seek(key)
            for _ in range(3):
                if cursor.valid:
                    cursor.prev()


def _writing(
    store: Path, directory: Path, budget_bytes: int
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Repair first, because a compaction may remove the wrong field."""
    output = directory / "output"
    shutil.rmtree(output, ignore_errors=True)

    def opened(call: Callable[[lsmkv.DB], object]) -> None:
        with lsmkv.open(store, filter_memory_bytes=budget_bytes) as db:
            call(db)

    def compacted() -> None:
        opened(lambda db: db.compact_range(force=True))
        expect_sound(store)

    yield "repair", lambda: _repaired(store, output)
    # Closing the store adds to the counts in the manifest.
    yield "count lookups", lambda: opened(lambda db: db.multi_get(_ASKED))
    yield "compact_range", compacted
    yield "write", lambda: opened(_written)
    yield "repair in place", lambda: _repaired(store, None)


def _repaired(store: Path, output: Path | None) -> None:
    if output is None:
        lsmkv.repair(store, in_place=True)
    else:
        lsmkv.repair(store, output)
    expect_sound(output or store)


def _written(db: lsmkv.DB) -> None:
    db[b"0050"] = b"written"
    db.flush()


def expect_sound(store: Path) -> None:
    """UnsoundError if a store that was just written is damaged."""
    with lsmkv.open(store, read_only=True) as db:
        check_files(db)
        for _ in db.items():
            pass


def main() -> None:
    """Try stores; print the name of each, and finally the verdict."""
    seed, executions, folder = sys.argv[1:]
    print(json.dumps(search(seed, int(executions), Path(folder), partial(print, flush=True))))


if __name__ == "__main__":
    main()
