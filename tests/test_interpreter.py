"""Which interpreters a store may be opened with."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import lsmkv


@pytest.mark.parametrize("read_only", [False, True])
def test_without_the_global_lock_a_store_is_not_opened_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.raises(RuntimeError, match="-X gil=1"):
        lsmkv.open(tmp_path / "store", read_only=read_only)
    assert list(tmp_path.iterdir()) == []


def test_a_free_threaded_build_that_has_the_lock_on_may_open_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    with lsmkv.open(tmp_path / "store") as db:
        assert db.get(b"key") is None
