"""Reading a published store: the whole read API, and the requests that it takes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lsmkv
from bench.harness.object_server import ObjectServer
from lsmkv.remote.bucket import Bucket
from lsmkv.remote.generation import generation_name
from published_stores import (
    COUNT,
    FORM,
    contents,
    counted,
    gets,
    key,
    kind,
    kinds,
    logged,
    objects,
    prefix_of,
    published,
    reader,
    value,
)
from time_limits import join

ENTRIES = contents()


@pytest.fixture
def db(filled: str, server: ObjectServer) -> Iterator[lsmkv.DB]:
    with reader(filled) as db:
        server.reset()
        yield db


@pytest.fixture
def layers(tmp_path: Path, server: ObjectServer, url: str) -> Iterator[tuple[lsmkv.DB, lsmkv.DB]]:
    """A store with overwritten and deleted keys in several runs; and the same, published."""
    with lsmkv.open(tmp_path / "store", FORM, level0_compaction_trigger=12) as local:
        for start in range(0, 90, 30):
            local.update({key(n): b"%d of %d" % (n, start) for n in range(start, start + 60)})
            for number in range(start, start + 30, 7):
                local.delete(key(number))
            local.flush()
        local.publish(url)
        with reader(url) as remote:
            yield local, remote


def test_it_can_be_looked_into(layers: tuple[lsmkv.DB, lsmkv.DB]) -> None:
    local, remote = layers
    assert remote.explain(key(31)).value == local[key(31)]
    ours, theirs = local.inspect(), remote.inspect()
    assert [table.entry_count for table in ours.tables()] == [
        table.entry_count for table in theirs.tables()
    ]
    number = next(ours.tables()).number
    assert [block.first_key for block in remote.blocks(number)] == [
        block.first_key for block in local.blocks(number)
    ]
    assert remote.approximate_count() == local.approximate_count()
    assert remote.approximate_size(key(10), key(50)) == local.approximate_size(key(10), key(50))
    assert remote.disk_bytes() == sum(table.size_bytes for table in remote.inspect().tables())
    assert remote.memory_usage().filter_bytes > 0
    assert (remote.read_only, remote.generation, local.generation) == (True, 1, None)


def test_its_path_is_the_url(db: lsmkv.DB, filled: str) -> None:
    assert db.path == filled
    assert repr(db) == f"<lsmkv.DB at {filled!r}, read-only>"
    paths = {f"{filled}/tables/{table.file_name}" for table in db.inspect().tables()}
    assert paths == {table.path for table in db._state.require_open().version.tables()}


def test_writing_is_refused(db: lsmkv.DB) -> None:
    with pytest.raises(lsmkv.ReadOnlyError, match="only read: write to the store in its directory"):
        db[b"key"] = b"value"
    with pytest.raises(lsmkv.ReadOnlyError):
        db.flush()


# Opening


def test_an_opening_asks_for_a_list_a_generation_and_the_end_of_each_table(
    filled: str, server: ObjectServer
) -> None:
    with reader(filled) as db:
        tables = list(db.inspect().tables())
        footers = {
            table.path.rpartition("/")[2]: table.footer.data_length
            for table in db._state.require_open().version.tables()
        }
        stats = db.stats()
    log = server.log()
    assert [kind(request) for request in log[:2]] == ["LIST", "GET generations"]
    assert Counter(map(kind, log[2:])) == {"GET tables": len(tables)}
    assert {
        request.path.rpartition("/")[2]: request.range[0] if request.range else None
        for request in log[2:]
    } == footers
    assert counted(stats) == logged(server)


def test_after_two_requests_an_opening_waits_for_none_before_it_asks_for_all(
    filled: str, server: ObjectServer
) -> None:
    tables = len(objects(server, filled, "tables"))
    opened: list[lsmkv.DB] = []
    server.hold()
    opening = threading.Thread(target=lambda: opened.append(reader(filled)))
    opening.start()
    try:
        for asked in ("LIST", "GET generations"):
            assert [kind(request) for request in server.held(1)] == [asked]
            server.release()
        held = server.held(tables)
        assert [kind(request) for request in held] == ["GET tables"] * tables
    finally:
        server.stop_holding()
        join(opening)
    opened[0].close()


@pytest.mark.parametrize("residency", ["cached", "off"])
def test_filters_that_do_not_stay_in_memory_are_not_read_at_opening(
    filled: str, server: ObjectServer, residency: Any
) -> None:
    with reader(filled) as usual:
        read = usual.stats().object_get_bytes
    with reader(filled, filter_residency=residency) as db:
        assert db.stats().filter_reads == 0
        assert db.stats().object_get_bytes < read
        assert dict(db.items()) == ENTRIES
        assert db.multi_get([key(1), key(2)]) == [None, value(2)]


def test_a_large_end_of_a_table_is_read_in_pieces(
    filled: str, server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lsmkv.remote import published as module

    monkeypatch.setattr(module, "PART_BYTES", 200)
    with reader(filled) as db:
        assert db.stats().object_gets > 2 * len(list(db.inspect().tables()))
        assert counted(db.stats()) == logged(server)
        assert dict(db.items()) == ENTRIES


# Lookups


def test_a_key_in_the_first_run_takes_one_request(db: lsmkv.DB, server: ObjectServer) -> None:
    before = db.stats()
    for number in range(0, 2 * COUNT, 200):
        server.reset()
        assert db[key(number)] == value(number)
        assert kinds(server) == {"GET tables": 1}
    stats = db.stats() - before
    assert stats.object_gets == stats.block_reads == stats.filter_true_positives


def test_absent_keys_take_a_request_for_each_false_positive(
    tmp_path: Path, server: ObjectServer, url: str
) -> None:
    """The filters' exact p is 0.1 or nearly: of 590 keys that reach a filter some 59 pass, +- 29."""
    published(tmp_path, url, error_rate=0.1, block_size_bytes=4096)
    with reader(url, block_cache_size_bytes=0) as db:
        server.reset()
        before = db.stats()
        assert all(db.get(key(number)) is None for number in range(1, 1201, 2))
        stats = db.stats() - before
        rates = [table.expected_rate or 1.0 for table in db.inspect().tables()]
    asked = stats.filter_negatives + stats.filter_false_positives
    assert stats.gets == asked + stats.range_negatives == 600
    assert stats.object_gets == stats.filter_false_positives == gets(server)
    expected = asked * sum(rates) / len(rates)
    assert abs(stats.object_gets - expected) < 4 * expected**0.5


