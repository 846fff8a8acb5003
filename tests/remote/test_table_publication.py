"""``lsmkv.TablePublication``: tables that several processes send, and one commit."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import lsmkv

SMALL = lsmkv.Options(block_size_bytes=512, compression="none")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/bucket"


def table(path: Path, start: int, count: int = 300) -> Path:
    with lsmkv.TableWriter(path, SMALL) as writer:
        for number in range(start, start + count):
            writer.add(b"%06d" % number, b"of %d" % start)
    return path


def test_one_commit_shows_what_several_senders_sent(url: str, tmp_path: Path) -> None:
    publication = lsmkv.TablePublication.begin(url, SMALL)
    paths = [table(tmp_path / str(start), start) for start in (0, 300, 600)]
    before = [path.read_bytes() for path in paths]
    sent = []
    for part, first in ((paths[:2], 1), (paths[2:], 1000)):
        sender = pickle.loads(pickle.dumps(publication))
        sent += pickle.loads(pickle.dumps(sender.send(part, first)))
    assert [path.read_bytes() for path in paths] == before
    with pytest.raises(lsmkv.NotAStoreError):
        lsmkv.open(url, read_only=True)
    publication.commit(sent)
    with lsmkv.open(url, read_only=True) as db:
        assert db.generation == publication.generation == 1
        assert dict(db) == {b"%06d" % n: b"of %d" % (n - n % 300) for n in range(900)}
        assert [one.number for one in db.tables()] == [1, 2, 1000]
        assert [one.level for one in db.tables()] == [1, 1, 1]
        assert db.get(b"absent") is None and db.verify().ok


def test_many_bytes_go_to_a_deeper_level(url: str, tmp_path: Path) -> None:
    options = SMALL.replace(level1_size_bytes=1 << 12, size_ratio=2)
    publication = lsmkv.TablePublication.begin(url, options)
    publication.commit(publication.send([table(tmp_path / "t", 0, 1000)], 1))
    with lsmkv.open(url, read_only=True) as db:
        assert db.tables()[0].level > 2


def test_of_two_publications_one_commits(url: str) -> None:
    first, second = (lsmkv.TablePublication.begin(url) for _ in range(2))
    first.commit([])
    with pytest.raises(lsmkv.PublishConflictError):
        second.commit([])
    assert lsmkv.TablePublication.begin(url).generation == 2


def test_tables_that_make_no_generation_are_refused(url: str, tmp_path: Path) -> None:
    publication = lsmkv.TablePublication.begin(url)
    (one,) = publication.send([table(tmp_path / "1", 0)], 1)
    (overlapping,) = publication.send([table(tmp_path / "2", 100)], 2)
    (same_number,) = publication.send([table(tmp_path / "3", 900)], 1)
    for wrong, said in ((overlapping, "overlap"), (same_number, "two tables have one number")):
        with pytest.raises(ValueError, match=said):
            publication.commit([one, wrong])


@pytest.mark.parametrize("number", [0, -5, 1 << 31])
def test_numbers_that_no_table_can_have_are_refused(url: str, tmp_path: Path, number: int) -> None:
    publication = lsmkv.TablePublication.begin(url)
    with pytest.raises(ValueError, match=f"first_number={number}: 1 tables have numbers from 1"):
        publication.send([table(tmp_path / "1", 0)], number)


def test_a_file_that_is_no_table_is_refused(url: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"no table" * 100)
    publication = lsmkv.TablePublication.begin(url)
    with pytest.raises(lsmkv.CorruptionError):
        publication.send([tmp_path / "text"], 1)
    with pytest.raises(FileNotFoundError):
        publication.send([tmp_path / "missing"], 1)
