"""Object storage from the command line, without its library, in processes, with credentials."""

from __future__ import annotations

import http.server
import json
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

import lsmkv
from bench.harness.object_server import ObjectServer
from commands import ENVIRONMENT, fail, fill, one_line, run, succeed
from explored_stores import page_in
from gates import WAIT_S
from published_stores import COUNT, contents, key, published, reader, value
from threaded_stores import wait_until


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**ENVIRONMENT, **os.environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# The command line


def test_publish_says_what_it_did(tmp_path: Path, server: ObjectServer, url: str) -> None:
    store = fill(str(tmp_path / "store"), {b"apple": b"red"})
    shown = succeed("publish", store, url).decode()
    assert re.fullmatch(
        rf"{url}: generation 1 published, 1 table of \d+ bytes; sent 1 table of \d+ bytes\n", shown
    )
    report = json.loads(succeed("publish", store, url, "--keep", "1", "--json"))
    assert (report["generation"], report["is_new"], report["sent_count"]) == (1, False, 0)
    assert succeed("get", url, "apple") == b"red\n"


def test_commands_that_read_take_a_url(filled: str, server: ObjectServer) -> None:
    first = key(0).decode()
    assert succeed("get", filled, first) == value(0) + b"\n"
    assert run("get", filled, "absent").exit_code == 3
    assert succeed("scan", filled, "--limit", "1") == key(0) + b"\t" + value(0) + b"\n"
    assert succeed("count", filled).strip() == str(COUNT).encode()
    assert b"absent" in succeed("explain", filled, "absent")
    assert json.loads(succeed("inspect", filled, "--json"))["entry_count"] == COUNT
    assert json.loads(succeed("verify", filled, "--json"))["ok"]
    assert json.loads(succeed("stats", filled, "--json"))["path"] == filled
    assert re.search(
        r"took 1 LIST request and \d+ GET requests of", succeed("stats", filled).decode()
    )
    assert len(succeed("dump", filled).splitlines()) == COUNT


def test_commands_that_write_refuse_a_url(url: str) -> None:
    for command in (["put", url, "a", "b"], ["compact", url], ["destroy", url, "--yes"]):
        message = fail(*command)
        assert one_line(message) and url in message


def test_verify_without_a_published_store_fails(server: ObjectServer, url: str) -> None:
    assert "holds no published store" in fail("verify", url, code=1)


@pytest.mark.slow
def test_the_page_shows_a_published_store(
    filled: str, server: ObjectServer, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    succeed("explore", filled, "--out", str(page))
    assert page_in(page.read_text("utf-8")).source.path == filled


# Without the library


def test_without_obstore_a_wrong_scheme_is_told_before_what_to_install(tmp_path: Path) -> None:
    done = python(
        f"""
        import sys
        sys.modules["obstore"] = None
        import lsmkv
        db = lsmkv.open({str(tmp_path / "store")!r})
        for url in ("htp://x", "s3://bucket/store"):
            for attempt in (
                lambda: lsmkv.open(url),
                lambda: lsmkv.open(url, read_only=True),
                lambda: db.publish(url),
            ):
                try:
                    attempt()
                except (ValueError, lsmkv.MissingExtraError) as error:
                    print(error)
        db.close()
        """
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert len(told) == 6 and len(set(told[:3])) == 1
    assert re.fullmatch(
        "url='htp://x': object storage begins with one of s3://, .*, file://", told[0]
    )
    wanted = 'object storage needs obstore, which is not installed: pip install "lsmkv[remote]"'
    assert told[4:] == [wanted] * 2


# Processes


def test_a_child_of_a_process_that_has_used_object_storage_is_told_so(
    filled: str, server: ObjectServer
) -> None:
    done = python(
        f"""
        import os, lsmkv
        db = lsmkv.open({filled!r}, read_only=True)
        child = os.fork()
        if child == 0:
            for attempt in (
                lambda: db.get(b"key"),
                lambda: lsmkv.open({filled!r}, read_only=True),
            ):
                try:
                    attempt()
                except lsmkv.ForkedError as error:
                    print(error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(db.get({key(0)!r}))
        """
    )
    old, fresh, answer = done.stdout.splitlines()
    assert "before the process forked" in old
    assert '"spawn" or "forkserver"' in fresh
    assert answer == repr(value(0))


def test_a_process_ends_while_a_store_is_open(filled: str, server: ObjectServer) -> None:
    done = python(
        f"""
        import lsmkv
        db = lsmkv.open({filled!r}, read_only=True)
        print(len(db))
        """
    )
    assert (done.returncode, done.stdout.strip()) == (0, str(COUNT)), done.stderr


# Credentials


_authorizations: list[str] = []


class _Listening(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        _authorizations.append(self.headers.get("Authorization", ""))
        self.send_error(403)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_a_profile_of_aws_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = tmp_path / "credentials"
    credentials.write_text("[mine]\naws_access_key_id = OFPROFILE\naws_secret_access_key = x\n")
    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Listening)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_PROFILE", "mine")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{listener.server_address[1]}")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    try:
        with pytest.raises(PermissionError):
            reader("s3://bucket/store")
    finally:
        listener.shutdown()
        listener.server_close()
    assert "Credential=OFPROFILE/" in _authorizations[0]


# Many readers


def test_without_a_thread_requests_are_sent_all_the_same(
    filled: str, server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with reader(filled) as db:
        assert db[key(2)] == value(2)
        assert db.multi_get([key(1), key(4), key(900)]) == [None, value(4), value(900)]


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


def test_a_handle_may_follow_what_is_published(store: Path, url: str) -> None:
    with reader(url, refresh_every_s=0.01) as db:
        publish_more(store, url)
        wait_until(lambda: b"more" in db)
        assert db.refresh() is True
