"""Forms of traces: the operations of their lines, and what is wrong with a line."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import zstandard

from bench import traces
from bench.experiments.replay.steps import Step, Trace, steps, survey
from bench.traces.base import Operation, format_named, formats, read_trace, register

SAMPLES: Final[dict[str, tuple[str, list[Operation]]]] = {
    "twitter": (
        "7,nz:a,b,6,300,9,set,60\n7,nz:c,4,8,9,incr,0\n8,nz:a,b,6,0,9,get,0\n8,k,1,0,9,gets,0\n"
        "9,nz:a,b,6,0,9,delete,0\n",
        [
            Operation("put", (b"nz:a,b",), 300, 60, time_s=7),
            Operation("put", (b"nz:c",), 8, time_s=7),
            Operation("get", (b"nz:a,b",), time_s=8),
            Operation("get", (b"k",), time_s=8),
            Operation("delete", (b"nz:a,b",), time_s=9),
        ],
    ),
    "rocksdb": (
        "0x6B31 1 0 300 7000000\n0x6B31 0 1 0 7000001\n0x6B 8 0 0 8000001\n0x6B32 8 0 0 8000001\n"
        "0x6B39 7 0 0 9000000\n",
        [
            Operation("put", (b"k1",), 300, time_s=7),
            Operation("get", (b"\0\0\0\1k1",), time_s=7),
            Operation("multi-get", (b"k", b"k2"), time_s=8),
            Operation("scan", (b"k9",), limit=1, is_reverse=True, time_s=9),
        ],
    ),
    "ycsb": (
        "INSERT usertable user1 [ field0=a b field1=] ]\nREAD usertable user1 [ <all fields>]\n"
        "SCAN usertable user1 17 [ field0 ]\nDELETE usertable user1\n[OVERALL], RunTime(ms), 5\n",
        [
            Operation("put", (b"usertable/user1",), len("field0=a b field1=]")),
            Operation("get", (b"usertable/user1",)),
            Operation("scan", (b"usertable/user1",), limit=17),
            Operation("delete", (b"usertable/user1",)),
        ],
    ),
    "tectonic": (
        "FS S\nI aa valu\nQ aa\nSC aa 9\nR aa ab\n",
        [
            Operation("put", (b"aa",), 4),
            Operation("get", (b"aa",)),
            Operation("scan", (b"aa",), limit=9),
            Operation("delete-range", (b"aa", b"ab")),
        ],
    ),
    "cs265": (
        "p 10 7\ng -1\nr -2147483648 2147483647\nd 10\ns\n",
        [
            Operation("put", (b"\x80\0\0\x0a",), 4),
            Operation("get", (b"\x7f\xff\xff\xff",)),
            Operation("scan", (b"\0\0\0\0", b"\xff\xff\xff\xff")),
            Operation("delete", (b"\x80\0\0\x0a",)),
        ],
    ),
    "plain": (
        "time 1700000000\nput a%20b 300 60\nmulti-get a%20b - c\nscan-reverse a%20b 9\nhttps://a?b%20\n",
        [
            Operation("time", time_s=1_700_000_000),
            Operation("put", (b"a b",), 300, 60),
            Operation("multi-get", (b"a b", b"", b"c")),
            Operation("scan", (b"a b",), limit=9, is_reverse=True),
            Operation("get", (b"https://a?b%20",)),
        ],
    ),
}  # fmt: skip
"""Five lines of each form, and their operations."""

BAD: Final = {
    "twitter": "7,nz:a,6,300,9,flush,60",
    "rocksdb": "0x6B31 4 0 0 7000000",  # DeleteRange without its end
    "ycsb": "READ usertable",
    "tectonic": "I aa",
    "cs265": "p 10 2147483648",
    "plain": "put a many",
}


def as_it_is(text: bytes) -> bytes:
    return text


def packed(text: bytes) -> bytes:
    """Two frames, as Twitter's files have."""
    return zstandard.compress(text[:9]) + zstandard.compress(text[9:])


