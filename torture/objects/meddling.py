"""Random uses that do not change a store, for unexpected moments."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

from torture.objects.ground import Ground, agree
from torture.objects.trial import ObjectTrial

_MOST_DEEP: Final = 2
_FEW: Final = 5


class Meddler:
    """Uses a store at random: reads and checks, writes existing entries again, flushes now and then.

    Attributes:
        times: number of uses.
    """

    def __init__(self, trial: ObjectTrial, ground: Ground, *, writes: bool = True) -> None:
        self._trial = trial
        self._ground = ground
        self._dice = trial.dice("meddler")
        self._keys = sorted(ground.model)
        self._depth = 0
        self.times = 0
        self._uses: list[Callable[[], None]] = [
            self._get,
            self._get_many,
            self._scan,
            self._look_into_snapshot,
            self._walk,
        ]
        if writes:
            self._uses += [self._put, self._write_batch, self._delete_absent, self._flush]

    def meddle(self, *_: object) -> None:
        """Make one use and check its result; it may be called during itself."""
        if self._depth >= _MOST_DEEP:
            return
        self._depth += 1
        self.times += 1
        try:
            use = self._dice.choice(self._uses)
            self._trial.attempt(f"meddling ({use.__name__})", use, strict=True)
        finally:
            self._depth -= 1

    def _key(self) -> bytes:
        return self._dice.choice(self._keys)

    def _get(self) -> None:
        key = self._key()
        agree("get", self._ground.db.get(key), self._ground.model[key])

    def _get_many(self) -> None:
        keys = self._dice.sample(self._keys, _FEW)
        found = self._ground.db.multi_get(keys)
        agree("multi_get", found, [self._ground.model[key] for key in keys])

    def _scan(self) -> None:
        reverse = self._dice.random() < 0.5
        few = list(itertools.islice(self._ground.db.items(reverse=reverse), _FEW))
        agree("a scan", few, self._ground.expected("items", reverse)[:_FEW])

    def _look_into_snapshot(self) -> None:
        key = self._key()
        with self._ground.db.snapshot() as snapshot:
            agree("a snapshot", snapshot.get(key), self._ground.model[key])

    def _walk(self) -> None:
        key = self._key()
        with self._ground.db.cursor() as cursor:
            cursor.seek(key)
            agree("a cursor", cursor.item, (key, self._ground.model[key]))

    def _put(self) -> None:
        key = self._key()
        self._ground.db.put(key, self._ground.model[key], sync=self._dice.random() < 0.1)

    def _write_batch(self) -> None:
        with self._ground.db.write_batch() as batch:
            for key in self._dice.sample(self._keys, _FEW):
                batch.delete(key)
                batch.put(key, self._ground.model[key])

    def _delete_absent(self) -> None:
        self._ground.db.delete(b"absent")

    def _flush(self) -> None:
        if self._dice.random() < 0.1:
            self._ground.db.flush()
