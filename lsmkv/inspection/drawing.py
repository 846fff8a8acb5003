"""One lookup, with a row for each place: as lines of text, and as a picture for notebooks.

The colours are those of the page of ``lsmkv explore`` (``web/src/base.css``).
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final, Literal, NamedTuple

from lsmkv.encoding.text_form import to_text

Fate = Literal["avoided", "wasted", "found", "aside"]
Row = tuple[str, Fate, str]  # the name of a place, what became of its read, and the same in words
_LOOKS: Final[dict[Fate, tuple[str, str]]] = {
    "avoided": ("#56b4e9", "⊘"),
    "wasted": ("#d55e00", "✕"),
    "found": ("#009e73", "✓"),
    "aside": ("#b4bcc4", "·"),
}
_ROW: Final = 26
_WIDE: Final = 620
_MOST_ROWS: Final = 40
_SHOWN_BYTES: Final = 60


class Line(NamedTuple):
    """A step in text: what ends the lookup has the sign +, a saved read -, a wasted search !."""

    sign: str
    place: str
    file: str
    block: str
    told: str


def laid_out(lines: list[Line]) -> list[str]:
    """The lines in columns as wide as they need."""
    widths = [max((len(line[column]) for line in lines), default=0) for column in (1, 2, 3)]
    return [
        "  ".join(
            [
                f"{line.sign} {line.place.ljust(widths[0])}",
                *(
                    cell.ljust(width)
                    for cell, width in zip((line.file, line.block), widths[1:], strict=True)
                    if width
                ),
                line.told,
            ]
        )
        for line in lines
    ]


def drawn(key: bytes, is_there: str, answer: str, rows: Sequence[Row]) -> str:
    """The picture as HTML, with the answer in large words above it."""
    shown = to_text(key[:_SHOWN_BYTES]) + ("…" if len(key) > _SHOWN_BYTES else "")
    left_out = len(rows) - _MOST_ROWS
    more = f"<p>… and {left_out:,} more</p>" if left_out > 0 else ""
    return (
        f"<div><p><code>{escape(shown)}</code> {is_there}.</p>"
        f'<p style="font-size:1.6em;font-weight:700;line-height:1.2">{escape(answer)}</p>'
        f"{_picture(rows[:_MOST_ROWS])}{more}</div>"
    )


def _picture(rows: Sequence[Row]) -> str:
    lines = []
    for at, (name, fate, text) in enumerate(rows):
        colour, sign = _LOOKS[fate]
        top = _ROW * at
        lines.append(
            f'<text x="0" y="{top + 17}">{escape(name)}</text>'
            f'<circle cx="150" cy="{top + 12}" r="10" fill="{colour}"></circle>'
            f'<text x="150" y="{top + 17}" text-anchor="middle" fill="#1b1f24">{sign}</text>'
            f'<text x="172" y="{top + 17}">{escape(text)}</text>'
        )
    height = _ROW * len(rows)
    return (
        f'<svg viewBox="0 0 {_WIDE} {height}" width="{_WIDE}" height="{height}" role="img" '
        f'style="max-width:100%;font:14px sans-serif;fill:currentColor">{"".join(lines)}</svg>'
    )
