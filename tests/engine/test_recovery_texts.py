"""Drawn directories, and what opening or repairing them gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import SMALL

import lsmkv
from drawn_directories import DrawnDirectory
from texts import CheckText, Command, Commands, Section, sections, title


class Recovering:
    def __init__(self, directory: Path) -> None:
        self.path = directory / "store"
        self.commands: Commands = {
            "directory": self.directory,
            "open": self.open,
            "repair": self.repair,
        }

    def directory(self, command: Command) -> str:
        DrawnDirectory(self.path).draw(command.input)
        return ""

    def open(self, command: Command) -> str:
        """Open the store, put the keys ``put=``, and open it once more: the same is there."""
        before = self._files()
        read_only = "read-only" in command.words
        try:
            db = lsmkv.open(self.path, SMALL, read_only=read_only)
        except lsmkv.Error as error:
            left = self._files()
            left.pop("LOCK", None)
            assert left == {name: data for name, data in before.items() if name != "LOCK"}
            return f"{type(error).__name__}: {self._without_path(error)}"
        with db:
            if not read_only:
                db.wait_until_settled()
            after = self._files()
            for key in filter(None, (command.option("put") or "").split(",")):
                db[key.encode()] = b"new"
            found = dict(db)
        with lsmkv.open(self.path, SMALL, read_only=True) as again:
            assert dict(again) == found
        return "\n".join([_shown(found), *_changes(before, after)])

    def repair(self, _: Command) -> str:
        output = self.path.with_name("repaired")
        report = lsmkv.repair(self.path, output)
        with lsmkv.open(output, SMALL) as db:
            found = dict(db)
        told = [*report.problems, *report.lost_ranges, *report.notes]
        whole = "nothing is lost" if report.is_complete else "not all of it"
        return "\n".join([_shown(found), whole, *map(self._without_path, told)])

    def _files(self) -> dict[str, bytes]:
        if not self.path.exists():
            return {}
        return {
            path.name + "/" * path.is_dir(): path.read_bytes() if path.is_file() else b""
            for path in sorted(self.path.iterdir())
        }

    def _without_path(self, told: object) -> str:
        return str(told).replace(f"{self.path}/", "").replace(str(self.path), "the store")


def _shown(contents: dict[bytes, bytes]) -> str:
    items = [f"{key.decode()}={value.decode()}" for key, value in contents.items()]
    return " ".join(items) or "no keys"


def _changes(before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    """The names of files that stay, go and come; an asterisk: with other contents."""
    lines = []
    for what, names in (
        ("stays", [name for name in before if name in after]),
        ("goes", [name for name in before if name not in after]),
        ("comes", [name for name in after if name not in before]),
    ):
        marked = [
            name + "*" * (what == "stays" and before[name] != after[name])
            for name in names
            if name != "LOCK" or what == "goes"
        ]
        if marked:
            lines.append(f"{what:<6} {' '.join(marked)}")
    return lines


@pytest.mark.parametrize("section", sections(__file__), ids=title)
def test_recovery(section: Section, check_text: CheckText, tmp_path: Path) -> None:
    check_text(section, Recovering(tmp_path).commands)
