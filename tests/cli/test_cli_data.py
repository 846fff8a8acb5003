"""``lsmkv`` put, get, delete and scan, and the text form of bytes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import lsmkv
from commands import AWKWARD, contents, fail, fill, one_line, read, succeed
from lsmkv.encoding.text_form import from_text, to_text


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


# --- the text form ---


@given(st.binary())
def test_text_reads_back_as_the_bytes_it_shows(data: bytes) -> None:
    assert from_text(to_text(data)) == data


@given(st.binary())
def test_text_is_one_line_without_control_characters(data: bytes) -> None:
    text = to_text(data)
    assert len(text.splitlines()) <= 1
    assert not re.search("[\x00-\x1f\x7f-\x9f]", text)


def test_text_leaves_letters_of_any_language_alone() -> None:
    assert to_text("naïve ☃ 日本".encode()) == "naïve ☃ 日本"


@pytest.mark.parametrize("text", ["\\", "\\n", "\\x4", "\\xzz", "C:\\data", "\\u0041"])
def test_text_takes_a_backslash_only_as_one_of_its_two_escapes(text: str) -> None:
    with pytest.raises(ValueError, match=r"write .* for a backslash"):
        from_text(text)


# --- put, get, delete ---


def test_the_absent_key_is_shown_on_one_short_line(store: str) -> None:
    fill(store, {b"a": b"1"})
    key = os.fsdecode(b"\x1b[31m\n" + b"k" * 1000)
    message = fail("get", store, key, "--raw", code=3)
    assert one_line(message) and message.startswith("\\x1b[31m\\x0akkk") and len(message) < 400


def test_get_works_beside_a_writer(store: str) -> None:
    with lsmkv.open(store) as db:
        db[b"a"] = b"1"
        assert succeed("get", store, "a") == b"1\n"


def test_put_beside_a_writer_fails_and_names_its_process(store: str) -> None:
    with lsmkv.open(store):
        assert f"in this process ({os.getpid()})" in fail("put", store, "a", "1")


def test_put_takes_standard_input_byte_for_byte(store: str) -> None:
    value = bytes(range(256)) + b"\r\n"
    succeed("put", store, "a", "-", stdin=value)
    assert read(store) == {b"a": value}


def test_raw_goes_in_and_out(store: str) -> None:
    succeed("put", store, os.fsdecode(b"a\xff\\"), "C:\\data", "--raw")
    assert read(store) == {b"a\xff\\": b"C:\\data"}
    assert succeed("get", store, os.fsdecode(b"a\xff\\"), "--raw") == b"C:\\data\n"


def test_raw_without_newline_prints_the_value_and_nothing_else(store: str) -> None:
    fill(store, {b"a": bytes(range(256))})
    assert succeed("get", store, "a", "--raw", "--no-newline") == bytes(range(256))


def test_a_key_over_the_limit_fails_in_one_line(store: str) -> None:
    message = fail("put", store, "k" * (lsmkv.MAX_KEY_BYTES + 1), "")
    assert one_line(message) and str(lsmkv.MAX_KEY_BYTES) in message


LETTERS = {letter: letter.upper() for letter in (b"a", b"b", b"ba", b"bb", b"c")}


def test_delete_by_prefix_goes_on_beyond_a_batch(store: str) -> None:
    fill(store, {b"x%04d" % number: b"" for number in range(2500)} | {b"y": b""})
    assert json.loads(succeed("delete", store, "--prefix", "x", "--yes", "--json")) == {
        "deleted": 2500
    }
    assert list(read(store)) == [b"y"]


@pytest.mark.parametrize(
    ("stop", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "stopped (1,000 entries deleted before that)"),
        (OSError(28, "No space"), 1, "Error: No space (1,000 entries deleted before that)"),
    ],
)
def test_an_interrupted_delete_by_prefix_reports_its_progress(
    store: str, monkeypatch: pytest.MonkeyPatch, stop: BaseException, code: int, said: str
) -> None:
    fill(store, {b"x%04d" % number: b"" for number in range(1500)})
    begin, begun = lsmkv.DB.write_batch, 0

    def batch(db: lsmkv.DB) -> lsmkv.WriteBatch:
        nonlocal begun
        begun += 1
        if begun > 1:
            raise stop
        return begin(db)

    monkeypatch.setattr(lsmkv.DB, "write_batch", batch)
    assert said in fail("delete", store, "--prefix", "x", "--yes", code=code)
    assert len(read(store)) == 500


# --- count ---


def test_count_is_exact_where_the_estimate_is_not(store: str) -> None:
    with lsmkv.open(store) as db:
        for _ in range(2):
            db.update(LETTERS)
            db.flush()
    assert succeed("count", store) == b"5\n"
    assert succeed("count", store, "--approximate") == b"10\n"


# --- scan ---


def test_scan_raw_prints_the_bytes(store: str) -> None:
    fill(store, {b"\xff": b"\\"})
    assert succeed("scan", store, "--raw") == b"\xff\t\\\n"


@pytest.mark.parametrize(
    ("scan_options", "load_options"),
    [([], ["--format", "tsv"]), (["--hex"], ["--format", "tsv", "--hex"]), (["--json"], [])],
)
@given(entries=contents)
@example(entries=AWKWARD)
def test_output_of_scan_can_be_loaded(
    scan_options: list[str], load_options: list[str], entries: dict[bytes, bytes]
) -> None:
    with TemporaryDirectory() as directory:
        printed = succeed("scan", fill(f"{directory}/a", entries), *scan_options)
        succeed("load", f"{directory}/b", "-", *load_options, stdin=printed)
        assert read(f"{directory}/b") == entries
