"""CURRENT and the manifest: their state, and damage, loss and failures."""

from __future__ import annotations

import errno
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from damage import flip
from lsmkv.encoding.entries import MAX_SEQUENCE
from lsmkv.errors import CorruptionError, UnsupportedFormatError
from lsmkv.log.reader import HEADER_BYTES
from lsmkv.log.writer import LogWriter
from lsmkv.sstable.format import TableMeta
from lsmkv.storage.file_names import (
    CURRENT,
    MAX_FILE_NUMBER,
    UNFINISHED,
    is_unfinished_name,
    log_path,
    manifest_path,
    parse_file_name,
    table_path,
)
from lsmkv.storage.storage import AppendFile, Storage
from lsmkv.tree.levels import Levels, PlacedTable
from lsmkv.tree.manifest import (
    EMPTY_STATE,
    MOST_ASKS,
    Manifest,
    State,
    VersionEdit,
    read_current,
    read_state,
)
from made_trees import table
from storages import FaultyStorage
from threaded_stores import run_all

START = State(Levels(), next_file=2, last_seq=0, log_number=1)


def started(directory: Path, storage: Storage | None = None) -> Manifest:
    manifest = Manifest(storage or Storage(), str(directory), START)
    manifest.rewrite()
    return manifest


def started_and_appended(directory: Path, record: bytes) -> tuple[str, int]:
    """A manifest with ``record`` at its end: its path, and the record's offset."""
    manifest = started(directory)
    log = manifest._log
    assert log is not None
    offset = log.end + 17  # a sync mark comes first
    log.append(record)
    return manifest_path(str(directory), manifest.number), offset


def read(directory: Path) -> State:
    storage = Storage()
    return read_state(storage, str(directory), read_current(storage, str(directory)))


def current(directory: Path) -> Path:
    return directory / CURRENT


def add_table(manifest: Manifest) -> int:
    number = manifest.allocate()
    manifest.append(VersionEdit(added=[PlacedTable(0, number, table(number, "a", "z"))]))
    return number


def tables(state: State) -> list[int]:
    return sorted(table.number for table in state.levels.tables())


# --- file names ----------------------------------------------------------------------------------


@given(st.integers(1, MAX_FILE_NUMBER))
def test_file_names_are_parsed_as_they_are_made(number: int) -> None:
    for make, kind in ((table_path, "table"), (log_path, "log"), (manifest_path, "manifest")):
        name = make("/d", number).removeprefix("/d/")
        assert parse_file_name(name) == (kind, number)
        assert parse_file_name(name + UNFINISHED) == ("temporary", number)
        assert is_unfinished_name(name + UNFINISHED) and not is_unfinished_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("CURRENT", "000001.log.tmp", "LOCK", "notes.txt", "000001", "00001.log", "000001.LOG"),
        *("0000001.log", "000001.sst.bak", "MANIFEST-1", "x000001.log", "000001.log\n"),
        *("\u0660\u0660\u0660\u0660\u0660\u0661.log", "1" * 19 + ".sst"),
        f"{MAX_FILE_NUMBER + 1}.sst",
    ],
)
def test_names_the_store_would_not_write_are_not_its_own(name: str) -> None:
    assert parse_file_name(name) is None


# --- CURRENT -------------------------------------------------------------------------------------


def test_current_names_the_manifest(tmp_path: Path) -> None:
    manifest = started(tmp_path)
    assert read_current(Storage(), str(tmp_path)) == manifest.number
    assert current(tmp_path).read_bytes().startswith(b"MANIFEST-000002 ")


def test_any_damage_to_current_is_an_error(tmp_path: Path) -> None:
    started(tmp_path)
    data = current(tmp_path).read_bytes()
    for offset in range(len(data)):
        for bit in range(8):
            current(tmp_path).write_bytes(data)
            flip(current(tmp_path), offset, 1 << bit)
            with pytest.raises(CorruptionError) as caught:
                read_current(Storage(), str(tmp_path))
            assert (caught.value.path, caught.value.offset) == (str(current(tmp_path)), 0)


