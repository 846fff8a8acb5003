"""Open transactions and plain writes in any order, against a model that knows when they conflict."""

from __future__ import annotations

import gc
import tempfile
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import pytest
from conftest import SMALL
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import lsmkv

TOP: Final = b"\xff" * 9
keys = st.binary(max_size=2) | st.sampled_from([b"a", b"ab", b"b", b"\xff", b"\0"])
values = st.binary(max_size=3)
bounds = st.none() | keys


@dataclass
class Open:
    """A transaction, and what it should see and have read."""

    transaction: lsmkv.Transaction
    seen: dict[bytes, bytes]
    own: dict[bytes, bytes | None] = field(default_factory=dict)
    keys_read: set[bytes] = field(default_factory=set)
    ranges_read: list[tuple[bytes, bytes]] = field(default_factory=list)
    written_since: list[tuple[bytes, bytes]] = field(default_factory=list)  # first and last key

    def items(self) -> list[tuple[bytes, bytes]]:
        seen = self.seen | self.own
        return [(key, value) for key, value in sorted(seen.items()) if value is not None]

    def get(self, key: bytes) -> bytes | None:
        if key not in self.own:
            self.keys_read.add(key)
        return (self.seen | self.own).get(key)

    def put(self, key: bytes, value: bytes | None) -> None:
        self.own[key] = value

    def conflicts(self) -> bool:
        return bool(self.own) and any(
            any(first <= key <= last for key in self.keys_read)
            or any(start <= last and first < stop for start, stop in self.ranges_read)
            for first, last in self.written_since
        )


class TransactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.TemporaryDirectory()
        self.db = lsmkv.open(self.home.name, SMALL)
        self.model: dict[bytes, bytes] = {}
        self.open: list[Open] = []

    def wrote(self, *changed: tuple[bytes, bytes | None]) -> None:
        for key, value in changed:
            self.model.pop(key, None)
            if value is not None:
                self.model[key] = value
            for other in self.open:
                other.written_since.append((key, key))

    def any_open(self, number: int) -> Open:
        return self.open[number % len(self.open)]

    # Writes of others

    @rule(key=keys, value=st.none() | values)
    def write(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.db.delete(key)
        else:
            self.db.put(key, value)
        self.wrote((key, value))

    @rule(written=st.dictionaries(keys, st.none() | values, max_size=20))
    def batch(self, written: dict[bytes, bytes | None]) -> None:
        with self.db.write_batch() as batch:
            for key, value in written.items():
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)
        self.wrote(*written.items())

    @rule()
    def pop_first(self) -> None:
        if self.model:
            assert self.db.popitem() == min(self.model.items())
            self.wrote((min(self.model), None))

    @rule()
    def clear(self) -> None:
        self.db.clear()
        self.wrote(*[(key, None) for key in self.model])

    @rule(loaded=st.dictionaries(keys, values, min_size=1, max_size=5))
    def load(self, loaded: dict[bytes, bytes]) -> None:
        self.db.bulk_load(loaded)
        self.model |= loaded
        for other in self.open:
            other.written_since.append((min(loaded), max(loaded)))

    @rule(key=keys, value=st.none() | values, wrong=st.booleans())
    def compare_and_set(self, key: bytes, value: bytes | None, wrong: bool) -> None:
        expected = b"wrong" if wrong else self.model.get(key)
        assert self.db.compare_and_set(key, expected, value) is not wrong
        if not wrong:
            self.wrote((key, value))

    @rule(force=st.booleans())
    def maintain(self, force: bool) -> None:
        if force:
            self.db.compact_range(force=True)
        else:
            self.db.flush()

    # Transactions

    @precondition(lambda self: len(self.open) < 4)
    @rule()
    def begin(self) -> None:
        self.open.append(Open(self.db.transaction(), dict(self.model)))

    @precondition(lambda self: self.open)
    @rule(number=st.integers(0, 3), key=keys, value=st.none() | values)
    def change(self, number: int, key: bytes, value: bytes | None) -> None:
        chosen = self.any_open(number)
        if value is None:
            chosen.transaction.delete(key)
        else:
            chosen.transaction.put(key, value)
        chosen.put(key, value)

    @precondition(lambda self: self.open)
    @rule(number=st.integers(0, 3), wanted=st.lists(keys, max_size=3))
    def look_up(self, number: int, wanted: list[bytes]) -> None:
        chosen = self.any_open(number)
        assert chosen.transaction.multi_get(wanted) == [chosen.get(key) for key in wanted]
        for key in wanted:
            assert (key in chosen.transaction) == (chosen.get(key) is not None)

    @precondition(lambda self: self.open)
    @rule(
        number=st.integers(0, 3),
        start=bounds,
        stop=bounds,
        prefix=bounds,
        reverse=st.booleans(),
        most=st.integers(0, 4) | st.just(100),
        write=st.booleans(),
    )
    def scan(
        self,
        number: int,
        start: bytes | None,
        stop: bytes | None,
        prefix: bytes | None,
        reverse: bool,
        most: int,
        write: bool,
    ) -> None:
        chosen = self.any_open(number)
        wanted: dict[str, Any] = {"start": start, "stop": stop, "prefix": prefix}
        expected = [
            (key, value)
            for key, value in chosen.items()
            if (start or b"") <= key < (TOP if stop is None else stop)
            and key.startswith(prefix or b"")
        ][:: -1 if reverse else 1]
        found = []
        for key, value in islice(chosen.transaction.items(**wanted, reverse=reverse), most):
            found.append((key, value))
            if write:  # which the iterator does not see
                for changed, new in ((key, None), (key + b"\0", b"later")):
                    chosen.put(changed, new)
                    if new is None:
                        chosen.transaction.delete(changed)
                    else:
                        chosen.transaction.put(changed, new)
        assert found == expected[:most]
        low, high = max(start or b"", prefix or b""), TOP if stop is None else stop
        if prefix:
            stripped = prefix.rstrip(b"\xff")
            end = stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else TOP
            high = min(high, end)
        if most <= len(expected):
            if most == 0:
                return
            low, high = (found[-1][0], high) if reverse else (low, found[-1][0] + b"\0")
        if low < high:
            chosen.ranges_read.append((low, high))

    @precondition(lambda self: self.open)
    @rule(number=st.integers(0, 3), moves=st.lists(st.tuples(st.integers(0, 5), keys), max_size=6))
    def walk(self, number: int, moves: list[tuple[int, bytes]]) -> None:
        chosen = self.any_open(number)
        found = [key for key, _ in chosen.items()]
        at = -1
        with chosen.transaction.cursor() as cursor:
            for move, key in moves:
                name = ("next", "prev", "first", "last", "seek", "seek_for_prev")[move]
                here = found[at] if at >= 0 else None
                moved = getattr(cursor, name)(*([key] if move > 3 else []))
                low, high = b"", TOP
                if move < 2:
                    if here is None:
                        assert not moved
                        continue
                    at += 1 if move == 0 else -1
                    low, high = (here + b"\0", TOP) if move == 0 else (b"", here)
                elif move < 4:
                    at = 0 if move == 2 else len(found) - 1
                elif move == 4:
                    at, low = sum(known < key for known in found), key
                else:
                    at, high = sum(known <= key for known in found) - 1, key + b"\0"
                at = at if 0 <= at < len(found) else -1
                assert moved == cursor.valid == (at >= 0)
                if moved:
                    assert cursor.key == found[at]
                    low, high = (low, found[at] + b"\0") if move in (0, 2, 4) else (found[at], high)
                if low < high:
                    chosen.ranges_read.append((low, high))

    @precondition(lambda self: self.open)
    @rule(number=st.integers(0, 3), key=keys)
    def count_in_a_range(self, number: int, key: bytes) -> None:
        chosen = self.any_open(number)
        keys_above = chosen.transaction.keys(start=key)
        assert len(keys_above) == sum(known >= key for known, _ in chosen.items())
        chosen.ranges_read.append((key, TOP))

    @precondition(lambda self: self.open)
    @rule(number=st.integers(0, 3))
    def commit(self, number: int) -> None:
        chosen = self.open.pop(number % len(self.open))
        if chosen.conflicts():
            with pytest.raises(lsmkv.ConflictError):
                chosen.transaction.commit()
        else:
            chosen.transaction.commit()
            self.wrote(*chosen.own.items())
        assert chosen.transaction.closed

    @precondition(lambda self: self.open)
    @rule(number=st.integers(0, 3), forget=st.booleans())
    def discard(self, number: int, forget: bool) -> None:
        chosen = self.open.pop(number % len(self.open))
        if not forget:
            chosen.transaction.close()

    @invariant()
    def the_store_has_what_was_committed(self) -> None:
        assert list(iter(self.db.items())) == sorted(self.model.items())
        for other in self.open:
            assert other.seen == dict(other.transaction._state.snapshot)

    @invariant()
    def nothing_is_remembered_for_nobody(self) -> None:
        if not self.open:
            assert self.db._engine.writer.recent_writes.size_bytes == 0

    def teardown(self) -> None:
        self.db.close()
        self.home.cleanup()
        gc.collect()


TestTransactions = TransactionMachine.TestCase
TestTransactions.settings = settings(max_examples=15, stateful_step_count=30)


@pytest.mark.slow
@pytest.mark.longest
def test_transactions_do_what_the_model_does_for_long() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        TransactionMachine, settings=settings(max_examples=600, stateful_step_count=50)
    )
