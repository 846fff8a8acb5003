"""What raises an exception that it kept does not keep what the caller's frames hold.

An exception refers to its traceback, this to frames, and these to their locals.  A local variable that
refers to the exception closes the circle, and then tables stay open until the cyclic collector runs.
"""

from __future__ import annotations

import ast
import contextlib
import copyreg
import gc
import os
import re
import weakref
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from conftest import fill, open_small

import event_loops
import lsmkv
from damage import files, flip
from leaks import open_descriptors
from lsmkv.aio.work import Work
from lsmkv.background.refresher import Refresher
from lsmkv.background.threads import Errand
from lsmkv.cli.streams import Lines
from lsmkv.errors import untraced
from lsmkv.salvage.damaged_table import TableSalvage
from lsmkv.salvage.report import raise_unless_damage
from lsmkv.storage.storage import Storage
from storages import FaultyStorage

PACKAGE = Path(lsmkv.__file__).parent


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Held:
    """What the frame of a caller holds."""


def assert_lets_go(action: Callable[[], object]) -> None:
    """Call ``action``, which raises; nothing keeps the frame of its caller."""
    kept: list[weakref.ref[Held]] = []

    def call() -> None:
        held = Held()
        kept.append(weakref.ref(held))
        action()

    with_error = False
    try:
        call()
    except (lsmkv.Error, OSError, ValueError):
        with_error = True
    assert with_error
    assert kept[0]() is None


def raise_error() -> None:
    raise OSError("disk")


def test_an_errand_frees_its_action_when_it_has_ended() -> None:
    held = Held()
    kept = weakref.ref(held)
    Errand("lsmkv-test", lambda held=held: None).run()  # type: ignore[misc]
    del held
    assert kept() is None


@pytest.mark.parametrize(
    "action",
    [
        lambda: Errand("lsmkv-test", raise_error).run(),
        lambda: raise_unless_damage(PermissionError(13, "no")),
        lambda: raise_unless_damage(lsmkv.UnsupportedFormatError("t", "format 9")),
    ],
)
def test_errands_and_the_check_of_repair(action: Callable[[], object]) -> None:
    assert_lets_go(action)


def test_refresher() -> None:
    refresher = Refresher("s", 1.0, lambda: None)

    def refresh() -> None:
        refresher._error = OSError("gone")
        refresher.raise_error()

    assert_lets_go(refresh)


def test_asynchronous_end() -> None:
    async def call(held: Held) -> None:
        await Work().end(raise_error)

    async def end() -> None:
        held = Held()
        kept = weakref.ref(held)
        with contextlib.suppress(OSError):
            await call(held)
        del held
        assert kept() is None

    event_loops.run(end())


def test_gzip(tmp_path: Path) -> None:
    packed = tmp_path / "lines.gz"
    packer = zlib.compressobj(wbits=31)
    packed.write_bytes(packer.compress(b"line\n" * 100000) + packer.flush()[:-20] + bytes(9))
    with packed.open("rb") as file:
        assert_lets_go(lambda: list(Lines(file, longest=1 << 20)))


def damaged(path: str) -> None:
    """A store whose compaction fails."""
    with open_small(path, write_buffer_size_bytes=1 << 20) as db:
        for seed in range(2):
            fill(db, range(300), seed=seed)
            db.flush()
    flip(files(Path(path), ".sst")[0], 1000)


@pytest.mark.parametrize("background", ["auto", "thread", "process"])
def test_failed_compactions_keep_no_table_open(path: str, background: Any) -> None:
    damaged(path)
    before = open_descriptors()
    options: dict[str, Any] = {"background": background, "process_job_size_bytes": 0}
    db = open_small(path, **options)
    for _ in range(2):
        assert_lets_go(lambda: db.compact_range(force=True))
        db.resume()
    db.close()
    assert open_descriptors() == before


@pytest.mark.parametrize("failing", ["append", "sync", "create"])
def test_a_handle_that_is_dropped_after_a_failed_write_is_closed(path: str, failing: str) -> None:
    """The store keeps why it failed, and that must not keep the frame that has the handle."""
    storage = FaultyStorage()
    before = open_descriptors()

    def work() -> None:
        db = open_small(path, storage=storage)
        db.put(b"a", b"1", sync=True)
        storage.fail(failing, times=None)
        for _ in range(100):
            db.put(b"a", b"x" * 2000, sync=True)

    with pytest.warns(ResourceWarning, match="was not closed"):
        assert_lets_go(work)
    storage.heal()
    assert open_descriptors() == before
    with open_small(path) as db:
        assert db[b"a"]


