"""Sessions of the part ``metamorphic``: each round runs one program under several sets of options.

``<round>/0`` has the default options, ``<round>/1`` random ones, ``<round>/2`` and ``<round>/3`` new
random ones at each reopening.  The background work of ``<round>/3`` runs in threads, or in some rounds in
processes, as the system schedules them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lsmkv.storage.storage import ReadKind, Storage
from torture.framework.part import Scale
from torture.metamorphic.option_sets import OptionSet, in_helper_processes, option_set, without
from torture.metamorphic.programs import program, reopenings
from torture.metamorphic.sessions import Session

CHAINS: Final = 4  # sessions of each round

# Rounds whose last session works in processes, which is slow; some run on the compiled build too.
_HELPED_EVERY: Final = 12
_HELPED_FIRST: Final = 8


@dataclass(frozen=True, slots=True)
class Size:
    """The amount of work of one scale.

    Attributes:
        operations: least number of operations of each program.
        compiled_every: the compiled build runs one of this many rounds too.
        shrinking_s: time to shrink a failure.
    """

    rounds: int
    operations: int
    compiled_every: int
    shrinking_s: float


SIZES: Final = {
    Scale.CI: Size(rounds=12, operations=600, compiled_every=4, shrinking_s=10.0),
    Scale.SHORT: Size(rounds=120, operations=1500, compiled_every=10, shrinking_s=20.0),
    Scale.LONG: Size(rounds=20_000, operations=3000, compiled_every=10, shrinking_s=60.0),
}


def names(round_number: int) -> list[str]:
    """Names of the sessions of a round."""
    return [f"{round_number}/{chain}" for chain in range(CHAINS)]


def session(name: str, seed: int, operations: int, directs: bool) -> Session:
    """The session of that name; ValueError if there is none.  ``directs``: direct reads work here."""
    numbers = name.split("/")
    if len(numbers) != 2 or not all(map(str.isdecimal, numbers)) or int(numbers[1]) >= CHAINS:
        raise ValueError(f"{name!r} is not a ROUND/CHAIN with a chain below {CHAINS}")
    round_number, chain = map(int, numbers)
    steps = program(f"{seed} {round_number}", operations)
    is_helped = chain == 3 and round_number % _HELPED_EVERY == _HELPED_FIRST
    sets: list[OptionSet] = [{}]
    if chain:
        dice = random.Random(f"options {seed} {name}")
        count = 1 if chain == 1 else 1 + reopenings(steps)
        sets = [option_set(dice) for _ in range(count)]
    if not directs:
        sets = [without(one, ["direct_reads"]) for one in sets]
    if is_helped:
        sets = [in_helper_processes(one) for one in sets]
    return Session(steps, sets, is_ordered=chain < 3)


def reads_directly(directory: Path) -> bool:
    """Whether direct reads, past the page cache, work on files in ``directory``."""
    path = str(directory / "direct")
    storage = Storage(direct_reads=True)
    try:
        with storage.create(path) as file:
            file.append(bytes(8192))
        with storage.open_random(path) as opened:
            return opened.pread(100, 5000, ReadKind.DATA) == bytes(5000)
    except OSError:
        return False
    finally:
        storage.remove(path)
