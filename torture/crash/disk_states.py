"""States that POSIX allows a disk to have after a power failure.

Synced data is there.  Everything else may be lost, in any order:

- Each change of a directory since its last sync (a creation, a rename, a removal) is there or not,
  independently of the changes before it.  One rename is there as a whole or not at all.
- A file has its last length, the length at its last sync, or a length between.
- Each 512-byte sector written since the last sync holds the new bytes, the old bytes (zeros where
  there were none), or trash.  Synced bytes survive in a sector whose other bytes are lost
  ("powersafe overwrite", https://www.sqlite.org/psow.html).

All extremes are tried, and a random sample of the combinations (after Pillai et al., "All File Systems
Are Not Created Equal", OSDI 2014, whose ALICE does the same with recorded system calls).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from posixpath import basename
from typing import Final, TypeVar

from torture.crash.disk import Disk, File, Image, Names, image_of, update

_Item = TypeVar("_Item")

SECTOR_BYTES: Final = 512
_MOST_ALONE: Final = 12
"""Changes, files and sectors that are tried alone; of more, a random sample of this size."""


@dataclass(frozen=True, slots=True)
class State:
    """Files that a crash may leave.

    Attributes:
        what: a description in words.
        is_whole: nothing is lost: the process ended, but the operating system did not.
    """

    what: str
    image: Image
    is_whole: bool = False


Content = Callable[[File], bytes]  # chooses the bytes of a file after the crash


def states(disk: Disk, seed: str, samples: int) -> Iterator[State]:
    """States that a crash of ``disk`` may leave: the end of the process, extremes, random samples."""
    yield State("nothing is lost", disk.everything(), is_whole=True)
    dice = random.Random(seed)
    unsynced = _unsynced(disk)
    if not unsynced and not disk.pending:
        return
    whole, least = disk.names, disk.durable_names
    yield State("all unsynced changes are lost", disk.the_least())
    yield State("unsynced data is lost, names are not", _image(disk, whole, _durable))
    yield State("unsynced names are lost, data is not", _image(disk, least, _written))
    if unsynced:
        zeros, trash = _zeros, _trash(dice)
        yield State("unsynced data is zeros", _image(disk, whole, zeros))
        yield State("unsynced data is trash", _image(disk, whole, trash))
        yield State("unsynced data is torn", _image(disk, whole, _cut(dice)))
    if samples < 0:
        return
    yield from _single_names(disk, dice)
    yield from _single_files(disk, unsynced, dice)
    yield from _single_sectors(disk, unsynced, dice)
    for number in range(samples):
        names, said = _some_names(disk, dice)
        yield State(f"sample {number}: {said}; some data is lost", _image(disk, names, _some(dice)))


def _unsynced(disk: Disk) -> dict[int, str]:
    """Files with unsynced data, and a name of each, old or new."""
    found: dict[int, str] = {}
    for names in (disk.durable_names, disk.names):
        for path, number in names.items():
            if not disk.files[number].is_synced:
                found[number] = basename(path)
    return found


def _image(disk: Disk, names: Names, content: Content, only: int | None = None) -> Image:
    """The named files, with ``content`` applied to all or ``only`` one."""
    contents: dict[int, bytes] = {}
    for number in sorted(set(names.values())):
        file = disk.files[number]
        is_certain = file.is_synced or only not in (None, number)
        contents[number] = file.content if is_certain else content(file)
    return image_of(names, contents)


def _only(one: int) -> Callable[[int], bool]:
    return lambda number: number == one


def _all_but(one: int) -> Callable[[int], bool]:
    return lambda number: number != one


# --- names ---------------------------------------------------------------------------------------


def _names(disk: Disk, is_kept: Callable[[int], bool]) -> Names:
    """The names if only the chosen pending changes are kept."""
    names = dict(disk.durable_names)
    for number, change in enumerate(disk.pending):
        if is_kept(number):
            update(names, change)
    return names


def _said(change: dict[str, int | None]) -> str:
    gone = [basename(path) for path, number in change.items() if number is None]
    made = [basename(path) for path, number in change.items() if number is not None]
    if gone and made:
        return f"the rename of {gone[0]} to {made[0]}"
    return f"the removal of {gone[0]}" if gone else f"the creation of {made[0]}"


def _single_names(disk: Disk, dice: random.Random) -> Iterator[State]:
    """One change is lost, or is the only one that is kept."""
    for number in _sample(range(len(disk.pending)), dice):
        said = _said(disk.pending[number])
        others, alone = _names(disk, _all_but(number)), _names(disk, _only(number))
        yield State(f"{said} is lost", _image(disk, others, _written))
        yield State(f"{said} is lost, and all unsynced data", _image(disk, others, _durable))
        yield State(f"{said} is the only unsynced name that is kept", _image(disk, alone, _written))
        yield State(
            f"{said} is the only unsynced change that is kept", _image(disk, alone, _durable)
        )


def _some_names(disk: Disk, dice: random.Random) -> tuple[Names, str]:
    share = dice.choice((0.2, 0.5, 0.8, 1.0))
    kept = [dice.random() < share for _ in disk.pending]
    lost = [
        _said(change) for change, is_kept in zip(disk.pending, kept, strict=True) if not is_kept
    ]
    return _names(disk, kept.__getitem__), ", ".join(lost) + " lost" if lost else "no name is lost"


# --- data ----------------------------------------------------------------------------------------


def _single_files(disk: Disk, unsynced: dict[int, str], dice: random.Random) -> Iterator[State]:
    """The unsynced data of one file is lost."""
    for number in _sample(sorted(unsynced), dice):
        name = unsynced[number]
        for said, content in (
            ("lost", _durable),
            ("zeros", _zeros),
            ("trash", _trash(dice)),
            ("torn", _cut(dice)),
        ):
            image = _image(disk, disk.names, content, only=number)
            yield State(f"unsynced data of {name} is {said}", image)


def _single_sectors(disk: Disk, unsynced: dict[int, str], dice: random.Random) -> Iterator[State]:
    """One sector is lost, or is the only one that is kept."""
    places = [(number, at) for number in sorted(unsynced) for at in _sectors(disk.files[number])]
    for number, at in _sample(places, dice):
        name = unsynced[number]
        for said, content in (
            ("is lost", _mixed(_only(at), None)),
            ("is trash", _mixed(_only(at), dice)),
            ("is the only one kept", _mixed(_all_but(at), None)),
        ):
            image = _image(disk, disk.names, content, only=number)
            yield State(f"sector {at // SECTOR_BYTES} of {name} {said}", image)


def _sample(items: Iterable[_Item], dice: random.Random) -> list[_Item]:
    found = list(items)
    return found if len(found) <= _MOST_ALONE else dice.sample(found, _MOST_ALONE)


def _written(file: File) -> bytes:
    return file.content


def _durable(file: File) -> bytes:
    return file.durable


def _sectors(file: File) -> range:
    """Offsets of the sectors with unsynced bytes."""
    same = _same(file)
    # Zeros at the end were never written: the file was made longer.
    end = max(len(file.content.rstrip(b"\0")), len(file.durable.rstrip(b"\0")))
    return range(same - same % SECTOR_BYTES, end, SECTOR_BYTES)


def _same(file: File) -> int:
    """Length of the prefix that is synced as it was written."""
    written, durable = file.content, file.durable
    if written.startswith(durable):
        return len(durable)
    if durable.startswith(written):
        return len(written)
    low, high = 0, min(len(written), len(durable))
    while low < high:
        middle = (low + high + 1) // 2
        if written[low:middle] == durable[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _mixed(is_lost: Callable[[int], bool], trash: random.Random | None) -> Content:
    """Lost sectors get their old bytes back, or trash."""

    def content(file: File) -> bytes:
        written, durable = file.content, file.durable
        size = max(len(written), len(durable))
        new = bytearray(written.ljust(size, b"\0"))
        old = durable.ljust(size, b"\0")
        same = _same(file)
        for at in _sectors(file):
            if is_lost(at):
                start, end = max(at, same), min(at + SECTOR_BYTES, size)
                new[start:end] = old[start:end] if trash is None else trash.randbytes(end - start)
        return bytes(new)

    return content


def _zeros(file: File) -> bytes:
    """All unsynced bytes are old; the length is the new one."""
    return _mixed(lambda _: True, None)(file)


def _trash(dice: random.Random) -> Content:
    return _mixed(lambda _: True, dice)


def _cut(dice: random.Random) -> Content:
    """Tear the last write, or cut the file after an earlier one."""

    def content(file: File) -> bytes:
        written, durable = file.content, file.durable
        if len(written) < len(durable):
            return dice.choice((written, durable))
        ends = [_same(file), *file.ends]
        cut = dice.choice(ends)
        if len(ends) > 1 and dice.random() < 0.5:
            cut = dice.randint(ends[-2], max(ends[-2], ends[-1] - 1))
        return written[:cut] + durable[cut:]

    return content


def _some(dice: random.Random) -> Content:
    """A random mixture of these losses."""

    def content(file: File) -> bytes:
        drawn = dice.random()
        if drawn < 0.2:
            return file.content
        if drawn < 0.35:
            return file.durable
        if drawn < 0.6:
            return _cut(dice)(file)
        share = dice.choice((0.1, 0.5, 0.9))
        mixed = _mixed(lambda _: dice.random() < share, dice if dice.random() < 0.5 else None)(file)
        if dice.random() < 0.5 or not file.content.startswith(file.durable):
            return mixed
        return mixed[: dice.randint(len(file.durable), len(mixed))]

    return content
