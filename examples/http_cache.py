"""An HTTP cache: answers are kept on disk for as long as their server allows.

The client asks the server only for what ``lsmkv.cache`` does not have, or no longer.
"""

from __future__ import annotations

import random
import tempfile
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lsmkv.cache import Cache

PAGES, REQUESTS = ["/news", *map("/{}".format, range(20))], 200
asked: list[str] = []  # of the server


class Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        asked.append(self.path)
        max_age_s = 0 if self.path == "/news" else 3600
        self.send_response(200)
        self.send_header("Cache-Control", f"max-age={max_age_s}")
        self.end_headers()
        self.wfile.write(b"page %s" % self.path.encode())

    def log_message(self, *_: object) -> None: ...


def fetch(cache: Cache, url: str) -> bytes:
    """The body at ``url``, from the cache if it is fresh there."""
    body = cache.get(("GET", url))
    if isinstance(body, bytes):
        return body
    with urllib.request.urlopen(url) as answer:
        body = bytes(answer.read())
        max_age_s = int(answer.headers["Cache-Control"].removeprefix("max-age="))
    if max_age_s:
        cache.set(("GET", url), body, expire=max_age_s)
    return body


def main() -> None:
    draw, address = random.Random(1), ("127.0.0.1", 0)
    with tempfile.TemporaryDirectory() as path, ThreadingHTTPServer(address, Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for _ in range(2):  # the second time after a restart
            with Cache(path) as cache:
                for page in draw.choices(PAGES, k=REQUESTS // 2):
                    body = fetch(cache, f"http://127.0.0.1:{server.server_port}{page}")
                    assert body == b"page %s" % page.encode()
        server.shutdown()
    print(f"{REQUESTS} requests; the server got {len(asked)}, {asked.count('/news')} for /news")


if __name__ == "__main__":
    main()
