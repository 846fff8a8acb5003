"""The live page: what it answers, whom it refuses, and how it follows a store."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

import lsmkv
from explored_stores import make_store, page_in
from live_pages import TOKEN, LivePage, live_page
from lsmkv.explore import contract, messages
from lsmkv.explore.server import ADDRESS
from time_limits import started


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "db"
    make_store(path, error_rate=0.1)
    return path


@pytest.fixture(scope="module")
def live(store: Path) -> Iterator[LivePage]:
    with live_page(store) as page:
        yield page


def test_the_page_is_served_with_its_policy(live: LivePage) -> None:
    reply = live.ask("")
    assert reply.status == 200
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ") and "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy and "unsafe" not in policy
    for name, value in (
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
    ):
        assert reply.headers[name] == value
    assert page_in(reply.body.decode()).source.is_live


def test_only_a_part_of_the_page_may_stand_in_a_frame(live: LivePage) -> None:
    whole, part = (
        live.ask(path).headers["content-security-policy"] for path in ("", "?embed=lookup")
    )
    assert whole == f"{part}; frame-ancestors 'none'"


@pytest.mark.parametrize("path", ["", "page.json", "block?table=1&number=0", "events"])
@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "é"])
def test_nobody_gets_an_answer_without_the_token(live: LivePage, path: str, token: str) -> None:
    from urllib.parse import quote

    reply = live.ask(path, token=quote(token))
    assert reply.status == 404
    assert "nothing here" in reply.json()["problem"]


@pytest.mark.parametrize(
    ("header", "given", "status"),
    [
        *(("Host", name, 403) for name in ("evil.example", "127.0.0.1", "localhost:1", "")),
        ("Host", "127.0.0.1.evil.example:80", 403),
        ("Host", "localhost:{port}", 200),
        *(("Origin", origin, 403) for origin in ("http://evil.example", "null", "file://")),
        ("Origin", "https://127.0.0.1", 403),
        ("Origin", f"http://{ADDRESS}:{{port}}", 200),
    ],
)
def test_other_names_of_this_machine_and_other_origins_are_refused(
    live: LivePage, header: str, given: str, status: int
) -> None:
    reply = live.ask("page.json", headers={header: given.format(port=live.port)})
    assert reply.status == status
    assert status == 200 or TOKEN not in reply.body.decode()


@pytest.mark.parametrize(
    ("form", "key", "data"),
    [
        ("text", "key0000001", b"key0000001"),
        ("text", "\\x00\\xff\\\\", b"\x00\xff\\"),
        ("text", "", b""),
        ("text", "naïve", "naïve".encode()),
        ("hex", "6b 65 79", b"key"),
        ("number", "258", b"\0\0\0\0\0\0\x01\x02"),
        ("number", str(2**64 - 1), b"\xff" * 8),
    ],
)
def test_a_typed_key_is_looked_up(
    live: LivePage, store: Path, form: str, key: str, data: bytes
) -> None:
    reply = live.look_up(form=form, key=key)
    assert reply.status == 200
    found = msgspec.json.decode(reply.body, type=messages.LookupReply)
    with lsmkv.open(store, read_only=True) as db:
        expected = db.explain(data)
    assert found.lookup.kind == "typed"
    assert found.lookup.outcome == expected.outcome
    assert [step.outcome for step in found.lookup.runs] == [step.outcome for step in expected.runs]


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"form": "text", "key": "a\\q"}, "backslash"),
        ({"form": "hex", "key": "xyz"}, "no hex"),
        ({"form": "number", "key": "-1"}, "no number"),
        ({"form": "number", "key": str(2**64)}, "no number"),
        ({"form": "number", "key": "\uff11"}, "no number"),
        ({"form": "text", "key": "L" * 65_536}, "over the limit"),
        ({"form": "octal", "key": "1"}, "octal"),
        ({"key": 1}, "str"),
        ({"pick": "all"}, "all"),
        ({"nothing": 1}, "unknown field"),
        ([], "object"),
        ("text", "object"),
    ],
)
def test_a_request_that_means_no_key_is_a_problem(
    live: LivePage, asked: object, problem: str
) -> None:
    reply = live.ask("lookup", json.dumps(asked).encode())
    assert reply.status == 400
    assert problem in reply.json()["problem"]


@pytest.mark.parametrize("body", [b"{", b"\xff", b"nul", b'{"key": "\\ud800"}', b"[" * 100_000])
def test_a_request_that_is_no_json_is_a_problem(live: LivePage, body: bytes) -> None:
    assert live.ask("lookup", body).status == 400


def test_a_request_that_is_too_long_is_refused(live: LivePage) -> None:
    assert live.ask("lookup", b'"' + b"x" * 1_000_000).status == 413


@pytest.mark.parametrize("pick", ["present", "absent", "false positive"])
def test_a_key_of_a_kind_is_picked(live: LivePage, pick: str) -> None:
    reply = live.look_up(pick=pick)
    assert reply.status == 200 and reply.json()["lookup"]["kind"] == pick


def test_a_kind_that_the_store_has_not_is_a_problem(tmp_path: Path) -> None:
    lsmkv.open(tmp_path / "db").close()
    with live_page(tmp_path / "db") as live:
        for pick, problem in (("present", "no present key"), ("false positive", "no false pos")):
            reply = live.look_up(pick=pick)
            assert reply.status == 404 and problem in reply.json()["problem"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("table=1", 400),
        ("table=x&number=0", 400),
        ("table=-1&number=0", 400),
        ("table=99999&number=0", 404),
        (f"table={10**19}&number=0", 404),
        ("", 400),
    ],
)
def test_a_block_that_is_not_there_is_a_problem(live: LivePage, query: str, status: int) -> None:
    reply = live.ask(f"block?{query}")
    assert reply.status == status and reply.json()["problem"]


@pytest.mark.parametrize("character", ["%09", "%0a", "%0d"])
def test_a_token_with_a_control_character_is_another(live: LivePage, character: str) -> None:
    reply = live.ask("page.json", token=f"{TOKEN[:3]}{character}{TOKEN[3:]}")
    assert "nothing here" in reply.json()["problem"]


def test_the_page_follows_what_another_handle_writes(tmp_path: Path) -> None:
    with lsmkv.open(tmp_path / "db") as db:
        db[b"first"] = b"1"
        with live_page(tmp_path / "db") as live, live.events() as pulses:
            first = next(pulses)
            assert first["memtable_key_counts"] == [1] and first["table_count"] == 0
            db[b"second"] = b"2"
            second = next(pulse for pulse in pulses if pulse["memtable_key_counts"] == [2])
            assert second["revision"] == first["revision"]
            db.flush()
            third = next(pulse for pulse in pulses if pulse["table_count"] == 1)
            assert third["revision"] > first["revision"] and third["entry_count"] == 2
            page = live.ask("page.json").json()
            assert page["map"]["table_count"] == 1
            assert [step["kind"] for step in page["history"]["steps"]] == ["flush"]
            assert page["history"]["steps"][0]["at_s"] is not None
            assert live.look_up(key="second").json()["lookup"]["outcome"] == "found"


def test_a_store_that_goes_away_is_told(tmp_path: Path) -> None:
    make_store(tmp_path / "db", 100)
    with live_page(tmp_path / "db") as live, live.events() as pulses:
        assert next(pulses)["failure"] is None
        lsmkv.destroy(tmp_path / "db")
        assert "no lsmkv store" in next(p["failure"] for p in pulses if p["failure"])
        assert live.look_up(key="x").status == 200  # what is open stays readable


def test_a_damaged_block_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    make_store(tmp_path / "db", 500, compression="none")
    (table,) = list((tmp_path / "db").glob("*.sst"))[:1]
    data = bytearray(table.read_bytes())
    data[100] ^= 0xFF
    table.write_bytes(data)
    number = int(table.stem)
    with live_page(tmp_path / "db") as live:
        reply = live.ask(f"block?table={number}&number=0")
        assert reply.status == 503 and table.name in reply.json()["problem"]
        assert live.look_up(key="zzz").status == 200


def test_a_listener_that_leaves_does_not_disturb_others(live: LivePage) -> None:
    leaving = http.client.HTTPConnection(ADDRESS, live.port, timeout=30)
    leaving.request("GET", f"/{TOKEN}/events")
    leaving.getresponse().readline()
    leaving.close()
    with live.events() as pulses:
        assert next(pulses)["version"] == contract.VERSION


def test_paths_without_an_answer_get_a_problem(live: LivePage) -> None:
    for method, path, status in (
        *(("GET", "nothing", 404), ("GET", "../", 404), ("GET", "static/../../etc/passwd", 404)),
        *(("GET", "lookup", 405), ("PUT", "lookup", 405)),
    ):
        reply = live.ask(path, method=method)
        assert reply.status == status and reply.json()["problem"]
        assert reply.headers["x-content-type-options"] == "nosniff"


@contextlib.contextmanager
def command(store: Path) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    """The running command, and the path and port of its page."""
    line = [sys.executable, "-m", "lsmkv", "explore", str(store), "--serve"]
    pipe = subprocess.PIPE
    with started(line, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().split()[-1])
        assert address.port is not None
        yield process, address.path, address.port


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_in_silence_while_a_page_is_open(
    store: Path, number: signal.Signals
) -> None:
    with command(store) as (process, path, port):
        listener = http.client.HTTPConnection(ADDRESS, port, timeout=30)
        listener.request("GET", f"{path}events")
        listener.getresponse().readline()
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
        listener.close()
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("by", ["the interrupt", "the client"])
def test_a_request_that_is_cut_short_is_no_error(store: Path, by: str) -> None:
    with command(store) as (process, path, port):
        asking = http.client.HTTPConnection(ADDRESS, port, timeout=30)
        asking.request("POST", f"{path}lookup", b"{", {"Content-Length": "100"})
        if by == "the client":
            asking.close()
        with contextlib.closing(http.client.HTTPConnection(ADDRESS, port, timeout=30)) as other:
            other.request("GET", "/")
            assert other.getresponse().status == 404
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        asking.close()
    assert (process.returncode, errors) == (0, "")
