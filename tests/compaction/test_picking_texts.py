"""Drawn trees, the compactions that are picked in them, and the trees after."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from drawn_trees import Drawing
from lsmkv.compaction.picker import (
    Compaction,
    PickState,
    level_target_bytes,
    pick,
    pick_for_reads,
    pick_range,
)
from lsmkv.engine.placement import places
from lsmkv.sstable.format import TableMeta
from lsmkv.tree.levels import Levels, PlacedTable
from made_trees import KIB, OPTIONS
from texts import CheckText, Command, Commands, Section, sections, title


class Picking:
    """A drawn tree, and what the picker remembers of earlier picks."""

    def __init__(self) -> None:
        self.options = OPTIONS
        self.drawing = Drawing()
        self.levels = Levels()
        self.state = PickState()
        self.commands: Commands = {
            "options": self.set_options,
            "tree": self.tree,
            "pick": self.pick,
            "pick-all": self.pick_all,
            "pick-for-reads": self.pick_for_reads,
            "compact": self.compact,
            "ingest": self.ingest,
        }

    def set_options(self, command: Command) -> str:
        said: dict[str, Any] = dict(word.split("=") for word in command.words)
        said = {name: int(text) if text.isdigit() else text for name, text in said.items()}
        self.options = self.options.replace(**said)
        return ""

    def tree(self, command: Command) -> str:
        self.levels = Levels().changed(self.drawing.read(command.input), ())
        return ""

    def pick(self, command: Command) -> str:
        """Pick, and apply it after the flushes that the input draws: they came meanwhile."""
        found = pick(self.levels, self.options, self.state)
        sizes = self._sizes()
        if command.input:
            self.levels = self.levels.changed(self.drawing.read(command.input), ())
        return "\n".join([*sizes, self._applied(found)])

    def pick_all(self, _: Command) -> str:
        lines = []
        while (found := pick(self.levels, self.options, self.state)) is not None:
            lines.append(self._told(found))
            self._apply(found)
        return "\n".join([*lines, self.drawing.draw(self.levels)])

    def pick_for_reads(self, _: Command) -> str:
        return self._applied(pick_for_reads(self.levels, self.options, self.state))

    def compact(self, command: Command) -> str:
        start, stop = (
            None if bound is None else bound.encode()
            for bound in (command.option("start"), command.option("stop"))
        )
        force = "force" in command.words
        return self._applied(pick_range(self.levels, self.options, start, stop, force=force))

    def ingest(self, command: Command) -> str:
        tables = [placed.meta for placed in self.drawing.read(command.input)]
        fresh = max([0, *self._numbers(), *(meta.number for meta in tables)]) + 1
        wanted = places(self.levels, self.options, tables)
        added = [
            PlacedTable(level, fresh if run is None else run, meta)
            for meta, (level, run) in zip(tables, wanted, strict=True)
        ]
        self.levels = self.levels.changed(added, ())
        return self.drawing.draw(self.levels)

    def _sizes(self) -> list[str]:
        """How full each level is: what a pick decides by."""
        sizes = []
        for level, runs in enumerate(self.levels.by_depth):
            if level == 0:
                sizes.append(f"L0 {len(runs)}/{self.options.level0_compaction_trigger} runs")
            elif self.options.compaction == "leveled":
                target = level_target_bytes(level, self.options)
                sizes.append(f"L{level} {self.levels.level_bytes(level) // KIB}K/{target // KIB}K")
            else:
                sizes.append(f"L{level} {len(runs)}/{self.options.size_ratio} runs")
        return [", ".join(sizes)] if sizes else []

    def _applied(self, found: Compaction | None) -> str:
        if found is None:
            return "nothing to do"
        told = self._told(found)
        self._apply(found)
        return f"{told}\n{self.drawing.draw(self.levels)}"

    def _told(self, found: Compaction) -> str:
        level_of = {placed.meta.number: placed.level for placed in self.levels.placed()}
        inputs: dict[int, list[str]] = {}
        for run in found.inputs:
            numbers = " ".join(str(meta.number) for meta in run)
            inputs.setdefault(level_of[run[0].number], []).append(numbers)
        what = " + ".join(f"L{level}: {', '.join(runs)}" for level, runs in inputs.items())
        to = f"{'a new run of ' if found.output_run is None else ''}L{found.output_level}"
        if found.move:
            return f"move {what} -> {to}"
        return f"merge {what} -> {to}, deletions {'dropped' if found.drop_deletions else 'kept'}"

    def _apply(self, found: Compaction) -> None:
        """Change the tree as the compaction would; a merge makes one table."""
        tables, fresh = found.tables(), max(self._numbers()) + 1
        run = fresh if found.output_run is None else found.output_run
        made = tables if found.move else [self._merged(found, fresh)]
        self.levels = self.levels.changed(
            [PlacedTable(found.output_level, run, meta) for meta in made],
            [meta.number for meta in tables],
        )

    def _merged(self, found: Compaction, number: int) -> TableMeta:
        tables, drops = found.tables(), found.drop_deletions
        self.drawing.join(number, tables)
        return msgspec.structs.replace(
            tables[0],
            number=number,
            size_bytes=sum(meta.size_bytes for meta in tables),
            smallest=min(meta.smallest for meta in tables),
            largest=max(meta.largest for meta in tables),
            largest_seq=0 if drops else max(meta.largest_seq for meta in tables),
            tombstone_count=0 if drops else sum(meta.tombstone_count for meta in tables),
        )

    def _numbers(self) -> list[int]:
        return [placed.meta.number for placed in self.levels.placed()]


@pytest.mark.parametrize("section", sections(__file__), ids=title)
def test_picking(section: Section, check_text: CheckText) -> None:
    check_text(section, Picking().commands)