@pytest.mark.parametrize("of", ["store", "snapshot"])
def test_multi_get_asks_for_its_blocks_at_the_same_time(
    db: lsmkv.DB, server: ObjectServer, of: str
) -> None:
    found: list[list[bytes | None]] = []
    wanted = [key(number) for number in range(0, 2 * COUNT, 100)]
    with db.snapshot() as snapshot:
        asked = db if of == "store" else snapshot
        server.hold()
        looking = threading.Thread(target=lambda: found.append(asked.multi_get(wanted)))
        looking.start()
        try:
            assert len(server.held(len(wanted))) == len(wanted)
        finally:
            server.stop_holding()
            join(looking)
    assert found == [[ENTRIES[each] for each in wanted]]


def test_multi_get_reads_a_block_once_even_without_a_cache(
    filled: str, server: ObjectServer
) -> None:
    with reader(filled, block_cache_size_bytes=0) as db:
        server.reset()
        assert db.multi_get([key(0), key(2), key(0), key(4)]) == [
            value(0), value(2), value(0), value(4),
        ]  # fmt: skip
        assert kinds(server) == {"GET tables": 1}


# Scans


def test_a_scan_asks_ahead(tmp_path: Path, server: ObjectServer, url: str) -> None:
    published(tmp_path, url, table_size_bytes=1 << 20, block_size_bytes=512)
    with reader(url) as db:
        entries = iter(db.items())
        next(entries)
        server.reset()
        server.hold()
        read: list[list[tuple[bytes, bytes]]] = []
        scanning = threading.Thread(target=lambda: read.append(list(entries)))
        scanning.start()
        most = 0
        try:
            while scanning.is_alive():
                most = max(most, len(server.held()))
                server.release()
                scanning.join(0.05)
        finally:
            server.stop_holding()
            join(scanning)
        assert most >= 4
        assert len(read[0]) == COUNT - 1


def test_a_scan_that_ends_early_reads_one_block(db: lsmkv.DB, server: ObjectServer) -> None:
    assert next(iter(db.items(start=key(700)))) == (key(700), value(700))
    assert kinds(server) == {"GET tables": 1}


def test_a_scan_reads_no_byte_twice(filled: str, server: ObjectServer) -> None:
    with reader(filled) as db:
        server.reset()
        before = db.stats()
        assert dict(db.items()) == ENTRIES
        tables = db._state.require_open().version.tables()
        blocks = sum(table.footer.data_length for table in tables)
        assert (db.stats() - before).object_get_bytes == blocks


# Newer generations


def test_refresh_shows_a_newer_generation_and_reads_only_new_tables(
    tmp_path: Path, server: ObjectServer, url: str
) -> None:
    with lsmkv.open(tmp_path / "store", FORM) as local:
        local.update(ENTRIES)
        local.compact_range()
        local.publish(url)
        with reader(url) as remote:
            local[key(1)] = b"new"
            local.publish(url)
            assert remote.get(key(1)) is None
            server.reset()
            remote.refresh()
            assert kinds(server) == {"LIST": 1, "GET generations": 1, "GET tables": 1}
            assert (remote[key(1)], remote.generation) == (b"new", 2)
            server.reset()
            remote.refresh()
            assert kinds(server) == {"LIST": 1}


