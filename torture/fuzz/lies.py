"""Lies: wrong values in fields of a store's files, with correct checksums."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from lsmkv.errors import CorruptionError
from torture.fuzz.crafting import (
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
from torture.fuzz.index_parts import IndexParts
from torture.fuzz.mutation import EXTREME, INTERESTING, mutated
from torture.fuzz.sealing import log_salt_of, seal_records

_FILES: Final = (*["table"] * 6, "log", "manifest", "manifest")


def tell_lie(store: Path, dice: random.Random) -> str:
    """Change a field in a closed store's files, and describe the change."""
    return _LIARS[dice.choice(_FILES)](store, dice)


def _number(old: int, dice: random.Random) -> int:
    """Another number: a nearby, an interesting or an extreme one."""
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
    # Fields that would reveal the lie mostly follow.
    if dice.random() < 0.6:
        table.follow_blocks()
    if dice.random() < 0.4 and table.properties["granularity"] == "block":
        table.follow_filters()
    if dice.random() < 0.4:
        with suppress(CorruptionError):
            table.follow_keys()
    replace_table(store, table)
    return " and ".join(told)


def _lie_in_numbers(table: CraftedTable, dice: random.Random) -> str:
    """Numbers that the builder of an index encodes, if they are not far out of range."""
    name = dice.choice(sorted(table.numbers))
    return f"{name}{_change(table.numbers[name], dice)}"


def _lie_in_separators(table: CraftedTable, dice: random.Random) -> str:
    keys = table.separators
    at, other = (dice.randrange(len(keys)) for _ in range(2))
    choice = dice.randrange(4)
    if choice == 0:
        keys[at], keys[other] = keys[other], keys[at]
    elif choice == 1:
        keys[at] = keys[other]
    elif choice == 2:
        table.prefix_length = max(0, _number(table.prefix_length, dice) & 7)
    else:
        keys[at] = mutated([keys[at]], (), dice)
    return f"separator {at} changed in way {choice}"


_ENDLESS: Final = (b"\0", b"\x80\x80\x80\x80", b"\xff\xff\x7f", b"\xff\xff\xff\x7f", b"\xff")


def _lie_in_index(table: CraftedTable, dice: random.Random) -> str:
    """Parts of an index that no builder encodes."""

    def lie(parts: IndexParts) -> None:
        group = dice.choice(parts.groups)
        choice = dice.randrange(6)
        if choice == 0:
            _change(parts.head, dice, is_fixed=True)
        elif choice == 1:
            _change(parts.arrays[dice.choice(sorted(parts.arrays))], dice)
        elif choice == 2:
            _change(group.fields, dice, is_fixed=True)
        elif choice == 3:
            _change(group.widen(dice.randrange(4), dice.choice((8, 32, 56, 57, 255))), dice)
        else:
            parts.keys = mutated([parts.keys], _ENDLESS, dice)
        if dice.random() < 0.6:
            with suppress(IndexError):
                _, filter_ends, _ = parts.follow()
                parts.seal_chunks(bytes(table.filters), filter_ends)

    table.index_lie = lie
    return "parts of the index changed"


def _change(numbers: list[int], dice: random.Random, *, is_fixed: bool = False) -> str:
    """Change a number, or mostly where ``is_fixed`` is not set several, and describe it."""
    if not numbers:
        return " has nothing"
    at = dice.randrange(len(numbers))
    choice = dice.randrange(4, 8) if is_fixed else dice.randrange(8)
    if choice == 0:
        other = dice.randrange(len(numbers))
        numbers[at], numbers[other] = numbers[other], numbers[at]
    elif choice == 1:
        numbers[:] = [_number(numbers[at], dice)] * len(numbers)
    elif choice == 2 and len(numbers) > 1:
        del numbers[at]
    elif choice == 3:
        numbers.insert(at, numbers[at])
    else:
        numbers[at] = _number(numbers[at], dice)
    return f"[{at}] changed in way {choice}"


def _lie_in_properties(table: CraftedTable, dice: random.Random) -> str:
    said = table.properties
    name = dice.choice(sorted(said))
    old = said[name]
    if isinstance(old, bool):
        said[name] = not old
    elif isinstance(old, int):
        said[name] = _number(old, dice)
    elif name == "expiry":
        said[name] = [number or 0 for number in old]
        _change(said[name], dice, is_fixed=True)
    elif isinstance(old, float):
        said[name] = dice.choice((5e-324, 1e-9, 0.999, 1.0, 2.0, 1e300))
    elif name in ("smallest", "largest"):
        said[name] = msgspec.to_builtins(dice.choice((b"", b"0001", b"0200", b"9", b"\xff" * 300)))
    elif name == "filter_key":
        said[name] = dice.choice(("whole", "fixed:1", "fixed:65535", "delimited:30:1", "nothing"))
    elif name == "granularity":
        said[name] = "table" if old == "block" else "block"
    else:
        said[name] = dice.choice(("", "bloom", "ribbon", "x" * 200))
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
    """Correct the payload's length in the trailer; for a transposed block, the length restored."""
    fields[RAW_LENGTH] = len(payload)
    if fields[CODEC] == 2 and len(payload) >= 20:
        count, flags = struct.unpack_from("<IB", payload)
        left_out = 4 + count + (2 * count if flags & 64 else 0) + (4 * count if flags & 128 else 0)
        fields[RAW_LENGTH] = len(payload) + left_out


def _exchange_keys(table: CraftedTable, dice: random.Random) -> str:
    """Swap bytes of keys in a payload; mostly they no longer ascend."""
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


def _lie_in_dictionary(table: CraftedTable, dice: random.Random) -> str:
    table.dictionary = mutated([table.dictionary], (), dice)
    return "dictionary changed"


_TABLE_LIES: Final[tuple[Callable[[CraftedTable, random.Random], str], ...]] = (
    _lie_in_numbers,
    _lie_in_separators,
    _lie_in_index,
    _lie_in_index,
    _lie_in_properties,
    _lie_in_properties,
    _lie_in_block,
    _lie_in_payload,
    _lie_in_payload,
    _exchange_keys,
    _move_blocks,
    _lie_in_filters,
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
    """Every number in JSON: its container, and its name or position there."""
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