def test_current_with_more_or_less_in_it_is_an_error(tmp_path: Path) -> None:
    started(tmp_path)
    data = current(tmp_path).read_bytes()
    longer = [data + more for more in (b"\n", b" ", b"x" * 50, b"x" * 1_000_000)]
    for other in (*longer, *(data[:length] for length in range(len(data)))):
        current(tmp_path).write_bytes(other)
        with pytest.raises(CorruptionError):
            read_current(Storage(), str(tmp_path))


# --- reading a manifest --------------------------------------------------------------------------


def test_edits_add_up(tmp_path: Path) -> None:
    manifest = started(tmp_path)
    first, second = add_table(manifest), add_table(manifest)
    manifest.append(VersionEdit(removed=[first], last_seq=9))
    assert tables(read(tmp_path)) == [second]
    assert read(tmp_path) == manifest.state


def test_a_manifest_cut_inside_its_header_is_an_error(tmp_path: Path) -> None:
    path = Path(manifest_path(str(tmp_path), started(tmp_path).number))
    path.write_bytes(path.read_bytes()[: HEADER_BYTES - 1])
    with pytest.raises(CorruptionError, match="cut short inside its header"):
        read(tmp_path)


def test_a_torn_last_edit_counts_as_never_made(tmp_path: Path) -> None:
    manifest = started(tmp_path)
    first = add_table(manifest)
    path = Path(manifest_path(str(tmp_path), manifest.number))
    whole = path.stat().st_size
    add_table(manifest)
    data = path.read_bytes()
    for length in range(whole, len(data)):
        path.write_bytes(data[:length])
        assert tables(read(tmp_path)) == [first]


def test_damage_before_the_last_edit_is_an_error(tmp_path: Path) -> None:
    manifest = started(tmp_path)
    path = Path(manifest_path(str(tmp_path), manifest.number))
    first_end = path.stat().st_size
    add_table(manifest)
    add_table(manifest)
    data = path.read_bytes()
    for offset in range(HEADER_BYTES, first_end):
        path.write_bytes(data)
        flip(path, offset)
        with pytest.raises(CorruptionError) as caught:
            read(tmp_path)
        assert (caught.value.path, caught.value.offset) == (str(path), HEADER_BYTES)


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"{",
        b'{"removed":[77]}',
        b'{"next_file":0}',
        b'{"next_file":%d}' % (MAX_FILE_NUMBER + 1),
        b'{"last_seq":-1}',
        b'{"log_number":99}',
        b'{"last_seq":%d}' % (MAX_SEQUENCE + 1),
        b'{"last_seq":%d}' % 10**30,
        b"\xff\xfe",
        b'{"last_seq":9,"range_deletes_added":[["YQ==","Yg==",10]]}',
        b'{"last_seq":9,"range_deletes_added":[["YQ==","Yg==",0]]}',
        b'{"last_seq":9,"range_deletes_added":[["Yg==","YQ==",9]]}',
        b'{"range_deletes_removed":[["YQ==",null,9]]}',
    ],
)
def test_invalid_records_are_errors_with_their_place(tmp_path: Path, record: bytes) -> None:
    path, offset = started_and_appended(tmp_path, record)
    with pytest.raises(CorruptionError, match="bad manifest record") as caught:
        read(tmp_path)
    assert (caught.value.path, caught.value.offset) == (path, offset)


@pytest.mark.parametrize(
    "record",
    [
        b"[]",
        b'{"next_file":"five"}',
        b'{"from_the_future":1}',
        b'{"last_seq":1e999}',
        b'{"added":[{"level":0,"run":1,"meta":{}}]}',
        b'{"next_file":5,"closed_log":[1]}',
        b'{"last_seq":' + b"9" * 5000 + b"}",
        b'{"asks":' + b"[" * 100_000,
        b'{"range_deletes_added":[["YQ=="]]}',
    ],
)
def test_whole_records_with_other_fields_are_of_another_release(
    tmp_path: Path, record: bytes
) -> None:
    path, offset = started_and_appended(tmp_path, record)
    with pytest.raises(UnsupportedFormatError, match="the release that wrote it") as caught:
        read(tmp_path)
    assert caught.value.path == path
    assert f"at offset {offset}" in str(caught.value)


