"""The toy of ``examples`` and lsmkv have one format, and one way through it."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom
from test_layering import MOST_CODE_LINES, code_line_count

import lsmkv
import toy
import toy_bytes
from bench.harness.read_counter import count_reads
from clocks import SetClock
from gates import WAIT_S
from lsmkv.filters.maths.sizing import exact_rate
from toy_stores import NOW_S, open_toy

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

# What tables may look like that the toy has to read.
FORMS: list[dict[str, Any]] = [
    {},
    {"compression": "none", "fit_pages": False, "block_size_bytes": 300},
    {"filter_policy": "bloom", "block_size_bytes": 500, "error_rate": 0.3},
    {"filter_policy": "ribbon", "compression_dictionary_size_bytes": 2000},
    {"filter_policy": "grafite", "compaction": "tiered", "table_size_bytes": 4096},
    {"filter_policy": "none", "compaction": "lazy-leveled", "block_size_bytes": 256},
    {"filter_granularity": "table", "filter_memory_bytes": 4000},
    {"filter_key": lsmkv.FixedPrefix(3), "filter_policy": "bloom", "block_size_bytes": 256},
]


def keys_of(draw: random.Random) -> list[bytes]:
    """Keys that make every form of an index: short, long, of digits, with much in common."""
    prefix = draw.choice([b"", b"user/", b"\xff" * 20, b"a" * 300])
    form = draw.choice(["%x", "%06d", "%032x", "%d/" + "long" * 30, "\0%c"])
    some = [form % draw.randrange(1 << 15) for _ in range(300)]
    return [prefix, prefix + b"\0", *(prefix + key.encode("utf-8") for key in some)]


class Both:
    """A store that either implementation has open in turn, and what it must hold."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.draw = path, random.Random(seed)
        self.keys = keys_of(self.draw)
        self.contents: dict[bytes, bytes] = {}
        self.options = FORMS[seed % len(FORMS)]

    def change(self) -> tuple[bytes, bytes | None]:
        key = self.draw.choice(self.keys)
        value = self.draw.choice([None, b"", b"v" * self.draw.randrange(200), os.urandom(9)])
        if value is None:
            self.contents.pop(key, None)
        else:
            self.contents[key] = value
        return key, value

    def by_toy(self) -> None:
        store = open_toy(self.path)
        self.check_toy(store)
        for _ in range(self.draw.randrange(300)):
            store.put(*self.change(), sync=self.draw.random() < 0.02)
            what = self.draw.random()
            if what < 0.01:
                store.flush()
            elif what < 0.015:
                store.compact()
        self.check_toy(store)
        if self.draw.random() < 0.5:
            store.close()
        else:  # as a killed process leaves it
            store.lock.close()

    def by_lsmkv(self) -> None:
        clock = SetClock(NOW_S)
        with lsmkv.open(self.path, background="thread", clock=clock, **self.options) as db:
            assert dict(db.items()) == self.contents
            assert db.verify().problems == ()
            for _ in range(self.draw.randrange(300)):
                key, value = self.change()
                if value is None:
                    db.delete(key)
                elif self.draw.random() < 0.1:
                    due_s = NOW_S + self.draw.choice([0, 1, 100])
                    db.put(key, value, expires_at=due_s)
                    if due_s <= NOW_S:
                        del self.contents[key]
                else:
                    db.put(key, value)
                what = self.draw.random()
                if what < 0.01:
                    db.flush()
                elif what < 0.015:
                    db.compact_range(force=True)

    def check_toy(self, store: toy.Store) -> None:
        assert dict(store.scan()) == self.contents
        for key in self.draw.sample(self.keys, 30):
            assert store.get(key) == self.contents.get(key)
            assert store.get(key + b"x") == self.contents.get(key + b"x")
        prefix = self.draw.choice(self.keys)[: self.draw.randrange(8)]
        assert dict(store.scan(prefix)) == {
            key: value for key, value in self.contents.items() if key.startswith(prefix)
        }


@pytest.mark.parametrize("seed", range(24))
def test_either_sees_what_the_other_wrote(seed: int, tmp_path: Path) -> None:
    both = Both(tmp_path / "db", seed)
    turns = [both.by_toy, both.by_lsmkv]
    for turn in range(6):
        turns[(turn + seed) % 2]()
    with lsmkv.open(both.path, read_only=True, clock=SetClock(NOW_S)) as db:
        assert dict(db.items()) == both.contents
        assert db.verify().problems == ()


