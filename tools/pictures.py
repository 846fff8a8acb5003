"""Draws the pictures of ``docs/how-it-works.md`` from a small store.  ``python -m tools.pictures``

The store is made anew each time, with real files, and asked through the public API.  The pictures
therefore show what the code does; a test compares them with those in the documents.
"""

from __future__ import annotations

import random
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import lsmkv
from bench.harness.colours import AVOIDED, FOUND, NOTE, PURPLE
from tools.builds import CHECKOUT

FOLDER: Final = Path(CHECKOUT, "docs", "pictures")
_KEYS: Final = 1200
_STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "lsmkv",  # makes identifiers, and so the files, repeat
    "svg.fonttype": "none",  # text stays text: small files that browsers can search
    "font.family": "sans-serif",
    "font.size": 9,
}
_DATA, _FILTER, _INDEX, _OTHER = (
    "#dfe4ea",
    PURPLE,
    "#8b959f",
    "#ffffff",
)  # purple: bits that are set
_ENDING: Final = {"found": FOUND, "deleted": FOUND, "filtered": AVOIDED}


def _key(number: int) -> bytes:
    return b"user%04d" % number


@contextmanager
def small_store() -> Iterator[tuple[lsmkv.DB, Path]]:
    """A store with two levels, two level-0 runs, and unflushed keys."""
    dice = random.Random(1970)
    options = lsmkv.Options(
        block_size_bytes=512,
        compression="none",
        level1_size_bytes=32768,
        table_size_bytes=8192,
    )
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "users.db")
        with lsmkv.open(path, options) as db:
            for count in (_KEYS, 100, 100, 100, 100, 90, 80):
                for number in sorted(dice.sample(range(_KEYS), count)):
                    db.put(_key(number), b"a name and an address of %d" % number)
                db.flush()
                if count == _KEYS:
                    db.compact_range()
                db.wait_until_settled()
            for number in dice.sample(range(_KEYS), 40):
                db.put(_key(number), b"newer")
            yield db, path


def _row(level: int, above: list[str]) -> str:
    if level > 0:
        return f"level {level}"
    return "level 0, older run" if "level 0, newest run" in above else "level 0, newest run"


def draw_store(db: lsmkv.DB, axes: Axes) -> None:
    """Draw which keys each part of the store holds."""
    rows: list[str] = ["memtable and log"]
    in_memtable = [
        number
        for number in range(_KEYS)
        if db.explain(_key(number)).memtables[0].outcome == "found"
    ]
    axes.vlines(in_memtable, -0.3, 0.3, color=NOTE, linewidth=1)
    for level in db.inspect().levels:
        for run in level.runs:
            row = len(rows)
            rows.append(_row(level.number, rows))
            for table in run.tables:
                first, last = int(table.smallest[4:]), int(table.largest[4:])
                axes.barh(
                    row,
                    last - first,
                    0.6,
                    left=first,
                    color=_DATA,
                    edgecolor="black",
                    linewidth=0.6,
                )
                label = (
                    f"{table.entry_count} entries" if last - first > 80 else f"{table.entry_count}"
                )
                middle = (first + last) / 2
                axes.text(middle, row, label, ha="center", va="center", fontsize=7)
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()
    axes.set_xlim(-5, _KEYS + 5)
    axes.set_xticks(
        range(0, _KEYS + 1, 200), [_key(number).decode() for number in range(0, _KEYS + 1, 200)]
    )
    axes.set_title(
        "One store: each line is a key of the memtable, each bar a table, from its first key to its last"
    )


