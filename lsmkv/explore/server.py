"""Serves a live page to the browsers of this machine.

Only who knows the token in the address gets an answer, and only under the names of this machine: a page
of another site can neither guess the one nor, by pointing its own name here, pass for the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import re
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from lsmkv import MAX_KEY_BYTES, Error, from_text
from lsmkv.explore import contract, messages
from lsmkv.explore.exploration import Detail, Exploration
from lsmkv.explore.page import content_policy, render
from lsmkv.explore.survey import Extent

ADDRESS: Final = "127.0.0.1"
LIVE: Final = Detail(
    extent=Extent(cells=20_000, tables=400),
    present=20,
    absent=20,
    false_positives=10,
    tried=2_000,
    filters=200,
    rebuilding_s=0.25,
    checking_s=0.1,
)
"""Less recorded than in a file, because a live page asks for what it needs."""

_PULSE_S: Final = 0.5
_LONGEST_SILENCE_S: Final = 5.0
_MOST_BODY_BYTES: Final = 8 * MAX_KEY_BYTES
_HEADERS: Final = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_NUMBER: Final = re.compile(r"[0-9]{1,20}", re.ASCII)

T = TypeVar("T")


class ProblemError(Exception):
    """A request without an answer, and why."""

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.status = status


@dataclass(slots=True)
class Pulses:
    """Asks for the store's pulse, and hands each change to every listener."""

    exploration: Exploration
    listeners: set[asyncio.Queue[messages.Pulse | None]] = field(default_factory=set)
    last: messages.Pulse | None = None

    async def beat(self) -> None:
        """Beat until cancelled."""
        silent_s = 0.0
        while True:
            if self.listeners:
                pulse = await run_in_threadpool(self.exploration.pulse)
                silent_s += _PULSE_S
                if pulse != self.last or silent_s >= _LONGEST_SILENCE_S:
                    self.last, silent_s = pulse, 0.0
                    self._tell(pulse)
            await asyncio.sleep(_PULSE_S)

    def end(self) -> None:
        """Hang up on every listener."""
        self._tell(None)
        self.listeners.clear()

    def _tell(self, pulse: messages.Pulse | None) -> None:
        for listener in self.listeners:
            if listener.full():  # a page that does not read gets only the newest
                listener.get_nowait()
            listener.put_nowait(pulse)

    async def heard(self) -> AsyncIterator[bytes]:
        """The pulses from now on, as server-sent events."""
        queue: asyncio.Queue[messages.Pulse | None] = asyncio.Queue(maxsize=1)
        self.listeners.add(queue)
        try:
            yield b"retry: 2000\n\n"
            if self.last is not None:
                yield _event(self.last)
            while (pulse := await queue.get()) is not None:
                yield _event(pulse)
        finally:
            self.listeners.discard(queue)


def _event(pulse: messages.Pulse) -> bytes:
    return b"event: pulse\ndata: " + msgspec.json.encode(pulse) + b"\n\n"


