"""Threads that write with a ledger, and threads that check their reads."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import lsmkv
from lsmkv.api.snapshot import StoreReader
from torture.framework.changes import Change, Contents, write_batch
from torture.framework.part import UnsoundError
from torture.load.ledger import Ledger, value_of

_LONGEST_BATCH: Final = 12
_LONGEST_LARGE_BATCH: Final = 300
_LONGEST_RANGE: Final = 100
_MOST_KEPT: Final = 4
_WHOLE_STORE_KEYS: Final = 5000

Item = tuple[bytes, bytes]


def group_prefix(group: int) -> bytes:
    """The prefix of all keys of a group."""
    return b"g%02d/" % group


def key_of(group: int, number: int) -> bytes:
    return b"%skey-%06d" % (group_prefix(group), number)


def new_ledger(group: int, keys: int) -> Ledger:
    """The ledger of a group with that many keys."""
    return Ledger(key_of(group, number) for number in range(keys))


class Crew:
    """Threads that work until the time is up, or one fails."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._stopped = threading.Event()
        self._errors: list[BaseException] = []

    def goes_on(self) -> bool:
        """Whether there is time left and no thread failed."""
        return not self._stopped.is_set() and time.monotonic() < self._deadline

    def stop(self) -> None:
        """End all threads after their present step."""
        self._stopped.set()

    def run(self, steps: Iterable[Callable[[], object]]) -> None:
        """Call each step over and over in a thread of its own; raise the first error of any."""
        threads = [
            threading.Thread(target=self._work, args=(step,), name=f"torture-{at}", daemon=True)
            for at, step in enumerate(steps)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _work(self, step: Callable[[], object]) -> None:
        try:
            while self.goes_on():
                step()
        except BaseException as error:
            self._errors.append(error)
            self.stop()


class Writer:
    """Writes a group of keys with puts, deletions and batches, large ones if asked; syncs some."""

    def __init__(
        self,
        db: lsmkv.DB,
        ledger: Ledger,
        dice: random.Random,
        *,
        large_batches: bool = False,
        sync_every: int = 50,
    ) -> None:
        self._large = large_batches
        self._db = db
        self._ledger = ledger
        self._dice = dice
        self._sync_every = sync_every

    def fill(self, batch_keys: int = 1000) -> None:
        """Put every key once, in random order."""
        keys = list(self._ledger.keys)
        self._dice.shuffle(keys)
        for start in range(0, len(keys), batch_keys):
            self._batch(keys[start : start + batch_keys], [], False)

    def step(self) -> None:
        """Make one write."""
        dice, ledger = self._dice, self._ledger
        sync = dice.randrange(self._sync_every) == 0
        drawn = dice.random()
        key = dice.choice(ledger.keys)
        if drawn < 0.65:
            number = ledger.begin([key])
            self._db.put(key, value_of(key, number), sync=sync)
        elif drawn < 0.75:
            ledger.begin([], [key])
            self._db.delete(key, sync=sync)
        else:
            is_large = self._large and dice.random() < 0.2
            longest = _LONGEST_LARGE_BATCH if is_large else _LONGEST_BATCH
            size = min(dice.randint(2, longest), len(ledger.keys))
            keys = dice.sample(ledger.keys, size)
            deleted = size // 4
            self._batch(keys[deleted:], keys[:deleted], sync)
            return
        ledger.acknowledge()

    def _batch(self, puts: Sequence[bytes], deletions: Sequence[bytes], sync: bool) -> None:
        number = self._ledger.begin(puts, deletions)
        changes: list[Change] = [(key, None) for key in deletions]
        changes += [(key, value_of(key, number)) for key in puts]
        write_batch(self._db, changes, sync=sync)
        self._ledger.acknowledge()


class Reader:
    """One thread that checks its reads against the ledgers.

    It must never see older contents than before.

    Attributes:
        counts: reads of each kind.
    """

    def __init__(
        self,
        db: lsmkv.DB,
        ledgers: Sequence[Ledger],
        dice: random.Random,
        *,
        looks_up_only: bool = False,
    ) -> None:
        self._db = db
        self._ledgers = ledgers
        self._dice = dice
        self._seen = [0] * len(ledgers)
        self._kept: list[tuple[lsmkv.Snapshot, Contents]] = []
        self.counts: Counter[str] = Counter()
        kinds = (
            ("gets", self._get, 40),
            ("multi_gets", self._multi_get, 15),
            ("ranges", self._range, 15),
            ("cursors", self._walk, 5),
            ("snapshots", self._take_snapshot, 6),
            ("snapshots read again", self._look_again, 6),
            ("whole scans", self._everything, 1),
        )
        self._names = [name for name, _, _ in kinds]
        self._looks = [look for _, look, _ in kinds]
        self._weights = [weight for _, _, weight in kinds]
        if looks_up_only:  # single lookups are far more frequent
            self._weights[2:] = [0] * len(kinds[2:])

    def step(self) -> None:
        """Make one random read and check it."""
        (at,) = self._dice.choices(range(len(self._looks)), self._weights)
        self._looks[at]()
        self.counts[self._names[at]] += 1

    def end(self) -> None:
        """Read the held snapshots once more and close them."""
        while self._kept:
            self._look_again()

    def _floor(self, group: int) -> int:
        return max(self._seen[group], self._ledgers[group].done)

    def _group(self) -> int:
        return self._dice.randrange(len(self._ledgers))

    def _get(self) -> None:
        group = self._group()
        ledger = self._ledgers[group]
        key = self._dice.choice(ledger.keys)
        floor = self._floor(group)
        value = self._db.get(key)
        self._seen[group] = ledger.check_value(key, value, floor, ledger.begun)

    def _multi_get(self) -> None:
        """Look up each key with multi_get, in order: later keys may show later writes."""
        group = self._group()
        ledger = self._ledgers[group]
        keys = self._dice.choices(ledger.keys, k=8)
        floor = self._floor(group)
        values = self._db.multi_get(keys)
        for key, value in zip(keys, values, strict=True):
            floor = ledger.check_value(key, value, floor, ledger.begun)
        self._seen[group] = floor

    def _range(self) -> None:
        group = self._group()
        ledger = self._ledgers[group]
        keys = ledger.keys
        low = self._dice.randrange(len(keys))
        high = min(low + self._dice.randint(1, _LONGEST_RANGE), len(keys))
        reverse = self._dice.random() < 0.3
        stop = keys[high] if high < len(keys) else group_prefix(group) + b"~"
        floor = self._floor(group)
        view = self._db.items(start=keys[low], stop=stop, reverse=reverse)
        ceiling = ledger.begun
        found = in_order(list(iter(view)), reverse=reverse)
        self._seen[group] = ledger.check_cut(found, floor, ceiling, keys[low:high])

    def _walk(self) -> None:
        """Walk a cursor over a range, with some steps back."""
        group = self._group()
        ledger = self._ledgers[group]
        low = self._dice.randrange(len(ledger.keys))
        keys = ledger.keys[low : low + _LONGEST_RANGE]
        floor = self._floor(group)
        with self._db.cursor() as cursor:
            ceiling = ledger.begun
            items: list[Item] = []
            going = cursor.seek(keys[0])
            while going and cursor.key <= keys[-1]:
                item = cursor.item
                if items and self._dice.random() < 0.1:
                    back = cursor.prev() and cursor.item
                    if back != items[-1] or not cursor.next() or cursor.item != item:
                        raise UnsoundError(
                            f"a cursor went wrong one step back from {item[0]!r} and forward"
                        )
                items.append(item)
                going = cursor.next()
        found = in_order(items)
        self._seen[group] = ledger.check_cut(found, floor, ceiling, keys)

    def _everything(self) -> None:
        is_large = sum(len(ledger.keys) for ledger in self._ledgers) > _WHOLE_STORE_KEYS
        if is_large and self._dice.random() > 0.02:
            self._range()
            return
        floors = [self._floor(group) for group in range(len(self._ledgers))]
        view = self._db.items()
        ceilings = [ledger.begun for ledger in self._ledgers]
        found = in_order(list(iter(view)))
        self._seen = check_groups(self._ledgers, found, floors, ceilings)

    def _take_snapshot(self) -> None:
        group = self._group()
        ledger = self._ledgers[group]
        floor = self._floor(group)
        snapshot = self._db.snapshot()
        ceiling = ledger.begun
        low = self._dice.randrange(len(ledger.keys))
        keys = ledger.keys[low : low + _LONGEST_RANGE]
        found = _scanned(snapshot, keys)
        _agree(looked_up(snapshot, keys[:20]), found, keys[:20])
        self._seen[group] = ledger.check_cut(found, floor, ceiling, keys)
        self._kept.append((snapshot, found))
        if len(self._kept) > _MOST_KEPT:
            self._look_again()

    def _look_again(self) -> None:
        if not self._kept:
            self._take_snapshot()
            return
        snapshot, before = self._kept.pop(self._dice.randrange(len(self._kept)))
        with snapshot:
            keys = sorted(before)
            if keys and _scanned(snapshot, keys) != before:
                raise UnsoundError("a snapshot has changed")
            _agree(looked_up(snapshot, keys[:20]), before, keys[:20])


def looked_up(reader: StoreReader, keys: Sequence[bytes]) -> Contents:
    """The entries of ``keys``, by single lookups."""
    values = ((key, reader.get(key)) for key in keys)
    return {key: value for key, value in values if value is not None}


def _scanned(reader: StoreReader, keys: Sequence[bytes]) -> Contents:
    """The entries from the first to the last key, by a scan."""
    return in_order(list(iter(reader.items(start=keys[0], stop=keys[-1] + b"\0"))))


def _agree(found: Contents, scanned: Contents, keys: Sequence[bytes]) -> None:
    if found != {key: scanned[key] for key in keys if key in scanned}:
        raise UnsoundError("lookups in a snapshot differ from a scan of it")


def in_order(items: Sequence[Item], *, reverse: bool = False) -> Contents:
    """The entries of a scan; UnsoundError if its keys are not in order."""
    keys = [key for key, _ in items]
    if keys != sorted(set(keys), reverse=reverse):
        raise UnsoundError("a scan gave keys out of order, or twice")
    return dict(items)


def check_groups(
    ledgers: Sequence[Ledger], found: Contents, floors: Sequence[int], ceilings: Sequence[int]
) -> list[int]:
    """Check a scan of the whole store with :meth:`Ledger.check_cut` for each group."""
    parts: list[Contents] = [{} for _ in ledgers]
    prefixes = {group_prefix(group): part for group, part in enumerate(parts)}
    for key, value in found.items():
        part = prefixes.get(key[:4])
        if part is None:
            raise UnsoundError(f"nobody wrote {key!r}")
        part[key] = value
    return [
        ledger.check_cut(part, floor, ceiling)
        for ledger, part, floor, ceiling in zip(ledgers, parts, floors, ceilings, strict=True)
    ]
