"""The servers that the other tests stand on: they do what S3 does, and the proxy what it says."""

from __future__ import annotations

import http.client
import threading

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError
from obstore.store import S3Store

from bench.harness.object_server import BUCKET, Fault, ObjectServer, Request
from time_limits import join

SIGNED = "AWS4-HMAC-SHA256 Credential=anyone/20260101/us-east-1/s3/aws4_request, Signature=0"
"""Enough for moto, which does not check it."""


def client(server: ObjectServer, prefix: str, retries: int = 0) -> S3Store:
    return S3Store(
        BUCKET,
        prefix=prefix,
        endpoint=server.endpoint,
        access_key_id="anyone",
        secret_access_key="anything",
        region="us-east-1",
        client_options={"allow_http": True, "timeout": "20s"},
        retry_config={"max_retries": retries},
    )


def get(server: ObjectServer, path: str, **headers: str) -> http.client.HTTPResponse:
    host, port = server.endpoint.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    connection.request("GET", f"/{BUCKET}/{path}", headers={**headers, "Authorization": SIGNED})
    return connection.getresponse()


def test_the_log_has_every_request(server: ObjectServer) -> None:
    store = client(server, "log")
    obstore.put(store, "a", b"0123456789")
    obstore.get_range(store, "a", start=2, length=3)
    obstore.list(store).collect()
    path = f"/{BUCKET}/log/a"
    put, part, listed = server.log()
    assert put == Request("PUT", path, "", None, 200, 10, 0)
    assert part == Request("GET", path, "", (2, 3), 206, 0, 3)
    assert listed.is_list and listed.status == 200
    server.reset()
    assert server.log() == []


@pytest.mark.parametrize("kind", ["reset", "truncate", "close", "stall", "unanswered"])
def test_a_broken_answer_is_an_error(server: ObjectServer, kind: str) -> None:
    obstore.put(server.store("broken"), "a", b"0" * 1000)
    server.inject(Fault(kind, seconds=0.1))  # type: ignore[arg-type]
    with pytest.raises((OSError, http.client.HTTPException)):
        answer = get(server, "broken/a")
        if len(answer.read()) < 1000:  # nothing but its length tells
            raise http.client.IncompleteRead(b"")
    assert server.log()[0].fault == kind


def test_a_request_that_comes_twice_is_answered_the_second_time(server: ObjectServer) -> None:
    server.inject(Fault("twice"))
    with pytest.raises(AlreadyExistsError):
        obstore.put(client(server, "twice"), "a", b"0", mode="create")
    assert bytes(obstore.get(server.store("twice"), "a").bytes()) == b"0"


def test_a_stale_list_is_the_one_before(server: ObjectServer) -> None:
    def names() -> list[str]:
        return [found["path"] for found in obstore.list(client(server, "stale")).collect()]

    obstore.put(server.store("stale"), "a", b"")
    assert names() == ["a"]
    obstore.put(server.store("stale"), "b", b"")
    server.inject(Fault("stale"))
    assert names() == ["a"]
    server.inject()
    assert names() == ["a", "b"]


def test_a_swapped_answer_is_the_same_part_of_another_object(server: ObjectServer) -> None:
    obstore.put(server.store("swap"), "a", b"0123456789")
    obstore.put(server.store("swap"), "b", b"abcdefghij")
    assert get(server, "swap/a").read() == b"0123456789"
    server.inject(Fault("swap"))
    assert get(server, "swap/b", Range="bytes=2-4").read() == b"234"
    assert get(server, "swap/a", Range="bytes=2-4").read() == b"cde"


def test_a_fault_meets_the_requests_it_names(server: ObjectServer) -> None:
    obstore.put(server.store("some"), "a", b"0")
    obstore.put(server.store("some"), "b", b"0")
    server.inject(Fault("status", method="GET", match="some/b", skip=1, times=1))
    names = ("a", "b", "b", "b", "a")
    assert [get(server, f"some/{name}").status for name in names] == [200, 200, 500, 200, 200]


def test_requests_wait_at_the_gate(server: ObjectServer) -> None:
    obstore.put(server.store("gate"), "a", b"0")
    server.hold()
    threads = [threading.Thread(target=get, args=(server, "gate/a")) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert len(server.held(3)) == 3
    assert server.log() == []
    server.stop_holding()
    join(*threads)
    assert len(server.log()) == 3