class Guard:
    """Lets only requests with the token and this host reach ``inner``."""

    def __init__(self, inner: ASGIApp, token: str, port: int) -> None:
        self._inner = inner
        self._prefix = f"/{token}"
        self._hosts = {f"{name}:{port}" for name in (ADDRESS, "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        refusal = self._refusal(Request(scope))
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        rest = scope["path"][len(self._prefix) :]
        await self._inner({**scope, "path": rest, "raw_path": rest.encode()}, receive, send)

    def _refusal(self, request: Request) -> Response | None:
        if request.headers.get("host") not in self._hosts:
            return _problem(403, "this address is not served under that name")
        origin = request.headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return _problem(403, "pages of other origins get no answer")
        # Not request.url: its parser drops control characters from a path.
        path = str(request.scope["path"])
        given = path[: len(self._prefix)].encode("utf-8", "surrogatepass")
        follows = path[len(self._prefix) :]
        if not hmac.compare_digest(given, self._prefix.encode()) or not follows.startswith("/"):
            return _problem(404, "there is nothing here; the address printed at the start is whole")
        return None


def application(exploration: Exploration, pulses: Pulses, token: str, port: int) -> ASGIApp:
    """The web application of one store."""

    async def page(request: Request) -> Response:
        made = await run_in_threadpool(exploration.page, LIVE)
        policy = content_policy(is_live=True)
        # A part may stand in the frame of a slide, which must know the token.  Nothing in it can write.
        if "embed" not in request.query_params:
            policy += "; frame-ancestors 'none'"
        return HTMLResponse(render(made), headers=_HEADERS | {"content-security-policy": policy})

    async def page_data(_request: Request) -> Response:
        return _json(await run_in_threadpool(exploration.page, LIVE))

    async def look_up(request: Request) -> Response:
        asked = await _body(request, messages.LookupRequest)
        if asked.pick is not None:
            picked = await run_in_threadpool(exploration.pick, asked.pick)
            if picked is None:
                name = asked.pick if asked.pick == "false positive" else f"{asked.pick} key"
                raise ProblemError(404, f"no {name} was found in this store")
            return _json(picked)
        return _json(await run_in_threadpool(exploration.look_up, key_of(asked)))

    async def block(request: Request) -> Response:
        table, number = (_number(request, name) for name in ("table", "number"))
        found = await run_in_threadpool(exploration.block, table, number)
        if found is None:
            raise ProblemError(404, f"table {table} has no block {number} now")
        return _json(found)

    async def events(_request: Request) -> Response:
        return StreamingResponse(pulses.heard(), media_type="text/event-stream", headers=_HEADERS)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        beating = asyncio.create_task(pulses.beat())
        yield
        beating.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beating

    inner = Starlette(
        routes=[
            Route("/", page),
            Route("/page.json", page_data),
            Route("/lookup", look_up, methods=["POST"]),
            Route("/block", block),
            Route("/events", events),
        ],
        exception_handlers={
            ProblemError: _answered,
            HTTPException: _answered,
            ClientDisconnect: _unheard,
            Error: _failed,
            OSError: _failed,
        },
        lifespan=lifespan,
    )
    return Guard(inner, token, port)


def key_of(asked: messages.LookupRequest) -> bytes:
    """The key that a request means; ProblemError if it means none."""
    try:
        if asked.form == "text":
            key = from_text(asked.key)
        elif asked.form == "hex":
            key = _from_hex(asked.key)
        else:
            text = asked.key.strip()
            if not _NUMBER.fullmatch(text) or int(text) >= 1 << 64:
                raise ValueError(f"{text[:40]!r} is no number from 0 to 2**64 - 1")
            key = int(text).to_bytes(8, "big")
    except ValueError as error:
        raise ProblemError(400, str(error)) from None
    if len(key) > MAX_KEY_BYTES:
        raise ProblemError(
            400, f"a key of {len(key):,} bytes is over the limit of {MAX_KEY_BYTES:,}"
        )
    return key


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ValueError(
            f"{text[:40]!r} is no hex: give two digits 0-9, a-f for each byte"
        ) from None


async def _body(request: Request, kind: type[T]) -> T:
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > _MOST_BODY_BYTES:
            raise ProblemError(413, f"a request has at most {_MOST_BODY_BYTES:,} bytes")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProblemError(400, str(error)) from None


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "")
    if not _NUMBER.fullmatch(text):
        raise ProblemError(400, f"{name}={text[:40]!r}: must be a whole number")
    return int(text)


def _json(answer: msgspec.Struct, status: int = 200) -> Response:
    return Response(msgspec.json.encode(answer), status, _HEADERS, "application/json")


def _problem(status: int, problem: str) -> Response:
    return _json(messages.Problem(version=contract.VERSION, problem=problem), status)


async def _answered(_request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):  # no such path or method
        return _problem(error.status_code, error.detail)
    assert isinstance(error, ProblemError)
    return _problem(error.status, str(error))


async def _unheard(_request: Request, _error: Exception) -> Response:
    return Response(status_code=400)  # the client hung up: nobody gets this


async def _failed(_request: Request, error: Exception) -> Response:
    return _problem(503, str(error))


class LiveServer(uvicorn.Server):
    """The server of a live page at ``port``; it hangs up on listeners when it ends."""

    def __init__(self, exploration: Exploration, token: str, port: int) -> None:
        self._pulses = Pulses(exploration)
        config = uvicorn.Config(
            application(exploration, self._pulses, token, port),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        super().__init__(config)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Requests that run on are cut off on purpose: that is no error to report.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._pulses.end()
        await super().shutdown(sockets)


def serve(exploration: Exploration, port: int, ready: Callable[[str], Any]) -> None:
    """Serve until SIGINT or SIGTERM, in the main thread.  OSError: the port is taken."""
    token = secrets.token_urlsafe(24)
    with socket.create_server((ADDRESS, port)) as listening:
        own_port = listening.getsockname()[1]
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            ready(f"http://{ADDRESS}:{own_port}/{token}/")
            LiveServer(exploration, token, own_port).run(sockets=[listening])
        except KeyboardInterrupt:
            pass
        finally:
            signal.signal(signal.SIGTERM, before)
