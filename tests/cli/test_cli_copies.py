"""``lsmkv`` checkpoint and backup."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lsmkv
from commands import fail, fill, fill_tables, one_line, read, succeed
from lsmkv.tree.ownership import UNFINISHED_NOTE

ENTRIES = {b"a": b"1", b"b": b"2"}
EACH_COMMAND = pytest.mark.parametrize("command", ["checkpoint", "backup"])


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "target")


@EACH_COMMAND
def test_the_copy_has_what_the_store_has(command: str, store: str, target: str) -> None:
    fill(store, ENTRIES)
    assert target.encode() in succeed(command, store, target)
    assert read(target) == ENTRIES


@EACH_COMMAND
def test_a_program_may_write_meanwhile(command: str, store: str, target: str) -> None:
    with lsmkv.open(store) as db:
        db.update(ENTRIES)
        succeed(command, store, target)
    assert read(target) == ENTRIES


def test_checkpoint_prints_json(store: str, target: str) -> None:
    shown = json.loads(succeed("checkpoint", fill_tables(store), target, "--json"))
    assert shown["path"] == target
    assert shown["linked_count"] == shown["table_count"] > 0


def test_backup_prints_json_and_copies_only_once(store: str, target: str) -> None:
    first = json.loads(succeed("backup", fill_tables(store), target, "--json"))
    second = json.loads(succeed("backup", store, target, "--json"))
    assert (first["is_first"], second["is_first"]) == (True, False)
    assert first["copied_count"] == first["table_count"] > 0
    assert second["copied_count"] == 0


def test_the_backup_of_another_store_is_refused(store: str, target: str, tmp_path: Path) -> None:
    fill(store, ENTRIES)
    succeed("backup", store, target)
    other = fill_tables(str(tmp_path / "other"))
    message = fail("backup", other, target)
    assert one_line(message) and "backup of another store" in message


def test_verify_says_that_a_copy_is_unfinished(store: str, target: str) -> None:
    succeed("backup", fill_tables(store), target)
    Path(target, "CURRENT").unlink()
    Path(target, "UNFINISHED").write_bytes(UNFINISHED_NOTE)
    message = fail("verify", target, code=1)
    assert one_line(message) and "unfinished checkpoint or backup" in message