def test_no_key_is_lost_and_no_old_value_comes_back(tmp_path: Path) -> None:
    store = open_toy(tmp_path / "db")
    newest: dict[bytes, bytes | None] = {b"%04d" % number: b"old" for number in range(1000)}
    changes = {b"%04d" % number: b"new" if number % 2 else None for number in range(0, 1000, 3)}
    for writes in (newest, changes):
        for key, value in writes.items():
            store.put(key, value)
        store.flush()
    newest |= changes
    found = {key: store.get(key) for key in newest}
    wrong = [key for key in newest if found[key] != newest[key]]
    lost = [key for key in wrong if found[key] is None]
    back = [key for key in wrong if newest[key] is None]
    old = [key for key in wrong if key not in lost + back]
    said = {"lost": lost, "with an old value": old, "deleted, and back": back}
    assert not wrong, {name: (len(keys), keys[:5]) for name, keys in said.items()}
    store.close()


# The path of one key


def three_runs(path: Path, by: str) -> None:
    """A store of three runs and a memtable, with 500 present keys, deletes among them."""
    draw = random.Random(5)
    store: Any = open_toy(path) if by == "toy" else None
    if by == "lsmkv":
        store = lsmkv.open(path, filter_policy="bloom", block_size_bytes=600, error_rate=0.1)
    for number in range(2000):
        key = b"%05d" % (2 * draw.randrange(3000))
        store.put(key, bytes(50)) if draw.random() < 0.9 or by != "toy" else store.put(key, None)
        if number in (700, 1200, 1800):
            store.flush()
    store.close()


def told(step: toy.Step) -> tuple[Any, ...]:
    seq = step.entry.seq if step.entry else None
    return step.where, step.block, step.filter_says, step.read_bytes, seq


def explained(found: lsmkv.Explanation) -> Iterator[tuple[Any, ...]]:
    for run in found.runs:
        if run.table is not None:
            assert run.filter is not None
            read_bytes = sum(block.length_bytes for block in run.blocks)
            yield run.file_name, run.block, run.filter.verdict, read_bytes, run.seq


@pytest.mark.parametrize("by", ["toy", "lsmkv"])
def test_the_steps_of_a_get_are_those_that_lsmkv_explains(by: str, tmp_path: Path) -> None:
    three_runs(tmp_path / "db", by)
    store = open_toy(tmp_path / "db")
    keys = [b"%05d" % number for number in range(0, 6000, 7)]
    steps = {key: list(store.search(key)) for key in keys}
    store.close()
    with lsmkv.open(tmp_path / "db", read_only=True) as db:
        for key in keys:
            found = db.explain(key)
            memtable, *others = steps[key]
            assert (memtable.entry is None) == (found.memtables[0].outcome == "absent"), key
            asked = [told(step) for step in others if step.block is not None]
            assert asked == list(explained(found)), key
            outside = [run for run in found.runs if run.outcome == "no table"]
            assert len(others) == len(asked) + len(outside)
    assert {step.filter_says for each in steps.values() for step in each} >= {"no", "maybe", ""}


@pytest.mark.parametrize("by", ["toy", "lsmkv"])
def test_a_filter_is_asked_for_the_bits_that_lsmkv_explains(by: str, tmp_path: Path) -> None:
    three_runs(tmp_path / "db", by)
    with lsmkv.open(tmp_path / "db", read_only=True) as db:
        for run in db.explain(b"02001").runs:
            assert run.filter is not None
            bits = toy.probed_bits(b"02001", run.filter.probe_count, run.filter.bit_count)
            assert tuple(sorted({*bits})) == run.filter.probes


