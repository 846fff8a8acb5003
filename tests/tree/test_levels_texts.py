"""Drawn trees, and what may be changed in them."""

from __future__ import annotations

import pytest

from drawn_trees import Drawing
from lsmkv.tree.levels import Levels
from texts import CheckText, Command, Commands, Section, sections, title


class Changes:
    """A drawn tree that is changed table by table."""

    def __init__(self) -> None:
        self.drawing = Drawing()
        self.levels = Levels()
        self.commands: Commands = {"change": self.change, "overlapping": self.overlapping}

    def change(self, command: Command) -> str:
        removed = [int(number) for number in (command.option("remove") or "").split(",") if number]
        try:
            self.levels = self.levels.changed(self.drawing.read(command.input), removed)
        except ValueError as error:
            return f"refused: {error}"
        return self.drawing.draw(self.levels)

    def overlapping(self, command: Command) -> str:
        smallest, largest = (word.encode() for word in command.words)
        found = [
            " ".join(str(meta.number) for meta in run.overlapping(smallest, largest)) or "none"
            for run in self.levels.runs()
        ]
        return ", ".join(found)


@pytest.mark.parametrize("section", sections(__file__), ids=title)
def test_levels(section: Section, check_text: CheckText) -> None:
    check_text(section, Changes().commands)
