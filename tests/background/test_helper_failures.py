"""Failures in helper processes: the errors of a thread, and no lost data."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path
from typing import Final

import pytest
from conftest import fill, open_small

import lsmkv
from damage import files, flip
from helper_processes import MODES, helpers, open_store, running, table_names
from lsmkv.background.process.exceptions import error_of, failure_of
from lsmkv.background.process.jobs import LogUnusableError, NumbersUsedUpError
from lsmkv.errors import CorruptionError, UnsupportedFormatError

ERRORS: Final = [
    CorruptionError("/store/1.sst", 4096, "checksum fails", expected=2**64 - 1, got=-5),
    CorruptionError("/store/1.sst", None, "it is missing"),
    CorruptionError("/store/1.sst", 0, "not a table", expected=b"magic", got=("log", 3)),
    CorruptionError("/sto\udcffre/1.sst", 7, "bad"),
    UnsupportedFormatError("/store/1.sst", "table format 9"),
    OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/store/1.sst"),
    FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "/sto\udcffre", None, "/other"),
    OSError(errno.EIO, os.strerror(errno.EIO)),
    ValueError("filter policy built nonsense"),
    MemoryError(),
    LogUnusableError("the log is short"),
    NumbersUsedUpError("3 are too few"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{type(error).__name__} {error!s}")
def test_an_error_comes_back_as_it_was_raised(error: Exception) -> None:
    back = error_of(failure_of(error, "trace"))
    if isinstance(error, (LogUnusableError, NumbersUsedUpError)):  # handled by name
        assert isinstance(back, lsmkv.Error)
        return
    assert type(back) is type(error)
    assert str(back) == str(error)
    for name in ("path", "offset", "reason", "errno", "strerror", "filename", "filename2"):
        assert getattr(back, name, None) == getattr(error, name, None), name
    for name in ("expected", "got"):
        assert repr(getattr(back, name, None)) == repr(getattr(error, name, None)), name


def test_an_error_that_cannot_be_pickled_becomes_an_lsmkv_error() -> None:
    class OddError(Exception):
        pass

    for error in (OddError("odd"), UnicodeDecodeError("ascii", b"\xff", 0, 1, "odd")):
        back = error_of(failure_of(error, "where it was"))
        assert type(back) is lsmkv.Error
        assert type(error).__name__ in str(back) and "odd" in str(back)
        assert "where it was" in "".join(back.__notes__)


def test_a_damaged_input_is_the_same_error_as_in_a_thread(path: str) -> None:
    with open_small(path, write_buffer_size_bytes=1 << 20) as db:
        for seed in range(2):
            fill(db, range(300), seed=seed)
            db.flush()
    flip(files(Path(path), ".sst")[0], 1000)
    found = []
    for mode in MODES:
        with open_store(path, mode) as db:
            before = table_names(path)
            with pytest.raises(CorruptionError) as caught:
                db.compact_range()
            error = caught.value
            found.append((str(error), error.path, error.offset, error.expected, error.got))
            with pytest.raises(lsmkv.BackgroundError) as refused:
                db[b"more"] = b""
            cause = refused.value.__cause__
            assert isinstance(cause, CorruptionError) and str(cause) == str(error)
            assert table_names(path) == before
    assert found[0] == found[1]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of others are Linux's")
def test_a_failed_table_write_raises_the_systems_error_and_leaves_no_file(
    path: str,
) -> None:
    with open_store(path, write_buffer_size_bytes=1 << 20) as db:
        contents = fill(db, range(300))
        db.flush()
        before = table_names(path)
        flusher, _ = helpers(db)
        resource.prlimit(running(flusher), resource.RLIMIT_FSIZE, (500, 500))
        contents |= fill(db, range(300, 600))
        with pytest.raises(lsmkv.BackgroundError) as caught:
            db.flush()
        cause = caught.value.__cause__
        assert isinstance(cause, OSError) and cause.errno == errno.EFBIG
        assert str(cause.filename).startswith(path) and str(cause.filename).endswith(".sst")
        assert table_names(path) == before
        assert dict(db.items()) == contents
        db.resume()
        assert dict(db.items()) == contents
    with open_small(path) as db:
        assert dict(db.items()) == contents


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_log_that_cannot_be_read_is_no_loss(path: str, damage: str) -> None:
    with open_store(path, write_buffer_size_bytes=1 << 20) as db:
        contents = fill(db, range(300))
        log = files(Path(path), ".log")[0]
        if damage == "flip":
            flip(log, 2000)
        elif damage == "cut":
            os.truncate(log, 2000)
        else:
            log.unlink()
        db.flush()
        assert dict(db.items()) == contents
    with open_small(path) as db:
        assert dict(db.items()) == contents