@pytest.mark.parametrize("pack", [as_it_is, gzip.compress, packed])
@pytest.mark.parametrize("name", SAMPLES)
def test_five_lines_of_a_form_are_their_operations(
    name: str, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    lines, operations = SAMPLES[name]
    assert lines.count("\n") == 5
    path = tmp_path / "trace"
    path.write_bytes(pack(lines.encode()))
    found = format_named("auto", str(path))
    assert found.name == name
    assert list(read_trace(str(path), found)) == operations


@pytest.mark.parametrize("name", SAMPLES)
def test_a_line_that_is_no_operation_is_told_with_file_and_number(
    name: str, tmp_path: Path
) -> None:
    assert SAMPLES.keys() == BAD.keys() == {each.name for each in formats()}
    path = tmp_path / "trace"
    path.write_text(SAMPLES[name][0] + BAD[name] + "\n")
    told = f"{path}, line 6: not of the format {name}, which has .*: {BAD[name]}"
    with pytest.raises(ValueError, match=told):
        list(read_trace(str(path), format_named(name, str(path))))


def test_a_packed_trace_that_is_cut_short_is_told(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(b"key\n" * 100)[:-9])
    with pytest.raises(ValueError, match=f"{path}: its packed data are damaged or cut short"):
        list(read_trace(str(path), format_named("plain", str(path))))


def test_a_form_has_a_name_of_its_own() -> None:
    with pytest.raises(ValueError, match="'plain' is registered already"):
        register(format_named("plain", ""))


@pytest.mark.parametrize("name", [each.name for each in formats()])
def test_a_reader_takes_at_most_sixty_lines_and_names_what_describes_its_form(name: str) -> None:
    source = Path(traces.__file__).with_name(f"{name}.py").read_text()
    assert len(source.splitlines()) <= 60
    assert name == "plain" or re.search("https?://", source.split('"""')[1])


# Steps


def steps_of(lines: str, tmp_path: Path, *, expires: bool = False) -> list[Step]:
    path = tmp_path / "trace"
    path.write_text(lines)
    trace = Trace(str(path), "plain", 1000)
    return list(steps(trace, survey(trace).keys, expires=expires))


def test_lookups_are_of_what_was_put_and_not_deleted_by_then(tmp_path: Path) -> None:
    lines = "get a\nput a 1\nput b 1\nget a\ndelete a\nget a\nmulti-get a b b c\n"
    found = [(step.who, step.expected) for step in steps_of(lines, tmp_path)]
    assert [each for each in found if each[0] not in ("write", "settle")] == [
        ("absent", 0), ("present", 1), ("absent", 0), ("multi-get", 2)
    ]  # fmt: skip


def test_ranges_have_the_entries_that_are_there_by_then(tmp_path: Path) -> None:
    lines = "".join(f"put {key} 1\n" for key in "dbcax")
    lines += "scan b 9\nscan b 2\nscan-reverse c 9\ndelete-range b d\nscan - 9\n"
    found = steps_of(lines, tmp_path)
    assert [step.expected for step in found if step.who == "scan"] == [4, 2, 3, 3]
    deleted = [step.operation.keys for step in found if step.operation.kind == "delete"]
    assert deleted == [(b"b",), (b"c",)]


@pytest.mark.parametrize("expires", [True, False])
def test_an_entry_that_is_due_is_gone_and_deleted_where_stores_do_not_expire(
    expires: bool, tmp_path: Path
) -> None:
    lines = (
        "time 100\nput a 1 60\nput b 1 60\nput b 1 90\ntime 159\nget a\ntime 160\nget a\nget b\n"
    )
    found = steps_of(lines, tmp_path, expires=expires)
    assert [step.who for step in found if step.operation.kind == "get"] == [
        "present", "absent", "present"
    ]  # fmt: skip
    assert [step.operation.kind for step in found].count("delete") == (not expires)


def test_a_store_settles_after_so_many_bytes_of_puts_and_at_the_end(tmp_path: Path) -> None:
    found = steps_of("put a 400\nput b 600\n" * 3 + "get a\n", tmp_path)
    assert [step.who for step in found] == [*("write", "write", "settle") * 3, "present", "settle"]
