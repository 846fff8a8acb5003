"""``lsmkv.TableWriter``: table files outside a store."""

from __future__ import annotations

import errno
import gc
import os
import re
import stat
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

import lsmkv
from lsmkv.errors import ClosedError
from lsmkv.filters.hashing import hash_key
from lsmkv.inspection.table_check import check_table, open_uncached
from lsmkv.options import Options
from lsmkv.sstable.reader import TableReader
from lsmkv.storage.storage import Storage


def reader(path: Path) -> TableReader:
    return open_uncached(Storage(), str(path))


def test_a_table_holds_what_was_added(tmp_path: Path) -> None:
    path = tmp_path / "any name"
    entries = {b"%05d" % number: b"value %d" % number for number in range(3000)}
    with lsmkv.TableWriter(path) as writer:
        for key, value in entries.items():
            writer.add(key, value)
    table = reader(path)
    assert check_table(table).problems == ()
    found = {key: table.get(key, hash_key(key), 0) for key in entries}
    assert found == entries


def test_finish_describes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "table"
    writer = lsmkv.TableWriter(path)
    writer.add(b"a", b"1")
    writer.delete(b"b")
    writer.add(b"c", b"3")
    info = writer.finish()
    assert info == lsmkv.TableFileInfo(str(path), 3, path.stat().st_size, b"a", b"c")
    assert writer.finish() is info


def test_buffers_are_copied(tmp_path: Path) -> None:
    key, value = bytearray(b"key"), bytearray(b"value")
    with lsmkv.TableWriter(tmp_path / "t") as writer:
        writer.add(key, memoryview(value))
        key[0] = value[0] = 0
    assert reader(tmp_path / "t").get(b"key", hash_key(b"key"), 0) == b"value"


def test_a_key_below_the_last_one_is_refused_and_both_are_named(tmp_path: Path) -> None:
    with lsmkv.TableWriter(tmp_path / "t") as writer:
        writer.add(b"hare", b"")
        with pytest.raises(ValueError, match=r"b'fox' follows b'hare'.*must ascend"):
            writer.add(b"fox", b"")
        with pytest.raises(ValueError, match=r"b'hare' follows b'hare': each key may come once"):
            writer.delete(b"hare")
        writer.add(b"owl", b"")
    table = reader(tmp_path / "t")
    assert (table.smallest, table.largest, table.meta.entry_count) == (b"hare", b"owl", 2)


@pytest.mark.parametrize(
    ("key", "value"), [("text", b""), (b"k", 7), (b"k" * 65_536, b""), (b"k", None)]
)
def test_what_is_no_key_or_value_is_refused(tmp_path: Path, key: object, value: object) -> None:
    with lsmkv.TableWriter(tmp_path / "t") as writer:
        with pytest.raises((TypeError, ValueError)):
            writer.add(key, value)  # type: ignore[arg-type]  # that is the test
        writer.add(b"k", b"v")
    assert reader(tmp_path / "t").meta.entry_count == 1


def test_the_options_shape_the_table(tmp_path: Path) -> None:
    with lsmkv.TableWriter(
        tmp_path / "t", Options(filter_policy="ribbon"), block_size_bytes=256, error_rate=0.001
    ) as writer:
        for number in range(1000):
            writer.add(b"%04d" % number, b"value")
    properties = reader(tmp_path / "t").properties
    assert properties.error_rate == 0.001
    assert properties.block_count > 30
    assert reader(tmp_path / "t").filter_policy.name == "ribbon"


def test_the_file_has_the_mode_of_the_options(tmp_path: Path) -> None:
    with lsmkv.TableWriter(tmp_path / "t", file_mode=0o640) as writer:
        writer.add(b"k", b"v")
    assert stat.S_IMODE((tmp_path / "t").stat().st_mode) == 0o640


def test_nothing_has_the_name_before_the_table_is_whole(tmp_path: Path) -> None:
    writer = lsmkv.TableWriter(tmp_path / "t")
    writer.add(b"k", b"v")
    (unfinished,) = os.listdir(tmp_path)
    assert re.fullmatch(r"t-[0-9a-f]{16}\.lsmkv-tmp", unfinished)
    writer.finish()
    assert os.listdir(tmp_path) == ["t"]


def test_an_exception_in_the_block_abandons_the_table(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), lsmkv.TableWriter(tmp_path / "t") as writer:
        writer.add(b"k", b"v")
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []
    with pytest.raises(ClosedError, match="finished or abandoned already"):
        writer.add(b"l", b"v")