def draw_table(db: lsmkv.DB, path: Path, axes: Axes) -> None:
    """Draw a table file's sections, to scale, and a block's."""
    table = db.inspect().levels[-1].runs[0].tables[0]
    blocks = list(db.blocks(table.number))
    footer = (path / table.file_name).read_bytes()[-72:]
    data, dictionary, filters, index, properties = struct.unpack_from("<5Q", footer)
    assert (data, dictionary) == (table.stored_bytes, 0)
    at = 0
    for block in blocks:
        filter_bytes = block.bit_count // 8
        axes.barh(
            1, block.length_bytes, 0.5, left=at, color=_DATA, edgecolor="black", linewidth=0.4
        )
        axes.barh(
            1, filter_bytes, 0.5, left=at + block.length_bytes - 32 - filter_bytes, color=_FILTER
        )
        at += block.length_bytes
    sections = (
        ("filters, second copy", filters, _FILTER),
        ("index", index, _INDEX),
        ("properties", properties, _OTHER),
        ("footer", 72, "black"),
    )
    for place, (name, length, color) in enumerate(sections):
        axes.barh(1, length, 0.5, left=at, color=color, edgecolor="black", linewidth=0.4)
        height = -0.16 + 0.22 * place  # the first is highest, so that no line crosses a name
        axes.plot((at + length / 2,) * 2, (height, 0.75), color="gray", linewidth=0.5)
        axes.text(at + length / 2, height, f" {name}, {length:,} bytes", va="bottom", fontsize=8)
        at += length
    label = f"{len(blocks)} data blocks, {data:,} bytes: payload, filter, trailer"
    axes.text(data / 2, 0.7, label, ha="center", va="bottom", fontsize=8)

    block = blocks[len(blocks) // 2]
    scale = at / block.length_bytes
    filter_bytes = block.bit_count // 8
    payload = block.length_bytes - filter_bytes - 32
    left = 0.0
    for name, length, color, align in (
        (f"payload: {block.entry_count} entries, sorted", payload, _DATA, "center"),
        ("filter", filter_bytes, _FILTER, "right"),
        ("trailer", 32, _OTHER, "left"),
    ):
        width = length * scale
        axes.barh(2.4, width, 0.5, left=left, color=color, edgecolor="black", linewidth=0.6)
        x = left + {"center": width / 2, "right": width * 0.8, "left": width * 0.2}[align]
        axes.text(x, 2.7, f"{name}, {length} bytes", ha=align, va="top", fontsize=8)
        left += width
    for x, target in ((block.offset, 0.0), (block.offset + block.length_bytes, float(at))):
        axes.plot((x, target), (1.25, 2.15), color="gray", linewidth=0.7)
    axes.set_ylim(2.9, -0.3)
    axes.set_xlim(0, at * 1.15)
    axes.axis("off")
    axes.set_title(f"One table file of {at:,} bytes, and one of its blocks")


def _run_names(db: lsmkv.DB) -> list[str]:
    """The names of the runs, in the order in which lookups ask them."""
    names: list[str] = []
    for level in db.inspect().levels:
        names.extend(_row(level.number, names) for _ in level.runs)
    return names


def _steps(db: lsmkv.DB, key: bytes) -> list[tuple[str, str]]:
    """The steps of a lookup, and how each ends."""
    explanation = db.explain(key)
    steps: list[tuple[str, str]] = [
        (f"memtable: {step.outcome}", step.outcome) for step in explanation.memtables
    ]
    for place, run in zip(_run_names(db), explanation.runs, strict=False):
        if run.table is None:
            steps.append((f"{place}: no table spans the key", run.outcome))
        elif run.outcome == "filtered":
            steps.append((f"{place}, block {run.block}: its filter says no", run.outcome))
        else:
            steps.append(
                (f"{place}, block {run.block}: filter says maybe; {run.outcome}", run.outcome)
            )
    return [*steps, (f"answer: {explanation.outcome}", explanation.outcome)]


def draw_lookups(db: lsmkv.DB, axes: Axes) -> None:
    """Draw the lookups of a present and an absent key."""
    present = next(
        _key(number)
        for number in range(400, _KEYS)
        if [step.outcome for step in db.explain(_key(number)).runs][:1] == ["filtered"]
        and len(db.explain(_key(number)).runs) > 2
    )
    absent = next(
        _key(number) + b"x"
        for number in range(400, _KEYS)
        if [step.outcome for step in db.explain(_key(number) + b"x").runs].count("filtered") > 2
    )
    for column, key in enumerate((present, absent)):
        axes.text(column, 0, f"get({key!r})", ha="center", va="center", weight="bold")
        for row, (line, outcome) in enumerate(_steps(db, key), 1):
            box = {
                "boxstyle": "round",
                "facecolor": _ENDING.get(outcome, "white"),
                "edgecolor": "gray",
            }
            axes.text(column, row, line, ha="center", va="center", bbox=box)
            if row > 1:
                axes.annotate(
                    "", (column, row - 0.3), (column, row - 0.7), arrowprops={"arrowstyle": "->"}
                )
    axes.set_xlim(-0.5, 1.5)
    axes.set_ylim(7.5, -0.6)
    axes.axis("off")
    axes.set_title("Two lookups: a filter that says no spares the read of its block")


def draw(folder: Path) -> list[Path]:
    """Draw every picture into ``folder``; returns the files."""
    drawn = []
    with small_store() as (db, path), mpl.rc_context(_STYLE):
        pictures: dict[str, tuple[Callable[[Axes], None], float]] = {
            "store": (lambda axes: draw_store(db, axes), 2.8),
            "table": (lambda axes: draw_table(db, path, axes), 3.0),
            "lookups": (lambda axes: draw_lookups(db, axes), 3.4),
        }
        folder.mkdir(parents=True, exist_ok=True)
        for name, (draw_on, height_inches) in pictures.items():
            figure = Figure(figsize=(9, height_inches), layout="constrained")
            draw_on(figure.add_subplot())
            file = folder / f"{name}.svg"
            figure.savefig(file, metadata={"Date": None, "Creator": None}, facecolor="white")
            drawn.append(file)
    return drawn


if __name__ == "__main__":
    for file in draw(FOLDER):
        print(file.relative_to(CHECKOUT))
