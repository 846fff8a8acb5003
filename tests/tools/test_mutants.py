"""The mutants' texts stand in the files that they change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools.builds import CHECKOUT
from tools.mutants import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.harm)
def test_a_mutant_changes_its_file(mutant: Mutant, tmp_path: Path) -> None:
    original = Path(CHECKOUT, "lsmkv", mutant.file)
    copy = tmp_path / "lsmkv" / mutant.file
    copy.parent.mkdir(parents=True)
    shutil.copy(original, copy)
    mutant.apply(tmp_path)
    assert copy.read_text("utf-8") != original.read_text("utf-8")
