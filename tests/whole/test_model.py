"""The store against a sorted dict, over random operations and reopening."""

from __future__ import annotations

import operator
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest
from conftest import BACKGROUNDS
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sortedcontainers import SortedDict

import lsmkv
from clocks import SetClock
from kinds_of_mappings import Walk
from lsmkv import DelimitedPrefix, FixedPrefix
from outside_tables import staged, write_table
from repair_stores import lose_manifest
from threaded_stores import wait_until
from torture.framework.changes import change_batch, change_model

Contents = SortedDict[bytes, bytes]
Entries = list[tuple[bytes, bytes]]

TINY: Final = lsmkv.Options(
    write_buffer_size_bytes=4096,
    block_size_bytes=256,
    level1_size_bytes=4096,
    table_size_bytes=4096,
    level0_compaction_trigger=3,
    size_ratio=3,
)
KEYS: Final = [
    *(bytes(key) for length in range(4) for key in product((0x00, 0x61, 0xFF), repeat=length)),
    b"a/", b"a/1", b"a/2", b"b/1", b"b/1/x", b"\xff" * 9, b"a" * 300, b"a" * 299 + b"\xff",
]  # fmt: skip
MANY_KEYS: Final = [*KEYS, *(b"b%03d" % number for number in range(150))]
keys = st.sampled_from(KEYS) | st.sampled_from(MANY_KEYS)
values = st.sampled_from([b"", b"v", b"w" * 40, bytes(range(256)), b"long" * 150]) | st.binary(
    max_size=8
)
bounds = st.none() | keys | st.binary(max_size=3)
FILTERS: Final[list[dict[str, Any]]] = [
    *({"filter_policy": name} for name in ("bloom", "ribbon", "grafite", "none")),
    *({"filter_residency": name} for name in ("resident", "cached", "off")),
    {"filter_granularity": "table", "filter_policy": "ribbon", "filter_residency": "cached"},
    *({"filter_key": key} for key in (FixedPrefix(1), FixedPrefix(2), DelimitedPrefix(b"/"))),
    {"filter_key": FixedPrefix(1), "filter_granularity": "table", "adaptive_filters": True},
    {"adaptive_filters": True, "filter_policy": "ribbon", "filter_residency": "cached"},
    *({"filter_memory_bytes": 300, "filter_policy": name} for name in ("bloom", "ribbon")),
]
others = st.fixed_dictionaries(
    {},
    optional={
        "compaction": st.sampled_from(["leveled", "tiered", "lazy-leveled"]),
        "filter_allocation": st.sampled_from(["uniform", "monkey"]),
        "error_rate": st.sampled_from([0.9, 0.1, 0.0001]),
        "compression": st.sampled_from(["none", "zstd"]),
        "compression_dictionary_size_bytes": st.sampled_from([0, 512]),
        "block_cache_size_bytes": st.sampled_from([0, 2048, 1 << 20]),
        "block_size_bytes": st.sampled_from([256, 1024]),
        "size_ratio": st.sampled_from([2, 10]),
        "level0_compaction_trigger": st.sampled_from([1, 5]),
    },
)
options = st.builds(operator.or_, others, st.sampled_from(FILTERS))
moves = st.lists(
    st.sampled_from(["next", "next", "prev", "prev", "first", "last"])
    | st.tuples(st.sampled_from(["seek", "seek_for_prev"]), keys),
    min_size=1,
    max_size=25,
)


def in_range(
    contents: Contents, start: bytes | None, stop: bytes | None, prefix: bytes | None, reverse: bool
) -> Entries:
    keys = contents.irange(start, stop, (True, False), reverse)
    return [(key, contents[key]) for key in keys if key.startswith(prefix or b"")]


