"""Damage to the files of a store; each has a name, ``kind:file:arguments``, which repeats it.

Offsets and lengths are decimal; random damage is drawn from a generator seeded with the name.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from torture.corruption.samples import Image, Sample

_RANDOM_KINDS: Final = ("overwrite", "insert", "remove", "repeat", "move", "zeros", "several")
PLACE_KINDS: Final = ("missing", "empty", "directory", "pipe", "link", "foreign", "notes")
"""Replacements of a whole file."""


@dataclass(slots=True)
class Damaged:
    """A store's files after damage.

    Attributes:
        image: regular files, by name.
        files: names of the changed files.
        placed: names that are not regular files any more, and which of ``PLACE_KINDS`` they are.
    """

    image: Image
    files: tuple[str, ...]
    placed: dict[str, str] = field(default_factory=dict)

    def undo(self, directory: Path, sample: Sample) -> None:
        for name in self.files:
            path = directory / name
            if name in self.placed:
                if self.placed[name] == "directory":
                    path.rmdir()
                else:
                    path.unlink(missing_ok=True)
            path.write_bytes(sample.image[name])

    def write(self, directory: Path, outside: Path) -> None:
        """Damage the store in ``directory`` in place; links lead to ``outside``."""
        for name in self.files:
            path = directory / name
            kind = self.placed.get(name)
            if name not in self.image:
                path.unlink(missing_ok=True)
            if kind == "directory":
                path.mkdir()
            elif kind == "pipe":
                os.mkfifo(path)
            elif kind == "link":
                path.symlink_to(outside)
            elif name in self.image:
                path.write_bytes(self.image[name])


def apply(name: str, sample: Sample, other: Sample) -> Damaged:
    """The files of ``sample`` after the named damage; foreign files come from ``other``."""
    kind, file, *arguments = name.split(":")
    if kind == "swap":
        return _swapped(sample, file, arguments[0])
    if kind == "blocks":
        return _swapped_blocks(sample, int(arguments[0]))
    data = sample.image[file]
    if kind in PLACE_KINDS:
        return _placed(sample, file, kind, other)
    if kind == "stale":
        changed = sample.stale[file][int(arguments[0])]
    elif kind == "random":
        dice = random.Random(name)
        changed = _at_random(data, dice)
    else:
        at = int(arguments[0])
        changed = _ONE_BYTE[kind](data, at, int(arguments[1]) if arguments[1:] else 0)
    return Damaged({**sample.image, file: changed}, (file,))


def _flip(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def _zero(data: bytes, at: int, _: int) -> bytes:
    return data[:at] + b"\x00" + data[at + 1 :]


def _ones(data: bytes, at: int, _: int) -> bytes:
    return data[:at] + b"\xff" + data[at + 1 :]


def _cut(data: bytes, at: int, _: int) -> bytes:
    return data[:at]


_ONE_BYTE: Final[dict[str, Callable[[bytes, int, int], bytes]]] = {
    "flip": _flip,
    "zero": _zero,
    "ones": _ones,
    "cut": _cut,
}


def _at_random(data: bytes, dice: random.Random) -> bytes:
    kind = dice.choice(_RANDOM_KINDS)
    if kind == "several":
        for _ in range(dice.randrange(2, 5)):
            data = _at_random(data, dice)
        return data
    length = min(len(data), dice.choice((1, 2, 4, 8, 20, 100, 512)))
    at = dice.randrange(len(data) - length + 1)
    piece = data[at : at + length]
    if kind == "overwrite":
        return data[:at] + dice.randbytes(length) + data[at + length :]
    if kind == "insert":
        return data[:at] + dice.randbytes(length) + data[at:]
    if kind == "remove":
        return data[:at] + data[at + length :]
    if kind == "repeat":
        return data[:at] + piece + data[at:]
    if kind == "zeros":
        return data[:at] + bytes(length) + data[at + length :]
    rest = data[:at] + data[at + length :]
    to = dice.randrange(len(rest) + 1)
    return rest[:to] + piece + rest[to:]


def _swapped(sample: Sample, one: str, another: str) -> Damaged:
    image = {**sample.image, one: sample.image[another], another: sample.image[one]}
    return Damaged(image, (one, another))


def _swapped_blocks(sample: Sample, seed: int) -> Damaged:
    """Swap two blocks of one table or of two."""
    dice = random.Random(seed)
    places = [
        (name, block.start, block.end)
        for name, table in sample.tables.items()
        for block in table.blocks
    ]
    (one, start, end), (another, from_, to) = dice.sample(places, 2)
    first, second = sample.image[one][start:end], sample.image[another][from_:to]
    image = dict(sample.image)
    if one != another:
        image[one] = image[one][:start] + second + image[one][end:]
        image[another] = image[another][:from_] + first + image[another][to:]
        return Damaged(image, (one, another))
    if start > from_:
        (start, end), (from_, to), first, second = (from_, to), (start, end), second, first
    data = image[one]
    image[one] = data[:start] + second + data[end:from_] + first + data[to:]
    return Damaged(image, (one,))


def _placed(sample: Sample, file: str, kind: str, other: Sample) -> Damaged:
    image = dict(sample.image)
    del image[file]
    if kind == "empty":
        image[file] = b""
    elif kind == "notes":
        image[file] = b"some notes, nothing else\n" * 6
    elif kind == "foreign":
        image[file] = other.image.get(file, b"")
    else:
        return Damaged(image, (file,), {file: kind})
    return Damaged(image, (file,))


def every_byte(sample: Sample, kind: str, bits: Callable[[int], range]) -> Iterator[str]:
    """Names of one kind of damage to every byte; ``bits`` maps a byte's number to the bits to flip."""
    count = 0
    for name, data in sample.image.items():
        for at in range(len(data)):
            count += 1
            if kind == "flip":
                for bit in bits(count):
                    yield f"flip:{name}:{at}:{bit}"
            else:
                yield f"{kind}:{name}:{at}"


def whole_files(sample: Sample) -> Iterator[str]:
    """Names of damage to whole files: replaced, swapped, or stale."""
    for name in sample.image:
        for kind in PLACE_KINDS:
            yield f"{kind}:{name}"
        for number in range(len(sample.stale.get(name, []))):
            yield f"stale:{name}:{number}"
        for another in sample.image:
            if name < another:
                yield f"swap:{name}:{another}"


def at_random(sample: Sample, count: int, seed: int) -> Iterator[str]:
    """Names of ``count`` random damages, a fifth of them swapped blocks."""
    names = sorted(sample.image)
    for number in range(count):
        if number % 5 == 4:
            yield f"blocks::{seed * 1_000_003 + number}"
        else:
            yield f"random:{names[number % len(names)]}:{seed}:{number}"
