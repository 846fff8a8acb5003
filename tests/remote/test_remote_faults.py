"""Object storage that fails, lies, is slow or loses objects: the right answer, or a clear error.

Every wait of these tests has an end; none asserts how long something takes.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

import lsmkv
from bench.harness.object_server import Fault, ObjectServer
from gates import WAIT_S
from layered_stores import outcome_of
from lsmkv.remote.bucket import _MOST_REQUESTS
from lsmkv.remote.generation import (
    Generation,
    decode_generation,
    encode_generation,
    generation_name,
)
from published_stores import (
    COUNT,
    FORM,
    contents,
    key,
    objects,
    prefix_of,
    published,
    reader,
    value,
)
from time_limits import in_time, join

ENTRIES: Final = contents()
IMPATIENT: Final[dict[str, Any]] = {"request_timeout_s": 2, "request_retries": 2}
WRONG: Final = 2 * COUNT // 2 // 2 * 2  # an even number in the middle


@pytest.fixture
def store(tmp_path: Path, server: ObjectServer, url: str) -> str:
    published(tmp_path / "store", url)
    return url


@pytest.fixture
def db(filled: str, server: ObjectServer) -> Iterator[lsmkv.DB]:
    """A reader that gives up soon, of a store that no test changes."""
    with reader(filled, **IMPATIENT) as db:
        server.reset()
        yield db


@pytest.fixture
def own(store: str, server: ObjectServer) -> Iterator[lsmkv.DB]:
    """A reader of ``store``, which the test may damage."""
    with reader(store, **IMPATIENT) as db:
        server.reset()
        yield db


def block_of(db: lsmkv.DB, number: int) -> tuple[str, int, int]:
    """URL, offset and length of the block that holds a key."""
    for table in db._state.require_open().version.tables():
        if table.smallest <= key(number) <= table.largest:
            block = table.index.find(key(number))
            offset = table.index.offset(block)
            return table.path, offset, table.index.offset(block + 1) - offset
    raise AssertionError(number)


LASTING: Final = {
    "500": Fault("status", status=500),
    "503": Fault("status", status=503),
    "403": Fault("status", status=403),
    "reset": Fault("reset"),
    "truncated": Fault("truncate"),
    "slow": Fault("stall", seconds=60),
    "dripping": Fault("trickle", seconds=1),
}
SLOW: Final = [pytest.mark.slow]
# Like the one before it, but for what the server does.
LASTING_SLOW: Final = dict.fromkeys(("503", "truncated", "slow"), SLOW)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=LASTING_SLOW.get(name, ())) for name in LASTING]
)
def test_a_lasting_fault_of_a_lookup_names_object_and_offset(
    db: lsmkv.DB, server: ObjectServer, name: str
) -> None:
    url, offset, length = block_of(db, WRONG)
    server.inject(LASTING[name])
    with pytest.raises(OSError) as caught:
        in_time(lambda: db[key(WRONG)])
    assert caught.value.filename == url
    assert f"GET of {length} bytes at offset {offset}" in str(caught.value)
    if name in ("slow", "dripping"):
        assert isinstance(caught.value, TimeoutError)
        assert "request_timeout_s=2" in str(caught.value)
    if name == "403":
        assert isinstance(caught.value, PermissionError)
    server.inject()
    assert db[key(WRONG)] == value(WRONG)


@pytest.mark.parametrize("name", ["500", "503", "reset", "truncated"])
def test_a_fault_that_passes_is_not_noticed(db: lsmkv.DB, server: ObjectServer, name: str) -> None:
    server.inject(replace(LASTING[name], match="/tables/", skip=1, times=1))
    assert dict(db.items()) == ENTRIES
    assert any(request.fault for request in server.log())


@pytest.mark.parametrize("asked", ["list-type=", "/generations/", "/tables/"])
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in ("403", "reset") else SLOW) for name in LASTING],
)
def test_a_lasting_fault_of_an_opening_or_a_refresh_names_the_object_and_changes_nothing(
    tmp_path: Path, server: ObjectServer, store: str, name: str, asked: str
) -> None:
    folder = asked.strip("/") if asked != "list-type=" else "generations"
    with reader(store, **IMPATIENT) as db, lsmkv.open(tmp_path / "store", FORM) as local:
        local[key(1)] = b"new"
        local.publish(store)
        server.inject(replace(LASTING[name], match=asked))
        for act in (lambda: reader(store, **IMPATIENT), db.refresh):
            with pytest.raises(OSError, match=re.escape(f"{store}/{folder}")):
                in_time(act)
        server.inject()
        assert dict(db.items()) == ENTRIES
        db.refresh()
        assert dict(db.items()) == {**ENTRIES, key(1): b"new"}


@pytest.mark.parametrize(
    ("read", "skip"),
    [
        (lambda db: db.multi_get([key(number) for number in range(0, 2 * COUNT, 50)]), 7),
        (lambda db: list(iter(db.values())), 3),
    ],
    ids=["multi_get", "scan"],
)
def test_many_reads_raise_and_go_on_once_the_fault_has_passed(
    db: lsmkv.DB, server: ObjectServer, read: Callable[[lsmkv.DB], list[bytes]], skip: int
) -> None:
    server.inject(Fault("status", status=500, skip=skip, match="/tables/"))
    with pytest.raises(OSError, match="at offset"):
        in_time(lambda: read(db))
    server.inject()
    values = list(ENTRIES.values())
    assert read(db) == (values[::25] if skip == 7 else values)


def await_requests(db: lsmkv.DB) -> None:
    """Return once no request of ``db`` is under way: all of its threads are free."""
    together = threading.Barrier(_MOST_REQUESTS)
    pool = db._engine.location.bucket._pool  # type: ignore[attr-defined]
    waiting = [pool.submit(together.wait, WAIT_S) for _ in range(_MOST_REQUESTS)]
    assert not wait(waiting, WAIT_S).not_done


def test_a_scan_that_ends_early_leaves_no_answer_to_another(
    tmp_path: Path, server: ObjectServer, url: str
) -> None:
    published(tmp_path / "store", url, table_size_bytes=1 << 20, fit_pages=False)
    with reader(url, block_cache_size_bytes=0) as db:
        scan = iter(db.items())
        assert len(list(islice(scan, 72))) == 72  # one by one; then it reads ahead
        server.reset()
        server.inject(Fault("damage"))
        with pytest.raises(lsmkv.CorruptionError):
            list(scan)
        del scan
        await_requests(db)  # however many were on their way
        server.inject()
        assert dict(db.items()) == ENTRIES


# Wrong bytes


def test_damaged_bytes_of_a_block_are_found(db: lsmkv.DB, server: ObjectServer) -> None:
    url, offset, _ = block_of(db, WRONG)
    server.inject(Fault("damage", times=1))
    with pytest.raises(lsmkv.CorruptionError) as caught:
        db.get(key(WRONG))
    assert (caught.value.path, caught.value.offset) == (url, offset)
    assert db[key(WRONG)] == value(WRONG)


def test_damaged_bytes_of_an_index_are_found_at_opening(store: str, server: ObjectServer) -> None:
    name = objects(server, store, "tables")[0]
    whole = bytes(server.store(prefix_of(store)).get(name).bytes())
    damaged = whole[:-200] + bytes([whole[-200] ^ 1]) + whole[-199:]
    server.store(prefix_of(store)).put(name, damaged)
    with pytest.raises(lsmkv.CorruptionError) as caught:
        reader(store)
    assert caught.value.path == f"{store}/{name}"
    assert caught.value.offset is not None


def test_a_table_in_the_place_of_another_is_found(store: str, server: ObjectServer) -> None:
    one, other = objects(server, store, "tables")[:2]
    objects_of = server.store(prefix_of(store))
    objects_of.put(one, bytes(objects_of.get(other).bytes()))
    with pytest.raises(lsmkv.CorruptionError, match=re.escape(one)):
        reader(store)


def test_a_foreign_object_that_comes_after_opening_is_found(
    db: lsmkv.DB, server: ObjectServer
) -> None:
    url, offset, _ = block_of(db, WRONG)
    server.inject(Fault("body", body=bytes(1 << 20)))
    with pytest.raises(lsmkv.CorruptionError) as caught:
        db.get(key(WRONG))
    assert (caught.value.path, caught.value.offset) == (url, offset)


@pytest.mark.parametrize("size", [0, 1, 100])
def test_a_shorter_object_is_found(db: lsmkv.DB, server: ObjectServer, size: int) -> None:
    url, offset, length = block_of(db, WRONG)
    assert offset > size
    server.inject(Fault("body", body=bytes(offset + size)))
    with pytest.raises(lsmkv.CorruptionError, match="ends early") as caught:
        db.get(key(WRONG))
    assert (caught.value.path, caught.value.offset) == (url, offset)
    assert (caught.value.expected, caught.value.got) == (length, size)


def test_a_lost_object_is_named(own: lsmkv.DB, server: ObjectServer, store: str) -> None:
    url, offset, _ = block_of(own, WRONG)
    server.store(prefix_of(store)).delete(url.removeprefix(f"{store}/"))
    with pytest.raises(lsmkv.CorruptionError, match="the object is missing") as caught:
        own.get(key(WRONG))
    assert (caught.value.path, caught.value.offset) == (url, offset)
    assert "refresh()" in str(caught.value)


# Generations


@pytest.mark.parametrize("change", ["cut", "flipped", "empty", "another number", "json"])
def test_a_wrong_generation_is_not_opened(server: ObjectServer, store: str, change: str) -> None:
    there = server.store(prefix_of(store))
    data = bytes(there.get(generation_name(1)).bytes())
    wrong = {
        "cut": data[: len(data) // 2],
        "flipped": data[:50] + bytes([data[50] ^ 1]) + data[51:],
        "empty": b"",
        "another number": encode_generation(_with(_read(server, store, 1), number=2)),
        "json": data[:-34] + b" " + data[-34:],
    }[change]
    there.put(generation_name(1), wrong)
    with pytest.raises(lsmkv.CorruptionError) as caught:
        reader(store)
    assert caught.value.path == f"{store}/{generation_name(1)}"


def test_a_newer_format_is_told_from_damage(server: ObjectServer, store: str) -> None:
    newer = encode_generation(_with(_read(server, store, 1), format=2))
    server.store(prefix_of(store)).put(generation_name(1), newer)
    with pytest.raises(lsmkv.UnsupportedFormatError, match="generation format 2"):
        reader(store)


def test_a_publication_that_broke_off_is_never_opened(
    tmp_path: Path, server: ObjectServer, store: str
) -> None:
    with lsmkv.open(tmp_path / "store", FORM, request_retries=0) as local:
        local[key(1)] = b"new"
        server.inject(Fault("status", method="PUT", match="/generations/"))
        with pytest.raises(OSError, match="generations"):
            local.publish(store)
        server.inject()
        with reader(store) as db:
            assert (db.generation, db.get(key(1))) == (1, None)
            local.publish(store)
            db.refresh()
            assert (db.generation, db.get(key(1))) == (2, b"new")


def test_a_generation_that_is_removed_while_it_is_opened_gives_way_to_the_next(
    tmp_path: Path, server: ObjectServer, store: str
) -> None:
    opened: list[lsmkv.DB] = []
    server.hold()
    opening = threading.Thread(target=lambda: opened.append(reader(store)))
    opening.start()
    server.held(1)
    server.release()  # the list, which has generation 1 only
    server.held(1)
    there = server.store(prefix_of(store))
    generation = _read(server, store, 1)
    there.put(generation_name(2), encode_generation(_with(generation, number=2)))
    there.delete(generation_name(1))
    server.stop_holding()
    join(opening)
    with opened[0] as db:
        assert (db.generation, db[key(2)]) == (2, value(2))


def _read(server: ObjectServer, url: str, number: int) -> Generation:
    data = bytes(server.store(prefix_of(url)).get(generation_name(number)).bytes())
    return decode_generation(data, url, number)


def _with(generation: Generation, **changes: Any) -> Generation:
    return msgspec.structs.replace(generation, **changes)


# Verifying


def test_verify_finds_a_damaged_block_of_an_object(
    own: lsmkv.DB, server: ObjectServer, store: str
) -> None:
    url, offset, _ = block_of(own, WRONG)
    name = url.removeprefix(f"{store}/")
    there = server.store(prefix_of(store))
    whole = bytes(there.get(name).bytes())
    there.put(name, whole[: offset + 9] + bytes([whole[offset + 9] ^ 1]) + whole[offset + 10 :])
    report = own.verify()
    assert report.damaged_block_count == 1
    places = [(problem.path, problem.offset) for problem in report.problems]
    assert places == [(url, offset), (url, None)]
    assert "whole file" in report.problems[1].reason


def test_verify_finds_lost_objects_and_asks_for_each_only_once(
    own: lsmkv.DB, server: ObjectServer, store: str
) -> None:
    names = objects(server, store, "tables")
    server.store(prefix_of(store)).delete([names[0], generation_name(1)])
    server.reset()
    report = own.verify()
    assert {problem.path for problem in report.problems} == {
        f"{store}/{names[0]}",
        f"{store}/{generation_name(1)}",
    }
    assert len([request for request in server.log() if names[0] in request.path]) == 1


def test_verify_stops_asking_for_a_table_whose_requests_fail(
    db: lsmkv.DB, server: ObjectServer, filled: str
) -> None:
    name = objects(server, filled, "tables")[0]
    server.inject(Fault("status", status=403, match=name, skip=1))
    report = db.verify()
    assert [problem.path for problem in report.problems] == [f"{filled}/{name}"]
    assert len([request for request in server.log() if name in request.path]) == 2


# Interrupts and the end


def test_an_interrupt_during_a_request_leaves_the_handle_usable(
    db: lsmkv.DB, server: ObjectServer
) -> None:
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        server.held(1)
        signal.pthread_kill(main, signal.SIGINT)

    actions: list[Callable[[], object]] = [
        lambda: db.get(key(WRONG)),
        lambda: db.multi_get([key(0), key(WRONG)]),
        lambda: list(iter(db.items())),
        db.refresh,
        db.verify,
    ]
    for action in actions:
        server.hold()
        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            action()
        join(interrupting)
        server.stop_holding()
    assert db[key(WRONG)] == value(WRONG)
    assert db.multi_get([key(1), key(2)]) == [None, value(2)]
    assert dict(db.items()) == ENTRIES


@pytest.mark.parametrize(
    "ask",
    [lambda db: db.multi_get([key(number) for number in range(0, 2 * COUNT, 2)]), lsmkv.DB.refresh],
    ids=["multi_get", "refresh"],
)
def test_closing_ends_while_requests_are_under_way(
    filled: str, server: ObjectServer, ask: Callable[[lsmkv.DB], object]
) -> None:
    db = reader(filled)
    outcomes: list[object] = []
    server.hold()
    asking = threading.Thread(target=lambda: outcomes.append(outcome_of(lambda: ask(db))))
    asking.start()
    server.held(1)
    in_time(db.close)
    server.stop_holding()
    join(asking)
    assert [type(outcome) for outcome in outcomes] == [lsmkv.ClosedError]
    with pytest.raises(lsmkv.ClosedError):
        db.get(key(0))
