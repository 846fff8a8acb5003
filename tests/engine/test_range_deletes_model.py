"""Random programs of a store that deletes ranges, held to a dict."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from conftest import BACKGROUNDS

import lsmkv

Contents = dict[bytes, bytes]
Range = tuple[bytes | None, bytes | None]


def is_in(key: bytes, bounds: Range) -> bool:
    start, stop = bounds
    return (start is None or start <= key) and (stop is None or key < stop)


class Program:
    """One store, what it should hold, and what its readers should."""

    def __init__(self, path: Path, seed: int, background: dict[str, Any]) -> None:
        self.dice = dice = random.Random(seed)
        self.path = path
        self.key_count = dice.choice((50, 400, 2000))
        self.width = dice.choice((1, 30))
        self.most_deletions = dice.choice((0, 0, 5, 128))
        self.options = lsmkv.Options(
            write_buffer_size_bytes=16 * 1024,
            block_size_bytes=512,
            table_size_bytes=8 * 1024,
            level1_size_bytes=32 * 1024,
            compaction=dice.choice(("leveled", "tiered", "lazy-leveled")),
            **background,
        )
        self.model: Contents = {}
        self.kept: list[tuple[lsmkv.Snapshot, Any, Contents]] = []  # snapshots and views
        self.db = self.opened()
        self.reader = lsmkv.open(path, read_only=True)

    def opened(self) -> lsmkv.DB:
        db = lsmkv.open(self.path, self.options)
        db._engine.writer.most_deletions = self.most_deletions
        return db

    def run(self, steps: int) -> None:
        kinds = [self.put] * 6 + [self.delete, self.transact] + [self.delete_range] * 3
        kinds += [self.batch] * 2 + [self.flush, self.compact, self.keep, self.keep, self.release]
        kinds += [self.pop, self.settle, self.reopen, self.refresh]
        for _ in range(steps):
            self.dice.choice(kinds)()
            self.check()
        self.release(everything=True)
        self.db.wait_until_settled()
        self.check()
        self.refresh()
        assert self.db.verify().ok
        self.reader.close()
        self.db.close()

    # Operations

    def key(self) -> bytes:
        return b"%06d" % self.dice.randrange(self.key_count)

    def bounds(self) -> Range:
        dice = self.dice
        match dice.randrange(8):
            case 0:
                return None, self.key()
            case 1:
                return self.key(), None
            case 2 if dice.random() < 0.3:
                return b"", None
        start, stop = sorted((self.key(), self.key()))
        if dice.random() < 0.5:
            stop = b"%06d" % min(self.key_count, int(start) + self.width)
        return start, stop

    def change(self, target: Any, model: Contents, count: int, ranges: float) -> None:
        """Put, delete, and with that probability delete ranges, in ``target`` and in a model."""
        for _ in range(count):
            kind, key = self.dice.random(), self.key()
            if kind < ranges:
                bounds = self.bounds()
                target.delete_range(*bounds)
                for gone in [each for each in model if is_in(each, bounds)]:
                    del model[gone]
            elif kind < 0.8:
                model[key] = self.dice.randbytes(self.dice.randrange(20))
                target.put(key, model[key])
            else:
                target.delete(key)
                model.pop(key, None)

    def put(self) -> None:
        for _ in range(self.dice.randrange(1, 200)):
            key = self.key()
            self.model[key] = self.dice.randbytes(self.dice.randrange(20))
            self.db.put(key, self.model[key])

    def delete(self) -> None:
        self.change(self.db, self.model, self.dice.randrange(1, 30), 0.0)

    def delete_range(self) -> None:
        self.change(self.db, self.model, 1, 1.0)

    def batch(self) -> None:
        with self.db.write_batch() as batch:
            self.change(batch, self.model, self.dice.randrange(1, 30), 0.2)

    def transact(self) -> None:
        with self.db.transaction() as transaction:
            for _ in range(self.dice.randrange(1, 8)):
                view, seen = transaction.items(), dict(self.model)
                self.change(transaction, self.model, self.dice.randrange(4), 0.3)
                assert list(transaction.items()) == sorted(self.model.items())
                assert list(transaction.keys(reverse=True)) == sorted(self.model, reverse=True)
                assert dict(view) == seen
                key = self.key()
                assert transaction.get(key) == self.model.get(key)

    def pop(self) -> None:
        if self.model:
            key = min(self.model)
            assert self.db.popitem() == (key, self.model.pop(key))

    def flush(self) -> None:
        self.db.flush()

    def compact(self) -> None:
        self.db.compact_range(*self.bounds())

    def settle(self) -> None:
        self.db.wait_until_settled()

    def keep(self) -> None:
        self.kept.append((self.db.snapshot(), self.db.items(), dict(self.model)))

    def release(self, *, everything: bool = False) -> None:
        while self.kept:
            snapshot, _, _ = self.kept.pop(self.dice.randrange(len(self.kept)))
            snapshot.close()
            if not everything:
                return

    def reopen(self) -> None:
        self.release(everything=True)
        self.db.close()
        self.db = self.opened()

    def refresh(self) -> None:
        self.reader.refresh()
        assert dict(self.reader.items()) == self.model

    # Answers

    def check(self) -> None:
        db, model = self.db, self.model
        assert list(db.items()) == sorted(model.items())
        bounds = self.bounds()
        inside = sorted(key for key in model if is_in(key, bounds))
        assert list(db.keys(start=bounds[0], stop=bounds[1])) == inside
        assert list(db.keys(start=bounds[0], stop=bounds[1], reverse=True)) == inside[::-1]
        keys = [self.key() for _ in range(20)]
        assert db.multi_get(keys) == [model.get(key) for key in keys]
        assert list(map(db.get, keys)) == [model.get(key) for key in keys]
        assert db.explain(keys[0]).value == model.get(keys[0])
        if self.kept:
            snapshot, view, seen = self.dice.choice(self.kept)
            assert list(snapshot.items()) == list(view) == sorted(seen.items())
            assert list(map(snapshot.get, keys)) == list(map(seen.get, keys))


@pytest.mark.parametrize("seed", range(4))
def test_a_store_that_deletes_ranges_holds_what_a_dict_would(tmp_path: Path, seed: int) -> None:
    Program(tmp_path, seed, {"background": "thread"}).run(120)


@pytest.mark.slow
@pytest.mark.parametrize("background", BACKGROUNDS)
@pytest.mark.parametrize("seed", range(10, 25))
def test_long_programs_hold_too(tmp_path: Path, seed: int, background: dict[str, Any]) -> None:
    Program(tmp_path, seed, background).run(300)
