"""Publishing: what is sent, in which order, and what happens to publications that meet."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import xxhash

import lsmkv
from bench.harness.object_server import Fault, ObjectServer
from lsmkv.remote.bucket import PART_BYTES
from lsmkv.remote.generation import generation_name
from published_stores import (
    FORM,
    contents,
    counted,
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


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "store"
    with lsmkv.open(path, FORM) as db:
        db.update(contents())
        db.compact_range()
    return path


@pytest.fixture
def db(original: Path, tmp_path: Path) -> Iterator[lsmkv.DB]:
    with lsmkv.open(shutil.copytree(original, tmp_path / "store"), FORM) as db:
        yield db


def table_count(db: lsmkv.DB) -> int:
    return sum(1 for _ in db.inspect().tables())


def test_tables_are_sent_first_and_the_generation_last(
    db: lsmkv.DB, server: ObjectServer, url: str
) -> None:
    report = db.publish(url)
    puts = [found for found in map(kind, server.log()) if found.startswith("PUT")]
    assert report.table_count == report.sent_count == table_count(db) > 2
    assert puts == ["PUT tables"] * table_count(db) + ["PUT generations"]
    assert (report.generation, report.is_new, report.url) == (1, True, url)


def test_an_object_is_the_file_itself_and_named_after_its_bytes(
    db: lsmkv.DB, server: ObjectServer, url: str
) -> None:
    db.publish(url)
    store = server.store(prefix_of(url))
    sent = {name: bytes(store.get(name).bytes()) for name in objects(server, url, "tables")}
    files = {file.read_bytes() for file in Path(db.path).glob("*.sst")}
    assert set(sent.values()) == files
    for name, data in sent.items():
        assert name == f"tables/{xxhash.xxh3_128_hexdigest(data)}-0000000001.sst"


def test_an_empty_store_can_be_published(tmp_path: Path, server: ObjectServer, url: str) -> None:
    with lsmkv.open(tmp_path / "store") as db:
        assert db.publish(url).table_count == 0
    with reader(url) as empty:
        assert (dict(empty.items()), empty.get(b"a"), empty.verify().ok) == ({}, None, True)


def test_an_unchanged_store_sends_nothing(db: lsmkv.DB, server: ObjectServer, url: str) -> None:
    db.publish(url)
    server.reset()
    report = db.publish(url)
    assert kinds(server) == {"LIST": 1, "GET generations": 1}
    assert (report.generation, report.is_new, report.sent_count) == (1, False, 0)
    assert "published already" in str(report)


def test_an_interrupted_publication_goes_on(db: lsmkv.DB, server: ObjectServer, url: str) -> None:
    server.inject(Fault("status", method="PUT", match="/tables/", skip=2, times=None))
    with pytest.raises(OSError, match=r"tables/[0-9a-f]{32}-0000000001\.sst"):
        db.publish(url)
    server.inject()
    there = len(objects(server, url, "tables"))
    report = db.publish(url)
    assert there >= 2
    assert report.sent_count == report.table_count - there


def test_two_publications_of_one_generation_cannot_both_win(
    db: lsmkv.DB, tmp_path: Path, server: ObjectServer, url: str
) -> None:
    with lsmkv.open(tmp_path / "other") as other:
        other[b"other"] = b"store"

        def race(done: int, total: int) -> None:
            if done == total and not objects(server, url, "generations"):
                other.publish(url)

        with pytest.raises(lsmkv.PublishConflictError, match="generation 1 meanwhile"):
            db.publish(url, progress=race)
    with reader(url) as winner:
        assert dict(winner.items()) == {b"other": b"store"}
    assert db.publish(url).generation == 2
    with reader(url) as winner:
        assert dict(winner.items()) == contents()


def test_a_lost_answer_is_no_conflict(db: lsmkv.DB, server: ObjectServer, url: str) -> None:
    server.inject(Fault("unanswered", method="PUT", match="/generations/", times=1))
    assert db.publish(url).is_new
    with reader(url) as published:
        assert published.generation == 1


def test_keep_removes_old_generations_and_only_their_tables(
    db: lsmkv.DB, server: ObjectServer, url: str
) -> None:
    db.publish(url)
    old = set(objects(server, url, "tables"))
    db.compact_range(force=True)
    db[key(1)] = b"new"
    db.publish(url)
    kept = set(objects(server, url, "tables")) - old
    report = db.publish(url, keep=1)
    assert (report.removed_generation_count, report.removed_table_count) == (1, len(old))
    assert objects(server, url, "generations") == [generation_name(2)]
    assert set(objects(server, url, "tables")) == kept
    with reader(url) as published:
        assert published.verify().ok
        assert dict(published.items()) == contents() | {key(1): b"new"}


def test_clean_up_removes_what_a_killed_publication_left_but_not_one_under_way(
    db: lsmkv.DB, server: ObjectServer, url: str
) -> None:
    db.publish(url)
    store = server.store(prefix_of(url))
    dead = f"tables/{'d' * 32}-0000000001.sst"
    live = f"tables/{'e' * 32}-0000000003.sst"
    foreign = "tables/notes.txt"
    for name in (dead, live, foreign):
        store.put(name, b"bytes")
    db[key(1)] = b"new"
    db.publish(url, keep=5)  # generation 2
    left = objects(server, url, "tables")
    assert dead not in left
    assert {live, foreign} <= set(left)


def test_a_list_that_lags_behind_the_publication_removes_nothing(
    db: lsmkv.DB, server: ObjectServer, url: str
) -> None:
    db[b"key"] = b"value"
    server.inject(Fault("stale", match="list-type=.*generations"))
    report = db.publish(url, keep=1)
    assert (report.generation, report.removed_table_count) == (1, 0)
    server.inject()
    with reader(url) as found:
        assert found[b"key"] == b"value"


@pytest.mark.parametrize("keep", [0, -1, True, 1.0, "2"])
def test_a_wrong_keep_is_refused_before_anything_is_asked(
    db: lsmkv.DB, server: ObjectServer, url: str, keep: Any
) -> None:
    with pytest.raises(ValueError, match=re.escape(f"keep={keep!r}")):
        db.publish(url, keep=keep)
    assert server.log() == []


def test_a_damaged_generation_is_mended_by_the_next(
    db: lsmkv.DB, server: ObjectServer, url: str
) -> None:
    count = db.publish(url).table_count
    server.store(prefix_of(url)).put(generation_name(1), b"nonsense")
    with pytest.raises(lsmkv.CorruptionError):
        reader(url)
    report = db.publish(url)
    assert (report.generation, report.sent_count) == (2, count)
    with reader(url) as published:
        assert dict(published.items()) == contents()


def test_a_damaged_generation_that_is_kept_ends_the_clean_up_before_it_removes(
    db: lsmkv.DB, server: ObjectServer, url: str
) -> None:
    db.publish(url)
    db[key(1)] = b"new"
    db.publish(url)
    db[key(3)] = b"new"
    db.publish(url)
    server.store(prefix_of(url)).put(generation_name(2), b"nonsense")
    before = objects(server, url, "tables"), objects(server, url, "generations")
    with pytest.raises(lsmkv.CorruptionError, match=re.escape(generation_name(2))):
        db.publish(url, keep=2)
    assert (objects(server, url, "tables"), objects(server, url, "generations")) == before


def test_tables_are_sent_at_the_same_time(db: lsmkv.DB, server: ObjectServer, url: str) -> None:
    server.hold()
    sending = threading.Thread(target=db.publish, args=(url,))
    sending.start()
    try:
        server.held(1)  # LIST generations
        server.release()
        server.held(1)  # LIST tables
        server.release()
        assert {kind(request) for request in server.held(3)} == {"PUT tables"}
    finally:
        server.stop_holding()
        join(sending)


def test_a_large_table_is_sent_in_parts(tmp_path: Path, server: ObjectServer, url: str) -> None:
    data = os.urandom(PART_BYTES + 1000)
    with lsmkv.open(tmp_path / "store", compression="none") as db:
        db[b"large"] = data
        before = db.stats()
        db.publish(url)
        stats = db.stats() - before
        assert counted(stats) == logged(server) == {"GET": 0, "LIST": 2, "PUT": 5, "DELETE": 0}
        assert stats.object_put_bytes > len(data)
    with reader(url) as published:
        assert published[b"large"] == data
        assert published.verify().ok


def test_a_read_only_store_is_not_published(tmp_path: Path, server: ObjectServer, url: str) -> None:
    with lsmkv.open(tmp_path / "store") as db:
        db[b"key"] = b"value"
    with lsmkv.open(tmp_path / "store", read_only=True) as db, pytest.raises(lsmkv.ReadOnlyError):
        db.publish(url)
    assert server.log() == []


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("bucket/prefix", "begins with one of s3://"),
        ("http://host/x", "begins with one of s3://"),
        ("file:folder", "begins with one of"),
        ("file:/folder", "begins with one of"),
        ("file://folder", "write file:///absolute/path"),
        ("s3://", "names no bucket or folder; write s3://bucket/prefix"),
        ("s3://bucket/x?versionId=1", "has a query"),
        ("s3://user:secret@bucket/x", "user name or password"),
        ("file://", "root of the file system"),
        ("file:///", "root of the file system"),
        ("file:///./", "root of the file system"),
    ],
)
def test_a_wrong_url_is_refused(db: lsmkv.DB, wrong: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        db.publish(wrong)
    assert "secret" not in str(caught.value)


def test_a_url_that_is_no_text_is_refused(db: lsmkv.DB) -> None:
    with pytest.raises(TypeError, match="url is str, not int"):
        db.publish(1)  # type: ignore[arg-type]  # that is the test


@pytest.mark.parametrize("below", ["", "/inside", "/no/../deep"])
def test_nothing_is_published_into_the_store_itself(db: lsmkv.DB, below: str) -> None:
    before = sorted(os.listdir(db.path))
    with pytest.raises(ValueError, match="inside the store"):
        db.publish(f"file://{db.path}{below}")
    assert sorted(os.listdir(db.path)) == before


def test_files_of_others_in_the_folder_are_left_alone(db: lsmkv.DB, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    names = ["CURRENT", "LOCK", "000001.log", "tables/000001.sst", "generations/000001.json"]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"mine")
    for number in range(3):
        db[key(0)] = b"%d" % number
        db.publish(f"file://{folder}", keep=1)
    assert [(folder / name).read_bytes() for name in names] == [b"mine"] * len(names)


def test_a_file_in_the_place_of_a_folder_is_named(db: lsmkv.DB, tmp_path: Path) -> None:
    path = tmp_path / "a file"
    path.write_bytes(b"mine")
    with pytest.raises(NotADirectoryError) as caught:
        db.publish(path.as_uri())
    assert caught.value.filename == str(path)


def test_a_table_that_is_cut_short_in_a_folder_is_damage(db: lsmkv.DB, tmp_path: Path) -> None:
    url = (tmp_path / "shared").as_uri()
    db.publish(url)
    for table in (tmp_path / "shared" / "tables").iterdir():
        os.truncate(table, 100)
    with pytest.raises(lsmkv.CorruptionError, match="ends early"):
        lsmkv.open(url, read_only=True).close()


def test_a_stray_object_does_not_use_up_the_numbers(db: lsmkv.DB, tmp_path: Path) -> None:
    url = (tmp_path / "shared").as_uri()
    db.publish(url)
    generations = tmp_path / "shared" / "generations"
    (generations / "0000000000-9999999999.json").write_bytes(b"stray")
    db[key(1)] = b"new"
    assert db.publish(url).generation == 2
    (generations / "0000000001-9999999998.json").write_bytes(b"stray")
    db[key(1)] = b"newer"
    with pytest.raises(ValueError, match=r"9999999998\.json is the last generation that can be"):
        db.publish(url)


def test_the_first_generation_is_made_anew_below_each_prefix(
    db: lsmkv.DB, server: ObjectServer, url: str, tmp_path: Path
) -> None:
    db.publish(url)
    assert db.publish(f"{url}/below").generation == 1
    published(tmp_path / "another", f"{url}-other")
    with reader(url) as first:
        assert dict(first.items()) == contents()
    assert value(0) == contents()[key(0)]


def test_opening_a_folder_that_is_missing_does_not_make_it(tmp_path: Path) -> None:
    with pytest.raises(lsmkv.NotAStoreError, match="no such folder"):
        lsmkv.open(f"file://{tmp_path}/typo/deep", read_only=True)
    assert os.listdir(tmp_path) == []