def test_a_writer_that_is_dropped_leaves_no_file(tmp_path: Path) -> None:
    writer = lsmkv.TableWriter(tmp_path / "t")
    writer.add(b"k", b"v")
    del writer
    gc.collect()
    assert os.listdir(tmp_path) == []


def test_a_table_without_entries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one entry"), lsmkv.TableWriter(tmp_path / "t"):
        pass
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="written to a new file"):
        lsmkv.TableWriter(path)
    path.unlink()
    writer = lsmkv.TableWriter(path)
    writer.add(b"k", b"v")
    path.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        writer.finish()
    assert path.read_bytes() == b"mine"
    assert os.listdir(tmp_path) == ["t"]


@pytest.mark.parametrize("first_ends", ["finishes", "is abandoned"])
def test_of_two_writers_of_one_path_each_has_a_file_of_its_own(
    tmp_path: Path, first_ends: str
) -> None:
    path = tmp_path / "t"
    first, second = lsmkv.TableWriter(path), lsmkv.TableWriter(path)
    first.add(b"first", b"1")
    second.add(b"second", b"2")
    if first_ends == "is abandoned":
        first.abandon()
        second.finish()
        assert reader(path).smallest == b"second"
    else:
        first.finish()
        with pytest.raises(FileExistsError):
            second.finish()
        assert reader(path).smallest == b"first"
    assert os.listdir(tmp_path) == ["t"]


def without_links(source: str, target: str, **_: object) -> None:
    raise PermissionError(errno.EPERM, "this file system has no links", source)


@pytest.mark.parametrize("has_links", [True, False])
def test_a_name_taken_at_the_last_moment_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    if not has_links:
        monkeypatch.setattr(os, "link", without_links)
    path = tmp_path / "t"
    writer = lsmkv.TableWriter(path)
    writer.add(b"k", b"v")
    check = lsmkv.TableWriter._check_free

    def checked(self: lsmkv.TableWriter) -> None:
        check(self)
        path.write_bytes(b"mine")

    monkeypatch.setattr(lsmkv.TableWriter, "_check_free", checked)
    with pytest.raises(FileExistsError):
        writer.finish()
    assert path.read_bytes() == b"mine"
    assert os.listdir(tmp_path) == ["t"]


def test_a_table_gets_its_name_where_there_are_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", without_links)
    with lsmkv.TableWriter(tmp_path / "t") as writer:
        writer.add(b"k", b"v")
    assert os.listdir(tmp_path) == ["t"]
    assert reader(tmp_path / "t").meta.entry_count == 1


def test_a_table_that_does_not_get_its_name_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = lsmkv.TableWriter(tmp_path / "t")
    writer.add(b"k", b"v")
    for name in ("link", "replace"):
        monkeypatch.setattr(os, name, without_links)
    with pytest.raises(PermissionError):
        writer.finish()
    assert os.listdir(tmp_path) == []


def test_an_unknown_option_is_refused_before_a_file_is_made(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="did you mean 'compression'"):
        lsmkv.TableWriter(tmp_path / "t", compresion="none")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"lsmkv\.Options, not dict"):
        lsmkv.TableWriter(tmp_path / "t", {})  # type: ignore[arg-type]  # that is the test
    assert os.listdir(tmp_path) == []


# Columns


def columns(entries: dict[bytes, bytes]) -> tuple[bytes, list[int], bytes, list[int]]:
    keys, values = list(entries), list(entries.values())
    key_ends, value_ends = (list(accumulate(map(len, items))) for items in (keys, values))
    return b"".join(keys), key_ends, b"".join(values), value_ends


ENTRIES = {b"%05d" % number * (1 + number % 3): b"v" * (number % 50) for number in range(2000)}
ORDERED = dict(sorted(ENTRIES.items()))


@pytest.mark.parametrize("step", [1, 7, 500, 2000])
def test_columns_make_the_table_that_single_entries_make(tmp_path: Path, step: int) -> None:
    options = Options(block_size_bytes=512)
    with lsmkv.TableWriter(tmp_path / "t", options) as writer:
        items = list(ORDERED.items())
        for start in range(0, len(items), 2 * step):
            writer.add_columns(*columns(dict(items[start : start + step])))
            for key, value in items[start + step : start + 2 * step]:
                writer.add(key, value)
    table = reader(tmp_path / "t")
    assert check_table(table).problems == ()
    assert table.meta.entry_count == len(ORDERED)
    assert {key: table.get(key, hash_key(key), 0) for key in ORDERED} == ORDERED


