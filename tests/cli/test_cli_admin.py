"""``lsmkv`` verify, repair, compact and destroy."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import lsmkv
from commands import damage_block, fail, fill_tables, read, run, succeed
from lsmkv.cli.group import describe


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def _lose_current(store: str) -> None:
    Path(store, "CURRENT").unlink()


def _damage_current(store: str) -> None:
    Path(store, "CURRENT").write_bytes(b"nonsense\n")


def _lose_table(store: str) -> None:
    next(Path(store).glob("*.sst")).unlink()


@pytest.mark.parametrize("damage", [damage_block, _damage_current, _lose_current, _lose_table])
def test_verify_json_has_one_shape(store: str, damage: Callable[[str], None]) -> None:
    sound = json.loads(succeed("verify", fill_tables(store), "--json"))
    damage(store)
    result = run("verify", store, "--json")
    shown = json.loads(result.stdout)
    assert (result.exit_code, shown["ok"]) == (4, False)
    assert {name: type(value) for name, value in shown.items()} == {
        name: type(value) for name, value in sound.items()
    }
    assert [sorted(problem) for problem in shown["problems"]] == [["offset", "path", "reason"]]


def test_repair_builds_a_sound_store(store: str, tmp_path: Path) -> None:
    damage_block(fill_tables(store))
    rescued = str(tmp_path / "rescued")
    run("repair", store, "--output", rescued)
    succeed("verify", rescued)
    assert 400 < len(read(rescued)) < 500


def test_repair_in_place_does_not_ask_with_yes(store: str) -> None:
    damage_block(fill_tables(store))
    run("repair", store, "--in-place", "--yes")
    succeed("verify", store)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_repair_exits_with_4_when_something_is_lost(
    store: str, tmp_path: Path, options: list[str]
) -> None:
    damage_block(fill_tables(store))
    result = run("repair", store, "--output", str(tmp_path / "new"), *options)
    assert (result.exit_code, result.stderr) == (4, "")
    assert result.stdout


def test_repair_json_is_the_only_standard_output(store: str, tmp_path: Path) -> None:
    json.loads(succeed("repair", fill_tables(store), "--output", str(tmp_path / "new"), "--json"))


def test_compact_makes_one_run_and_forgets_the_deleted(store: str) -> None:
    fill_tables(store)
    fill_tables(store, 300)
    succeed("delete", store, "key0000")
    shown = json.loads(succeed("compact", store, "--json"))
    assert (shown["before"]["runs"], shown["after"]["runs"]) == (2, 1)
    assert shown["after"]["entries"] == 499


def test_compact_says_when_there_is_nothing_to_merge(store: str) -> None:
    succeed("compact", fill_tables(store))
    assert b"Nothing to merge" in succeed("compact", store)


def test_compact_can_be_narrowed_to_a_range(store: str) -> None:
    succeed("compact", fill_tables(store), "--start", "key0100", "--stop", "key0200")
    assert len(read(store)) == 500


def test_compact_rewrites_with_the_options_set(store: str) -> None:
    fill_tables(store)
    fill_tables(store)
    succeed("compact", store, "--set", "error_rate=0.2")
    with lsmkv.open(store, read_only=True) as db:
        assert [table.requested_rate for table in db.inspect().tables()] == [0.2]


# --- destroy ---


def test_destroy_says_which_files_keep_the_directory(store: str) -> None:
    damage_block(fill_tables(store))
    run("repair", store, "--in-place", "--yes")
    Path(store, "a.txt").write_text("mine")
    message = run("destroy", store, "--yes").stderr
    assert message == f"Removed the store; {store} stays: other files are in it, such as lost.\n"


def test_destroy_refuses_a_store_that_is_open_for_writing(store: str) -> None:
    with lsmkv.open(store) as db:
        db[b"a"] = b"1"
        assert f"in this process ({os.getpid()})" in fail("destroy", store, "--yes")
    assert read(store) == {b"a": b"1"}


URL = "s3://bucket/store"


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        ("PUT http://169.254.169.254/latest/api/token: 403", "no credentials were found"),
        ("<Code>NoSuchBucket</Code>", "the bucket does not exist; create it first"),
    ],
)
def test_an_answer_of_object_storage_is_explained(answer: str, meaning: str) -> None:
    assert meaning in describe(OSError(f"{URL}/generations: LIST: {answer}"))
