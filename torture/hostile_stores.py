"""Whole stores with fields that lie and checksums that hold, put through every call of a reader.

A round makes a store out of a whole one: a field of a table, a record of the log or of the manifest
says something else.  Every call then ends in an answer or in a documented error.  What a forced
compaction makes of the tables, if it makes anything, has to pass ``verify``.
"""

from __future__ import annotations

import random
import shutil
import struct
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
from torture.crafting import (
    CODEC,
    ENTRIES,
    FILTER_KEYS,
    RAW_LENGTH,
    SCHEME_AND_PROBES,
    CraftedTable,
    replace_table,
    state_of,
    take_apart,
    write_manifest,
)
from torture.harness import WrongResultError
from torture.isolated import Verdict
from torture.mutation import EXTREME, INTERESTING, mutated
from torture.sealing import log_salt_of, seal_records

NAME: Final = "store"
FORMS: Final[dict[str, dict[str, Any]]] = {
    "plain": {"compression": "none"},
    "zstd": {},
    "dictionary": {"compression_dictionary_size_bytes": 256},
    "table-filter": {"filter_granularity": "table"},
    "cached": {"filter_residency": "cached"},
    "blocked": {"filter_policy": "blocked-bloom", "compression": "none"},
    "fuse": {"filter_policy": "binary-fuse", "compression": "none"},
    "fuse-table": {"filter_policy": "binary-fuse", "filter_granularity": "table"},
    "prefix": {"filter_key": filter_key_from_spec("fixed:2")},
    "unfiltered": {"filter_policy": "none", "compression": "none"},
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
_LIES: Final = ("table", "table", "table", "table", "table", "table", "log", "manifest", "manifest")


@cache
def whole(form: str) -> dict[str, bytes]:
    """The files of a store of that form, closed: two runs with deletions, old versions, and a log."""
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
                db.flush()
                seen.close()
            for key in _KEYS[1::20]:
                db[key] = b"in the log"
        return {file.name: file.read_bytes() for file in path.iterdir() if file.name != "LOCK"}


def search(seed: str, executions: int, directory: Path) -> Verdict:
    """So many stores."""
    counts: Counter[str] = Counter()
    failures: list[str] = []
    for number in range(executions):
        try_one(f"{seed}.{number}", directory, counts, failures)
    return dict(counts), failures


def try_one(seed: str, directory: Path, counts: Counter[str], failures: list[str]) -> None:
    """One store, that ``seed`` tells everything about."""
    dice = random.Random(f"{NAME}:{seed}")
    form = dice.choice(list(FORMS))
    store = directory / "store"
    shutil.rmtree(store, ignore_errors=True)
    store.mkdir(parents=True)
    for name, data in whole(form).items():
        (store / name).write_bytes(data)
    what = dice.choice(_LIES)
    try:
        lie = _LIARS[what](store, dice)
    except (msgspec.MsgspecError, OverflowError, zstandard.ZstdError):
        # No manifest can say this of a table, or nothing be compressed with such a dictionary.
        counts[f"{NAME}: cannot be written"] += 1
        return
    counts[f"{NAME}: tried"] += 1
    ends = [False, False]
    for name, call in (*_reading(store), *_writing(store, directory)):
        problem = _outcome(call, ends)
        if problem:
            failures.append(f"{form}, {lie}: {name}: {problem} [{NAME}/one:{seed}]")
    counts[f"{NAME}: some call answered"] += ends[0]
    counts[f"{NAME}: some call refused"] += ends[1]


def _outcome(call: Callable[[], object], ends: list[bool]) -> str | None:
    """What is wrong with how a call went; ``ends``: whether some call answered, and some refused."""
    try:
        call()
    except (CorruptionError, UnsupportedFormatError) as error:
        ends[1] = True
        if len(str(error)) > 2000:
            return f"a message of {len(str(error))} characters"
    except BackgroundError as error:
        ends[1] = True
        if not isinstance(error.__cause__, CorruptionError | UnsupportedFormatError):
            return f"BackgroundError of {error.__cause__!r}"
    except Exception as error:
        return f"{type(error).__name__} is not a documented error: {str(error)[:200]}"
    else:
        ends[0] = True
    return None


# What lies


def _number(old: int, dice: random.Random) -> int:
    """Another number: nearby, interesting or extreme."""
    choice = dice.randrange(4)
    if choice == 0:
        return old + dice.choice((-2, -1, 1, 2))
    if choice == 1:
        return old ^ 1 << dice.randrange(max(1, old.bit_length() + 1))
    return dice.choice(INTERESTING if choice == 2 else EXTREME)


def _lie_in_table(store: Path, dice: random.Random) -> str:
    path = dice.choice(sorted(store.glob("*.sst")))
    table = take_apart(path.read_bytes())
    told = [dice.choice(_TABLE_LIES)(table, dice) for _ in range(dice.choice((1, 1, 1, 1, 2, 3)))]
    # What would give the lie away follows, mostly.
    if dice.random() < 0.6:
        table.follow_blocks()
    if dice.random() < 0.4 and table.properties["granularity"] == "block":
        table.follow_filters()
    if dice.random() < 0.4:
        table.follow_keys()
    replace_table(store, table)
    return " and ".join(told)


def _lie_in_array(table: CraftedTable, dice: random.Random) -> str:
    name, numbers = dice.choice(sorted(table.numbers.items()))
    if not numbers:
        return f"nothing in {name}"
    at = dice.randrange(len(numbers))
    choice = dice.randrange(8)
    if choice == 0:
        other = dice.randrange(len(numbers))
        numbers[at], numbers[other] = numbers[other], numbers[at]
    elif choice == 1:
        numbers[:] = [_number(numbers[at], dice)] * len(numbers)
    elif choice == 2:
        del numbers[at]
    elif choice == 3:
        numbers.insert(at, numbers[at])
    else:
        numbers[at] = _number(numbers[at], dice)
    return f"{name}[{at}] changed in way {choice}"


def _lie_in_head(table: CraftedTable, dice: random.Random) -> str:
    name = dice.choice(("block_count", "prefix_length", "chunk_count"))
    setattr(table, name, _number(getattr(table, name), dice))
    return f"{name} is {getattr(table, name)}"


def _lie_in_properties(table: CraftedTable, dice: random.Random) -> str:
    said = table.properties
    name = dice.choice(sorted(said))
    old = said[name]
    if isinstance(old, bool):
        said[name] = not old
    elif isinstance(old, int):
        said[name] = _number(old, dice)
    elif isinstance(old, float):
        said[name] = dice.choice((5e-324, 1e-9, 0.999, 1.0, 2.0, 1e300))
    elif name in ("smallest", "largest"):
        said[name] = msgspec.to_builtins(dice.choice((b"", b"0001", b"0200", b"9", b"\xff" * 300)))
    elif name == "filter_key":
        said[name] = dice.choice(("whole", "fixed:1", "fixed:65535", "delimited:30:1", "nothing"))
    elif name == "granularity":
        said[name] = "table" if old == "block" else "block"
    else:
        said[name] = dice.choice(("", "bloom", "binary-fuse", "x" * 200))
    if name == "filter_scheme":
        said[name] = dice.randrange(8)
    return f"{name} is {said[name]!r:.40}"


def _lie_in_block(table: CraftedTable, dice: random.Random) -> str:
    block = dice.choice(table.blocks)
    places = {
        "raw length": RAW_LENGTH, "entries": ENTRIES, "filter keys": FILTER_KEYS,
        "codec": CODEC, "scheme and probes": SCHEME_AND_PROBES, "magic": 7,
    }  # fmt: skip
    name = dice.choice(sorted(places))
    block.fields[places[name]] = _number(block.fields[places[name]], dice)
    return f"{name} of a block is {block.fields[places[name]]}"


def _lie_in_payload(table: CraftedTable, dice: random.Random) -> str:
    block = dice.choice(table.blocks)
    if dice.random() < 0.5:  # the header
        form, at = dice.choice(
            (("I", 0), ("B", 4), ("B", 5), ("H", 6), ("Q", 8), ("I", 16), ("I", 20))
        )
        size = struct.calcsize(f"<{form}")
        if at + size <= len(block.payload):
            (old,) = struct.unpack_from(f"<{form}", block.payload, at)
            new = _number(old, dice) & (1 << 8 * size) - 1
            struct.pack_into(f"<{form}", block.payload, at, new)
        return f"header of a payload changed at {at}"
    block.payload = bytearray(mutated([bytes(block.payload)], (), dice))
    _state_length(block.payload, block.fields)
    return "payload of a block changed"


def _state_length(payload: bytearray, fields: list[int]) -> None:
    """Have the trailer state how long the payload is: of a reduced one, how long it would be."""
    fields[RAW_LENGTH] = len(payload)
    if fields[CODEC] == 2 and len(payload) >= 20:
        count, flags = struct.unpack_from("<IB", payload)
        left_out = 4 + count + (2 * count if flags & 64 else 0) + (4 * count if flags & 128 else 0)
        fields[RAW_LENGTH] = len(payload) + left_out


def _exchange_keys(table: CraftedTable, dice: random.Random) -> str:
    """Bytes of keys in a payload change places: mostly keys that do not ascend."""
    block = dice.choice(table.blocks)
    length = min(dice.choice((1, 2, 3)), len(block.payload) // 2)
    low = dice.randrange(20, max(21, len(block.payload) - 2 * length))
    high = low + length
    part = block.payload[low:high]
    block.payload[low:high] = block.payload[high : high + length]
    block.payload[high : high + length] = part
    return f"{length} bytes of a payload exchanged at {low}"


def _move_blocks(table: CraftedTable, dice: random.Random) -> str:
    at, other = (dice.randrange(len(table.blocks)) for _ in range(2))
    choice = dice.randrange(3)
    if choice == 0:
        table.blocks[at], table.blocks[other] = table.blocks[other], table.blocks[at]
    elif choice == 1:
        table.blocks[at] = table.blocks[other]
    else:
        table.blocks.insert(at, table.blocks[other])
    return f"blocks {at} and {other} moved in way {choice}"


def _lie_in_filters(table: CraftedTable, dice: random.Random) -> str:
    if dice.random() < 0.5:
        table.filters = bytearray(mutated([bytes(table.filters)], (), dice))
        return "filter section changed"
    block = dice.choice(table.blocks)
    block.bits = bytearray(mutated([bytes(block.bits)], (), dice))
    if dice.random() < 0.7:
        table.follow_filters()
    return "filter of a block changed"


def _lie_in_keys(table: CraftedTable, dice: random.Random) -> str:
    before = len(table.keys)
    table.keys = mutated([table.keys], (), dice)
    table.numbers["key_ends"][-1] += len(table.keys) - before
    return "keys of the index changed"


def _lie_in_dictionary(table: CraftedTable, dice: random.Random) -> str:
    table.dictionary = mutated([table.dictionary], (), dice)
    return "dictionary changed"


_TABLE_LIES: Final[tuple[Callable[[CraftedTable, random.Random], str], ...]] = (
    _lie_in_array,
    _lie_in_array,
    _lie_in_array,
    _lie_in_head,
    _lie_in_properties,
    _lie_in_properties,
    _lie_in_block,
    _lie_in_payload,
    _lie_in_payload,
    _exchange_keys,
    _move_blocks,
    _lie_in_filters,
    _lie_in_keys,
    _lie_in_dictionary,
)


def _lie_in_log(store: Path, dice: random.Random) -> str:
    path = dice.choice(sorted(store.glob("*.log")))
    data = mutated([path.read_bytes()], (), dice)
    path.write_bytes(seal_records(data, log_salt_of(data)))
    return "log changed"


def _lie_in_manifest(store: Path, dice: random.Random) -> str:
    record = msgspec.json.decode(msgspec.json.encode(state_of(store).as_edit()))
    holder, name = dice.choice(list(_numbers_in(record)))
    holder[name] = _number(holder[name], dice)
    write_manifest(store, msgspec.json.encode(record))
    return f"{name} of the manifest is {holder[name]}"


def _numbers_in(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every number in JSON: what holds it, and by what name or at what place."""
    for name, value in list(data.items() if isinstance(data, dict) else enumerate(data)):
        if isinstance(value, dict | list):
            yield from _numbers_in(value)
        elif isinstance(value, int):
            yield data, name


_LIARS: Final[dict[str, Callable[[Path, random.Random], str]]] = {
    "table": _lie_in_table,
    "log": _lie_in_log,
    "manifest": _lie_in_manifest,
}


# What is done with it


def _reading(store: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every call of a reader, each in a handle of its own: one that fails hides no other."""

    def opened(call: Callable[[lsmkv.DB], object]) -> None:
        with lsmkv.open(store, read_only=True) as db:
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
    yield "multi_get", partial(opened, lambda db: db.multi_get(_ASKED))
    for bounds in _RANGES:
        for reverse in (False, True):
            taken = partial(_taken, bounds=bounds, reverse=reverse)
            yield f"items({bounds}, reverse={reverse})", partial(opened, taken)
    for key in (_ASKED[3], b"0123x"):
        yield f"explain({key!r})", partial(opened, lambda db, key=key: str(db.explain(key)))
    yield "inspect", partial(opened, lambda db: str(db.inspect()))
    yield "blocks", partial(opened, _all_blocks)
    yield "cursor", partial(opened, _moved_cursor)
    yield "verify", partial(opened, lambda db: db.verify().text())
    yield "approximate_size", partial(opened, lambda db: db.approximate_size(b"0100", b"0300"))


def _taken(db: lsmkv.DB, bounds: dict[str, Any], reverse: bool) -> None:
    for _ in db.items(**bounds, reverse=reverse):
        pass


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


def _writing(store: Path, directory: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Repairing it, and compacting it, in this order: compaction may mend what is wrong."""
    output = directory / "output"
    shutil.rmtree(output, ignore_errors=True)
    yield "repair", lambda: _repaired(store, output)
    yield "compact_range", lambda: _compacted(store)
    yield "write", lambda: _written(store)
    yield "repair in place", lambda: _repaired(store, None)


def _repaired(store: Path, output: Path | None) -> None:
    if output is None:
        lsmkv.repair(store, in_place=True)
    else:
        lsmkv.repair(store, output)
    _expect_sound(output or store)


def _compacted(store: Path) -> None:
    with lsmkv.open(store) as db:
        db.compact_range(force=True)
    _expect_sound(store)


def _written(store: Path) -> None:
    with lsmkv.open(store) as db:
        db[b"0050"] = b"written"
        db.flush()


def _expect_sound(store: Path) -> None:
    """A store that was just written has to be whole."""
    with lsmkv.open(store, read_only=True) as db:
        report = db.verify()
        if not report.ok:
            raise WrongResultError(f"what was written is damaged: {report.text()[:600]}")
        for _ in db.items():
            pass
