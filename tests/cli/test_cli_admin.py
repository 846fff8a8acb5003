"""``lsmkv`` verify, repair, compact and destroy."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import lsmkv
from commands import damage_block, fail, fill, fill_tables, one_line, read, run, succeed
from lsmkv.cli.group import describe


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def test_verify_finds_a_sound_store_sound(store: str) -> None:
    shown = json.loads(succeed("verify", fill_tables(store), "--json"))
    assert (shown["ok"], shown["problems"]) == (True, [])


def test_verify_exits_with_4_when_a_block_is_damaged(store: str) -> None:
    damage_block(fill_tables(store))
    result = run("verify", store)
    assert result.exit_code == 4
    assert ".sst" in result.stdout


def test_verify_json_lists_the_damage(store: str) -> None:
    damage_block(fill_tables(store))
    shown = json.loads(run("verify", store, "--json").stdout)
    assert not shown["ok"]
    assert len(shown["problems"]) == 1


def test_verify_exits_with_4_when_the_store_cannot_be_opened(store: str) -> None:
    fill_tables(store)
    Path(store, "CURRENT").write_bytes(b"nonsense\n")
    message = fail("verify", store, code=4)
    assert one_line(message) and "CURRENT" in message


def test_verify_exits_with_4_when_a_store_has_lost_its_current(store: str) -> None:
    fill_tables(store)
    Path(store, "CURRENT").unlink()
    message = fail("verify", store, code=4)
    assert one_line(message) and "CURRENT: it is missing" in message


def test_verify_exits_with_1_where_no_store_is(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert "holds no lsmkv store" in fail("verify", str(tmp_path), code=1)
    fail("verify", str(tmp_path / "nowhere"), code=1)


@pytest.mark.parametrize("names", [["CURRENT"], []])
def test_verify_exits_with_1_where_another_programs_files_are(
    tmp_path: Path, names: list[str]
) -> None:
    for name in ["MANIFEST-000001", "000002.log", *names]:
        (tmp_path / name).write_text("MANIFEST-000001\n")
    message = fail("verify", str(tmp_path), code=1)
    assert one_line(message) and "is missing" not in message


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


def test_repair_in_place_asks_first(store: str) -> None:
    damage_block(fill_tables(store))
    result = run("repair", store, "--in-place", stdin=b"n\n")
    assert result.exit_code == 1
    assert run("verify", store).exit_code == 4


def test_repair_in_place_does_not_ask_with_yes(store: str) -> None:
    damage_block(fill_tables(store))
    run("repair", store, "--in-place", "--yes")
    succeed("verify", store)


def test_repair_exits_with_0_when_nothing_is_lost(store: str, tmp_path: Path) -> None:
    Path(fill_tables(store), "CURRENT").unlink()
    assert b"nothing is lost" in succeed("repair", store, "--output", str(tmp_path / "new"))


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


@pytest.mark.parametrize("options", [[], ["--in-place", "--output", "x"]])
def test_repair_needs_an_output(store: str, options: list[str]) -> None:
    fail("repair", fill_tables(store), *options, code=2)


def test_repair_into_the_store_itself_is_wrong_usage(store: str) -> None:
    message = fail("repair", fill_tables(store), "--output", os.path.join(store, "new"), code=2)
    assert "give another directory, or --in-place instead" in message
    assert "in_place" not in message


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
    succeed("compact", store, "--set", "error_rate=0.001")
    with lsmkv.open(store, read_only=True) as db:
        assert [table.requested_rate for table in db.inspect().tables()] == [0.001]


# --- destroy ---


def test_destroy_removes_the_store_and_its_directory(store: str) -> None:
    succeed("destroy", fill_tables(store), "--yes")
    assert not os.path.exists(store)


def test_destroy_asks_first(store: str) -> None:
    fail("destroy", fill(store, {b"a": b"1"}), stdin=b"n\n")
    assert read(store) == {b"a": b"1"}


def test_destroy_changes_nothing_when_nobody_answers(store: str) -> None:
    assert "give --yes" in fail("destroy", fill(store, {b"a": b"1"}), stdin=b"")
    assert read(store) == {b"a": b"1"}


def test_destroy_leaves_foreign_files(store: str) -> None:
    fill(store, {b"a": b"1"})
    Path(store, "notes.txt").write_text("mine")
    shown = json.loads(succeed("destroy", store, "--yes", "--json"))
    assert shown == {"path": store, "directory_removed": False}
    assert os.listdir(store) == ["notes.txt"]


def test_destroy_says_which_files_keep_the_directory(store: str) -> None:
    damage_block(fill_tables(store))
    run("repair", store, "--in-place", "--yes")
    Path(store, "a.txt").write_text("mine")
    message = run("destroy", store, "--yes").stderr
    assert message == f"Removed the store; {store} stays: other files are in it, such as lost.\n"


def test_destroy_tells_of_an_empty_directory_that_stays(store: str, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(fill_tables(store))
    message = run("destroy", str(link), "--yes").stderr
    assert message == f"Removed the store; {link} stays, and nothing is in it.\n"


@pytest.mark.parametrize("options", [[], ["--yes"]])
def test_destroy_refuses_a_directory_without_a_store(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    message = fail("destroy", str(tmp_path), *options, stdin=b"y\n")
    assert one_line(message) and "holds no lsmkv store" in message
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_destroy_refuses_a_store_that_is_open_for_writing(store: str) -> None:
    with lsmkv.open(store) as db:
        db[b"a"] = b"1"
        assert f"in this process ({os.getpid()})" in fail("destroy", store, "--yes")
    assert read(store) == {b"a": b"1"}


def test_destroy_removes_a_store_that_is_damaged(store: str) -> None:
    fill_tables(store)
    Path(store, "CURRENT").write_bytes(b"nonsense\n")
    succeed("destroy", store, stdin=b"y\n")
    assert not os.path.exists(store)


URL = "s3://bucket/store"


@pytest.mark.parametrize("command", [("put", URL, "key", "value"), ("compact", URL)])
def test_a_command_that_writes_says_where_to_write(command: tuple[str, ...]) -> None:
    said = fail(*command)
    assert 'write to a store in a directory, and send it with "lsmkv publish"' in said
    assert "read_only" not in said


def test_a_command_for_directories_says_which_take_urls() -> None:
    said = fail("destroy", URL, "--yes")
    assert 'only commands that read, and "lsmkv publish", take URLs' in said


def test_repair_says_that_a_url_is_none_of_its_stores() -> None:
    said = fail("repair", URL, "--output", "new", code=2)
    assert "is a URL: repair the store in its directory, and publish it again" in said


@pytest.mark.parametrize(
    ("answer", "meaning"),
    [
        ("PUT http://169.254.169.254/latest/api/token: 403", "no credentials were found"),
        ("<Code>NoSuchBucket</Code>", "the bucket does not exist; create it first"),
    ],
)
def test_an_answer_of_object_storage_is_explained(answer: str, meaning: str) -> None:
    assert meaning in describe(OSError(f"{URL}/generations: LIST: {answer}"))
