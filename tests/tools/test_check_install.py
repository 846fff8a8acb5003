"""What the check of an installed lsmkv relies on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tools import write_stores
from tools.builds import interpreter


def test_the_stores_whose_bytes_are_compared_have_every_kind_of_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(write_stores, "ENTRIES", 300)
    monkeypatch.setattr(sys, "argv", ["write_stores", str(tmp_path)])
    monkeypatch.setattr("os.urandom", None)  # the program replaces it
    write_stores.main()
    names = [Path(name) for name in json.loads(capsys.readouterr().out)]
    kinds = {name.suffix or name.name.partition("-")[0] for name in names}
    assert kinds == {"CURRENT", "MANIFEST", ".log", ".sst"}


def test_a_python_is_found_on_the_path_or_of_pyenv_and_must_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(path: Path, status: int) -> str:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\nexit {status}\n")
        path.chmod(0o755)
        return str(path)

    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    install(tmp_path / "bin" / "python3.98", 127)  # as a launcher does for what is not installed
    of_pyenv = install(tmp_path / "versions" / "3.98.2" / "bin" / "python3.98", 0)
    on_the_path = install(tmp_path / "bin" / "python3.99", 0)
    assert interpreter("3.98") == of_pyenv
    assert interpreter("3.99") == on_the_path
    assert interpreter("3.97") is None