def test_a_manifest_under_another_number_is_an_error(tmp_path: Path) -> None:
    manifest = started(tmp_path)
    LogWriter.create(Storage(), str(tmp_path / "other"), 9, "manifest").close()
    (tmp_path / "other").replace(manifest_path(str(tmp_path), manifest.number))
    with pytest.raises(CorruptionError, match="names another file"):
        read(tmp_path)


# --- states and edits ----------------------------------------------------------------------------


@st.composite
def states(draw: st.DrawFn) -> State:
    """Possible states: tables with any keys, each a run of its own."""
    tree = Levels()
    numbers = draw(st.lists(st.integers(1, 10**9), unique=True, max_size=6))
    for number in numbers:
        low, high = sorted((draw(st.binary(max_size=6)), draw(st.binary(max_size=6))))
        seqs = sorted((draw(st.integers(0, MAX_SEQUENCE)), draw(st.integers(0, MAX_SEQUENCE))))
        meta = TableMeta(
            number=number,
            size_bytes=draw(st.integers(73, 10**12)),
            smallest=low,
            largest=high,
            smallest_seq=seqs[0],
            largest_seq=seqs[1],
            entry_count=draw(st.integers(1, 10**12)),
            tombstone_count=draw(st.integers(0, 10**12)),
        )
        tree = tree.changed([PlacedTable(draw(st.integers(0, 31)), number, meta)], ())
    log_number = draw(st.integers(1, 10**9))
    counts = st.tuples(st.integers(0, 10**12), st.integers(0, 10**12))
    return State(
        tree,
        next_file=1 + max([log_number, *numbers]) + draw(st.integers(0, 10)),
        last_seq=draw(st.integers(0, MAX_SEQUENCE)),
        log_number=log_number,
        closed_log=draw(st.none() | st.tuples(st.integers(1, 10**9), st.integers(56, 10**12))),
        asks={number: draw(counts) for number in numbers if draw(st.booleans())},
    )


@given(states())
def test_a_state_written_down_and_read_is_the_same(state: State) -> None:
    record = msgspec.json.encode(state.as_edit())
    assert EMPTY_STATE.changed(msgspec.json.decode(record, type=VersionEdit)) == state


@given(states(), st.integers(0, MAX_SEQUENCE))
def test_an_edit_leaves_unnamed_fields_as_they_are(state: State, last_seq: int) -> None:
    changed = state.changed(VersionEdit(last_seq=last_seq))
    assert changed.last_seq == max(state.last_seq, last_seq)
    assert (changed.levels, changed.next_file, changed.log_number) == (
        state.levels,
        state.next_file,
        state.log_number,
    )


@given(states())
def test_a_next_number_that_is_in_use_is_refused(state: State) -> None:
    highest = max([state.log_number, *tables(state)])
    with pytest.raises(ValueError, match="is in use"):
        state.changed(VersionEdit(next_file=highest))


@given(states(), st.data())
def test_counts_of_lookups_go_with_their_tables(state: State, data: st.DataObject) -> None:
    gone = {number for number in tables(state) if data.draw(st.booleans())}
    changed = state.changed(VersionEdit(removed=sorted(gone)))
    assert changed.asks == {n: asks for n, asks in state.asks.items() if n not in gone}


@given(states())
def test_counts_of_lookups_that_cannot_be_are_refused(state: State) -> None:
    for number in (1 + max([0, *tables(state)]), *tables(state)):
        for asks in ((-1, 0), (0, MOST_ASKS + 1)) if number in tables(state) else ((0, 0),):
            with pytest.raises(ValueError, match="counts of lookups"):
                state.changed(VersionEdit(asks={number: asks}))