@pytest.mark.parametrize("by", ["toy", "lsmkv"])
def test_separators_are_the_shortest_whatever_they_share(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = [b"%02d" % length + b"m" * length for length in range(40)]
    keys = [head + last for head in heads for last in (b"a", b"b" + bytes(200), b"c")]
    monkeypatch.setattr(toy, "BLOCK_BYTES", 1)
    store: Any = open_toy(tmp_path / "db") if by == "toy" else None
    if by == "lsmkv":
        small = lsmkv.Options(block_size_bytes=256, fit_pages=False, compression="none")
        store = lsmkv.open(tmp_path / "db", small)
    for key in keys:
        store.put(key, bytes(300))
    store.flush()
    store.close()
    store = open_toy(tmp_path / "db")
    (table,) = store.tables
    found = [line.separator for line in table.tail.lines[1:-1]]
    assert found == [
        key[: toy_bytes.shared_length(before, key) + 1] for before, key in pairwise(keys)
    ]
    assert [store.get(key) for key in keys] == [bytes(300)] * len(keys)
    store.close()
    with lsmkv.open(tmp_path / "db", read_only=True) as db:
        assert db.verify().problems == ()
        assert [db.get(key) for key in keys] == [bytes(300)] * len(keys)


LOOKUPS = """
import sys, pathlib, toy
store = toy.Store(pathlib.Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    store.get(b"%05d" % number)
"""


def kernel_reads(path: Path, lookups: int) -> int:
    """Read calls of tables in a process that opens the store and looks keys up."""
    program = f"import sys; sys.path[:0] = {sys.path!r}\n{LOOKUPS}"
    status, reads = count_reads([sys.executable, "-c", program, str(path), str(lookups)], "preload")
    assert status == 0
    return sum(file.calls for file in reads.files if file.path.endswith(".sst"))


@pytest.mark.parametrize("by", ["toy", "lsmkv"])
def test_blocks_read_are_as_many_as_lsmkv_and_the_system_count(by: str, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler, which makes the counter of read calls")
    path = tmp_path / "db"
    three_runs(path, by)
    store = open_toy(path)
    for number in range(6000):
        store.get(b"%05d" % number)
    counted = sum(table.blocks_read for table in store.tables)
    store.close()
    with lsmkv.open(path, read_only=True, block_cache_size_bytes=0) as db:
        before = db.stats()
        for number in range(6000):
            db.get(b"%05d" % number)
        assert (db.stats() - before).block_reads == counted > 1000
    assert kernel_reads(path, 6000) - kernel_reads(path, 0) == counted


def test_filters_let_as_many_absent_keys_pass_as_their_exact_rate_says(tmp_path: Path) -> None:
    store = open_toy(tmp_path / "db")
    for number in range(20_000):
        store.put(b"%016x" % (number * 0x9E3779B97F4A7C15 % 2**64), b"")
    store.compact()
    (table,) = store.tables
    rates = []
    for line, following in zip(table.tail.lines, table.tail.lines[1:], strict=False):
        bits = 8 * (following.filter_start - line.filter_start)
        rates.append(exact_rate(bits, line.entry_count, line.probes))
    asked = 40_000
    draw = random.Random(9)
    for _ in range(asked):
        store.get(b"%016x" % draw.getrandbits(64))
    rate = sum(rates) / len(rates)
    assert rate < 0.01
    assert binom.ppf(1e-6, asked, rate) <= table.blocks_read <= binom.ppf(1 - 1e-6, asked, rate)
    store.close()


def test_a_group_of_separators_is_decoded_as_its_docstring_says() -> None:
    bytes_of = [bytes([byte]) for byte in range(256)]
    bytes_of[ord("~")] = b"anan"
    fence = int.from_bytes(b"fruit/ap", "big") >> 1
    group = b"\0\x09pr\0" + b"\x61b" + b"\x62b~"
    found = toy_bytes._decode_separators(toy_bytes.Reader(group), fence, 3, bytes_of)
    assert list(found) == [b"fruit/apr", b"fruit/b", b"fruit/banan"]


# What is beyond the toy, or seldom


def test_range_deletes_are_refused_until_they_are_applied(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        db.update({b"%04d" % number: b"value" for number in range(3000)})
        db.flush()
        db.delete_range(b"1", b"2")
    with pytest.raises(toy_bytes.RefusedError, match="range deletes"):
        open_toy(tmp_path / "db")
    with lsmkv.open(tmp_path / "db") as db:
        db.flush()
    with pytest.raises(toy_bytes.RefusedError, match="range deletes"):
        open_toy(tmp_path / "db")
    with lsmkv.open(tmp_path / "db") as db:
        db.compact_range(force=True)
    store = open_toy(tmp_path / "db")
    assert [key for key, _ in store.scan()] == [b"%04d" % n for n in range(3000) if n // 1000 != 1]
    store.close()


def test_a_repair_applies_no_range_delete_again_to_what_the_toy_compacted(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        db.update({b"%04d" % number: b"value" for number in range(3000)})
        db.flush()
        db.delete_range(b"1", b"2")
        db.put(b"1500", b"newer")
        db.compact_range(force=True)  # which forgets that it is newer
    store = open_toy(tmp_path / "db")
    store.put(b"1600", b"by the toy")
    store.compact()
    store.close()
    assert (tmp_path / "db" / "ERASED").exists()
    for path in (tmp_path / "db").glob("MANIFEST-*"):
        path.unlink()
    lsmkv.repair(tmp_path / "db", tmp_path / "repaired")
    with lsmkv.open(tmp_path / "repaired") as db:
        assert (db.get(b"1500"), db.get(b"1600")) == (b"newer", b"by the toy")
        assert len(db.keys()) == 2002


def test_a_directory_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(toy_bytes.RefusedError, match=r"notes\.txt"):
        open_toy(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_one_process_at_a_time_has_a_store_open(tmp_path: Path) -> None:
    store = open_toy(tmp_path / "db")
    with pytest.raises(lsmkv.LockedError, match=str(os.getpid())):
        lsmkv.open(tmp_path / "db")
    store.close()
    refused = pytest.raises(toy_bytes.RefusedError, match="db is open in another process")
    with lsmkv.open(tmp_path / "db"), refused:
        open_toy(tmp_path / "db")


def test_of_versions_that_fill_several_blocks_the_newest_is_found(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", block_size_bytes=256) as db:
        snapshots = []
        for number in range(60):
            db.put(b"key", b"%03d" % number + bytes(40))
            db.put(b"low%d" % (number % 3), b"%d" % number)
            snapshots.append(db.snapshot())
        db.flush()
        (table,) = db.tables()
        assert table.block_count > 5
        expected = dict(db.items())
        for snapshot in snapshots:
            snapshot.close()
    store = open_toy(tmp_path / "db")
    assert {key: store.get(key) for key in expected} == dict(store.scan()) == expected
    store.close()


def test_an_adopted_table_is_read(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        db[b"b"] = b"old"
        with lsmkv.TableWriter(tmp_path / "outside.sst") as writer:
            writer.add(b"a", b"1")
            writer.add(b"b", b"2")
        db.ingest([tmp_path / "outside.sst"])
        (seq,) = [run.seq for run in db.explain(b"b").runs if run.outcome == "found"]
        db.put(b"c", b"3")
    store = open_toy(tmp_path / "db")
    assert dict(store.scan()) == {b"a": b"1", b"b": b"2", b"c": b"3"}
    *_, step = store.search(b"b")
    assert step.entry is not None
    assert step.entry.seq == seq
    store.compact()
    store.close()
    with lsmkv.open(tmp_path / "db") as db:
        assert dict(db.items()) == {b"a": b"1", b"b": b"2", b"c": b"3"}
        assert db.verify().problems == ()


def test_an_entry_that_is_due_is_absent_and_hides_older_ones(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db", clock=SetClock(NOW_S)) as db:
        db.put(b"a", b"old")
        db.flush()
        db.put(b"a", b"new", expires_at=NOW_S + 10)
        db.put(b"b", b"late", expires_at=NOW_S + 20)
    for now_s, expected in ((9.9, {b"a": b"new", b"b": b"late"}), (10, {b"b": b"late"})):
        store = open_toy(tmp_path / "db", NOW_S + now_s)
        store.flush()
        assert dict(store.scan()) == expected
        assert store.get(b"a") == expected.get(b"a")
        store.close()
    with lsmkv.open(tmp_path / "db", clock=SetClock(NOW_S)) as db:
        assert db.verify().problems == ()
        assert db.expires_at(b"b") == NOW_S + 20


def test_the_store_is_as_short_as_its_page_says() -> None:
    assert code_line_count(Path(toy.__file__).read_text()) <= MOST_CODE_LINES


@pytest.mark.parametrize("words", [[], ["get"], ["get", ""], ["put", "db", "key"]])
def test_a_command_without_all_its_words_is_told_the_usage(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "usage: toy.py" in (toy.main(words) or "")
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_a_command_is_a_line_that_names_what_is_wrong(tmp_path: Path) -> None:
    db = tmp_path / "db"
    assert "No such file" in (toy.main(["put", str(tmp_path / "none" / "db"), "key", ""]) or "")
    assert "this one has 65,536" in (toy.main(["put", str(db), "k" * 65_536, ""]) or "")
    assert toy.main(["put", str(db), "k" * 65_535, ""]) is toy.main(["flush", str(db)]) is None
    with lsmkv.open(db) as other:
        assert "another process" in (toy.main(["get", str(db), "key"]) or "")
        assert [len(key) for key in other] == [65_535]
    (table,) = db.glob("*.sst")
    table.unlink()
    assert toy.main(["get", str(db), "key"]) == f"{table}, offset 0: this table is missing"


@pytest.mark.parametrize("word", [word for word in toy.WORDS if word != "put"])
def test_only_put_makes_a_store(word: str, tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    found = toy.main([word, path, *["key"] * toy.WORDS[word]])
    assert found == f"{path} has no store: only put makes one"
    assert list(tmp_path.iterdir()) == []


def test_the_words_of_the_command_line_do_what_they_say(tmp_path: Path) -> None:
    def toy_says(*words: str) -> str:
        command = [sys.executable, str(EXAMPLES / "toy.py"), *words]
        run = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
        return run.stdout + run.stderr

    db = str(tmp_path / "db")
    toy_says("put", db, "apple", "red")
    toy_says("put", db, "pear", "green")
    toy_says("flush", db)
    toy_says("delete", db, "pear")
    assert toy_says("get", db, "pear") == "memtable: found, as write 3\nNone\n"
    assert toy_says("get", db, "fig").splitlines()[1:] == [
        "000004.sst, block 0: the filter says no",
        "None",
    ]
    assert toy_says("get", db, "zebra").splitlines()[1:] == [
        "000004.sst, outside its keys: not there",
        "None",
    ]
    assert toy_says("scan", db, "a") == "b'apple' b'red'\n"
    toy_says("compact", db)
    assert toy_says("get", db, "pear").splitlines()[-1] == "None"
    assert "STORE" in toy_says("get", db)
