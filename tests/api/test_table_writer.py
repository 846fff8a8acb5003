"""``lsmkv.TableWriter``: table files outside a store."""

from __future__ import annotations

import copy
import gc
import os
import re
import stat
from pathlib import Path

import pytest

import lsmkv
from lsmkv.encoding.entries import ABSENT
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


def test_a_deletion_is_an_entry(tmp_path: Path) -> None:
    with lsmkv.TableWriter(tmp_path / "t") as writer:
        writer.delete(b"gone")
    table = reader(tmp_path / "t")
    assert table.get(b"gone", hash_key(b"gone"), 0) is None
    assert table.meta.tombstone_count == 1


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
        writer.add(b"owl", b"")
    table = reader(tmp_path / "t")
    assert (table.smallest, table.largest, table.meta.entry_count) == (b"hare", b"owl", 2)


def test_a_repeated_key_is_refused(tmp_path: Path) -> None:
    with lsmkv.TableWriter(tmp_path / "t") as writer:
        writer.add(b"fox", b"1")
        with pytest.raises(ValueError, match=r"b'fox' follows b'fox': each key may come once"):
            writer.delete(b"fox")


def test_the_empty_key_may_be_the_first(tmp_path: Path) -> None:
    with lsmkv.TableWriter(tmp_path / "t") as writer:
        writer.add(b"", b"")
        with pytest.raises(ValueError, match="may come once"):
            writer.add(b"", b"")
    assert reader(tmp_path / "t").get(b"", hash_key(b""), 0) == b""


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
    assert properties.block_count > 40
    assert reader(tmp_path / "t").filter_policy.name == "ribbon"


def test_the_file_has_the_mode_of_the_options(tmp_path: Path) -> None:
    with lsmkv.TableWriter(tmp_path / "t", file_mode=0o640) as writer:
        writer.add(b"k", b"v")
    assert stat.S_IMODE((tmp_path / "t").stat().st_mode) == 0o640


def test_nothing_has_the_name_before_the_table_is_whole(tmp_path: Path) -> None:
    writer = lsmkv.TableWriter(tmp_path / "t")
    writer.add(b"k", b"v")
    (unfinished,) = os.listdir(tmp_path)
    assert re.fullmatch(r"t-[0-9a-f]{16}\.tmp", unfinished)
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


def test_a_file_of_a_similar_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "t.tmp").write_bytes(b"mine")
    with lsmkv.TableWriter(tmp_path / "t") as writer:
        writer.add(b"k", b"v")
    assert sorted(os.listdir(tmp_path)) == ["t", "t.tmp"]
    assert (tmp_path / "t.tmp").read_bytes() == b"mine"


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


def test_a_name_taken_at_the_last_moment_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_an_unknown_option_is_refused_before_a_file_is_made(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="did you mean 'compression'"):
        lsmkv.TableWriter(tmp_path / "t", compresion="none")
    with pytest.raises(TypeError, match=r"lsmkv\.Options, not dict"):
        lsmkv.TableWriter(tmp_path / "t", {})  # type: ignore[arg-type]  # that is the test
    assert os.listdir(tmp_path) == []


def test_a_writer_cannot_be_copied(tmp_path: Path) -> None:
    with lsmkv.TableWriter(tmp_path / "t") as writer:
        writer.add(b"k", b"v")
        with pytest.raises(TypeError, match="tables of its own"):
            copy.copy(writer)


def test_a_writer_tells_its_state(tmp_path: Path) -> None:
    writer = lsmkv.TableWriter(tmp_path / "t")
    assert repr(writer).endswith("/t', open>")
    writer.add(b"k", b"v")
    writer.finish()
    assert repr(writer).endswith("finished>")
    writer.abandon()
    assert (tmp_path / "t").exists()


def test_a_table_outside_hides_nothing_from_lookups_of_any_number(tmp_path: Path) -> None:
    with lsmkv.TableWriter(tmp_path / "t") as writer:
        writer.add(b"k", b"v")
    table = reader(tmp_path / "t")
    assert table.get(b"k", hash_key(b"k"), 0) == b"v"
    assert table.get(b"j", hash_key(b"j"), 0) is ABSENT
