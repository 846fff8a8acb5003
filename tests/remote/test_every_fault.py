"""A server that fails, lies or stops: the right answer or an error that says what was asked.

Every fault meets every kind of request.  No answer is ever wrong, and nothing waits beyond its time-out.
``test_remote_faults.py`` is the short form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest
from conftest import number_key, open_small

import lsmkv
from bench.harness.object_server import Fault, ObjectServer
from layered_stores import (
    FEW_RETRIES,
    IMPATIENT,
    fill_in_runs,
    open_published,
    outcome_of,
    publish_runs,
    tables_of,
)
from lsmkv.errors import CorruptionError

pytestmark = [pytest.mark.slow, pytest.mark.longest]

FAULTS: Final = {
    "status 500": Fault("status", status=500),
    "status 503": Fault("status", status=503),
    "status 403": Fault("status", status=403),
    "reset": Fault("reset"),
    "truncated": Fault("truncate"),
    "cut off": Fault("close"),
    "stalled": Fault("stall", seconds=600.0),
    "slow": Fault("trickle", seconds=0.5),
    "damaged": Fault("damage"),
    "missing": Fault("status", status=404),
    "foreign": Fault("body", body=b"an object of somebody else, and much shorter than a table"),
}
WAITING: Final = {"stalled", "slow"}
"""Faults that end by a time-out, for which the readers are impatient."""

PASSING: Final = ["status 500", "status 503", "reset", "truncated"]
"""Faults after which a request is sent again."""

LISTS: Final = "list-type="
GENERATIONS: Final = "/generations/"
TABLES: Final = "/tables/"
KEYS: Final = [number_key(number) for number in range(0, 1700, 10)]


@dataclass(frozen=True)
class Published:
    """A published store; nothing changes it."""

    url: str
    contents: dict[bytes, bytes]

    def found(self, keys: list[bytes]) -> list[bytes | None]:
        return [self.contents.get(key) for key in keys]


@pytest.fixture(scope="module")
def published(moto: ObjectServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in moto.environment.items():
            patch.setenv(name, value)
        url = "s3://bucket/faults"
        yield Published(url, publish_runs(tmp_path_factory.mktemp("faults") / "store", url))


def check(outcome: Any, expected: Any, url: str, named: str = "", *, offset: bool = False) -> None:
    """The outcome is what was expected, or an error that names the object, and the offset."""
    if not isinstance(outcome, Exception):
        assert outcome == expected
        return
    assert isinstance(outcome, OSError | CorruptionError), repr(outcome)
    assert url in str(outcome)
    assert named.strip("/") in str(outcome)
    if offset:
        assert re.search(r"\boffset \d+", str(outcome)), str(outcome)


def reader(fault: str) -> lsmkv.Options:
    return IMPATIENT if fault in WAITING else FEW_RETRIES


Read = Callable[[lsmkv.DB], Any]
READS: Final[dict[str, Read]] = {
    "get": lambda db: [db.get(key) for key in KEYS[:8]],
    "multi_get": lambda db: db.multi_get(KEYS),
    "scan": lambda db: dict(db.items()),
    "reverse scan": lambda db: dict(db.items(reverse=True)),
    "snapshot": lambda db: db.snapshot().multi_get(KEYS),
}


def right_answer(name: str, published: Published) -> Any:
    if "scan" in name:
        return published.contents
    return published.found(KEYS[:8] if name == "get" else KEYS)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("fault", FAULTS)
def test_reads_of_blocks_meet_a_fault(
    server: ObjectServer, published: Published, fault: str, read: str
) -> None:
    with open_published(published.url, reader(fault), block_cache_size_bytes=0) as db:
        server.inject(replace(FAULTS[fault], match=TABLES))
        outcome = outcome_of(lambda: READS[read](db))
        assert isinstance(outcome, Exception)
        check(outcome, None, published.url, TABLES, offset=True)
        server.inject()
        assert READS[read](db) == right_answer(read, published)  # nothing stays broken


@pytest.mark.parametrize("fault", PASSING)
@pytest.mark.parametrize("read", ["get", "multi_get", "scan"])
def test_a_fault_that_passes_is_not_noticed(
    server: ObjectServer, published: Published, fault: str, read: str
) -> None:
    with open_published(published.url, block_cache_size_bytes=0) as db:
        server.inject(replace(FAULTS[fault], match=TABLES, skip=1, times=1))
        assert outcome_of(lambda: READS[read](db)) == right_answer(read, published)
        assert any(request.fault for request in server.log())


@pytest.mark.parametrize("asked", [LISTS, GENERATIONS, TABLES])
@pytest.mark.parametrize("fault", FAULTS)
def test_opening_meets_a_fault(
    server: ObjectServer, published: Published, fault: str, asked: str
) -> None:
    def opened() -> list[bytes | None]:
        with open_published(published.url, reader(fault)) as db:
            return db.multi_get(KEYS)

    server.inject(replace(FAULTS[fault], match=asked))
    outcome = outcome_of(opened)
    named = "generations" if asked == LISTS else asked
    assert isinstance(outcome, Exception)
    check(outcome, None, published.url, named)
    server.inject()
    assert opened() == published.found(KEYS)


@pytest.mark.parametrize("fault", PASSING)
def test_opening_outlasts_a_fault_that_passes(
    server: ObjectServer, published: Published, fault: str
) -> None:
    # A list that is cut off is not asked for again: obstore does not, and nothing is lost.
    asked = [GENERATIONS, TABLES, *([LISTS] if fault != "truncated" else [])]
    server.inject(*(replace(FAULTS[fault], match=part, times=1) for part in asked))
    with open_published(published.url) as db:
        assert db.multi_get(KEYS) == published.found(KEYS)
    assert len([request for request in server.log() if request.fault]) == len(asked)


@pytest.mark.parametrize("residency", ["resident", "cached", "off"])
def test_other_blocks_of_the_store_are_no_blocks(
    server: ObjectServer, published: Published, residency: str
) -> None:
    (name, _), (_, other) = list(tables_of(server, published.url).items())[:2]
    with open_published(published.url, block_cache_size_bytes=0, filter_residency=residency) as db:
        server.inject(Fault("body", match=name, body=other * 2))
        outcome = outcome_of(lambda: dict(db.items()))
        check(outcome, published.contents, published.url, name, offset=True)
        assert isinstance(outcome, CorruptionError)
        for key in KEYS:
            found = outcome_of(lambda key=key: db.get(key))  # type: ignore[misc]
            check(found, published.contents.get(key), published.url, name, offset=True)


class Changing:
    """A store that is published again and again, with its contents at each generation."""

    def __init__(self, path: str, url: str) -> None:
        self.url = url
        self.db = open_small(path, compaction="tiered", level0_compaction_trigger=12)
        self.contents: list[dict[bytes, bytes]] = []

    def publish(self, **options: Any) -> None:
        number = len(self.contents)
        self.db.put(b"generation", b"%d" % number)
        self.db.put(number_key(5000 + number), b"x" * 300)
        self.db.publish(self.url, **options)
        self.contents.append(dict(self.db.items()))

    def reader(self, **options: Any) -> lsmkv.DB:
        return open_published(self.url, **options)


@pytest.fixture
def changing(path: str, url: str, server: ObjectServer) -> Iterator[Changing]:
    store = Changing(path, url)
    with store.db:
        fill_in_runs(store.db)
        store.publish()
        server.reset()
        yield store


@pytest.mark.parametrize("asked", [LISTS, GENERATIONS, TABLES])
@pytest.mark.parametrize("fault", FAULTS)
def test_refreshing_meets_a_fault(
    server: ObjectServer, changing: Changing, fault: str, asked: str
) -> None:
    with changing.reader(options=reader(fault)) as db:
        changing.publish()
        server.inject(replace(FAULTS[fault], match=asked))
        outcome = outcome_of(db.refresh)
        check(outcome, None, changing.url, "generations" if asked == LISTS else asked)
        server.inject()
        # A refresh that failed has changed nothing.
        shown = dict(db.items())
        assert shown == changing.contents[0 if isinstance(outcome, Exception) else 1]
        db.refresh()
        assert dict(db.items()) == changing.contents[1]


def test_a_stale_list_shows_the_older_generation(server: ObjectServer, changing: Changing) -> None:
    stale = listing(server, changing.url)
    changing.publish()
    server.inject(Fault("body", match=LISTS, body=stale))
    with changing.reader() as db:
        assert dict(db.items()) == changing.contents[0]
        server.inject()
        db.refresh()
        assert dict(db.items()) == changing.contents[1]
        server.inject(Fault("body", match=LISTS, body=stale))
        db.refresh()  # never back
        assert dict(db.items()) == changing.contents[1]


def listing(server: ObjectServer, url: str) -> bytes:
    import http.client

    host, port = server.endpoint.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    prefix = url.removeprefix("s3://bucket/")
    connection.request("GET", f"/bucket?list-type=2&prefix={prefix}%2Fgenerations%2F")
    answer = connection.getresponse()
    assert answer.status == 200
    return answer.read()


def test_a_list_that_names_what_is_gone_is_looked_at_again(
    server: ObjectServer, changing: Changing
) -> None:
    stale = listing(server, changing.url)
    changing.publish()
    changing.publish(keep=1)
    server.inject(Fault("body", match=LISTS, body=stale, times=1))
    with changing.reader() as db:
        assert dict(db.items()) == changing.contents[2]