class StoreMachine(RuleBasedStateMachine):
    background: ClassVar[dict[str, Any]] = BACKGROUNDS[0]

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory()
        self.path = os.path.join(self._directory.name, "store")
        self.contents: Contents = SortedDict()
        self.held: list[tuple[lsmkv.Snapshot, Contents]] = []
        self.walks: list[tuple[Iterator[tuple[bytes, bytes]], Entries]] = []  # and their rest
        self.clock = SetClock()
        self.dues: list[tuple[float, bytes, bytes]] = []
        self.db: lsmkv.DB | None = None
        self.tables = 0

    @initialize(overrides=options)
    def open(self, overrides: dict[str, Any]) -> None:
        self.db = self._opened(**self.background, **overrides)
        self._open_reader()

    def _open_reader(self) -> None:
        self.reader = self._opened(read_only=True)
        with self.reader.snapshot() as shown:
            self.shown_seq = shown.sequence_number

    def _opened(self, **options: Any) -> lsmkv.DB:
        return lsmkv.open(self.path, TINY, clock=self.clock, **options)

    @property
    def store(self) -> lsmkv.DB:
        assert self.db is not None
        return self.db

    def teardown(self) -> None:
        self._let_go()
        if self.db is not None:
            self.db.close()
            self.reader.close()
        with self._opened() as db:
            assert list(iter(db.items())) == list(self.contents.items())
        self._check_repair()
        self._directory.cleanup()

    def _check_repair(self) -> None:
        """Without a manifest nothing is lost, and what was deleted comes back only if this is told."""
        lose_manifest(Path(self.path))
        report = lsmkv.repair(self.path, f"{self.path}-repaired")
        with lsmkv.open(f"{self.path}-repaired", clock=self.clock) as db:
            assert self.contents.items() <= dict(db.items()).items()
            assert not report.is_complete or len(db) == len(self.contents)

    def _let_go(self) -> None:
        for snapshot, _ in self.held:
            snapshot.close()
        self.held, self.walks = [], []

    # Writing

    @rule(key=keys, value=values, sync=st.sampled_from([False, False, True]))
    def put(self, key: bytes, value: bytes, sync: bool) -> None:
        self.store.put(key, value, sync=sync)
        self.contents[key] = value

    @rule(first=st.integers(0, 20), step=st.integers(1, 20), ttl_s=st.integers(1, 3))
    def put_what_expires(self, first: int, step: int, ttl_s: int) -> None:
        for key in MANY_KEYS[first::step]:
            value = b"put %d" % len(self.dues)  # no other write has it
            self.store.put(key, value, ttl_s=ttl_s)
            self.contents[key] = value
            self.dues.append((self.clock() + ttl_s, key, value))

    @precondition(lambda self: not self.walks)  # they read the clock when they meet what expires
    @rule()
    def let_a_second_pass(self) -> None:
        self.clock.now_s += 1
        for due_s, key, value in self.dues:
            if due_s <= self.clock() and self.contents.get(key) == value:
                del self.contents[key]

    @rule(key=keys)
    def delete(self, key: bytes) -> None:
        self.store.delete(key)
        self.contents.pop(key, None)

    @rule(
        operations=st.lists(st.tuples(keys, st.none() | values), max_size=25), commit=st.booleans()
    )
    def batch(self, operations: list[tuple[bytes, bytes | None]], commit: bool) -> None:
        batch = self.store.write_batch()
        change_batch(batch, operations)
        if not commit:
            batch.close()
            return
        batch.commit()
        change_model(self.contents, operations)

    @rule(
        seed=st.integers(0, 99),
        first=st.integers(0, 5),
        step=st.integers(1, 3),
        batch_keys=st.sampled_from([1, 20, 100]),
    )
    def fill(self, seed: int, first: int, step: int, batch_keys: int) -> None:
        """Put several memtables' worth of entries, single or in batches."""
        chance = random.Random(seed)
        keys = MANY_KEYS[first::step]
        for start in range(0, len(keys), batch_keys):
            with self.store.write_batch() as batch:
                for key in keys[start : start + batch_keys]:
                    value = chance.randbytes(chance.randrange(200))
                    if batch_keys > 1:
                        batch[key] = value
                    else:
                        self.store[key] = value
                    self.contents[key] = value

    @rule(first=st.integers(0, 20), step=st.integers(1, 20))
    def delete_many(self, first: int, step: int) -> None:
        """Delete keys over the whole range, whose values are on lower levels."""
        for key in MANY_KEYS[first::step]:
            self.store.delete(key)
            self.contents.pop(key, None)

    @rule()
    def clear(self) -> None:
        self.store.clear()
        self.contents = SortedDict()

    @rule(start=bounds, stop=bounds, most=st.sampled_from([0, 128]), batched=st.booleans())
    def delete_range(
        self, start: bytes | None, stop: bytes | None, most: int, batched: bool
    ) -> None:
        """Delete keys one by one, up to ``most`` of them, or the range."""
        if start is stop is None:
            start = b""
        self.store._engine.writer.most_deletions = most
        if batched:
            with self.store.write_batch() as batch:
                batch.put(b"a/1", b"before")
                batch.delete_range(start, stop)
                batch.put(b"a/2", b"after")
            self.contents[b"a/1"] = b"before"
        else:
            self.store.delete_range(start, stop)
        for key, _ in in_range(self.contents, start, stop, None, False):
            del self.contents[key]
        if batched:
            self.contents[b"a/2"] = b"after"

    @rule(entries=st.dictionaries(keys, st.none() | values, min_size=1), move=st.booleans())
    def ingest(self, entries: dict[bytes, bytes | None], move: bool) -> None:
        """Ingest two tables, or one."""
        ordered, paths = sorted(entries.items()), []
        for part in filter(None, (ordered[: len(ordered) // 2], ordered[len(ordered) // 2 :])):
            self.tables += 1
            paths.append(write_table(Path(f"{self.path}-{self.tables}"), dict(part)))
        assert self.store.ingest(paths, move=move).entries == len(entries)
        change_model(self.contents, ordered)

    @rule(pairs=st.lists(st.tuples(keys, values), max_size=60), is_sorted=st.booleans())
    def bulk_load(self, pairs: list[tuple[bytes, bytes]], is_sorted: bool) -> None:
        last = dict(pairs)
        self.store.bulk_load(sorted(last.items()) if is_sorted else pairs, sorted=is_sorted)
        self.contents.update(last)

    @rule(data=st.data())
    def transact(self, data: st.DataObject) -> None:
        """A transaction sees its own writes, and its views what was there before them."""
        with self.store.transaction() as transaction:
            for _ in range(data.draw(st.integers(0, 3))):
                view, seen = transaction.items(), dict(self.contents)
                operations = data.draw(st.lists(st.tuples(keys, st.none() | values), max_size=4))
                change_batch(transaction, operations)
                change_model(self.contents, operations)
                start, stop = data.draw(keys), data.draw(keys)
                transaction.delete_range(start, stop)
                for key, _ in in_range(self.contents, start, stop, None, False):
                    del self.contents[key]
                assert list(transaction.items()) == list(self.contents.items())
                assert dict(view) == seen

    @rule()
    def pop_first(self) -> None:
        if self.contents:
            assert self.store.popitem() == self.contents.popitem(0)

    # Reading

    @rule(key=keys | st.binary(max_size=3))
    def get(self, key: bytes) -> None:
        assert self.store.get(key) == self.contents.get(key)
        assert (key in self.store) == (key in self.contents)

    @rule(wanted=st.lists(keys | st.binary(max_size=3), max_size=20))
    def multi_get(self, wanted: list[bytes]) -> None:
        assert self.store.multi_get(wanted) == [self.contents.get(key) for key in wanted]

    @rule(start=bounds, stop=bounds, prefix=bounds, reverse=st.booleans())
    def scan(
        self, start: bytes | None, stop: bytes | None, prefix: bytes | None, reverse: bool
    ) -> None:
        expected = in_range(self.contents, start, stop, prefix, reverse)
        found = self.store.items(start=start, stop=stop, prefix=prefix, reverse=reverse)
        assert list(found) == expected

    @rule(moves=moves)
    def walk_a_cursor(self, moves: list[str | tuple[str, bytes]]) -> None:
        with self.store.cursor() as cursor:
            self._walk(cursor, self.contents, moves)

    def _walk(
        self, cursor: lsmkv.Cursor, contents: Contents, moves: list[str | tuple[str, bytes]]
    ) -> None:
        walk = Walk(dict(contents))
        for move in moves:
            name, key = move if isinstance(move, tuple) else (move, b"")
            moved = getattr(cursor, name)(*[key][: name.startswith("seek")])
            assert moved == cursor.valid == walk.move(name, key)
            if walk.at is not None:
                assert cursor.item == contents.peekitem(walk.at)

    @rule()
    def count(self) -> None:
        assert len(self.store) == len(self.contents)
        assert bool(self.store) == bool(self.contents)

    @rule()
    def look_from_beside(self) -> None:
        with self._opened(read_only=True) as reader:
            assert list(iter(reader.items())) == list(self.contents.items())

    @rule()
    def refresh_a_reader(self) -> None:
        is_news = self.reader.refresh()
        with self.reader.snapshot() as shown, self.store.snapshot() as own:
            assert shown.sequence_number == own.sequence_number
            assert is_news or shown.sequence_number == self.shown_seq
            self.shown_seq = shown.sequence_number
            assert list(shown.items()) == list(self.contents.items())
        assert self.reader.multi_get(MANY_KEYS) == [self.contents.get(key) for key in MANY_KEYS]

    # Snapshots and iterations

    @precondition(lambda self: len(self.held) < 4)
    @rule()
    def take_snapshot(self) -> None:
        self.held.append((self.store.snapshot(), self.contents.copy()))

    @precondition(lambda self: self.held)
    @rule(number=st.integers(0, 3))
    def release_snapshot(self, number: int) -> None:
        self.held.pop(number % len(self.held))[0].close()

    @precondition(lambda self: self.held)
    @rule(number=st.integers(0, 3), start=bounds, stop=bounds, reverse=st.booleans(), moves=moves)
    def read_snapshot(
        self,
        number: int,
        start: bytes | None,
        stop: bytes | None,
        reverse: bool,
        moves: list[str | tuple[str, bytes]],
    ) -> None:
        snapshot, contents = self.held[number % len(self.held)]
        assert snapshot.multi_get(MANY_KEYS) == [contents.get(key) for key in MANY_KEYS]
        expected = in_range(contents, start, stop, None, reverse)
        assert list(iter(snapshot.items(start=start, stop=stop, reverse=reverse))) == expected
        with snapshot.cursor() as cursor:
            self._walk(cursor, contents, moves)

    @precondition(lambda self: len(self.walks) < 3)
    @rule(reverse=st.booleans(), begun=st.integers(0, 10))
    def begin_walk(self, reverse: bool, begun: int) -> None:
        expected = in_range(self.contents, None, None, None, reverse)
        entries = iter(self.store.items(reverse=reverse))
        assert list(islice(entries, begun)) == expected[:begun]
        self.walks.append((entries, expected[begun:]))

    @precondition(lambda self: self.walks)
    @rule(number=st.integers(0, 2))
    def end_walk(self, number: int) -> None:
        entries, rest = self.walks.pop(number % len(self.walks))
        assert list(entries) == rest

    # Upkeep

    @rule()
    def flush(self) -> None:
        self.store.flush()

    @rule(start=bounds, stop=bounds, force=st.booleans())
    def compact(self, start: bytes | None, stop: bytes | None, force: bool) -> None:
        self.store.compact_range(start, stop, force=force)

    @rule()
    def compact_all(self) -> None:
        self.store.compact_range()
        if not self.held and not self.walks:
            assert self.store.inspect().entry_count == len(self.contents)

    @rule()
    def settle(self) -> None:
        self.store.wait_until_settled()

    @rule(overrides=options)
    def reopen(self, overrides: dict[str, Any]) -> None:
        self._let_go()
        self.store.close()
        self.db = self._opened(**self.background, **overrides)

    @rule(overrides=options)
    def crash(self, overrides: dict[str, Any]) -> None:
        """The store goes on as it was at a kill."""
        self.store.wait_until_settled()
        shutil.copytree(self.path, f"{self.path}-killed")
        self._let_go()
        self.store.close()
        shutil.rmtree(self.path)
        os.rename(f"{self.path}-killed", self.path)
        self.db = self._opened(**self.background, **overrides)

    @rule()
    def rewrite_manifest(self) -> None:
        tables = self.store._engine.tables
        with tables.lock:
            tables.manifest.rewrite()

    # Copies

    @rule()
    def write_to_a_checkpoint(self) -> None:
        self.tables += 1
        path = f"{self.path}-copy{self.tables}"
        self.store.checkpoint(path)
        with lsmkv.open(path, TINY, clock=self.clock) as copy:
            assert list(copy.items()) == list(self.contents.items())
            copy[b"own"] = b"write"
            copy.compact_range(force=True)

    @rule(is_lost=st.booleans(), by_path=st.booleans(), overrides=options)
    def back_up(self, is_lost: bool, by_path: bool, overrides: dict[str, Any]) -> None:
        """To the same directory each time; a store that is lost goes on as a copy of it."""
        backup = f"{self.path}-backup"
        lsmkv.backup(self.path if by_path else self.store, backup)
        with lsmkv.open(backup, read_only=True, clock=self.clock) as copy:
            assert list(copy.items()) == list(self.contents.items())
        if is_lost:
            self._let_go()
            self.store.close()
            shutil.rmtree(self.path)
            shutil.copytree(backup, self.path)
            self.db = self._opened(**self.background, **overrides)
            self.reader.close()
            self._open_reader()

    @rule()
    def verify(self) -> None:
        report = self.store.verify()
        assert report.ok, str(report)

    @invariant()
    def no_staged_file_is_left(self) -> None:
        wait_until(lambda: staged(Path(self.path)) == [])  # a helper stages while it works


class HelpedStoreMachine(StoreMachine):
    background = BACKGROUNDS[1]


LONG: Final = [pytest.mark.slow, pytest.mark.longest]


@pytest.mark.parametrize(
    ("machine", "examples", "steps"),
    [
        (StoreMachine, 20, 60),
        (HelpedStoreMachine, 3, 60),
        pytest.param(StoreMachine, 100, 60, marks=pytest.mark.slow),
        pytest.param(HelpedStoreMachine, 15, 60, marks=pytest.mark.slow),
        pytest.param(StoreMachine, 600, 100, marks=LONG),
        pytest.param(HelpedStoreMachine, 150, 100, marks=LONG),
    ],
)
def test_the_store_does_what_a_sorted_dict_does(
    machine: type[StoreMachine], examples: int, steps: int
) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
