"""Read-only handles that follow a writer by themselves, and those that open beside it."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import SMALL, open_small

import lsmkv
from forked_children import in_child
from gates import WAIT_S
from other_processes import line_of, process, run
from threaded_stores import wait_until

COUNTING_WRITER = """
import random
number = int(sys.argv[2])
with lsmkv.open(sys.argv[1], write_buffer_size_bytes=60_000, table_size_bytes=20_000,
                level0_compaction_trigger=2) as db:
    print("open", flush=True)
    while True:
        number += 1
        db.put(b"first", b"%09d" % number)
        with db.write_batch(sync=number % 50 == 0) as batch:
            for key in random.sample(range(300), random.randrange(1, 30)):
                batch.put(b"filler%06d" % key, b"%09d" % number)
        db.put(b"second", b"%09d" % number)
"""


pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@pytest.fixture
def followed(path: str) -> Iterator[tuple[lsmkv.DB, lsmkv.DB]]:
    """A writer, and a read-only handle that refreshes itself."""
    with (
        open_small(path) as writer,
        lsmkv.open(path, SMALL, read_only=True, refresh_every_s=0.005) as reader,
    ):
        yield writer, reader


def follower_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "lsmkv-refresh"]


def shows(reader: lsmkv.DB, value: bytes) -> bool:
    return reader.get(b"key") == value


def test_a_handle_may_follow_by_itself(followed: tuple[lsmkv.DB, lsmkv.DB]) -> None:
    writer, reader = followed
    for number in range(3):
        writer[b"key"] = b"%d" % number
        wait_until(partial(shows, reader, b"%d" % number))
        assert reader.refresh() is True  # since the last call
        assert reader.refresh() is False


def test_close_ends_the_thread_that_follows(path: str, store: dict[bytes, bytes]) -> None:
    with lsmkv.open(path, read_only=True, refresh_every_s=1000):
        wait_until(lambda: len(follower_threads()) == 1)
    assert follower_threads() == []


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_dropped_handle_follows_no_more(path: str, store: dict[bytes, bytes]) -> None:
    db = lsmkv.open(path, read_only=True, refresh_every_s=0.001)
    assert len(db) == 250
    del db
    gc.collect()
    wait_until(lambda: follower_threads() == [])


def test_an_error_of_following_is_logged_once_and_shown_by_refresh(
    path: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_small(path) as writer:
        writer[b"key"] = b"value"
    with lsmkv.open(path, read_only=True, refresh_every_s=0.002) as reader:
        os.rename(path, tmp_path / "aside")
        refresher = reader._engine._refresher
        assert refresher is not None
        for _ in range(3):
            refresher._error = None
            wait_until(lambda: refresher._error is not None)
        os.rename(tmp_path / "aside", path)
        wait_until(lambda: refresher._logged == "")
        with pytest.raises((lsmkv.Error, OSError)):
            reader.refresh()
        assert reader.refresh() is False
        assert reader[b"key"] == b"value"
    messages = [record.getMessage() for record in caplog.records if record.name == "lsmkv"]
    assert 1 <= len(messages) <= 2  # the directory may be missed at one of two moments
    assert all(path in message for message in messages)


def test_a_handle_follows_in_the_child_of_a_fork_too(followed: tuple[lsmkv.DB, lsmkv.DB]) -> None:
    writer, reader = followed

    def child() -> bytes | None:
        assert len(follower_threads()) == 0
        assert b"late" not in reader
        os.write(asking, b"?")
        wait_until(lambda: b"late" in reader)
        return reader.get(b"late")

    asked, asking = os.pipe()
    answers: list[Any] = []
    forking = threading.Thread(target=lambda: answers.append(in_child(child)))
    forking.start()
    assert os.read(asked, 1) == b"?"
    writer[b"late"] = b"value"
    forking.join(WAIT_S)
    assert answers == [b"value"]
    os.close(asked)
    os.close(asking)


def test_a_program_may_end_while_a_handle_follows(path: str, store: dict[bytes, bytes]) -> None:
    script = "db = lsmkv.open(sys.argv[1], read_only=True, refresh_every_s=0.001); print(len(db))"
    assert run(script, path) == "250\n"


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), True, "1"])
def test_a_wrong_interval_is_refused(path: str, seconds: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="refresh_every_s"):
        lsmkv.open(path, read_only=True, refresh_every_s=seconds)


def test_a_writer_has_nothing_to_follow(path: str) -> None:
    with pytest.raises(ValueError, match="read_only=True"):
        lsmkv.open(path, refresh_every_s=1.0)
    assert not Path(path).exists()


def test_readers_open_beside_a_busy_writer_again_and_again(path: str) -> None:
    with process(COUNTING_WRITER, path, 0) as writer:
        assert line_of(writer) == "open"
        for _ in range(40):
            with open_small(path, read_only=True) as reader:
                state = dict(reader)
            first, second = (int(state.get(name, b"0")) for name in (b"first", b"second"))
            assert second <= first <= second + 1
        assert writer.poll() is None, "the writer died"
