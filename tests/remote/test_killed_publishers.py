"""Publishers that are killed, that race, or whose answers are lost: every generation stays whole."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import pytest
from conftest import number_key, open_small

from bench.harness.object_server import Fault, ObjectServer, Request
from layered_stores import fill_in_runs, open_published, publish_runs
from lsmkv.errors import NotAStoreError
from lsmkv.remote.publish import _TABLES_AT_ONCE
from threaded_stores import wait_until
from time_limits import started

pytestmark = pytest.mark.slow

PUBLISHER = """
import sys
import lsmkv
options = dict(compaction="tiered", level0_compaction_trigger=12)
with lsmkv.open(sys.argv[1], create_if_missing=False, **options) as db:
    db.publish(sys.argv[2])
"""


def killed_publisher(
    server: ObjectServer, path: str, url: str, unsent: int, passed: int = 0
) -> None:
    """Publish ``unsent`` files in a process that is killed while all its PUTs wait.

    ``passed`` and one more are done then.  The one more is sent again, for its answer is lost.
    """
    waiting = min(unsent - passed, _TABLES_AT_ONCE)
    stall = Fault("stall", method="PUT", seconds=600.0)
    server.reset()
    server.inject(
        replace(stall, kind="unanswered", skip=passed, times=1), replace(stall, skip=passed + 1)
    )
    with started(
        [sys.executable, "-c", PUBLISHER, path, url],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry or "." for entry in sys.path)},
    ) as process:
        wait_until(
            lambda: (
                process.poll() is not None
                or sum(found.fault == "stall" for found in server.log()) == waiting
            )
        )
    server.inject()
    server.reset()


def sent(server: ObjectServer) -> list[str]:
    return [found.path for found in server.log() if found.method == "PUT" and is_table(found)]


def is_table(request: Request) -> bool:
    return "/tables/" in request.path


def test_a_publisher_killed_at_each_request_leaves_the_older_generation(
    server: ObjectServer, path: str, url: str
) -> None:
    older = publish_runs(path, url)
    with open_small(path, compaction="tiered", level0_compaction_trigger=12) as db:
        for number in range(4):
            db.put(b"new", b"%d" % number)
            db.flush()
        newer = dict(db.items())
    for unsent in (4, 3, 2, 1):  # each of them sends one table
        killed_publisher(server, path, url, unsent)
        with open_published(url) as db:
            assert dict(db.items()) == older
    killed_publisher(server, path, url, 1)  # the generation, whose answer is lost
    with open_published(url) as db:
        assert dict(db.items()) == newer


def test_a_killed_first_publication_is_no_store_and_is_gone_on_with(
    server: ObjectServer, path: str, url: str
) -> None:
    with open_small(path, compaction="tiered", level0_compaction_trigger=12) as db:
        contents = fill_in_runs(db)
        tables = len(list(db.inspect().tables()))
    killed_publisher(server, path, url, tables, tables // 2)
    with pytest.raises(NotAStoreError):
        open_published(url)
    with open_small(path) as db:
        report = db.publish(url)
    assert report.sent_count == len(sent(server)) <= tables - tables // 2
    with open_published(url) as db:
        assert dict(db.items()) == contents


def test_lost_answers_to_all_puts_change_nothing(server: ObjectServer, path: str, url: str) -> None:
    with open_small(path) as db:
        db.update((number_key(number), b"value" * 10) for number in range(500))
        tables = db.publish(url).table_count
        for skip in range(tables + 1):  # each PUT in turn, also that of the generation
            server.inject(Fault("unanswered", method="PUT", skip=skip, times=1))
            db.put(b"more", b"contents %d" % skip)
            db.publish(url)
            server.inject()
            with open_published(url) as found:
                assert dict(found.items()) == dict(db.items())