def test_a_damaged_table_that_is_repaired_is_closed(path: str) -> None:
    damaged(path)
    before = open_descriptors()
    table = files(Path(path), ".sst")[0]
    os.truncate(table, table.stat().st_size - 5)
    salvage = TableSalvage(Storage(), str(table), 1)
    assert list(salvage.blocks()) and salvage.problems
    del salvage
    assert open_descriptors() == before


def test_a_damaged_filter_section(path: str) -> None:
    damaged(path)
    with open_small(path) as db:
        reader = next(db._engine.state.require_open().version.tables())
        footer = reader.footer
        table = Path(path, reader.path)
        flip(table, footer.filters_offset + 10)
        assert_lets_go(reader.filters.section.read_all)


class TestPublished:
    @pytest.fixture
    def url(self, path: str, tmp_path: Path) -> str:
        url = f"file://{tmp_path}/published"
        with open_small(path, write_buffer_size_bytes=1 << 20) as db:
            fill(db, range(300))
            db.flush()
            db.publish(url)
        return url

    def test_a_missing_table(self, url: str, tmp_path: Path) -> None:
        with lsmkv.open(url, read_only=True) as db:
            for table in tmp_path.glob("published/tables/*"):
                table.unlink()
            assert_lets_go(lambda: list(db.items()))
            assert_lets_go(lambda: db.get(b"key000010"))
            before = lsmkv_objects()
            assert not db.verify().ok
            assert lsmkv_objects() == before

    def test_a_missing_generation(self, url: str, tmp_path: Path) -> None:
        for table in tmp_path.glob("published/tables/*"):
            table.unlink()
        assert_lets_go(lambda: lsmkv.open(url, read_only=True))


def lsmkv_objects() -> int:
    """The number of objects of remote files."""
    return sum(type(each).__name__ == "WholeFile" for each in gc.get_objects())


class OddError(Exception):
    def __init__(self, one: object, two: object) -> None:
        super().__init__(one)


def test_a_kept_error_has_no_frames_though_a_library_copies_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def made_again(words: tuple[object, ...], trace: TracebackType | None) -> ValueError:
        return ValueError(*words).with_traceback(trace)

    def reduced(error: ValueError) -> tuple[object, ...]:
        return made_again, (error.args, error.__traceback__)

    monkeypatch.setitem(copyreg.dispatch_table, ValueError, reduced)
    try:
        raise ValueError("words")
    except ValueError as error:
        kept = untraced(error)
    assert (str(kept), kept.__traceback__) == ("words", None)


def test_a_kept_error_has_words_attributes_and_notes_but_no_frames() -> None:
    found: list[BaseException] = []
    errors: list[Exception] = [
        lsmkv.CorruptionError("t", 3, "bad"),
        FileNotFoundError(2, "none", "t"),
        MemoryError(),
        OddError(1, 2),
    ]
    for error in errors:
        error.add_note("a note")
        try:
            raise error from ValueError()
        except Exception as caught:
            found.append(untraced(caught))
        kept = found[-1]
        assert (type(kept), str(kept)) == (type(error), str(error))
        assert vars(kept) == vars(error)
        assert kept.__traceback__ is None


def _raises_of_locals(function: ast.AST) -> Iterator[tuple[ast.Raise, str]]:
    """Where a function raises what a variable holds that outlasts the ``raise``."""

    def walk(node: ast.AST, dropped: frozenset[str]) -> Iterator[tuple[ast.Raise, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            inside = dropped
            if isinstance(child, ast.ExceptHandler) and child.name:
                inside |= {child.name}
            if isinstance(child, ast.Try):
                deleted = [each for each in child.finalbody if isinstance(each, ast.Delete)]
                names = (name for each in deleted for name in each.targets)
                inside |= {name.id for name in names if isinstance(name, ast.Name)}
            if isinstance(child, ast.Raise) and isinstance(child.exc, ast.Name | ast.Attribute):
                text = ast.unparse(child.exc)
                if text not in inside and not text.rpartition(".")[2][:1].isupper():
                    yield child, text
            yield from walk(child, inside)

    yield from walk(function, frozenset())


def test_no_function_raises_an_error_that_a_variable_of_it_keeps() -> None:
    found = [
        f"{file.relative_to(PACKAGE)}:{where.lineno}: {text}"
        for file in PACKAGE.rglob("*.py")
        for text in [file.read_text("utf-8")]
        if re.search(r"raise [a-z_.]+$", text, re.MULTILINE)
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for where, text in _raises_of_locals(function)
    ]
    assert not found, "del it in a finally clause"
