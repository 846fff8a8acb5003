"""The public API's promises about opening a store."""

from __future__ import annotations

import gc
import os
import stat
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import SMALL, fill, open_small

import lsmkv
from lsmkv.storage.storage import FileLock, Storage
from other_processes import HOLDER, REFUSED, line_of, process, run

# Opening


def test_open_refuses_a_path_of_bytes(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="path is str"):
        lsmkv.open(os.fsencode(tmp_path / "s"))  # type: ignore[arg-type]


PATH_USES: dict[str, Callable[[str], object]] = {
    "open": lsmkv.open,
    "open to read": lambda path: lsmkv.open(path, read_only=True),
    "destroy": lsmkv.destroy,
    "repair": lambda path: lsmkv.repair(path, in_place=True),
    "repair to": lambda path: lsmkv.repair(".", path),
}


REFUSED_PATHS = {
    "": r"^(path|output)='': give a directory",
    "a\0b": r"^(path|output)='a\\x00b': no path may hold a NUL",
    ":memory:": "tempfile.TemporaryDirectory",
    "file:data.db": "directory alone, or ./file:",
    "file:memory?mode=memory": "directory alone",
    "sqlite+aiosqlite:x": "directory alone",
    "~": "os.path.expanduser",
    "~/store": "os.path.expanduser",
    "sqlite:///x": "URL",
    "S3://bucket/x": "in lower case",
}


@pytest.mark.parametrize("name", REFUSED_PATHS)
@pytest.mark.parametrize("use", PATH_USES)
def test_what_is_no_path_makes_no_directory(
    use: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pattern = "object storage" if "://" in name else REFUSED_PATHS[name]
    with pytest.raises(ValueError, match=f"{pattern}|{REFUSED_PATHS[name]}"):
        PATH_USES[use](name)
    assert os.listdir() == []


@pytest.mark.parametrize("name", [":memory:", "file:x", "~"])
def test_a_directory_may_have_the_name_of_something_else(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lsmkv.open(f"./{name}").close()
    assert os.listdir() == [name]


SECRET_URLS = [
    "s3://bucket/x?X-Amz-Signature=SECRET",
    "s3://bucket/x?a=b&X-Amz-Security-Token=SECRET",
    "s3://bucket/x#SECRET",
    "s3://user:SECRET@bucket/x",
    "s3://user:pa/SECRET@bucket/x",
    "s3://SECRET@bucket:no-port/x?q",
    "s3://[SECRET/x?a@b",
    "s3:///x?SECRET",
    "S3://bucket/x?SECRET",
    "file:///tmp/x?sig=SECRET",
    "file:x?key=SECRET",
    "https://h/x?sig=SECRET",
]


@pytest.mark.parametrize("url", SECRET_URLS)
@pytest.mark.parametrize("use", [*PATH_USES, "publish"])
def test_an_error_shows_no_secrets_of_a_url(use: str, url: str, path: str) -> None:
    with pytest.raises(ValueError) as caught:
        if use == "publish":
            with open_small(path) as db:
                db.publish(url)
        else:
            PATH_USES[use](url)
    assert "SECRET" not in "".join(traceback.format_exception(caught.value, chain=True)).replace(
        repr(url), ""
    )
    assert "SECRET" not in str(caught.value)


def test_the_working_directory_is_opened_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with lsmkv.open(".") as db:
        assert db.path == str(tmp_path)


def test_error_if_exists_refuses_a_store(path: str) -> None:
    with open_small(path, error_if_exists=True) as db:
        db[b"k"] = b"v"
    with pytest.raises(lsmkv.StoreExistsError):
        open_small(path, error_if_exists=True)


class _LateLock(Storage):
    """Another process makes the store just before the lock is taken."""

    def lock(self, path: str) -> FileLock:
        open_small(os.path.dirname(path)).close()
        return super().lock(path)


def test_error_if_exists_refuses_a_store_made_meanwhile(path: str) -> None:
    with pytest.raises(lsmkv.StoreExistsError):
        open_small(path, error_if_exists=True, storage=_LateLock())
    open_small(path).close()  # the lock was let go


@pytest.mark.parametrize(
    "use",
    [lsmkv.open, lsmkv.destroy, lambda path: lsmkv.repair(path, in_place=True)],
    ids=["open", "destroy", "repair"],
)
def test_the_lock_error_says_if_this_process_has_the_lock(
    path: str, use: Callable[[str], object]
) -> None:
    with open_small(path), pytest.raises(lsmkv.LockedError) as caught:
        use(path)
    assert "in this process" in str(caught.value)
    assert "close that handle" in str(caught.value)
    assert "read_only" not in str(caught.value)


def test_the_lock_error_suggests_opening_read_only(path: str) -> None:
    with process(HOLDER, path) as holder:
        assert line_of(holder) == "open"
        with pytest.raises(lsmkv.LockedError) as caught:
            open_small(path)
    assert f"in process {holder.pid}; close it there, or open it with read_only=True" in str(
        caught.value
    )


@pytest.mark.parametrize(
    "use",
    [lsmkv.destroy, lambda path: lsmkv.repair(path, in_place=True)],
    ids=["destroy", "repair"],
)
def test_the_lock_error_of_repair_and_destroy_does_not_suggest_reading(
    path: str, use: Callable[[str], object]
) -> None:
    with process(HOLDER, path) as holder:
        assert line_of(holder) == "open"
        with pytest.raises(lsmkv.LockedError) as caught:
            use(path)
    assert str(caught.value).endswith(f"in process {holder.pid}; close it there")


@pytest.mark.parametrize(
    ("given", "meant"),
    [("create_if_mising", "create_if_missing"), ("readonly", "read_only"), ("option", "options")],
)
def test_an_unknown_option_error_suggests_a_similar_name(path: str, given: str, meant: str) -> None:
    wrong: dict[str, Any] = {given: 1}
    with pytest.raises(TypeError, match=rf"{given} \(did you mean '{meant}'\?\)"):
        lsmkv.open(path, **wrong)
    assert not os.path.exists(path)


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ("r", r"; to read alone: lsmkv\.open\(path, read_only=True\)"),
        ({"size_ratio": 4}, r"; a dict of options is given as \*\*options"),
        (4, ""),
    ],
    ids=repr,
)
def test_options_of_another_type_are_a_type_error(path: str, wrong: Any, advice: str) -> None:
    kind = type(wrong).__name__
    with pytest.raises(TypeError, match=rf"^options is an lsmkv\.Options, not {kind}{advice}$"):
        lsmkv.open(path, wrong)
    assert not os.path.exists(path)


