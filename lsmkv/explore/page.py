"""Makes the page: one HTML file with its data, script and style inside."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
from pathlib import Path
from string import Template
from typing import Any, Final

import msgspec

from lsmkv.explore import contract
from lsmkv.explore.exploration import HALVES, Detail, Exploration

MOST_BYTES: Final = 2_000_000  # the most bytes of a page in a file
WHOLE: Final = Detail()


def file_page(path: str, detail: Detail = WHOLE, **settings: Any) -> str:
    """The page of a store as a file of at most :data:`MOST_BYTES`: what costs most is halved."""
    while True:
        # Opened anew each time: counters and lookups must be of one attempt.
        with Exploration(path, **settings) as exploration:
            page = exploration.page(detail)
        made = render(page)
        excess_bytes = len(made.encode("utf-8")) - MOST_BYTES
        if excess_bytes <= 0:
            return made
        less = _with_less(detail.no_more_than(page), page, excess_bytes)
        if less == detail:
            return made
        detail = less


def _with_less(detail: Detail, page: contract.Page, excess_bytes: float) -> Detail:
    """Halve the parts that cost most; a lookup that stays keeps all of its steps."""
    cost_bytes = {part: float(len(embedded(getattr(page, part)))) for part in HALVES}
    while excess_bytes > 0 and cost_bytes:
        part = max(cost_bytes, key=cost_bytes.__getitem__)
        less = detail.halved(part)
        if less == detail:
            del cost_bytes[part]
            continue
        detail = less
        cost_bytes[part] /= 2
        excess_bytes -= cost_bytes[part]
    return detail


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


def embedded(data: object) -> str:
    """Data as an HTML file holds it: JSON, compressed, in base64, which no parser takes for markup."""
    return base64.b64encode(gzip.compress(msgspec.json.encode(data), mtime=0)).decode("ascii")


def _asset(name: str) -> str:
    return Path(__file__).with_name("assets").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
