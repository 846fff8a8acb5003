"""The torture part ``security``, planted defects that it must find, and dependencies."""

from __future__ import annotations

from pathlib import Path

import pytest

from lsmkv.storage import file_names
from lsmkv.storage.storage import Storage
from lsmkv.tree import manifest
from tools import dependencies
from torture.framework.part import Outcome, Scale, Settings
from torture.security.part import CHECKS, PART, forbidden_uses


def run(directory: Path, replay: str | None = None) -> Outcome:
    return PART.run(Settings(Scale.CI, 60.0, 1, directory, replay))


@pytest.mark.parametrize("name", [check.__name__ for check in CHECKS])
def test_every_promise_holds(name: str, tmp_path: Path) -> None:
    outcome = run(tmp_path, name)
    assert not outcome.failures
    assert outcome.counts["checks"] == 1


def test_a_name_that_leads_out_of_the_directory_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = file_names.parse_file_name
    monkeypatch.setattr(
        manifest, "parse_file_name", lambda name: really(name.rpartition("/")[2]) or really(name)
    )
    (failure,) = run(tmp_path, "names_in_current").failures
    assert "../outside/MANIFEST" in failure.what


def test_files_that_others_can_access_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = Storage.__init__

    def generous(self: Storage, *arguments: object, **named: object) -> None:
        really(self, *arguments, **{**named, "file_mode": 0o644})  # type: ignore[arg-type]

    try:
        monkeypatch.setattr(Storage, "__init__", generous)
    except TypeError:
        pytest.skip("a compiled class cannot be patched")
    failures = run(tmp_path, "modes").failures
    if not failures:
        pytest.skip("compiled callers do not see the patch")
    assert "has mode 755" in failures[0].what  # of the directory, which is looked at first


@pytest.mark.parametrize(
    "line", ["import pickle", "from marshal import loads", "x = eval('1')", "import yaml.nodes"]
)
def test_code_that_could_run_a_file_is_found(line: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(f"import json\n{line}\n")
    assert len(forbidden_uses(tmp_path)) == 1


# --- dependencies ---


def test_every_dependency_has_a_lower_bound_and_a_reason() -> None:
    assert dependencies.main() == 0
