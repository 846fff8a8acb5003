"""What commands print and leave: the texts in ``testdata``, whose first lines explain them."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

import commands
from lsmkv.encoding.text_form import from_text, to_text
from texts import CheckText, Command, Section, sections, title


def lsmkv(command: Command) -> str:
    words = shlex.split(" ".join(command.words))
    stdin = "".join(f"{line}\n" for line in command.input).encode()
    done = commands.run(*words, stdin=stdin)
    shown = json.dumps(json.loads(done.stdout)) if done.stdout.startswith("{\n") else done.stdout
    told = [line for line in done.stderr.splitlines() if not line.startswith(("Usage:", "Try "))]
    lines = [*shown.splitlines(), *(f"! {line}" for line in told if line)]
    if done.exit_code:
        lines.append(f"exit {done.exit_code}")
    here = os.getcwd()
    return (
        "\n".join(line.rstrip() for line in lines if line.strip())
        .replace(f"{here}/", "")
        .replace(here, ".")
    )


def fill(command: Command) -> str:
    store, *entries = command.words
    pairs = (entry.partition("=") for entry in entries)
    commands.fill(store, {from_text(key): from_text(value) for key, _, value in pairs})
    return ""


def read(command: Command) -> str:
    (store,) = command.words
    if not Path(store, "CURRENT").exists():
        return "no store" if not Path(store).exists() else "a directory without a store"
    found = commands.read(store).items()
    return "\n".join(f"{to_text(key)}={to_text(value)}" for key, value in found) or "empty"


def tables(command: Command) -> str:
    (store,) = command.words
    commands.fill_tables(store)
    return ""


def damage(command: Command) -> str:
    store, what = command.words
    if what == "block":
        commands.damage_block(store)
    else:
        Path(store, what).write_bytes(b"nonsense\n")
    return ""


def remove(command: Command) -> str:
    os.unlink(*command.words)
    return ""


def write(command: Command) -> str:
    Path(command.words[0]).parent.mkdir(exist_ok=True)
    Path(command.words[0]).write_text("".join(f"{line}\n" for line in command.input), "utf-8")
    return ""


def show(command: Command) -> str:
    return Path(*command.words).read_text("utf-8").removesuffix("\n")


def link(command: Command) -> str:
    target, name = command.words
    os.symlink(target, name)
    return ""


def files(command: Command) -> str:
    return " ".join(sorted(os.listdir(*command.words)))


COMMANDS = (lsmkv, fill, read, tables, damage, remove, write, show, link, files)


@pytest.mark.parametrize("section", sections(__file__), ids=title)
def test_commands_print_what_their_text_says(
    section: Section, check_text: CheckText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_text(section, {command.__name__: command for command in COMMANDS})
