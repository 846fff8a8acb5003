"""A proxy before an object store's server: logs requests, delays them, and makes them fail.

It runs in a process of its own (``serve``), so that its work takes no time from the client's interpreter,
and takes commands from a pipe.  A request is in the log before its answer is sent.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import struct
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from typing import Any, Final, Literal

FaultKind = Literal[
    "status",
    "reset",
    "unanswered",
    "truncate",
    "stall",
    "trickle",
    "body",
    "damage",
    "close",
    "twice",
    "stale",
    "swap",
]

_HOP: Final = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}
"""Headers that concern one connection; the proxy writes its own."""

_LOOK_S: Final = 0.01
_UPSTREAM_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as the server saw it.

    Attributes:
        path, query: the two parts of the request's target, still percent-encoded.
        range: first byte and length of a ranged GET; None for one of a whole object.
        status: 0 if no answer was sent.
        body_bytes: bytes of the body that the client sent.
        answer_bytes: bytes of the body that the client was sent.
        fault: the kind of the fault that met it; empty without one.
    """

    method: str
    path: str
    query: str
    range: tuple[int, int] | None
    status: int = 0
    body_bytes: int = 0
    answer_bytes: int = 0
    fault: str = ""

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and "list-type=" in self.query


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to the requests that match.

    ======== =======================================================================================
    kind     effect
    ======== =======================================================================================
    status   answers ``status`` (500), and does not pass the request on
    reset    resets the connection, and does not pass the request on
    unanswered  passes the request on, and resets the connection instead of answering
    truncate answers with half of the body, under the header of the whole
    close    closes the connection after half of the body, and says nothing of a length
    stall    does not answer for ``seconds``, then closes the connection
    trickle  answers at once, and sends a byte of the body every ``seconds``
    body     answers with ``body`` for the object, of which a ranged GET gets its part: an old or a
             foreign object
    damage   flips a bit in the middle of the answer's body
    twice    passes the request on twice, and answers what came the second time
    stale    answers a list as the same list was answered before, if it was
    swap     answers a GET with another object that was asked for lately, if one was
    ======== =======================================================================================

    Attributes:
        method: the method of requests that match; empty for all.
        match: a regular expression that is searched for in ``path?query``.
        skip: so many matching requests pass first.
        times: so many fail then; None for all.
    """

    kind: FaultKind
    method: str = ""
    match: str = ""
    skip: int = 0
    times: int | None = None
    status: int = 500
    seconds: float = 30.0
    body: bytes = b""


@dataclass(slots=True)
class _Answer:
    status: int
    reason: str
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(slots=True)
class _Armed:
    """A fault, and how many requests it has seen."""

    fault: Fault
    seen: int = 0

    def meets(self, request: Request) -> bool:
        fault = self.fault
        if fault.method not in ("", request.method):
            return False
        if not re.search(fault.match, f"{request.path}?{request.query}"):
            return False
        self.seen += 1
        return self.seen > fault.skip and (
            fault.times is None or self.seen <= fault.skip + fault.times
        )


@dataclass
class _State:
    """What commands change and requests ask; under ``lock``."""

    upstream: tuple[str, int]
    lock: threading.Lock = field(default_factory=threading.Lock)
    log: list[Request] = field(default_factory=list)
    armed: list[_Armed] = field(default_factory=list)
    latency_s: float = 0.0
    held: dict[int, Request] = field(default_factory=dict)
    """Requests that wait at the gate, by arrival."""
    is_gated: bool = False
    arrived: int = 0
    heals: int = 0  # how often faults were replaced: stalled answers end then
    lists: dict[str, _Answer] = field(default_factory=dict)  # the last answers to lists, by target
    asked: deque[str] = field(default_factory=lambda: deque(maxlen=2))
    """The last two different objects that were asked for."""

    def fault_for(self, request: Request) -> Fault | None:
        with self.lock:
            met = [armed.fault for armed in self.armed if armed.meets(request)]
        return met[0] if met else None

    def note(self, request: Request) -> None:
        with self.lock:
            self.log.append(request)

    def wait_at_gate(self, request: Request) -> None:
        with self.lock:
            self.arrived += 1
            ticket = self.arrived
            if not self.is_gated:
                return
            self.held[ticket] = request
        while True:
            time.sleep(_LOOK_S)
            with self.lock:
                if ticket not in self.held:
                    return

    def sleep(self, seconds: float) -> bool:
        """Sleep, but not beyond the next change of faults; whether the time has passed."""
        heals, end = self.heals, time.monotonic() + seconds
        while time.monotonic() < end:
            if self.heals != heals:
                return False
            time.sleep(min(_LOOK_S, seconds))
        return True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, state: _State) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.state = state

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away: faults make them do so."""


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client, and one to the server behind."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server
    behind: http.client.HTTPConnection | None = None

    def relay(self) -> None:
        state = self.server.state
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        asked = _parse_range(self.headers.get("Range", ""))
        request = Request(self.command, path, query, asked, body_bytes=len(body))
        state.wait_at_gate(request)
        if state.latency_s:
            time.sleep(state.latency_s)
        fault = state.fault_for(request)
        if fault is not None:
            request = replace(request, fault=fault.kind)
        answer = self._answer(request, fault, body)
        if answer is None:
            state.note(request)
            self._hang_up(fault)
            return
        sent = _cut(answer.body, fault, self.command)
        state.note(replace(request, status=answer.status, answer_bytes=len(sent)))
        self._send(answer, sent, fault)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = relay  # noqa: N815 (http.server's names)

    def _answer(self, request: Request, fault: Fault | None, body: bytes) -> _Answer | None:
        """The answer to send; None for none."""
        kind = "" if fault is None else fault.kind
        if fault is not None and kind == "status":
            return _error(fault.status)
        if fault is not None and kind == "body":
            return _object(fault.body, request.range)
        if kind in ("reset", "stall"):
            return None
        answer = self._asked(request, kind, body)
        if kind == "unanswered":
            return None
        if kind == "damage" and answer.body:
            middle = len(answer.body) // 2
            flipped = bytes([answer.body[middle] ^ 1])
            answer.body = answer.body[:middle] + flipped + answer.body[middle + 1 :]
        return answer

    def _asked(self, request: Request, kind: str, body: bytes) -> _Answer:
        """An answer of the server: to this request, to another one, or to an earlier one."""
        state, target = self.server.state, self.path
        if request.is_list:
            if kind == "stale" and target in state.lists:
                return state.lists[target]
            answer = self._pass_on(target, body)
            state.lists[target] = replace(answer)  # a fault may change the body
            return answer
        if request.method == "GET":
            others = [asked for asked in list(state.asked) if asked != target]
            if target not in state.asked:
                state.asked.append(target)
            if kind == "swap" and others:
                return self._pass_on(others[-1], body)
        if kind == "twice":
            self._pass_on(target, body)
        return self._pass_on(target, body)

    def _pass_on(self, target: str, body: bytes) -> _Answer:
        """The server's answer; the connection is made anew if the server has closed it."""
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
        for is_last in (False, True):
            fresh = self.behind is None
            if self.behind is None:
                self.behind = http.client.HTTPConnection(
                    *self.server.state.upstream, timeout=_UPSTREAM_TIMEOUT_S
                )
            try:
                if body or self.command in ("PUT", "POST"):
                    headers["Content-Length"] = str(len(body))
                self.behind.request(self.command, target, body or None, headers)
                got = self.behind.getresponse()
                content = got.read()
            except (OSError, http.client.HTTPException):
                self.behind.close()
                self.behind = None
                if fresh or is_last:
                    raise
                continue
            kept = [pair for pair in got.getheaders() if pair[0].lower() not in _HOP]
            if self.command == "HEAD":
                kept.append(("Content-Length", got.getheader("Content-Length", "0")))
            return _Answer(got.status, got.reason, kept, content)
        raise AssertionError("unreachable")

    def _send(self, answer: _Answer, sent: bytes, fault: Fault | None) -> None:
        kind = "" if fault is None else fault.kind
        lines = [f"HTTP/1.1 {answer.status} {answer.reason}"]
        lines += [f"{name}: {value}" for name, value in answer.headers]
        if kind == "close":
            lines.append("Connection: close")
        elif self.command != "HEAD":
            lines.append(f"Content-Length: {len(answer.body)}")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        if fault is None or kind != "trickle":
            self.connection.sendall(head + sent)  # at once: no delay by Nagle's algorithm
            if kind in ("truncate", "close"):
                self.close_connection = True
            return
        self.connection.sendall(head)
        for at in range(len(sent)):
            if not self.server.state.sleep(fault.seconds):
                break
            self.connection.sendall(sent[at : at + 1])
        self.close_connection = True

    def _hang_up(self, fault: Fault | None) -> None:
        if fault is not None and fault.kind == "stall":
            self.server.state.sleep(fault.seconds)
        else:  # closing then sends a reset
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.rfile.close()
            self.connection.close()
        self.close_connection = True

    def finish(self) -> None:
        if self.behind is not None:
            self.behind.close()
        with contextlib.suppress(OSError, ValueError):
            super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing: the log is a list."""


def serve(pipe: Connection, upstream: tuple[str, int]) -> None:
    """Serve on a free port, which is sent first; then obey commands, until the pipe ends."""
    state = _State(upstream)
    server = _Server(state)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pipe.send(server.server_address[1])
    while True:
        try:
            command, argument = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        pipe.send(_obey(state, command, argument))


def _obey(state: _State, command: str, argument: Any) -> object:
    with state.lock:
        if command == "log":
            return list(state.log)
        if command == "reset":
            state.log.clear()
        elif command == "delay":
            state.latency_s = argument
        elif command == "inject":
            state.armed = [_Armed(fault) for fault in argument]
            state.heals += 1
        elif command == "hold":
            state.is_gated = argument
            if not argument:
                state.held.clear()
        elif command == "held":
            return list(state.held.values())
        elif command == "release":
            state.held.clear()
        else:
            raise ValueError(f"no command {command!r}")
    return None


def _parse_range(text: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"bytes=(\d+)-(\d+)", text)
    if found is None:
        return None
    first, last = int(found[1]), int(found[2])
    return first, last - first + 1


def _error(status: int) -> _Answer:
    code = {404: "NoSuchKey", 500: "InternalError", 503: "SlowDown"}.get(status, "Error")
    body = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code></Error>".encode()
    reason = http.client.responses.get(status, "")
    return _Answer(status, reason, [("Content-Type", "application/xml")], body)


def _object(whole: bytes, asked: tuple[int, int] | None) -> _Answer:
    """The answer that an object of these bytes gets."""
    headers = [
        ("ETag", '"0123456789abcdef"'),
        ("Last-Modified", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("Content-Type", "binary/octet-stream"),
        ("Accept-Ranges", "bytes"),
    ]
    if asked is None:
        return _Answer(200, "OK", headers, whole)
    first, length = asked
    part = whole[first : first + length]
    if not part:
        return _error(416)
    headers.append(("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(whole)}"))
    return _Answer(206, "Partial Content", headers, part)


def _cut(body: bytes, fault: Fault | None, method: str) -> bytes:
    if method == "HEAD":
        return b""
    if fault is not None and fault.kind in ("truncate", "close"):
        return body[: len(body) // 2]
    return body
