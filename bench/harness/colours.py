"""The colours and marks of all charts.

Colours are Okabe and Ito's, which readers with any colour vision can tell apart.  Series also differ
in mark, for black-and-white printers.  A kind of filter looks the same in every chart.  What becomes of
a read has the colour that it has on the page of ``lsmkv explore`` (``--avoided`` and its neighbours in
``lsmkv/explore/web/src/base.css``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

BLUE: Final = "#0072b2"
VERMILION: Final = "#d55e00"
GREEN: Final = "#009e73"
PURPLE: Final = "#cc79a7"
ORANGE: Final = "#e69f00"
SKY: Final = "#56b4e9"
BLACK: Final = "#000000"
YELLOW: Final = "#f0e442"

AVOIDED: Final = SKY  # a read that a filter avoided
FOUND: Final = GREEN  # a read that found what it was for
GREY: Final = "#8a949e"
"""What there is without filters."""

WHITE: Final = "#ffffff"
GRID: Final = "#dddddd"
BAND: Final = "#eeeeee"
REST: Final = "#cccccc"
ASIDE: Final = "#999999"
COMPUTED: Final = "#555555"
NOTE: Final = "#444444"

DARK: Final = {
    BLUE: "#56b4e9",
    VERMILION: "#ff9350",
    GREEN: "#2bc79a",
    PURPLE: "#e59cc3",
    ORANGE: "#f0b429",
    SKY: "#c6e6ff",
    BLACK: "#e8edf2",
    YELLOW: "#f7ee8a",
    GREY: "#a9b4bf",
    WHITE: "#14181d",
    GRID: "#2c353e",
    BAND: "#1f262d",
    REST: "#3a444f",
    ASIDE: "#8b96a1",
    COMPUTED: "#b4bdc6",
    NOTE: "#c3ccd5",
}
"""Each colour's form on a dark ground."""

COLOURS: Final = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, YELLOW)
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")

THEORY: Final[dict[str, Any]] = {"color": COMPUTED, "linestyle": "--", "linewidth": 1.1}
"""Style of a computed line."""

KINDS: Final = {
    "none": (GREY, "s"),
    "bloom": (BLUE, "o"),
    "ribbon": (GREEN, "^"),
    "grafite": (ORANGE, "<"),
    "cuckoo": (VERMILION, "D"),
    "binary-fuse": (PURPLE, "v"),
    "blocked-bloom": (SKY, "P"),
    "fingerprints": (ORANGE, "X"),
    "single-hash": (BLACK, "*"),
    "partitioned": (SKY, "h"),
    "counting": (BLUE, "p"),
}
"""Colour and mark of each kind of filter; kinds of one colour are Bloom filters of several forms."""

_OTHER_MARKS: Final = ("P", "X", "*", "<", ">", "d", "8", "H", "s", "D", "v", "^")

ENGINES: Final = ("lsmkv", "rocksdb", "leveldb", "lmdb", "sqlite")


def series(number: int) -> dict[str, Any]:
    """Colour and mark of the series of that number."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}


def named_series(names: Sequence[str], known: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour and mark by name; a known name has the same whichever others are there.

    >>> named_series(["leveldb", "mine"], ENGINES)["leveldb"] == series(2)
    True
    """
    places = [*known, *(name for name in names if name not in known)]
    return {name: series(places.index(name)) for name in names}


def looks(policies: Sequence[str]) -> list[dict[str, Any]]:
    """Colour and mark of series by their filter policies: those of the kinds, if each has one series.

    >>> looks(["bloom", "ribbon"])[1]["color"] == GREEN, looks(["ribbon", "ribbon"])[1] == series(1)
    (True, True)
    """
    if len(set(policies)) == len(policies) and KINDS.keys() >= set(policies):
        return kind_looks(policies)
    return [series(number) for number in range(len(policies))]


def kind_looks(kinds: Sequence[str]) -> list[dict[str, Any]]:
    """Colour and mark of series by their kinds of filter.

    The first series of a kind has the kind's mark.  Each later one has a mark that no other series
    has, or if there is none left, no other one of its colour.

    >>> [(look["color"], look["marker"]) for look in kind_looks(["ribbon", "ribbon"])]
    [('#009e73', '^'), ('#009e73', 'P')]
    """
    taken = {KINDS[kind] for kind in kinds}
    shown: set[str] = set()
    looks = []
    for kind in kinds:
        colour, mark = KINDS[kind]
        if kind in shown:
            own = {other for of, other in taken if of == colour}
            used = {other for _, other in taken}
            free = [other for other in _OTHER_MARKS if other not in own]
            mark = next((other for other in free if other not in used), free[0])
            taken.add((colour, mark))
        shown.add(kind)
        looks.append({"color": colour, "marker": mark})
    return looks
