"""How objects show themselves: keys as text, and tables in HTML, which ``_repr_html_`` makes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

_LONGEST: Final = 500  # a step of a lookup, with the bits of its filter, is shorter
_SHOWN_BYTES: Final = 40
Row = tuple[str, object]


class Drawn(Protocol):
    """A drawing for notebooks; ``html`` is a page of its own."""

    html: str

    def _repr_html_(self) -> str: ...


def table(title: str, rows: Iterable[Row]) -> str:
    """A table of names and values, escaped and cut; integers get separators."""
    lines = [
        f'<tr><th style="text-align:left">{_text(name)}</th>'
        f'<td style="text-align:{_alignment(value)}">{_text(value)}</td></tr>'
        for name, value in rows
    ]
    caption = f'<caption style="text-align:left"><b>{_text(title)}</b></caption>'
    return f"<table>{caption}<tbody>{''.join(lines)}</tbody></table>"


def state_table(held: object, path: str, state: str) -> str:
    """The table of something that belongs to the store at ``path``."""
    return table(f"lsmkv.{type(held).__name__}", [("store", repr(path)), ("state", state)])


def key_text(key: bytes) -> str:
    """A key as text, cut after 40 bytes.

    >>> key_text(b"cat"), key_text(bytes(1000)) < key_text(b"x")
    ("b'cat'", True)
    """
    return repr(key) if len(key) <= _SHOWN_BYTES else f"{key[:_SHOWN_BYTES]!r}..."


def _alignment(value: object) -> str:
    return "left" if isinstance(value, str) else "right"


def _text(value: object) -> str:
    from html import escape  # loads a table of 2,231 names, which only notebooks need

    text = f"{value:,}" if isinstance(value, int) else str(value)
    return escape(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")
