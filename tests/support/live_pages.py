"""A live page, served from a thread of the test, and a client that says what it likes."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsmkv.explore.exploration import Exploration
from lsmkv.explore.server import ADDRESS, LiveServer
from time_limits import join

TOKEN = "a-token-for-tests"


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class LivePage:
    port: int

    @property
    def address(self) -> str:
        return f"http://{ADDRESS}:{self.port}/{TOKEN}/"

    def ask(
        self,
        path: str,
        body: bytes | None = None,
        *,
        method: str | None = None,
        token: str = TOKEN,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        with contextlib.closing(http.client.HTTPConnection(ADDRESS, self.port, timeout=30)) as to:
            to.request(
                method or ("POST" if body else "GET"), f"/{token}/{path}", body, headers or {}
            )
            got = to.getresponse()
            return Reply(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())

    def look_up(self, **asked: object) -> Reply:
        return self.ask("lookup", json.dumps(asked).encode())

    @contextlib.contextmanager
    def events(self) -> Iterator[Iterator[dict[str, Any]]]:
        """The pulses that the page sends, as they come."""
        with contextlib.closing(http.client.HTTPConnection(ADDRESS, self.port, timeout=30)) as to:
            to.request("GET", f"/{TOKEN}/events")
            got = to.getresponse()
            yield (
                json.loads(line.removeprefix(b"data: "))
                for line in iter(got.readline, b"")
                if line.startswith(b"data: ")
            )


@contextlib.contextmanager
def live_page(path: Path, **settings: Any) -> Iterator[LivePage]:
    """A live page of the store in ``path``."""
    with (
        Exploration(str(path), is_live=True, **settings) as exploration,
        socket.create_server((ADDRESS, 0)) as listening,
    ):
        port = listening.getsockname()[1]
        server = LiveServer(exploration, TOKEN, port)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield LivePage(port)
        finally:
            server.should_exit = True
            join(thread)
