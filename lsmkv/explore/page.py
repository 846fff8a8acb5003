"""Makes the page: one HTML file with its data, script and style inside."""

from __future__ import annotations

import base64
import hashlib
import html
import math
from itertools import count
from pathlib import Path
from string import Template
from typing import Any, Final

import msgspec

from lsmkv.explore import contract
from lsmkv.explore.exploration import Detail, Exploration

MOST_BYTES: Final = 2_000_000  # the most bytes of a page in a file
WHOLE: Final = Detail()


def file_page(path: str, detail: Detail = WHOLE, **settings: Any) -> str:
    """The page of a store as a file of at most :data:`MOST_BYTES`; parts are left out until it fits."""
    for attempt in count(1):
        # Opened anew each time: counters and lookups must be of one attempt.
        with Exploration(path, **settings) as exploration:
            page = exploration.page(detail)
        made = render(page)
        size_bytes = len(made.encode("utf-8"))
        if size_bytes <= MOST_BYTES:
            return made
        less = detail.no_more_than(page)
        # Not once for each half: to make a page takes seconds where a store has many runs.
        data_bytes = len(embedded(page).encode("utf-8"))
        room_bytes = max(1, MOST_BYTES - (size_bytes - data_bytes))
        # Some parts stay as they are, so each attempt that was not enough is followed by a longer step.
        for _ in range(max(attempt, math.ceil(math.log2(data_bytes / room_bytes)))):
            less = less.halved()
        if less == detail:
            break
        detail = less
    return made


def render(page: contract.Page) -> str:
    """The HTML of a page; its policy lets only its script, its style and its own server do anything."""
    return Template(_asset("page.html")).substitute(
        policy=html.escape(content_policy(is_live=page.source.is_live)),
        title=html.escape(page.source.name),
        style=_asset("explore.css"),
        script=_asset("explore.js"),
        data=embedded(page),
    )


def content_policy(*, is_live: bool) -> str:
    """The page's Content-Security-Policy."""
    parts = [
        "default-src 'none'",
        f"script-src {_hash(_asset('explore.js'))}",
        f"style-src {_hash(_asset('explore.css'))}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*parts, "connect-src 'self'"] if is_live else parts)


def embedded(page: contract.Page) -> str:
    """The data as JSON that no HTML parser takes for markup."""
    data = msgspec.json.encode(page).decode("utf-8")
    return data.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _asset(name: str) -> str:
    return Path(__file__).with_name("assets").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