def test_columns_may_be_any_buffers(tmp_path: Path) -> None:
    keys, values = bytearray(b"abb"), bytearray(b"12")
    with lsmkv.TableWriter(tmp_path / "t") as writer:
        writer.add_columns(memoryview(keys), iter([1, 3]), values, (0, 2))
        keys[:], values[:] = b"xxx", b"yy"
        writer.add_columns(b"", [], b"", [])
    table = reader(tmp_path / "t")
    assert [table.get(key, hash_key(key), 0) for key in (b"a", b"bb")] == [b"", b"12"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((b"ab", [1], b"", [0]), "the last key ends at 1, not at 2"),
        ((b"ab", [1, 3], b"", [0, 0]), "a key from 1 to 3: ends ascend, up to the 2 bytes"),
        ((b"ab", [2, 1], b"", [0, 0]), "a key from 2 to 1"),
        ((b"ab", [-1, 2], b"", [0, 0]), "a key from 0 to -1"),
        ((b"ab", [1, 2], b"", [0]), "2 keys and 1 values"),
        ((b"ab", [1, 2], b"v", [0, 0]), "the last value ends at 0, not at 1"),
        ((b"ba", [1, 2], b"", [0, 0]), "keys must ascend"),
        ((b"bb", [1, 2], b"", [0, 0]), "each key may come once"),
        ((b"ab", [0, 2], b"", [0, 0]), "follows b'b'"),
        ((b"c" * 65_536, [65_536], b"", [0]), "over the limit of 65535 bytes"),
        ((b"ab", [1 << 70], b"", [0]), "a key ends beyond the 2 bytes"),
        ((b"ab", [1 << 40], b"", [0]), "a key from 0 to 1099511627776"),
    ],
    ids=lambda value: value[:30].replace(" ", "-") if isinstance(value, str) else "",
)
def test_wrong_columns_are_refused_and_add_nothing(
    tmp_path: Path, given: tuple[bytes, list[int], bytes, list[int]], said: str
) -> None:
    with lsmkv.TableWriter(tmp_path / "t") as writer:
        writer.add(b"b", b"")
        with pytest.raises(ValueError, match=said):
            writer.add_columns(*given)
        writer.add_columns(b"d", [1], b"w", [1])
    assert reader(tmp_path / "t").meta.entry_count == 2


def test_the_size_grows_to_about_that_of_the_file(tmp_path: Path) -> None:
    writer = lsmkv.TableWriter(tmp_path / "t", compression="none")
    assert writer.size_bytes == 0
    writer.add(b"a", b"v" * 100)
    assert writer.size_bytes > 100
    writer.add_columns(b"b", [1], b"v" * 100_000, [100_000])
    assert 100_000 < writer.size_bytes < 101_000
    writer.finish()
    assert writer.size_bytes == 0


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"keys": "ab"}, "keys is bytes, all of them one after another, not str: join them"),
        (
            {"keys": [b"a", b"b"]},
            "keys is bytes, all of them one after another, not list: join them",
        ),
        (
            {"values": None},
            "values is bytes, all of them one after another, not NoneType: join them",
        ),
        ({"key_ends": None}, "key_ends is a list of ints, where each one ends, not None"),
        ({"value_ends": 3}, "value_ends is a list of ints, where each one ends, not 3"),
        ({"key_ends": ["1", 2]}, "key_ends has '1': an end is an int, in bytes"),
        ({"value_ends": [1.0, 2]}, "value_ends has 1.0: an end is an int, in bytes"),
    ],
)
def test_columns_of_other_types_are_refused_by_name(
    tmp_path: Path, wrong: dict[str, Any], told: str
) -> None:
    columns: dict[str, Any] = {
        "keys": b"ab",
        "key_ends": [1, 2],
        "values": b"xy",
        "value_ends": [1, 2],
    }
    with lsmkv.TableWriter(tmp_path / "a.sst") as table:
        with pytest.raises(TypeError) as caught:
            table.add_columns(**(columns | wrong))
        assert str(caught.value).startswith(told)
        table.add_columns(**columns)
        assert table.finish().entries == 2