def test_overrides_replace_single_options(path: str) -> None:
    with lsmkv.open(path, SMALL, size_ratio=5) as db:
        assert db.options == SMALL.replace(size_ratio=5)


def test_files_belong_to_the_owner_alone_by_default(path: str) -> None:
    with open_small(path) as db:
        fill(db, range(300))
        db.flush()
        db.wait_until_settled()  # the flushed log has been removed
        modes = {stat.S_IMODE(entry.stat().st_mode) for entry in os.scandir(path)}
    assert modes == {0o600}


def test_a_store_whose_current_is_damaged_can_be_destroyed(tmp_path: Path) -> None:
    lsmkv.open(tmp_path / "store").close()
    (tmp_path / "store" / "CURRENT").write_bytes(b"?")
    lsmkv.destroy(tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_calling_the_class_does_not_make_a_store(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"lsmkv\.open"):
        lsmkv.DB(str(tmp_path))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["create_if_missing", "error_if_exists", "read_only"])
def test_a_flag_must_be_a_bool(tmp_path: Path, name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} is True or False, not 'no'"):
        lsmkv.open(tmp_path / "store", **{name: "no"})  # type: ignore[arg-type]
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("triggers", [(1, 10_000), (667, 2001), (1000, 2000), (10_000, 10_000)])
def test_a_store_opens_with_all_triggers_that_options_take(
    path: str, triggers: tuple[int, int]
) -> None:
    options = lsmkv.Options(
        level0_compaction_trigger=triggers[0],
        level0_slowdown_trigger=triggers[1],
        level0_stop_trigger=10_000,
    )
    with lsmkv.open(path, options) as db:
        db.put(b"k", b"v")
        db.flush()
        assert db.options == options


@pytest.mark.parametrize("options", [{"read_only": True}, {"create_if_missing": False}])
def test_where_nothing_is_the_error_says_how_a_store_is_made(
    tmp_path: Path, options: dict[str, bool]
) -> None:
    path = tmp_path / "nowhere"
    with pytest.raises(lsmkv.NotAStoreError) as caught:
        lsmkv.open(path, **options)  # type: ignore[arg-type]
    told = f"{path} holds no lsmkv store: nothing is there; lsmkv.open(path) makes a store"
    assert str(caught.value) == told
    assert not path.exists()


def test_a_refused_opening_does_not_disturb_the_one_that_has_the_store(path: str) -> None:
    with lsmkv.open(path) as db:
        for _ in range(3):
            with pytest.raises(lsmkv.LockedError):
                lsmkv.open(path)
            gc.collect()
        db[b"key"] = b"value"
        assert run(REFUSED, path) == "LockedError\n"
    with lsmkv.open(path) as db:
        assert db[b"key"] == b"value"
