"""Handles of published stores: pickled, refreshed, followed, and forked."""

from __future__ import annotations

import multiprocessing
import pickle
import time
from pathlib import Path

import pytest

import lsmkv
from forked_children import in_child
from gates import WAIT_S
from published_stores import contents, key, published, reader, value

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/published"


@pytest.fixture
def store(tmp_path: Path, url: str) -> Path:
    """A store in a directory, which was published to ``url`` once."""
    published(tmp_path / "store", url)
    return tmp_path / "store"


def publish_more(store: Path, url: str) -> None:
    with lsmkv.open(store) as db:
        db[b"more"] = b"value"
        db.publish(url)


def test_a_pickled_handle_reads_the_same_url(store: Path, url: str) -> None:
    with reader(url) as db:
        data = pickle.dumps(db)
    with pickle.loads(data) as again:
        assert (again.path, again.options, again.generation) == (db.path, db.options, 1)
        assert dict(again.items()) == contents()


def look_up(db: lsmkv.DB, number: int) -> bytes | None:
    return db.get(key(number))


@pytest.mark.slow
def test_a_spawned_pool_takes_handles_as_arguments(store: Path, url: str) -> None:
    with reader(url) as db, multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.starmap_async(look_up, [(db, number) for number in range(10)]).get(WAIT_S)
    assert found == [None if number % 2 else value(number) for number in range(10)]


def test_a_forked_pool_gets_an_error_and_does_not_hang(store: Path, url: str) -> None:
    with reader(url) as db, multiprocessing.get_context("fork").Pool(1) as pool:
        for _ in range(2):
            with pytest.raises(lsmkv.ForkedError, match='"spawn" or "forkserver"'):
                pool.apply_async(look_up, (db, 2)).get(WAIT_S)


def test_a_handle_may_follow_what_is_published(store: Path, url: str) -> None:
    with reader(url, refresh_every_s=0.01) as db:
        publish_more(store, url)
        deadline = time.monotonic() + WAIT_S
        while b"more" not in db:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        assert db.refresh() is True


def test_a_handle_in_the_child_of_a_fork_is_refused(store: Path, url: str) -> None:
    with reader(url) as db:
        assert isinstance(in_child(lambda: db.get(b"key")), lsmkv.ForkedError)
        assert dict(db.items()) == contents()
