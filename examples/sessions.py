"""Sessions of a web service: each ends an hour after its last request, and nobody has to remove it.

A day of requests takes a second: the store is given a clock of its own.
"""

from __future__ import annotations

import random
import secrets
import tempfile

import lsmkv

IDLE_S, REQUESTS, USERS = 3600, 20_000, 500


class Day:
    """The time of day, in seconds."""

    now_s = 0.0


def request(db: lsmkv.DB, cookie: bytes | None, user: bytes) -> tuple[bytes, bool]:
    """Serve a request; returns the cookie of its session, and whether the user had to log in."""
    if cookie is not None and db.touch(cookie, ttl_s=IDLE_S):
        return cookie, False
    cookie = secrets.token_hex(16).encode()
    db.put(cookie, user, ttl_s=IDLE_S)
    return cookie, True


def main() -> None:
    draw, day = random.Random(1), Day()
    cookies: dict[bytes, bytes] = {}  # of each user's browser
    logins = 0
    with (
        tempfile.TemporaryDirectory() as path,
        lsmkv.open(path, clock=lambda: day.now_s) as db,
    ):
        for _ in range(REQUESTS):
            day.now_s += 24 * 3600 / REQUESTS
            user = b"user %d" % min(draw.randrange(USERS), draw.randrange(USERS))
            cookies[user], is_new = request(db, cookies.get(user), user)
            logins += is_new
        print(f"{REQUESTS:,} requests, {logins:,} logins, {len(db):,} sessions now", end="; ")
        day.now_s += IDLE_S
        print(f"an hour later {len(db)}", end=", ")
        db.compact_range()
        print(f"on disk {db.inspect().entry_count}")


if __name__ == "__main__":
    main()
