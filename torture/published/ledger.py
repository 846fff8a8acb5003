"""What a store held when it was published, and whether what was read is that."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final

from torture.framework.changes import Change, Contents, change_model, difference
from torture.framework.part import expect

KEYS: Final = [b"key%03d" % number for number in range(500)]
MARKER: Final = b"version"  # a key whose value is the version
_CHANGED: Final = 30  # keys in a row, by each version but the first: most tables stay
_ABSENT: Final = 0.15


def changes(seed: int, version: int) -> Sequence[Change]:
    """What the batch of a version does; its values name it."""
    dice = random.Random(f"published {seed}/{version}")
    first = dice.randrange(len(KEYS) - _CHANGED)
    keys = KEYS if version == 1 else KEYS[first : first + _CHANGED]
    found: list[Change] = [
        (key, None if dice.random() < _ABSENT else b"%d:" % version + dice.randbytes(90))
        for key in keys
    ]
    return [*found, (MARKER, b"%d" % version)]


class Ledger:
    """The versions of a store, and the generations in which they were published.

    A publication that failed or was killed may have made its generation; whoever reads it first tells.

    Attributes:
        begun: the last version that was to be published.
        published: versions by generation, as far as known.
        newest: the newest generation of a publication that returned.
    """

    def __init__(self, seed: int) -> None:
        self.begun = 0
        self.published: dict[int, int] = {}
        self.newest = 0
        self._seed = seed
        self._contents: list[Contents] = [{}]

    def contents(self, version: int) -> Contents:
        while len(self._contents) <= version:
            model = dict(self._contents[-1])
            change_model(model, changes(self._seed, len(self._contents)))
            self._contents.append(model)
        return self._contents[version]

    def acknowledge(self, generation: int, version: int) -> None:
        """Note that a publication returned."""
        self._note(generation, version)
        expect(
            generation >= self.newest, f"generation {generation} was published after {self.newest}"
        )
        self.newest = generation

    def check(self, generation: int, found: Mapping[bytes, bytes | None]) -> None:
        """UnsoundError unless these keys have the values that the generation gives them."""
        if generation not in self.published:
            if MARKER not in found:
                return  # its lookup failed
            self._note(generation, int(found[MARKER] or 0))
        expected = self.contents(self.published[generation])
        shown = {key: value for key, value in found.items() if value is not None}
        wanted = {key: expected[key] for key in found if key in expected}
        expect(shown == wanted, f"generation {generation}: {difference(shown, wanted)}")

    def _note(self, generation: int, version: int) -> None:
        known = self.published.setdefault(generation, version)
        expect(
            known == version,
            f"generation {generation} holds version {version}, and held version {known}",
        )
        expect(0 < version <= self.begun, f"generation {generation} holds version {version}")
        order = [self.published[number] for number in sorted(self.published)]
        expect(order == sorted(order), f"later generations hold older versions: {self.published}")
