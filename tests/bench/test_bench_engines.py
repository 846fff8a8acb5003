"""Every engine keeps the contract that measurements rely on."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import bench.engines  # registers the built-in ones  # noqa: F401
from bench.engines.base import Engine, Settings, Store, engine_named, register
from bench.workloads.keys import Values, absent_key, present_key
from gates import WAIT_S
from time_limits import join

NAMES = ("lsmkv", "rocksdb", "leveldb", "lmdb", "sqlite")
COUNTING = ("lsmkv", "rocksdb")
SMALL = Settings(cache_size_bytes=1 << 20, write_buffer_size_bytes=1 << 16, count=True)


def installed(name: str) -> Engine:
    engine = engine_named(name)
    if not engine.is_installed():
        pytest.skip(f"{engine.distribution} is not installed")
    return engine


@pytest.fixture(params=NAMES)
def engine(request: pytest.FixtureRequest) -> Engine:
    return installed(request.param)


@pytest.fixture
def store(engine: Engine, tmp_path: Path) -> Iterator[Store]:
    opened = engine.open(str(tmp_path), SMALL)
    yield opened
    opened.close()


def fill(store: Store, count: int) -> None:
    values = Values(100, seed=1)
    store.put_batch([(present_key(number), values.of(number)) for number in range(count)])


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="lsmkv"):
        register(engine_named("lsmkv"))


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="must be one of lsmkv, rocksdb"):
        engine_named("nosuch")


def test_no_library_of_a_peer_is_imported_before_a_store_is_opened() -> None:
    code = (
        "import sys, bench.engines\n"
        "print([name for name in ('rocksdict', 'plyvel', 'lmdb', '_sqlite3') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=WAIT_S
    )
    assert done.stdout.strip() == "[]"


def test_a_store_tells_what_was_written_last(store: Store) -> None:
    store.put_batch([(b"a", b"1"), (b"b", b"2"), (b"empty", b"")])
    store.put(b"b", b"3")
    store.delete(b"a")
    assert list(store.multi_get([b"b", b"a", b"empty", b"b"])) == [b"3", None, b"", b"3"]
    assert [store.get(key) for key in (b"a", b"b", b"empty")] == [None, b"3", b""]


@pytest.mark.parametrize(
    ("start", "limit", "forward", "backward"),
    [
        (None, None, 10, 10),
        (None, 4, 4, 4),
        (present_key(3), None, 7, 4),
        (absent_key(3), None, 6, 4),
        (present_key(3), 2, 2, 2),
        (b"", None, 10, 0),
        (b"~", None, 0, 10),
    ],
)
def test_a_scan_counts_the_entries_after_its_start(
    store: Store, start: bytes | None, limit: int | None, forward: int, backward: int
) -> None:
    fill(store, 10)
    assert store.scan(start, limit) == forward
    assert store.scan(start, limit, reverse=True) == backward


@pytest.mark.parametrize("name", ["lsmkv", "rocksdb", "leveldb"])
def test_a_compaction_removes_what_was_overwritten(name: str, tmp_path: Path) -> None:
    engine = installed(name)
    store = engine.open(str(tmp_path), Settings())  # one memtable holds everything
    fill(store, 3000)
    store.settle()
    fill(store, 3000)
    store.compact()
    store.close()
    size = sum(file.stat().st_size for file in tmp_path.iterdir() if file.suffix != ".log")
    assert size < 1.5 * 3000 * 116


def test_getters_answer_eight_threads_at_once(store: Store) -> None:
    fill(store, 800)
    found: dict[int, list[bytes | None]] = {}

    def read(part: int, get: Callable[[bytes], bytes | None]) -> None:
        found[part] = [get(present_key(number)) for number in range(part, 1000, 8)]

    threads = [
        threading.Thread(target=read, args=(part, get)) for part, get in enumerate(store.getters(8))
    ]
    for thread in threads:
        thread.start()
    join(*threads)
    values = Values(100, seed=1)
    for part in range(8):
        numbers = range(part, 1000, 8)
        assert found[part] == [values.of(n) if n < 800 else None for n in numbers]


def test_all_data_survives_reopening(engine: Engine, tmp_path: Path) -> None:
    for number in range(3):
        store = engine.open(str(tmp_path), SMALL)
        assert store.scan(None, None) == number
        store.put(b"key %d" % number, b"value")
        store.close()


@pytest.mark.parametrize(
    "settings",
    [
        Settings(bits_per_key=0),
        Settings(compression="zstd"),
        Settings(synced=True),
        Settings(cache_size_bytes=16 << 10, block_size_bytes=1 << 14),
    ],
)
def test_every_setting_keeps_the_data(engine: Engine, settings: Settings, tmp_path: Path) -> None:
    store = engine.open(str(tmp_path), settings)
    fill(store, 1000)
    store.put_sync(b"~", b"")
    store.settle()
    store.close()
    store = engine.open(str(tmp_path), settings)
    assert store.scan(None, None) == 1001
    assert all(store.get(absent_key(number)) is None for number in range(1000))
    store.close()


def test_an_engine_that_is_only_written_to_uses_its_space_again(
    engine: Engine, tmp_path: Path
) -> None:
    # LMDB uses no page again that an open read transaction can see.
    store = engine.open(str(tmp_path), replace(SMALL, write_buffer_size_bytes=1 << 16))
    for number in range(2000):
        store.put(present_key(number % 100), b"v" * 100)
    store.settle()
    store.close()
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 1 << 20


def test_a_reader_beside_a_writer_sees_what_was_written_before_its_look_up(store: Store) -> None:
    written, failures = [-1], []

    def write() -> None:
        for number in range(300):
            store.put(present_key(number), b"value")
            written[0] = number

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        latest = written[0]
        if latest >= 0 and store.get(present_key(latest)) is None:
            failures.append(latest)
    join(writer)
    assert failures == []
    assert store.get(present_key(299)) == b"value"


def test_synced_puts_of_several_threads_are_all_kept(store: Store) -> None:
    def write(part: int) -> None:
        for number in range(5):
            store.put_sync(b"%d/%d" % (part, number), b"value")

    threads = [threading.Thread(target=write, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    join(*threads)
    assert store.scan(None, None) == 20


@pytest.mark.parametrize("name", COUNTING)
def test_counters_tell_the_reads_that_filters_spared(name: str, tmp_path: Path) -> None:
    engine = installed(name)
    store = engine.open(str(tmp_path), SMALL)
    fill(store, 3000)
    store.settle()
    store.close()
    tiny = Settings(cache_size_bytes=4 << 10, count=True)
    store = engine.open(str(tmp_path), tiny)
    for number in range(3000):
        assert store.get(absent_key(number)) is None
    absent = store.counters()
    for number in range(3000):
        assert store.get(present_key(number)) is not None
    present = store.counters()
    store.close()
    # RocksDB's filters are not counted for a key between two blocks; those are a few in a hundred.
    assert absent["filter_negatives"] + absent["filter_positives"] > 2800
    assert absent["filter_true_positives"] == 0
    assert absent["filter_positives"] < 100
    assert present["filter_true_positives"] == 3000
    assert 0 < absent["data_block_reads"] <= absent["filter_positives"]
    assert present["data_block_reads"] > absent["data_block_reads"]
