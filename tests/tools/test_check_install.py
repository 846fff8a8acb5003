"""What the check of an installed lsmkv relies on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tools import write_stores


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