def test_a_snapshot_and_a_scan_stay_with_their_generation(
    tmp_path: Path, server: ObjectServer, url: str
) -> None:
    with lsmkv.open(tmp_path / "store", FORM) as local:
        local.update(ENTRIES)
        local.publish(url)
        with reader(url) as remote, remote.snapshot() as snapshot:
            entries = remote.items()
            local.clear()
            local[b"only"] = b"one"
            local.publish(url)
            remote.refresh()
            assert dict(remote.items()) == {b"only": b"one"}
            assert dict(iter(entries)) == dict(snapshot.items()) == ENTRIES
            assert snapshot.multi_get([key(2), b"only"]) == [value(2), None]


def test_refresh_never_goes_back(tmp_path: Path, server: ObjectServer, url: str) -> None:
    with lsmkv.open(tmp_path / "store", FORM) as local:
        local[b"key"] = b"old"
        local.publish(url)
        local[b"key"] = b"new"
        local.publish(url)
        with reader(url) as remote:
            server.store(prefix_of(url)).delete(generation_name(2))
            remote.refresh()
            assert (remote[b"key"], remote.generation) == (b"new", 2)


def test_a_table_of_another_store_with_the_same_number_is_not_mistaken(
    tmp_path: Path, server: ObjectServer, url: str
) -> None:
    """Two stores whose tables have the same number, size, keys and index, and other values."""
    for name, letter in (("one", b"a"), ("two", b"b")):
        with lsmkv.open(tmp_path / name, compression="none") as local:
            local.update({key(number): letter * 10 for number in range(100)})
            local.publish(url)
            if name == "one":
                remote = reader(url)
                assert remote[key(5)] == b"a" * 10
    remote.refresh()
    assert remote[key(5)] == b"b" * 10
    remote.close()


# What is not there


def test_tables_without_a_generation_are_no_store(
    tmp_path: Path, server: ObjectServer, url: str
) -> None:
    published(tmp_path, url)
    server.store(prefix_of(url)).delete(generation_name(1))
    with pytest.raises(lsmkv.NotAStoreError):
        reader(url)


@pytest.mark.parametrize("flags", [{}, {"read_only": True, "error_if_exists": True}])
def test_a_url_is_opened_for_reading_only(url: str, flags: Any) -> None:
    with pytest.raises(ValueError, match=r"read_only=True.*publish"):
        lsmkv.open(url, **flags)


def test_other_functions_refuse_urls(url: str, tmp_path: Path) -> None:
    for attempt in (lambda: lsmkv.destroy(url), lambda: lsmkv.repair(url, tmp_path / "new")):
        with pytest.raises(ValueError, match="it is a URL"):
            attempt()


# The disk cache


def test_what_was_read_once_is_read_from_disk_by_the_next_process(
    filled: str, server: ObjectServer, tmp_path: Path
) -> None:
    options = {"disk_cache_path": str(tmp_path / "cache")}
    wanted = [key(number) for number in range(0, 400, 10)]
    with reader(filled, **options) as db:
        assert db.multi_get(wanted) == [ENTRIES[each] for each in wanted]
        assert db.stats().disk_cache_misses == db.stats().object_gets - 1
    server.reset()
    with reader(filled, **options) as db:
        assert db.multi_get(wanted) == [ENTRIES[each] for each in wanted]
        assert db[key(0)] == value(0)
        stats = db.stats()
    assert kinds(server) == {"LIST": 1, "GET generations": 1}
    assert (stats.disk_cache_misses, stats.object_gets) == (0, 1)
    assert stats.disk_cache_hits > len(wanted) / 20


@pytest.mark.slow
@pytest.mark.parametrize(("count", "requests"), [(999, 1), (1000, 1), (1001, 2)])
def test_a_list_takes_a_request_for_each_thousand_names(
    server: ObjectServer, url: str, count: int, requests: int
) -> None:
    there = server.store(prefix_of(url))
    for number in range(count):
        there.put(f"tables/{number:04}", b"")
    stats = lsmkv.Stats()
    bucket = Bucket(url, FORM, stats)
    assert len(bucket.names("tables")) == count
    assert counted(stats) == logged(server) == {"GET": 0, "LIST": requests, "PUT": 0, "DELETE": 0}
    server.reset()
    assert len(bucket.first_names("tables")) == min(count, 1000)
    assert len(server.log()) == 1
    bucket.close()
