"""``lsmkv explain --lookups``: the forms of its file, and what it shows of it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import lsmkv
from commands import AWKWARD, damage_block, fail, fill, fill_tables, one_line, succeed

LONGEST = b"k" * lsmkv.MAX_KEY_BYTES


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store whose filters deny nothing."""
    path = str(tmp_path / "store")
    with lsmkv.open(path, filter_policy="none", block_size_bytes=512) as db:
        db.update({b"key%04d" % number: b"value" for number in range(500)})
        db.flush()
    return path


def _counts(store: str, lines: bytes, *options: str) -> tuple[int, int, int]:
    shown = succeed("explain", store, "--lookups", "-", "--json", *options, stdin=lines)
    found = json.loads(shown)
    return found["lookups"], found["present"], found["wasted"]


@pytest.mark.parametrize(
    "lines",
    [
        b"key0001\nkey0001x\n",
        b"key0001\r\nkey0001x",
        b"\n\nkey0001\n\nkey0001x\n\n",
        b"\xef\xbb\xbfkey0001\nkey0001x\n",
        b"key\\x30001\nkey0001\\\\\n",
        gzip.compress(b"key0001\nkey0001x\n"),
    ],
    ids=["lines", "crlf", "blank", "marked", "escaped", "gzip"],
)
def test_each_line_is_a_key(store: str, lines: bytes) -> None:
    assert _counts(store, lines) == (2, 1, 1)


def test_what_scan_prints_is_looked_up_and_found(tmp_path: Path) -> None:
    store = fill(str(tmp_path / "awkward"), AWKWARD)
    keys = len(AWKWARD) - 1  # without the empty one, which is a blank line
    for options in ([], ["--hex"]):
        lines = succeed("scan", store, "--keys-only", *options)
        assert _counts(store, lines, *options) == (keys, keys, 0)


def test_raw_lines_are_any_bytes(store: str) -> None:
    assert _counts(store, b"key0001\nkey0001\xff\\\x00\r\n", "--raw") == (2, 1, 1)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (b"a\n\xff\xfe\x00\n", "line 2: not UTF-8: "),
        (b"\xff\xfea\x00\n", "line 1: it is UTF-16; "),
        (b"\x7fELF\x02\x01\x01\x00\xb8\n", "line 1: not UTF-8: "),
        (gzip.compress(b"a\n" * 100)[:-9], "the gzip data are cut short"),
        (LONGEST + b"\n" + LONGEST + b"k\n", "line 2: key of "),
        (b"a\n" + b"k" * (8 * lsmkv.MAX_KEY_BYTES), "line 2: it has more than "),
    ],
    ids=["bytes", "utf-16", "program", "gzip", "long", "endless"],
)
def test_a_line_that_is_no_key_is_named(store: str, lines: bytes, reason: str) -> None:
    message = fail("explain", store, "--lookups", "-", stdin=lines)
    assert one_line(message) and message.startswith("Error: -: ") and reason in message


def test_a_damaged_block_ends_the_replay_with_its_place(tmp_path: Path) -> None:
    store = fill_tables(str(tmp_path / "damaged"))
    damage_block(store)
    message = fail("explain", store, "--lookups", "-", stdin=b"key0499\nkey0000\n")
    assert one_line(message) and ".sst at offset 0: " in message


def test_ten_blocks_and_keys_are_shown_unless_another_number_is_given(store: str) -> None:
    lines = b"".join(b"key%04dx\n" % number for number in range(499))
    for options, shown in (([], 10), (["--worst", "3"], 3), (["--worst", "10000"], 499)):
        found = json.loads(
            succeed("explain", store, "--lookups", "-", "--json", *options, stdin=lines)
        )
        assert len(found["keys"]) == shown
        assert len(found["blocks"]) == min(shown, found["wasteful_blocks"])


def test_a_cut_key_is_told(store: str) -> None:
    lines = b"key0001" + b"x" * 40 + b"\n"
    assert b"--json shows them whole" in succeed("explain", store, "--lookups", "-", stdin=lines)


def test_lookups_are_explained_beside_a_writer(store: str) -> None:
    with lsmkv.open(store) as db:
        db[b"new"] = b"1"
        assert _counts(store, b"new\n") == (1, 1, 0)