# --- writing -------------------------------------------------------------------------------------


def test_each_edit_is_synced_before_append_returns(tmp_path: Path) -> None:
    storage = FaultyStorage()
    manifest = started(tmp_path, storage)
    before = storage.calls["sync"]
    add_table(manifest)
    assert storage.calls["sync"] == before + 1


def test_numbers_are_given_out_once_whoever_asks(tmp_path: Path) -> None:
    manifest = started(tmp_path)
    numbers: list[int] = []
    run_all(*[lambda: numbers.extend(manifest.allocate() for _ in range(500))] * 4)
    assert sorted(numbers) == list(range(3, 2003))


def test_every_edit_records_the_numbers_given_out(tmp_path: Path) -> None:
    manifest = started(tmp_path)
    last = [manifest.allocate() for _ in range(5)][-1]
    manifest.append(VersionEdit())
    assert read(tmp_path).next_file == last + 1


def test_an_edit_that_does_not_fit_is_refused_and_not_written(tmp_path: Path) -> None:
    manifest = started(tmp_path)
    size = Path(manifest_path(str(tmp_path), manifest.number)).stat().st_size
    with pytest.raises(ValueError, match="not in the tree"):
        manifest.append(VersionEdit(removed=[5]))
    assert Path(manifest_path(str(tmp_path), manifest.number)).stat().st_size == size


@pytest.mark.parametrize("operation", ["append", "sync"])
def test_after_an_edit_that_failed_the_next_one_starts_a_fresh_manifest(
    tmp_path: Path, operation: str
) -> None:
    storage = FaultyStorage()
    manifest = started(tmp_path, storage)
    number = manifest.number
    storage.fail(operation, error=errno.ENOSPC)
    with pytest.raises(OSError, match=f"injected: {operation}"):
        add_table(manifest)
    added = add_table(manifest)
    assert manifest.number > number
    assert tables(read(tmp_path)) == [added]


class InterruptedStorage(Storage):
    def _append_file(self, path: str, descriptor: int, offset: int) -> AppendFile:
        return _InterruptedFile(path, descriptor, offset)


class _InterruptedFile(AppendFile):
    armed = False

    def _sync(self) -> None:
        super()._sync()
        if _InterruptedFile.armed:
            _InterruptedFile.armed = False
            raise KeyboardInterrupt


def test_an_interrupt_during_an_edit_does_not_part_file_and_state(tmp_path: Path) -> None:
    manifest = started(tmp_path, InterruptedStorage())
    _InterruptedFile.armed = True
    with pytest.raises(KeyboardInterrupt):
        add_table(manifest)
    added = add_table(manifest)
    assert tables(read(tmp_path)) == tables(manifest.state) == [added]


@pytest.mark.parametrize("operation", ["create", "append", "sync", "sync_directory", "replace"])
@pytest.mark.parametrize("after", [0, 1])
def test_a_rewrite_that_fails_leaves_the_old_state_or_the_new(
    tmp_path: Path, operation: str, after: int
) -> None:
    storage = FaultyStorage()
    manifest = started(tmp_path, storage)
    added = add_table(manifest)
    fault = storage.fail(operation, after=after)
    with pytest.raises(OSError, match=f"injected: {operation}"):
        manifest.rewrite()
    assert fault.fired == 1
    assert tables(read(tmp_path)) == [added]
    storage.heal()
    later = add_table(manifest)
    assert tables(read(tmp_path)) == [added, later]


def test_a_rewritten_manifest_holds_the_whole_state(tmp_path: Path) -> None:
    manifest = started(tmp_path)
    kept = [add_table(manifest) for _ in range(3)]
    manifest.append(VersionEdit(last_seq=77))
    number = manifest.number
    manifest.rewrite()
    assert manifest.number > number
    assert (tables(read(tmp_path)), read(tmp_path).last_seq) == (kept, 77)
